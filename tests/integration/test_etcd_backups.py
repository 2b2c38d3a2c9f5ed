"""`bridgehead backup` and `bridgehead restore` of stores on a real etcd, and from a SQLite store to etcd and back."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.apiserver.build import api_schema
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.storedobjects import StoredObjects
from bridgehead.objects.times import format_time
from bridgehead.storage import Key, Record, Store, open_store
from bridgehead.storage.encryption import read_encryption
from tests.forks import run_bridgehead

from .etcd_server import EtcdCluster

DEADLINE = 100.0
WIDGETS = "widgets.example.com"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
HIDDEN = base64.b64encode(b"open sesame").decode()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with EtcdCluster(tmp_path_factory.mktemp("etcd")).running() as cluster:
        yield cluster


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"/{request.node.name}"


def run(etcd: EtcdCluster, command: str, file: Path, prefix: str, *more: str) -> subprocess.CompletedProcess[str]:
    servers = f"--etcd-servers={','.join(etcd.client_urls)}"
    return run_bridgehead(command, file, servers, f"--etcd-prefix={prefix}", *more, timeout=DEADLINE)


def done(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(result: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of a command that failed."""
    assert (result.returncode, result.stdout) == (1, ""), result
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def keys(etcd: EtcdCluster, prefix: str) -> list[str]:
    found = etcd.etcdctl("get", "--prefix", "--keys-only", f"{prefix}/").split()
    return [key.removeprefix(prefix) for key in found]


def value_of(etcd: EtcdCluster, key: str) -> bytes:
    (found,) = json.loads(etcd.etcdctl("get", "-w", "json", key))["kvs"]
    return base64.b64decode(found["value"])


def lease_seconds(etcd: EtcdCluster, key: str) -> int:
    (found,) = json.loads(etcd.etcdctl("get", "-w", "json", key))["kvs"]
    lease = found.get("lease", 0)
    return json.loads(etcd.etcdctl("lease", "timetolive", f"{lease:x}", "-w", "json"))["ttl"] if lease else 0


def obj(kind: str, name: str, api_version: str = "v1", namespace: str = "default", **rest: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if namespace:
        metadata["namespace"] = namespace
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata, **rest}


def event(name: str, age: float) -> dict[str, Any]:
    return obj(
        "Event",
        name,
        involvedObject={"kind": "Pod", "name": "p", "namespace": "default"},
        lastTimestamp=format_time(time.time() - age),
    )


def definition() -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    condition = {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "accepted"}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    status = {"acceptedNames": names, "conditions": [condition], "storedVersions": ["v1"]}
    return obj("CustomResourceDefinition", WIDGETS, "apiextensions.k8s.io/v1", "", spec=spec, status=status)


SERVICE = obj(
    "Service",
    "web",
    spec={
        "type": "NodePort",
        "clusterIP": "10.96.0.9",
        "clusterIPs": ["10.96.0.9"],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30080}],
        "selector": {"app": "web"},
    },
)
EVENT_SECONDS = 3600


def write_sqlite(path: Path, *, config_maps: int = 3, encryption: Path | None = None) -> dict[Key, bytes]:
    """Fill a SQLite store with objects of all sorts; return the objects without their resourceVersions."""

    # A custom resource is stored before its definition here.
    objects = [
        (Key("services", "default", "web"), SERVICE),
        (Key(WIDGETS, "default", "w"), obj("Widget", "w", "example.com/v1", spec={"size": 3})),
        (Key(DEFINITIONS, "", WIDGETS), definition()),
        (Key("secrets", "default", "hidden"), obj("Secret", "hidden", type="Opaque", data={"word": HIDDEN})),
        *((Key("events", "default", name), event(name, age)) for name, age in (("new", 60.0), ("old", 3000.0))),
    ]
    for number in range(config_maps):
        name = f"c{number:04}"
        objects.append((Key("configmaps", "default", name), obj("ConfigMap", name, data={"a": "b"})))

    async def write() -> dict[Key, bytes]:
        table = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))
        codec = StoredObjects(table, api_schema())
        store = open_store(f"sqlite://{path}", read_encryption(encryption) if encryption else None)
        for key, value in objects:
            await store.create(key, *codec.decode(key, json.dumps(value).encode()))
        found = contents(store)
        await store.close()
        return found

    return asyncio.run(write())


