"""The files of volumes, and what a pod refers to."""

from __future__ import annotations

import base64
import errno
import os

import msgspec
import pytest

from bridgehead.kubelet.atomic_files import write_files
from bridgehead.kubelet.errors import VolumeNotReady
from bridgehead.kubelet.fields import Addresses
from bridgehead.kubelet.payloads import File, PayloadSources, volume_files
from bridgehead.kubelet.references import Reference, references_of
from bridgehead.kubelet.volumes import check_host_path, make_empty_dir
from bridgehead.objects.core import ConfigMap, EmptyDirVolume, HostPathVolume, Pod, Secret, Volume
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
def test_files(source, files):
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
def test_owners_of_files(source, spec, expected):
    [file] = volume_files(volume(**source), pod(**{"containers": CONTAINERS, **spec}), SOURCES).values()
    assert (file.mode, file.user, file.group) == expected


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        (
            {"configMap": {"name": "cfg", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent config key: z",
        ),
        (
            {"secret": {"secretName": "sec", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent secret key: z",
        ),
    ],
)
def test_what_is_missing_is_said(source, words):
    with pytest.raises(VolumeNotReady, match=words) as caught:
        volume_files(volume(**source), pod(), SOURCES)
    assert caught.value.volume == "v"


def test_references():
    found = references_of(
        pod(
            volumes=[
                {"name": "1", "configMap": {"name": "cm1"}},
                {"name": "2", "secret": {"secretName": "s1"}},
                {"name": "3", "projected": {"sources": [{"configMap": {"name": "cm2"}}, {"secret": {"name": "s2"}}]}},
                {"name": "4", "emptyDir": {}},
            ],
            initContainers=[
                {"name": "i", "envFrom": [{"configMapRef": {"name": "cm3"}}, {"secretRef": {"name": "s3"}}]}
            ],
            containers=[
                {
                    "name": "c",
                    "env": [
                        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm4", "key": "k"}}},
                        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s4", "key": "k"}}},
                        {"name": "C", "value": "x"},
                    ],
                }
            ],
        )
    )
    maps = {Reference("ConfigMap", "ns", f"cm{n}") for n in range(1, 5)}
    assert found == maps | {Reference("Secret", "ns", f"s{n}") for n in range(1, 5)}


def stat_of(path):
    status = path.lstat()
    return status.st_mode & 0o7777, status.st_uid, status.st_gid


def test_files_and_directories_have_owners(tmp_path):
    """Of our own ids, so that it needs no privileges; in a user namespace there may be no others."""
    user, group = os.getuid(), os.getgid()
    files = {"d/e": File(b"1", 0o440, user, group)}
    assert write_files(tmp_path / "v", files, group)
    data = tmp_path / "v" / "..data" / ""
    assert stat_of(data / "d" / "e") == (0o440, user, group)
    for directory in (tmp_path / "v", data.resolve(), data / "d"):
        assert stat_of(directory) == (0o2755, user, group)
    assert not write_files(tmp_path / "v", files, group)
    assert write_files(tmp_path / "v", {"d/e": File(b"1", 0o400, user)}, group)


def test_an_empty_dir_is_left_as_the_pod_has_made_it(tmp_path):
    directory = tmp_path / "volumes" / "v"
    make_empty_dir(directory, EmptyDirVolume())
    assert stat_of(directory)[0] == 0o777
    directory.chmod(0o700)
    make_empty_dir(directory, EmptyDirVolume())
    assert stat_of(directory)[0] == 0o700
    make_empty_dir(tmp_path / "volumes" / "w", EmptyDirVolume(), os.getgid())
    assert stat_of(tmp_path / "volumes" / "w") == (0o2777, os.getuid(), os.getgid())
    assert sorted(path.name for path in (tmp_path / "volumes").iterdir()) == ["v", "w"]


def test_an_owner_that_the_user_namespace_does_not_have(tmp_path, monkeypatch):
    def chown(*args, **options):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "chown", chown)
    with pytest.raises(ValueError, match="cannot be owned by group 9: the cluster runs in a user namespace"):
        make_empty_dir(tmp_path / "v", EmptyDirVolume(), 9)
    assert not (tmp_path / "v").exists()


def read(directory):
    return {p.name: p.read_bytes() for p in directory.iterdir() if not p.name.startswith("..")}


def test_files_are_replaced_as_a_whole(tmp_path):
    assert write_files(tmp_path, {"a": File(b"1", 0o644), "b": File(b"2", 0o600)})
    first = os.readlink(tmp_path / "..data")
    assert read(tmp_path) == {"a": b"1", "b": b"2"}
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
    assert not write_files(tmp_path, {"a": File(b"1", 0o644), "b": File(b"2", 0o600)})
    assert write_files(tmp_path, {"a": File(b"3", 0o644)})
    assert os.readlink(tmp_path / "..data") != first
    assert read(tmp_path) == {"a": b"3"}
    assert not (tmp_path / first).exists()
    assert write_files(tmp_path, {"d/e": File(b"4", 0o644)})
    assert (tmp_path / "d" / "e").read_bytes() == b"4"


@pytest.mark.parametrize(
    ("type", "name", "words"),
    [
        ("", "dir", None),
        ("", "made", None),
        ("Directory", "dir", None),
        ("Directory", "file", "is not a directory"),
        ("Directory", "none", "is not a directory"),
        ("DirectoryOrCreate", "made/deep", None),
        ("File", "file", None),
        ("File", "dir", "is not a file"),
        ("FileOrCreate", "made", None),
        ("Socket", "file", "is not a socket file"),
        ("CharDevice", "file", "is not a character device"),
        ("BlockDevice", "file", "is not a block device"),
        ("Nonsense", "file", "is an invalid volume type"),
    ],
)
def test_host_paths(tmp_path, type, name, words):
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").touch()
    path = HostPathVolume(path=str(tmp_path / name), type=type)
    if words is None:
        assert check_host_path(path) == tmp_path / name
        assert (tmp_path / name).exists()
    else:
        with pytest.raises(ValueError, match=words):
            check_host_path(path)
