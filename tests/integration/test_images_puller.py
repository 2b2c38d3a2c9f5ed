"""The puller's server and the kubelet's client of it, in a network namespace without a network."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bridgehead.images.errors import BadImage, PullFailed, Unreachable
from bridgehead.images.references import Reference, parse_reference
from bridgehead.images.registry.docker_config import Credential
from bridgehead.images.service import process, puller_config, server, user_process, user_requests
from bridgehead.images.service.client import SOCKET, PullerClient
from bridgehead.images.service.puller_config import PullerConfig
from bridgehead.images.service.shared_blobs import SharedBlobs
from bridgehead.images.service.user_client import UserClient
from bridgehead.images.service.user_process import UserFiles
from bridgehead.images.store.content import ContentStore
from bridgehead.images.store.layer_locks import LayerLocks
from bridgehead.kubelet.node.image_collector import ImageCollector
from bridgehead.kubelet.node.settings import NodeSettings
from bridgehead.kubelet.runtimes.runtime import ContainerInfo, Runtime
from tests.image_files import image_of, layer_of

from .namespaced import in_namespace, sh
from .registries import FaultyRegistry


@contextlib.asynccontextmanager
async def puller(*, is_offline: bool = False) -> AsyncIterator[Path]:
    """Run a server; yields its content store, whose path is too long for the address of a Unix socket."""

    async def find_config(_: Reference) -> PullerConfig:
        return PullerConfig()

    with tempfile.TemporaryDirectory() as base, socket.socket(socket.AF_UNIX) as listener:
        root = Path(base) / ("long" * 30)
        (root / "ingest" / "layer-of-a-puller-that-was-killed").mkdir(parents=True)
        listener.bind(f"{base}/{SOCKET}")
        (Path(base) / SOCKET).rename(root / SOCKET)
        listener.listen()
        task = asyncio.create_task(server.serve(find_config, ContentStore(root), listener, is_offline=is_offline))
        try:
            yield root
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@in_namespace
async def test_pulls_are_answered_and_equal_ones_are_made_once() -> None:
    sh("ip link set lo up")
    registry = FaultyRegistry()
    registry.add("1", image_of(layer_of([("f", "1")])))
    started: list[str] = []
    async with registry.serving(), puller(is_offline=True) as root:
        client = PullerClient(root)
        name = f"{registry.address}/app:1"
        pulls = [client.pull(name, (), lambda: started.append(name)) for _ in range(4)]
        answers = await asyncio.gather(*pulls)
        assert len({(answer.id, answer.size) for answer in answers}) == 1
        assert len(started) == 4
        assert registry.requests["GET /v2/app/manifests/1"] == 1
        assert [record.id for record in client.list_images()] == [answers[0].id]
        assert list((root / "ingest").iterdir()) == []
        with pytest.raises(BadImage, match="invalid reference format"):
            await client.pull("Not/Valid", (), lambda: None)
        with pytest.raises(PullFailed, match="not found"):
            await client.pull(f"{registry.address}/app:2", (), lambda: None)


@in_namespace
async def test_without_a_network_the_answer_is_immediate() -> None:
    """No registry is contacted: there is not even a name server's address to which a query could go."""
    sh("ip link set lo up")
    started: list[str] = []
    async with puller() as root:
        with pytest.raises(Unreachable, match=r"no network: this machine has no default route to docker\.io"):
            await PullerClient(root).pull("nginx", (), lambda: started.append("nginx"))
        assert not server.has_default_route()
        sh("ip link add eth0 type veth peer name far && ip link set far up && ip link set eth0 up")
        sh("ip address add 192.0.2.2/24 dev eth0")
        assert not server.has_default_route()
        sh("ip route add default via 192.0.2.1")
        assert server.has_default_route()
    assert not started
    async with puller(is_offline=True) as root:
        for local_only in (False, True):
            with pytest.raises(Unreachable, match="the lab is offline"):
                await PullerClient(root, local_only=local_only).pull("nginx", (), lambda: started.append("nginx"))
        (root / SOCKET).unlink()
        with pytest.raises(Unreachable, match="no process that pulls images"):
            await PullerClient(root).pull("localhost/app", (), lambda: None)
    assert not started


