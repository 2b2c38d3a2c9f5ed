"""Static pods: what a manifest means on a node, which pods start and stop, and their mirror pods."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bridgehead.kubelet.pods.mirror_pods import mirrored_uid, new_mirror, with_local_uid
from bridgehead.kubelet.pods.static_manifest import (
    StaticPod,
    is_static,
    parse_static_pod,
    plan_changes,
    without_source,
)
from bridgehead.kubelet.pods.static_pods import load_manifest
from bridgehead.objects.core import Pod
from tests.unit.kubelet.pod_factory import make_pod


def manifest(name: str = "web", image: str = "nginx", **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": image}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def needing(**spec: Any) -> dict[str, Any]:
    made = manifest()
    return {**made, "spec": {**made["spec"], **spec}}


def with_volume(**source: Any) -> dict[str, Any]:
    return needing(volumes=[{"name": "v", **source}])


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
        ({**manifest(), "spec": {"containers": [{"name": "c"}], "tolerations": 5}}, "spec.tolerations is not a list"),
        (manifest(annotations=["a"]), "metadata.annotations is not an object"),
        (manifest("../web"), "metadata.name: Invalid value: a lowercase RFC 1123 subdomain"),
        (manifest(namespace="../x"), "metadata.namespace: Invalid value: a lowercase RFC 1123 label"),
        ({**manifest(), "spec": {"containers": [{"name": "../c"}]}}, "spec.containers.name: Invalid value"),
        ({**manifest(), "spec": {"containers": [{"name": "c"}], "volumes": [{"name": ".."}]}}, "spec.volumes.name: In"),
        (manifest(namespace=5), "Expected `str`"),
        (needing(resources={"requests": {"cpu": "much"}}), "unable to parse quantity's suffix: 'much'"),
        (
            needing(containers=[{"name": "c", "resources": {"limits": {"memory": "1 Gi"}}}]),
            "unable to parse quantity's suffix: '1 Gi'",
        ),
        (needing(serviceAccountName="x"), "static pods may not reference serviceaccounts$"),
        (needing(imagePullSecrets=[{"name": "x"}]), "may not reference secrets$"),
        (with_volume(configMap={"name": "x"}), "may not reference configmaps$"),
        (with_volume(projected={"sources": [{"secret": {"name": "x"}}]}), "may not reference secrets$"),
        (needing(resourceClaims=[{"name": "x"}]), "may not reference resourceclaims$"),
        (with_volume(persistentVolumeClaim={"claimName": "x"}), "may not reference persistentvolumeclaims$"),
        (with_volume(ephemeral={}), r"may not reference persistentvolumeclaims \(via ephemeral volumes\)$"),
        (with_volume(csi={"driver": "x"}), r"may not reference csidrivers \(via CSI volumes\)$"),
        (with_volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}), r"serviceaccounts \(via proj"),
        (with_volume(projected={"sources": [{"clusterTrustBundle": {"path": "t"}}]}), "clustertrustbundles$"),
        (with_volume(projected={"sources": [{"podCertificate": {"path": "t"}}]}), "podcertificates$"),
    ],
)
def test_other_manifests_are_refused(made: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(made)


def test_a_file_is_read_as_json(tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text("metadata: {name: web, annotations: {1: 2026-01-01}}")
    (tmp_path / "link.yaml").symlink_to(path)
    assert load_manifest(tmp_path / "link.yaml") == {"metadata": {"name": "web", "annotations": {"1": "2026-01-01"}}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind: [", "it is no YAML of an object: yaml: line 1: did not find expected node content"),
        ("a\0b", "it is no YAML"),
        ("{[1, 2]: 3}", "it is no YAML"),
        ("null: 5", "a key is neither a text nor a number nor a boolean"),
        (
            "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 9}]\n" for n in range(1, 10)).replace("*a0", "x"),
            "excessive aliasing",
        ),
        ("a: &a [*a]", "yaml: anchor 'a' value contains itself"),
        ("[" * 300, "exceeded max depth of 200"),
        (" " * ((10 << 20) + 1), "it is larger than 10 MiB"),
    ],
    ids=["unfinished", "zero", "list", "null", "laughs", "loop", "deep", "large"],
)
def test_a_broken_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        load_manifest(path)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "directory").mkdir()
    for name in ("fifo", "zero", "directory"):
        with pytest.raises((ValueError, IsADirectoryError)):
            load_manifest(tmp_path / name)


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


def test_no_user_of_the_api_makes_a_static_pod() -> None:
    assert is_static(parse(manifest(annotations={"a": "b"})).pod)
    claimed = without_source(make_pod(annotations={"kubernetes.io/config.source": "file", "a": "b"}))
    assert (is_static(claimed), claimed.metadata.annotations) == (False, {"a": "b"})


def test_a_changed_pod_starts_when_its_predecessor_has_ended() -> None:
    old, new, other = parse(manifest()), parse(manifest(image="httpd")), parse(manifest("db"), "db.yaml")
    wanted = {new.uid: new, other.uid: other}
    assert plan_changes(wanted, {old.uid: old.key}) == ([old.uid], [other])
    assert plan_changes(wanted, {other.uid: other.key}) == ([], [new])
    assert plan_changes({}, {old.uid: old.key}) == ([old.uid], [])
    twin = parse(manifest(image="httpd"), "twin.yaml")
    assert plan_changes({old.uid: old, twin.uid: twin}, {}) == ([], [old])