def contents(store: Store) -> dict[Key, bytes]:
    resources = (
        "services",
        WIDGETS,
        "customresourcedefinitions.apiextensions.k8s.io",
        "secrets",
        "configmaps",
        "events",
    )
    return {record.key: without_version(record) for resource in resources for record in store.list(resource)}


def without_version(record: Record) -> bytes:
    value = json.loads(record.value)
    assert value["metadata"].pop("resourceVersion") == str(record.revision)
    return json.dumps(value, sort_keys=True).encode()


def read_sqlite(path: Path, encryption: Path | None = None) -> dict[Key, bytes]:
    async def read() -> dict[Key, bytes]:
        store = open_store(f"sqlite://{path}", read_encryption(encryption) if encryption else None)
        found = contents(store)
        assert store.is_claimed("nodeport/30080")
        await store.close()
        return found

    return asyncio.run(read())


def write_encryption(path: Path, secret: bytes) -> Path:
    key = {"name": "one", "secret": base64.b64encode(secret).decode()}
    rule = {"resources": ["secrets"], "providers": [{"aesgcm": {"keys": [key]}}, {"identity": {}}]}
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [rule]}
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("media_type", ["application/json", "application/vnd.kubernetes.protobuf"])
def test_from_sqlite_to_etcd_and_back(etcd: EtcdCluster, tmp_path: Path, media_type: str) -> None:
    prefix = f"/there-{media_type[-4:]}"
    state, first, second, back = (tmp_path / name for name in ("state.db", "first", "second", "back.db"))
    before = write_sqlite(state, config_maps=250)  # several transactions
    assert run_bridgehead("backup", first, f"--store={state}", timeout=DEADLINE).returncode == 0
    text = done(run(etcd, "restore", first, prefix, f"--storage-media-type={media_type}"))
    assert text.startswith(f"Restored {prefix} in etcd: {len(before)} objects, revision ")
    found = keys(etcd, prefix)
    assert "/bridgehead/restoring" not in found
    assert {"/services/specs/default/web", "/example.com/widgets/default/w"} <= set(found)
    assert (
        value_of(etcd, f"{prefix}/bridgehead/claims/nodeport/30080").decode() == f"{prefix}/services/specs/default/web"
    )
    assert value_of(etcd, f"{prefix}/configmaps/default/c0000").startswith(b"{" if "json" in media_type else b"k8s\0")

    text = done(run(etcd, "backup", second, prefix))
    assert text.startswith(f"Wrote {second}: {len(before)} objects, revision ")
    assert stat.S_IMODE(second.stat().st_mode) == 0o600
    assert run_bridgehead("restore", second, f"--store={back}", timeout=DEADLINE).returncode == 0
    assert read_sqlite(back) == before


def test_events_keep_what_is_left_of_their_lifetime(etcd: EtcdCluster, tmp_path: Path, prefix: str) -> None:
    state = tmp_path / "state.db"
    write_sqlite(state)
    done(run(etcd, "restore", state, prefix))
    events = {name: lease_seconds(etcd, f"{prefix}/events/default/{name}") for name in ("new", "old")}
    assert EVENT_SECONDS - 200 < events["new"] <= EVENT_SECONDS + 60
    assert 0 < events["old"] <= 720
    assert lease_seconds(etcd, f"{prefix}/configmaps/default/c0000") == 0
    done(run(etcd, "restore", state, f"{prefix}-short", "--event-ttl=10m"))
    assert [key for key in keys(etcd, f"{prefix}-short") if "events" in key] == ["/events/default/new"]


def test_a_prefix_with_keys_is_refused(etcd: EtcdCluster, tmp_path: Path, prefix: str) -> None:
    state = tmp_path / "state.db"
    write_sqlite(state)
    etcd.etcdctl("put", f"{prefix}/configmaps/default/mine", "{}")
    text = refused(run(etcd, "restore", state, prefix))
    assert f"etcd has 1 keys below {prefix}: choose another --etcd-prefix" in text
    assert keys(etcd, prefix) == ["/configmaps/default/mine"]


