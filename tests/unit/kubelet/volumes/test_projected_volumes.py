"""The files of configMap, secret, downwardAPI and projected volumes."""

from __future__ import annotations

import base64

import msgspec
import pytest

from bridgehead.kubelet.errors import VolumeNotReady
from bridgehead.kubelet.volumes.downward_api import Addresses
from bridgehead.kubelet.volumes.projected_volumes import File, PayloadSources, volume_files
from bridgehead.objects.core import ConfigMap, Pod, Secret, Volume
from bridgehead.objects.meta import ObjectMeta

CONFIG = ConfigMap(
    metadata=ObjectMeta(name="cfg"), data={"a": "1", "b": "2"}, binary_data={"c": base64.b64encode(b"\xff").decode()}
)
SECRET = Secret(metadata=ObjectMeta(name="sec"), data={"pw": base64.b64encode(b"s3").decode()})
SOURCES = PayloadSources(
    config_map=lambda name: CONFIG if name == "cfg" else None,
    secret=lambda name: SECRET if name == "sec" else None,
    token=lambda projection: f"token for {projection.audience}",
    addresses=Addresses(),
    allocatable={"cpu": "4"},
)


def volume(**source):
    return msgspec.convert({"name": "v", **source}, Volume)


def pod(**spec):
    meta = {"name": "p", "namespace": "ns", "labels": {"b": "2", "a": 'x"y'}}
    return msgspec.convert({"metadata": meta, "spec": spec}, Pod)


CONTAINERS = [{"name": "app", "resources": {"limits": {"memory": "64Mi"}}}]


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ({"configMap": {"name": "cfg"}}, {"a": (b"1", 0o644), "b": (b"2", 0o644), "c": (b"\xff", 0o644)}),
        (
            {"configMap": {"name": "cfg", "defaultMode": 0o400, "items": [{"key": "a", "path": "d/x"}]}},
            {"d/x": (b"1", 0o400)},
        ),
        ({"configMap": {"name": "none", "optional": True}}, {}),
        (
            {"secret": {"secretName": "sec", "items": [{"key": "pw", "path": "p", "mode": 0o600}]}},
            {"p": (b"s3", 0o600)},
        ),
        (
            {"secret": {"secretName": "sec", "optional": True, "items": [{"key": "none", "path": "p"}]}},
            {},
        ),
        (
            {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"labels": (b'a="x\\"y"\nb="2"', 0o644)},
        ),
        (
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "mem",
                            "resourceFieldRef": {
                                "containerName": "app",
                                "resource": "limits.memory",
                                "divisor": "1Mi",
                            },
                        }
                    ]
                }
            },
            {"mem": (b"64", 0o644)},
        ),
        (
            {
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "token", "audience": "vault"}},
                        {"configMap": {"name": "cfg", "items": [{"key": "a", "path": "ca.crt"}]}},
                        {"secret": {"name": "sec"}},
                        {
                            "downwardAPI": {
                                "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
                            }
                        },
                    ]
                }
            },
            {
                "token": (b"token for vault", 0o644),
                "ca.crt": (b"1", 0o644),
                "pw": (b"s3", 0o644),
                "namespace": (b"ns", 0o644),
            },
        ),
    ],
)
def test_volume_sources_become_files(source, files):
    made = volume_files(volume(**source), pod(containers=CONTAINERS), SOURCES)
    assert made == {path: File(content, mode) for path, (content, mode) in files.items()}


TOKEN = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}], "defaultMode": 0o644}}
ROOTLESS = {"securityContext": {"runAsUser": 7}}


@pytest.mark.parametrize(
    ("source", "spec", "expected"),
    [
        (TOKEN, {}, (0o644, None, None)),
        (TOKEN, ROOTLESS, (0o600, 7, None)),
        (TOKEN, {"securityContext": {"fsGroup": 9}}, (0o640, None, 9)),
        (TOKEN, {"securityContext": {"fsGroup": 9, "runAsUser": 7}}, (0o640, 7, 9)),
        (TOKEN, {**ROOTLESS, "containers": [{"name": "a"}, {"name": "b", **ROOTLESS}]}, (0o600, 7, None)),
        (TOKEN, {"containers": [{"name": "a"}, {"name": "b", **ROOTLESS}]}, (0o644, None, None)),
        (TOKEN, {"containers": [{"name": "a", **ROOTLESS}], "initContainers": [{"name": "b"}]}, (0o644, None, None)),
        ({"secret": {"secretName": "sec", "defaultMode": 0o400}}, ROOTLESS, (0o400, None, None)),
        (
            {"secret": {"secretName": "sec", "defaultMode": 0o400}},
            {"securityContext": {"fsGroup": 9}},
            (0o440, None, 9),
        ),
        ({"secret": {"secretName": "sec", "defaultMode": 0}}, {"securityContext": {"fsGroup": 0}}, (0o440, None, 0)),
    ],
)
def test_files_have_mode_owner_and_group(source, spec, expected):
    [file] = volume_files(volume(**source), pod(**{"containers": CONTAINERS, **spec}), SOURCES).values()
    assert (file.mode, file.user, file.group) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        (
            {"configMap": {"name": "cfg", "items": [{"key": "z", "path": "z"}]}},
            "configmap references non-existent config key: z",
        ),
        (
            {"secret": {"secretName": "sec", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent secret key: z",
        ),
    ],
)
def test_missing_objects_are_reported(source, message):
    with pytest.raises(VolumeNotReady, match=message) as caught:
        volume_files(volume(**source), pod(), SOURCES)
    assert caught.value.volume == "v"


def stat_of(path):
    status = path.lstat()
    return status.st_mode & 0o7777, status.st_uid, status.st_gid
