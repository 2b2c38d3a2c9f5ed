"""Mounts of containers from their volumeMounts."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.containers.mounts import plan_mounts, volume_images
from bridgehead.kubelet.errors import ConfigNotReady
from bridgehead.kubelet.runtimes.runtime import Mount
from tests.unit.kubelet.pod_factory import make_pod

TOO_LONG = 'the subPath of volumeMount "dir" is longer than the 4095 bytes that a path may have'


def mounted(env=None, **mount):
    volumes = [{"name": "dir", "emptyDir": {}}, {"name": "cfg", "configMap": {"name": "c"}}]
    volumes += [
        {"name": name, "persistentVolumeClaim": {"claimName": "c", "readOnly": name == "ro"}} for name in ("rw", "ro")
    ]
    container = {"name": "app", "volumeMounts": [{"name": "dir", "mountPath": "/m", **mount}]}
    volumes += [{"name": "eph", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    volumes += [{"name": "img", "image": {"reference": "files:1", "pullPolicy": "Always"}}]
    made = make_pod(containers=[container], volumes=volumes)
    return plan_mounts(
        made, made.spec.containers[0], env or {}, {name: f"/v/{name}" for name in ("dir", "cfg", "rw", "ro", "eph")}
    )


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        ({}, Mount(source="/v/dir", target="/m")),
        ({"readOnly": True}, Mount(source="/v/dir", target="/m", read_only=True)),
        ({"name": "cfg"}, Mount(source="/v/cfg", target="/m", read_only=True)),
        ({"name": "rw"}, Mount(source="/v/rw", target="/m", follows_links=False)),
        ({"name": "ro"}, Mount(source="/v/ro", target="/m", read_only=True, follows_links=False)),
        ({"name": "eph"}, Mount(source="/v/eph", target="/m", follows_links=False)),
        (
            {"name": "img", "subPath": "a"},
            Mount(source="", target="/m", read_only=True, sub_path="a", image="files:1"),
        ),
        ({"subPath": "x/..y"}, Mount(source="/v/dir", target="/m", sub_path="x/..y")),
        ({"subPathExpr": "$(A)/$$(B)"}, Mount(source="/v/dir", target="/m", sub_path="1/$(B)")),
    ],
)
def test_mounts_are_planned_from_volume_mounts(mount, expected):
    assert mounted({"A": "1"}, **mount) == [expected]


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ({"name": "none"}, 'cannot find volume "none" to mount into container "app"'),
        ({"subPath": "/etc"}, "error SubPath `/etc` must not be an absolute path"),
        ({"subPath": "a/../.."}, "unable to provision SubPath `a/../..`: must not contain '..'"),
        ({"subPathExpr": "$(UP)"}, "unable to provision SubPath `../x`: must not contain '..'"),
        ({"subPathExpr": "$(ROOT)/x"}, "error SubPath `//x` must not be an absolute path"),
        ({"subPathExpr": "$(LONG)"}, TOO_LONG),
        ({"subPathExpr": "$(LONG)" * 100}, TOO_LONG),
        ({"subPathExpr": "$(C)/$(A)/$(EMPTY)"}, "missing value for C, EMPTY"),
    ],
)
def test_invalid_mounts_are_refused(mount, message):
    with pytest.raises(ConfigNotReady) as error:
        mounted({"A": "1", "UP": "../x", "ROOT": "/", "EMPTY": "", "LONG": "x" * 4096}, **mount)
    assert str(error.value) == message


def test_the_images_that_a_container_mounts():
    volumes = [{"name": name, "image": {"reference": f"{name}:1"}} for name in ("a", "b")]
    container = {"name": "app", "volumeMounts": [{"name": "b", "mountPath": "/m"}]}
    made = make_pod(containers=[container, {"name": "other"}], volumes=volumes)
    assert [image.reference for image in volume_images(made, made.spec.containers[0])] == ["b:1"]
    assert volume_images(made, made.spec.containers[1]) == []