@in_namespace
async def test_unused_images_are_removed_when_the_disk_is_too_full() -> None:
    """The disk is above the high threshold of one percent; the low one cannot be reached."""
    sh("ip link set lo up")
    registry = FaultyRegistry()
    for tag in ("used", "unused"):
        registry.add(tag, image_of(layer_of([("f", tag)])))
    events: list[str] = []

    async def list_containers() -> list[ContainerInfo]:
        return []

    def record(reason: str, message: str, type: str = "Normal") -> None:
        events.append(f"{type} {reason} {message}")

    async with registry.serving(), puller(is_offline=True) as root:
        (root / "ballast").write_bytes(bytes(1 << 20))
        client, locks = PullerClient(root), LayerLocks()
        for tag in ("used", "unused"):
            await client.pull(f"{registry.address}/app:{tag}", (), lambda: None)
        store = ContentStore(root)
        used = store.find(f"{registry.address}/app:used")
        assert used is not None
        locks.acquire([str(store.layer_path(layer)) for layer in used.layers])
        settings = NodeSettings(
            name="node", ips=("10.0.0.1",), pod_cidrs=("10.1.0.0/24",), root=root,
            image_gc_high_threshold=1, image_gc_low_threshold=0, image_minimum_gc_age=0,
        )  # fmt: skip
        runtime = cast(Runtime, SimpleNamespace(list_containers=list_containers))
        collector = ImageCollector(settings, runtime, client, record)
        with store.writing():
            await collector.collect()
        assert len(client.list_images()) == 2
        assert events == []
        await collector.collect()
        assert [record.name for record in client.list_images()] == [used.name]
        await collector.collect()
    assert [event.split()[:2] for event in events] == [
        ["Warning", "FreeDiskSpaceFailed"],
        ["Warning", "ImageGCFailed"],
        ["Warning", "FreeDiskSpaceFailed"],
        ["Warning", "ImageGCFailed"],
    ]
    assert "Failed to free sufficient space by deleting unused images (freed 0 bytes)" in events[-1]


def test_the_users_files_are_read_and_unusable_ones_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text('{"auths": {"docker.io": {"username": "u", "password": "p"}}}')
    for registry, text in (
        ("docker.io", '[host."http://localhost:5000"]\nca = "ca.crt"'),
        ("_default", '[host."http://localhost:5001"]'),
        ("broken", "server = "),
        ("empty", None),
        ("without-its-certificate", 'ca = "missing.crt"'),
    ):
        (tmp_path / "registries" / registry).mkdir(parents=True)
        if text is not None:
            (tmp_path / "registries" / registry / "hosts.toml").write_text(text)
    (tmp_path / "registries/docker.io/ca.crt").write_text("PEM")
    (tmp_path / "registries/own.example").mkdir()
    (tmp_path / "registries/own.example/ca.crt").write_text("OWN")
    config = puller_config.read_config(tmp_path / "registries", [])
    assert config.credentials["docker.io"].username == "u"
    assert {registry: [endpoint.url for endpoint in endpoints] for registry, endpoints in config.hosts.items()} == {
        "docker.io": ["http://localhost:5000/v2", ""],
        "_default": ["http://localhost:5001/v2", ""],
        "own.example": [""],
    }
    assert config.hosts["own.example"][0].ca == "OWN"
    assert config.hosts["docker.io"][0].ca == "PEM"
    # The reader skips files that the lab could put there to keep it waiting.
    (tmp_path / "registries" / "broken" / "hosts.toml").unlink()
    os.mkfifo(tmp_path / "registries" / "broken" / "hosts.toml")
    os.truncate(tmp_path / "registries" / "without-its-certificate" / "hosts.toml", 1 << 30)
    assert sorted(puller_config.read_config(tmp_path / "registries", []).hosts) == [
        "_default",
        "docker.io",
        "own.example",
    ]
    if os.geteuid() == 0:
        os.chown(tmp_path / "registries/docker.io/hosts.toml", 12345, 12345)
        assert list(puller_config.read_config(tmp_path / "registries", []).hosts) == ["_default", "own.example"]
        os.chown(tmp_path / "registries/docker.io/hosts.toml", 0, 0)
        os.chown(tmp_path / "registries/docker.io/ca.crt", 12345, 12345)
        assert list(puller_config.read_config(tmp_path / "registries", []).hosts) == ["_default", "own.example"]
    (tmp_path / "config.json").write_text("no JSON")
    assert puller_config.read_config(tmp_path / "none", ["docker.io"]) == PullerConfig()


