import pytest

from bridgehead.testing.manifests import Identity, UnusableManifest, flatten, identify, order, parse_text


def kinds(objects):
    return [each["kind"] for each in objects]


def test_texts_have_several_objects():
    text = "# Source: a.yaml\n---\nkind: Service\n---\n---\nkind: Deployment\n---\n{kind: Pod}\n"
    assert kinds(parse_text(text)) == ["Service", "Deployment", "Pod"]


def test_lists_are_what_they_have():
    nested = {"kind": "List", "items": [{"kind": "PodList", "items": [{"kind": "Pod"}]}, {"kind": "Service"}]}
    assert kinds(flatten([nested, {"kind": "Secret"}])) == ["Pod", "Service", "Secret"]


def test_a_kind_that_ends_like_a_list_is_an_object():
    assert kinds(flatten([{"kind": "AllowList", "spec": {}}])) == ["AllowList"]


@pytest.mark.parametrize("text", ["a: [", "- kind: Pod\n", "text\n"])
def test_texts_that_are_refused(text):
    with pytest.raises(UnusableManifest):
        parse_text(text)


def test_definitions_come_first_and_the_others_stay_in_order():
    given = ["Page", "Service", "CustomResourceDefinition", "Pod", "Namespace"]
    ordered = kinds(order([{"kind": kind} for kind in given]))
    assert ordered == ["Namespace", "CustomResourceDefinition", "Page", "Service", "Pod"]


def test_identities():
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    assert identify(manifest) == Identity("apps", "v1", "Deployment", "shop", "web")
    assert identify({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}) == Identity(
        "", "v1", "Pod", "", "a"
    )


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ({"kind": "Pod", "metadata": {"name": "a"}}, "apiVersion and kind"),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, "apiVersion and kind"),
        ({"apiVersion": "v1", "kind": ["Pod"], "metadata": {"name": "a"}}, "apiVersion and kind"),
        ({"apiVersion": "v1", "kind": "Pod"}, r"Pod without metadata\.name"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}}, r"Pod without metadata\.name"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5}}, r"Pod without metadata\.name"),
    ],
)
def test_objects_without_identity(manifest, reason):
    with pytest.raises(UnusableManifest, match=reason):
        identify(manifest)
