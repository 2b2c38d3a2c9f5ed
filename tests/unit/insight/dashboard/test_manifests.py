import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.dashboard.manifests import LONGEST, MOST_CHARACTERS, NoManifest, manifest_text, path_of


def test_paths():
    assert path_of("service", "default/web") == "/api/v1/namespaces/default/services/web"
    assert path_of("node", "node1") == "/api/v1/nodes/node1"


@pytest.mark.parametrize("kind", ["secret", "secrets", "Secret", "configmap", "", "service/../secrets", "../secret"])
def test_secrets_and_other_kinds_are_never_shown(kind):
    with pytest.raises(NoManifest):
        path_of(kind, "default/token")


@pytest.mark.parametrize(
    "name", ["", "web", "/web", "default/", "default/..", "../secrets", "a/b/c", "default/web/../../secrets/x", "./web"]
)
def test_names_cannot_lead_elsewhere(name):
    with pytest.raises(NoManifest):
        path_of("service", name)


@given(st.text(), st.text())
def test_a_name_is_one_segment_of_the_path(namespace, name):
    try:
        path = path_of("pod", f"{namespace}/{name}")
    except NoManifest:
        return
    assert path.count("/") == 6
    assert "?" not in path
    assert "#" not in path
    assert ".." not in path.split("/")


def test_managed_fields_are_left_out():
    text = manifest_text({"kind": "Pod", "metadata": {"name": "web", "managedFields": [{"manager": "x"}]}})
    assert yaml.safe_load(text) == {"kind": "Pod", "metadata": {"name": "web"}}


def test_controls_and_directions_of_text_are_not_shown():
    text = manifest_text({"metadata": {"annotations": {"a": "\x1b[31m\u202eevil\u0007"}}})
    assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize(
    "annotations",
    [{"a": "x" * 3_000_000}, {str(number): "x" * 50 for number in range(60_000)}, {"a": ["x"] * 200_000}],
)
def test_megabytes_are_cut(annotations):
    text = manifest_text({"metadata": {"annotations": annotations}})
    assert len(text) < 3 * MOST_CHARACTERS + LONGEST
    assert "..." in text
