import pytest

from bridgehead.storage.etcd.client.versions import has_reliable_progress, is_supported, parse_version


def test_versions_are_parsed():
    assert parse_version("3.4.23") == (3, 4, 23)
    assert parse_version("3.6.0-rc.1") == (3, 6, 0)
    assert parse_version("not decided") == (0, 0, 0)


def test_the_oldest_version():
    assert is_supported("3.4.0")
    assert not is_supported("3.3.27")


@pytest.mark.parametrize(
    ("version", "is_reliable"),
    [
        ("3.4.30", False),
        ("3.4.31", True),
        ("3.5.0", False),
        ("3.5.12", False),
        ("3.5.13", True),
        ("3.6.0", True),
        ("", False),
    ],
)
def test_versions_whose_progress_can_be_trusted(version, is_reliable):
    """Kubernetes' feature_support_checker.go has the same bounds."""
    assert has_reliable_progress(version) is is_reliable
