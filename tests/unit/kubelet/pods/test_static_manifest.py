"""Static pods: what a manifest means on a node, and which pods start and stop."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.kubelet.pods.static_manifest import (
    StaticPod,
    is_static,
    mirrored_uid,
    new_mirror,
    parse_static_pod,
    plan_changes,
    with_local_uid,
)
from bridgehead.objects.core import Pod
from tests.unit.kubelet.pod_factory import make_pod


def manifest(name: str = "web", image: str = "nginx", **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": image}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def parse(made: object, path: str = "web.yaml", node: str = "Node1") -> StaticPod:
    return parse_static_pod(made, path, node)


def test_a_static_pod_has_the_name_of_its_node() -> None:
    static = parse(manifest(labels={"app": "web"}, annotations={"a": "b"}))
    pod = static.pod
    assert (pod.metadata.name, pod.metadata.namespace, pod.spec.node_name) == ("web-node1", "default", "Node1")
    assert pod.metadata.labels == {"app": "web"}
    assert pod.metadata.annotations["a"] == "b"
    assert pod.metadata.annotations["kubernetes.io/config.hash"] == static.uid
    assert [(one.operator, one.effect) for one in pod.spec.tolerations] == [("Exists", "NoExecute")]
    assert is_static(pod)
    assert not is_static(make_pod())
    assert parse(manifest(namespace="kube-system")).key.namespace == "kube-system"


def test_the_uid_follows_node_file_and_content() -> None:
    uids = {
        parse(manifest()).uid,
        parse(manifest(), node="node2").uid,
        parse(manifest(), path="other.yaml").uid,
        parse(manifest(image="httpd")).uid,
    }
    assert len(uids) == 4
    assert parse(manifest()).uid == parse(dict(reversed(manifest().items()))).uid


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "not a Pod of v1"),
        ([], "not a Pod of v1"),
        ({**manifest(), "kind": "Deployment"}, "not a Pod of v1"),
        ({**manifest(), "apiVersion": "apps/v1"}, "not a Pod of v1"),
        ({**manifest(), "spec": []}, "spec.containers: Required value"),
        ({**manifest(), "spec": "x"}, "metadata and spec are not objects"),
        ({**manifest(), "metadata": {}}, "metadata.name: Required value"),
        ({**manifest(), "spec": {"containers": [{"name": 5}]}}, "Expected `str`"),
    ],
)
def test_other_manifests_are_refused(made: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(made)


def test_a_mirror_pod_belongs_to_its_node() -> None:
    static = parse(manifest())
    mirror = new_mirror(static, "node-uid")
    assert mirror["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "Node1", "uid": "node-uid", "controller": True}
    ]
    assert mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] == static.uid
    assert "kubernetes.io/config.mirror" not in static.body["metadata"]["annotations"]
    assert mirror["spec"]["nodeName"] == "Node1"


def test_a_mirror_pod_runs_under_the_uid_of_its_static_pod() -> None:
    plain: Pod = make_pod()
    assert (mirrored_uid(plain), with_local_uid(plain)) == ("", plain)
    mirror = make_pod(annotations={"kubernetes.io/config.mirror": "h"})
    assert (mirrored_uid(mirror), with_local_uid(mirror).metadata.uid) == ("h", "h")


def test_a_changed_pod_starts_when_its_predecessor_has_ended() -> None:
    old, new, other = parse(manifest()), parse(manifest(image="httpd")), parse(manifest("db"), "db.yaml")
    wanted = {new.uid: new, other.uid: other}
    assert plan_changes(wanted, {old.uid: old.key}) == ([old.uid], [other])
    assert plan_changes(wanted, {other.uid: other.key}) == ([], [new])
    assert plan_changes({}, {old.uid: old.key}) == ([old.uid], [])
    twin = parse(manifest(image="httpd"), "twin.yaml")
    assert plan_changes({old.uid: old, twin.uid: twin}, {}) == ([], [old])
