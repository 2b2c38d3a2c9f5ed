"""A lab with three API servers on an etcd of three members, of which some are killed."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabFiles, PartStatus

from .api import Objects
from .conftest import BRIDGEHEAD, PATIENCE, Lab, eventually, run

pytestmark = pytest.mark.needs("etcd")

_SERVERS = (1, 2, 3)
_WRITES = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab("servers", tmp_path_factory.mktemp("servers"))
    try:
        lab.start("--nodes", "1", "--api-servers", "3", "--store", "etcd", "--no-balancer")
        yield lab
    finally:
        lab.stop("--delete")


def part(lab: Lab, kind: str, number: int) -> PartStatus:
    name = kind if number == 1 else f"{kind}-{number}"
    return next(one for one in state_directories.read_parts(LabFiles(lab.state_dir)) if one.name == name)


def kill(lab: Lab, kind: str, number: int) -> int:
    """Kill a part; return its process id."""
    pid = part(lab, kind, number).pid
    assert lab.inside("kill", "-KILL", pid).returncode == 0
    return pid


def runs_again(lab: Lab, kind: str, number: int, before: int) -> bool:
    now = part(lab, kind, number)
    return now.pid not in (0, before) and now.restarts > 0 and now.last_exit == "signal SIGKILL"


def leader(lab: Lab) -> int:
    """Return the number of etcd's member that leads, 0 if none does."""
    for number in _SERVERS:
        metrics = lab.inside("curl", "-sS", f"http://127.0.0.{number}:2381/metrics").stdout
        if "\netcd_server_is_leader 1\n" in metrics:
            return number
    return 0


def is_healthy(lab: Lab, member: int) -> bool:
    return '"health":"true"' in lab.inside("curl", "-sS", f"http://127.0.0.{member}:2381/health").stdout


def are_endpoints(found: Objects, servers: int = 3) -> bool:
    endpoints = found.get("kubernetes", {}).get("endpoints") or []
    return sorted(address for one in endpoints for address in one["addresses"]) == [
        f"10.0.0.{number}" for number in _SERVERS[:servers]
    ]


def wait_endpoints(lab: Lab) -> None:
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    lab.api.wait(path, are_endpoints, "the Service kubernetes never had three endpoints")


class Writer:
    """Creates ConfigMaps, each over a connection of its own, until it is stopped."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[str] = []
        self.refused: list[str] = []

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)

    def wait_more(self, count: int = 10) -> None:
        """Wait until so many further writes are acknowledged."""
        before = len(self.acknowledged)
        eventually(lambda: len(self.acknowledged) >= before + count, message="writes are no longer acknowledged")

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            name = f"write-{number}"
            connection = self._lab.api.connect()
            try:
                body = json.dumps({"metadata": {"name": name}, "data": {"number": str(number)}})
                connection.request("POST", _WRITES, body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read().decode()
            except (OSError, http.client.HTTPException, ssl.SSLError):
                continue  # unanswered, and so not acknowledged
            finally:
                connection.close()
            if answer.status == 201:
                self.acknowledged.append(name)
            elif answer.status < 500:
                self.refused.append(text)


def test_w57_killed_servers_and_members_lose_nothing(lab: Lab) -> None:
    wait_endpoints(lab)
    with Writer(lab) as writer:
        writer.wait_more()
        killed = kill(lab, "apiserver", 2)
        writer.wait_more()
        assert lab.kubectl("get", "nodes").returncode == 0
        eventually(lambda: runs_again(lab, "apiserver", 2, killed))
        ready = ("curl", "-sSk", "https://10.0.0.2:6443/readyz")
        eventually(lambda: lab.inside(*ready).stdout == "ok")

        first = eventually(lambda: leader(lab))
        killed = kill(lab, "etcd", first)
        writer.wait_more()
        eventually(lambda: runs_again(lab, "etcd", first, killed))
        eventually(lambda: is_healthy(lab, first))
        assert lab.kubectl("get", "nodes").returncode == 0
        writer.wait_more()
    found = {item["metadata"]["name"] for item in lab.api.list(_WRITES)}
    assert sorted(set(writer.acknowledged) - found) == []
    assert writer.refused == []
    wait_endpoints(lab)


def create(lab: Lab, name: str) -> str:
    """Create a ConfigMap; return its uid."""
    status, created = lab.api.call("POST", _WRITES, json.dumps({"metadata": {"name": name}}))
    assert status == 201, created
    uid: str = created["metadata"]["uid"]
    return uid


def test_a_stopped_lab_keeps_its_objects_and_its_store(lab: Lab) -> None:
    uid = create(lab, "kept")
    lab.stop()
    lab.start()
    wait_endpoints(lab)
    kept = lab.api.get(f"{_WRITES}/kept")
    assert kept is not None
    assert kept["metadata"]["uid"] == uid
    assert lab.command("status").stdout.splitlines()[0].endswith(", 3 API servers, on etcd, without a load balancer")


def test_a_lab_on_etcd_is_restored_from_a_backup_of_any_store(lab: Lab, tmp_path: Path) -> None:
    """The backup goes through a store on SQLite and back."""
    uid = create(lab, "restored")
    first, second = tmp_path / "first", tmp_path / "second"
    for arguments in (
        ("backup", "--name", lab.name, "--state-dir", lab.state_dir, first),
        ("restore", "--store", tmp_path / "store.db", first),
        ("backup", "--store", tmp_path / "store.db", second),
    ):
        done = run(BRIDGEHEAD, *arguments)
        assert done.returncode == 0, done.stderr
    create(lab, "later")
    running = lab.command("restore", second)
    assert (running.returncode, running.stderr.count("\n")) == (1, 1)
    assert "is running: stop it first" in running.stderr
    lab.stop()
    damaged = lab.command("restore", lab.state_dir / "lab.json")
    assert (damaged.returncode, damaged.stderr.count("\n")) == (1, 1)
    assert "not a backup" in damaged.stderr
    restored = lab.command("restore", second)
    assert restored.returncode == 0, restored.stderr
    assert "objects, revision" in restored.stdout
    data = {path.name for path in (lab.state_dir / "store").iterdir()}
    assert data >= {"etcd", "etcd-2", "etcd-3", "etcd.old", "etcd-2.old", "etcd-3.old"}
    assert "restoring" not in data
    lab.start()
    wait_endpoints(lab)
    eventually(lambda: all(is_healthy(lab, member) for member in _SERVERS))
    kept = lab.api.get(f"{_WRITES}/restored")
    assert kept is not None
    assert kept["metadata"]["uid"] == uid
    assert lab.api.get(f"{_WRITES}/later") is None
    create(lab, "after")


def test_a_lab_moves_to_sqlite_and_back_with_a_backup(lab: Lab, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    uid = create(lab, "moved")
    for options, store in (
        (("--store", "sqlite"), "cluster.db"),
        (("--store", "etcd", "--api-servers", "2"), "etcd-2"),
    ):
        done = lab.command("backup", backup)
        assert done.returncode == 0, done.stderr
        lab.stop()
        refused = lab.command("up", "--detach", *options)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert "`up --restore FILE` moves the objects" in refused.stderr
        lab.start(*options, "--restore", backup)
        moved = lab.api.get(f"{_WRITES}/moved")
        assert moved is not None
        assert moved["metadata"]["uid"] == uid
        assert (lab.state_dir / "store" / store).exists()
        create(lab, store)
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    lab.api.wait(path, lambda found: are_endpoints(found, 2), "the Service kubernetes never had two endpoints")