def test_a_restore_that_failed_is_done_again(etcd: EtcdCluster, tmp_path: Path, prefix: str) -> None:
    state = tmp_path / "state.db"
    before = write_sqlite(state)
    # As a restore that was killed leaves it.
    etcd.etcdctl("put", f"{prefix}/bridgehead/restoring", "another")
    etcd.etcdctl("put", f"{prefix}/configmaps/default/half", json.dumps(obj("ConfigMap", "half")))
    assert "has not finished" in refused(run(etcd, "backup", tmp_path / "copy", prefix))
    done(run(etcd, "restore", state, prefix))
    found = keys(etcd, prefix)
    assert "/configmaps/default/half" not in found
    assert "/bridgehead/restoring" not in found
    assert len([key for key in found if not key.startswith("/bridgehead/")]) == len(before)


def test_a_restore_that_fails_leaves_its_mark(etcd: EtcdCluster, tmp_path: Path, prefix: str) -> None:
    state, encryption = tmp_path / "state.db", write_encryption(tmp_path / "keys.json", b"k" * 32)
    write_sqlite(state, encryption=encryption)
    assert "--encryption-provider-config" in refused(run(etcd, "restore", state, prefix))
    assert "/bridgehead/restoring" in keys(etcd, prefix)
    done(run(etcd, "restore", state, prefix, f"--encryption-provider-config={encryption}"))
    assert "/bridgehead/restoring" not in keys(etcd, prefix)


def test_encrypted_objects_stay_encrypted(etcd: EtcdCluster, tmp_path: Path, prefix: str) -> None:
    encryption = write_encryption(tmp_path / "keys.json", b"k" * 32)
    keys_of = f"--encryption-provider-config={encryption}"
    state, copy, back = (tmp_path / name for name in ("state.db", "copy", "back.db"))
    before = write_sqlite(state, encryption=encryption)
    done(run(etcd, "restore", state, prefix, keys_of))
    assert value_of(etcd, f"{prefix}/secrets/default/hidden").startswith(b"k8s:enc:aesgcm:v1:one:")
    assert "it is encrypted: name the file of the keys" in refused(run(etcd, "backup", copy, prefix))
    other = write_encryption(tmp_path / "other.json", b"o" * 32)
    assert "can't be decrypted" in refused(run(etcd, "backup", copy, prefix, f"--encryption-provider-config={other}"))
    assert not copy.exists()
    done(run(etcd, "backup", copy, prefix, keys_of))
    assert HIDDEN.encode() not in copy.read_bytes()
    assert run_bridgehead("restore", copy, f"--store={back}", timeout=DEADLINE).returncode == 0
    assert read_sqlite(back, encryption) == before


def test_what_cannot_be_decoded_is_named_and_left_out(etcd: EtcdCluster, tmp_path: Path, prefix: str) -> None:
    etcd.etcdctl("put", f"{prefix}/configmaps/default/good", json.dumps(obj("ConfigMap", "good")))
    etcd.etcdctl("put", f"{prefix}/configmaps/default/broken", "{")
    result = run(etcd, "backup", tmp_path / "copy", prefix)
    assert "Wrote" in done(result)
    assert ": 1 objects" in result.stdout
    assert f"warning: {prefix}/configmaps/default/broken cannot be decoded and is left out" in result.stderr


def test_other_input_that_is_refused(etcd: EtcdCluster, tmp_path: Path, prefix: str) -> None:
    copy = tmp_path / "copy"
    assert f"etcd has no objects below {prefix}" in refused(run(etcd, "backup", copy, prefix))
    assert "there is no backup" in refused(run(etcd, "restore", copy, prefix))
    assert keys(etcd, prefix) == []
    both = run_bridgehead("backup", copy, "--store=x", "--etcd-servers=http://127.0.0.1:1", timeout=DEADLINE)
    assert "exclude each other" in refused(both)
    assert "--event-ttl" in refused(run(etcd, "restore", copy, prefix, "--event-ttl=0"))
