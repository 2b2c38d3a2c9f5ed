"""Names of images as a content store and a registry use them. Parsing: kubelet/runtimes/test_image_resolver.py."""

from __future__ import annotations

import pytest

from bridgehead.images.references import parse_reference

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("name", "key", "target", "host"),
    [
        ("nginx", "docker.io/library/nginx:latest", "latest", "docker.io"),
        (f"localhost:5000/a/b:1@{DIGEST}", f"localhost:5000/a/b@{DIGEST}", DIGEST, "localhost"),
        ("[::1]:5000/a:1", "[::1]:5000/a:1", "1", "[::1]"),
    ],
)
def test_a_digest_outweighs_a_tag(name: str, key: str, target: str, host: str) -> None:
    reference = parse_reference(name)
    assert reference is not None
    assert (reference.key, reference.target, reference.host) == (key, target, host)
    again = parse_reference(reference.key)
    assert again is not None
    assert again.key == key


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        ("ab" * 32, False),  # looks like an image's id
        ("ab" * 32 + ":1", True),
        ("a/" * 127 + "a", True),
        ("a/" * 128 + "a", False),
        (f"nginx@{DIGEST[:-1]}", False),
        (f"nginx@{DIGEST.replace('ab', 'AB')}", False),
        (f"nginx@md5:{'ab' * 16}", False),
        ("Team/app", True),  # Team is a host: paths are in lower case
        ("team/App", False),
    ],
)
def test_names_have_the_bounds_of_docker(name: str, is_valid: bool) -> None:
    assert (parse_reference(name) is not None) == is_valid


def test_names_are_ascii() -> None:
    assert parse_reference("nginx:tag") is not None
    assert parse_reference("nginx:t\u00e4g") is None