def test_credential_helpers_are_asked_for_the_registry_of_a_pull(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A helper for one registry goes before that for all, and both before what is in the file."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    document = {
        "auths": {"a.example": {"auth": "dTpw"}, "b.example": {}},
        "credsStore": "all",
        "credHelpers": {"a.example": "one", "bad.example": "../../bin/sh", "gone.example": "gone"},
    }
    (tmp_path / "config.json").write_text(json.dumps(document))
    for name, script in (
        ("one", """[ "$1" = get ] || exit 2; read server; echo '{"Username": "<token>", "Secret": "'$server'"}'"""),
        (
            "all",
            """read server; case $server in
            none*) echo "credentials not found in native keychain"; exit 1;;
            broken*) echo "no JSON";;
            *) echo '{"Username": "u", "Secret": "'$server'"}';; esac""",
        ),
    ):
        (tmp_path / f"docker-credential-{name}").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / f"docker-credential-{name}").chmod(0o755)
    wanted = ["a.example", "docker.io", "none.example", "broken.example", "bad.example", "gone.example"]
    found = puller_config.read_config(tmp_path / "none", wanted).credentials
    assert found == {
        "a.example": Credential(identity_token="a.example"),
        "docker.io": Credential(username="u", password="https://index.docker.io/v1/"),
    }
    assert "none.example" not in caplog.text
    assert "docker-credential-gone has no credentials for gone.example" in caplog.text
    assert "docker-credential-all has no credentials for broken.example" in caplog.text


async def beside_the_user(root: Path, blobs: Path, work: Callable[[ContentStore, SharedBlobs], None]) -> None:
    """Do the work of a lab's puller in a process beside the one that keeps the user's rights."""
    os.makedirs(root, exist_ok=True)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.chdir(root)
            requests, user = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            puller = os.fork()
            if puller == 0:
                store = ContentStore(Path())
                work(store, SharedBlobs(UserClient(user), store))
                os._exit(0)
            status = user_process.serve(UserFiles(root / "none", blobs), requests, puller)
        finally:
            os._exit(int(status != 0))
    assert (await asyncio.to_thread(os.waitpid, pid, 0))[1] == 0


def test_without_processes_a_request_fails_and_the_next_is_answered(tmp_path: Path) -> None:
    """The process with the user's rights must not end: the puller would have no configuration until the next `up`."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            requests, user = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            fork, refused = os.fork, []
            puller = fork()
            if puller == 0:
                requests.close()  # so that the end of the other process is an answer
                client = UserClient(user)
                answers = [client.ask(user_requests.TrimBlobs()) for _ in range(2)]
                os._exit(int(answers != [b"", b"0"]))

            def fork_at_second() -> int:
                if not refused:
                    refused.append(True)
                    raise BlockingIOError(errno.EAGAIN, "no process")
                return fork()

            os.fork = fork_at_second
            status = user_process.serve(UserFiles(tmp_path, tmp_path / "blobs"), requests, puller)
        finally:
            os._exit(int(status != 0))
    assert os.waitpid(pid, 0)[1] == 0


@in_namespace
async def test_labs_of_one_user_share_what_they_download() -> None:
    sh("ip link set lo up")
    registry = FaultyRegistry()
    layer = layer_of([("f", "1")])
    registry.add("1", image_of(layer))
    path = f"GET /v2/app/blobs/{layer.digest}"

    def pull_image(store: ContentStore, shared: SharedBlobs) -> None:
        reference = cast(Reference, parse_reference(f"{registry.address}/app:1"))
        asyncio.run(process.pull_all(PullerConfig(), store, [reference], lambda *_, **__: None, shared))

    def trim(_: ContentStore, shared: SharedBlobs) -> None:
        assert shared.trim() > 0

    def collect(store: ContentStore, shared: SharedBlobs) -> None:
        async def find_config(_: Reference) -> PullerConfig:
            return PullerConfig()

        async def ask() -> None:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(SOCKET)
                listener.listen()
                task = asyncio.create_task(server.serve(find_config, store, listener, is_offline=True, shared=shared))
                assert (await PullerClient(Path()).collect(1, 0, 0, {})).freed > 0
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        asyncio.run(ask())

    async def pull(root: Path) -> Path:
        await beside_the_user(root, root.parent / "shared", pull_image)
        assert list((root / "ingest").iterdir()) == []
        return ContentStore(root).blob_path(layer.digest)

    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        async with registry.serving():
            first, second = await pull(base / "first"), await pull(base / "second")
            assert registry.requests[path] == 1
            [shared] = (base / "shared").iterdir()
            assert first.samefile(shared)
            assert second.samefile(shared)
            # A file that has other content than its name promises is no blob, and is replaced.
            shared.chmod(0o644)
            shared.write_bytes(bytes(len(layer.content)))
            third = await pull(base / "third")
            assert (registry.requests[path], third.read_bytes()) == (2, layer.content)
            assert third.samefile(shared)
            third.unlink()
            await beside_the_user(base / "third", base / "shared", trim)
            assert list((base / "shared").iterdir()) == []
            # A layer that a collection removes from the last lab that has it goes from the cache, too.
            await pull(base / "fourth")
            await beside_the_user(base / "fourth", base / "shared", collect)
            assert list((base / "shared").iterdir()) == []
