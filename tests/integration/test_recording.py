"""Recording of a real API server: what is there, what changes, what may not be read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.client import ApiClient, load_kubeconfig
from bridgehead.client.errors import AlreadyExists
from bridgehead.insight.recording.files import read_recording, writing
from bridgehead.insight.recording.format import VERSION, Entry, Header, ObjectEntry
from bridgehead.insight.recording.recorder import Recorder
from bridgehead.insight.recording.redaction import Redaction
from bridgehead.objects.kinds import NAMESPACES, SECRETS, SERVICES
from tests.forks import run_bridgehead
from tests.kubeconfigs import write_kubeconfig

from .apiserver_process import DEADLINE, ServerProcess, write_files

pytestmark = pytest.mark.integration

SERVICE = {"metadata": {"name": "acmeshop", "namespace": "acmeteam"}, "spec": {"ports": [{"port": 80}]}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("server")
    with contextlib.closing(ServerProcess(directory)) as server:
        write_files(directory)
        server.start()
        yield server


def test_objects_and_their_changes_are_recorded(server, tmp_path):
    kubeconfig = write_kubeconfig(tmp_path / "admin", server.url, token="admin-token")
    path = tmp_path / "a.rec"

    asyncio.run(_record(kubeconfig, path, None))

    recording = read_recording(path)
    found = [e for e in recording.entries if isinstance(e, ObjectEntry) and e.object["kind"] == "Service"]
    changes = [
        (e.change, e.object["spec"]["ports"][0]["port"]) for e in found if e.object["metadata"]["name"] != "kubernetes"
    ]
    assert changes == [("added", 80), ("modified", 81), ("deleted", 81)]
    assert all("managedFields" not in entry.object["metadata"] for entry in found)
    assert not any(isinstance(e, ObjectEntry) and e.object["kind"] == "Secret" for e in recording.entries)


def test_a_redacted_recording_has_no_name(server, tmp_path):
    kubeconfig = write_kubeconfig(tmp_path / "admin", server.url, token="admin-token")
    path = tmp_path / "a.rec"

    asyncio.run(_record(kubeconfig, path, Redaction(b"key", "r1")))

    recording = read_recording(path)
    assert len(recording.entries) > 5
    assert "acme" not in str(recording)


async def _record(kubeconfig: Path, path: Path, redaction: Redaction | None) -> None:
    """Record a Service that is created, changed and deleted meanwhile."""
    stop, begun = asyncio.Event(), asyncio.Event()
    with writing(path, replace=False) as writer:
        writer.add(Header(version=VERSION, began=0.0))

        def add(entry: Entry) -> None:
            writer.add(entry)
            if isinstance(entry, ObjectEntry) and entry.change == "deleted":
                stop.set()

        async with ApiClient(load_kubeconfig(kubeconfig), "tests") as client, asyncio.timeout(DEADLINE):
            with contextlib.suppress(AlreadyExists):
                await client.create(NAMESPACES, {"metadata": {"name": "acmeteam"}})
                await client.create(SECRETS, {"metadata": {"name": "acmesecret"}, "stringData": {"a": "b"}}, "acmeteam")
            recorder = Recorder(client, add, redaction=redaction)
            async with asyncio.TaskGroup() as group:
                group.create_task(recorder.run(stop, lambda _recorded: begun.set()))
                await begun.wait()
                await client.create(SERVICES, SERVICE)
                await client.patch(SERVICES, "acmeshop", "acmeteam", {"spec": {"ports": [{"port": 81}]}})
                await client.delete(SERVICES, "acmeshop", "acmeteam")
        writer.add(recorder.end(), is_last=True)
        writer.commit(replace=False)


def test_what_may_not_be_read_is_named(server, tmp_path):
    kubeconfig = write_kubeconfig(tmp_path / "bob", server.url, token="bob-token")
    path = tmp_path / "a.rec"

    done = run_bridgehead("record", path, "--seconds=0", f"--kubeconfig={kubeconfig}", timeout=DEADLINE)

    assert done.returncode == 0, done.stderr
    unseen = [line for line in done.stdout.splitlines() if line.startswith("Could not look at ")]
    assert any("services" in line and 'User "bob" may not list them' in line for line in unseen)
    assert read_recording(path).entries
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_exists_stays(server, tmp_path):
    kubeconfig = write_kubeconfig(tmp_path / "admin", server.url, token="admin-token")
    path = tmp_path / "a.rec"
    path.write_text("mine")

    done = run_bridgehead("record", path, "--seconds=0", f"--kubeconfig={kubeconfig}", timeout=DEADLINE)

    assert (done.returncode, done.stderr) == (1, f"bridgehead record: {path} exists; --force replaces it\n")
    assert path.read_text() == "mine"


def test_a_cluster_that_is_not_there_costs_a_line(tmp_path):
    kubeconfig = write_kubeconfig(tmp_path / "nobody")

    done = run_bridgehead("record", tmp_path / "a.rec", f"--kubeconfig={kubeconfig}", timeout=DEADLINE)

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("bridgehead record: http://127.0.0.1:1: cannot connect")
    assert list(tmp_path.iterdir()) == [kubeconfig]


def test_a_strange_file_is_not_replayed(tmp_path):
    (tmp_path / "a.rec").write_text("hello")

    done = run_bridgehead("replay", tmp_path / "a.rec", timeout=DEADLINE)

    assert done.returncode == 1
    assert done.stderr == (f"bridgehead replay: {tmp_path}/a.rec: not a recording of `bridgehead record`, or damaged\n")
