"""Exec and port-forward by every protocol, by way of the API server and directly: no byte is lost."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import urllib.parse
from pathlib import Path

import aiohttp
import pytest
from kubernetes import client as kubernetes_client
from kubernetes.stream import stream

from bridgehead.kubelet.server import upgrades
from bridgehead.kubelet.server.port_copy import _GRACE_SECONDS as GRACE_SECONDS
from bridgehead.objects.kinds import NODES
from bridgehead.streaming import spdy
from tests.spdy_client import ClientWriter

from .kubelet_world import DEADLINE, is_running, open_world
from .stream_clients import ProcessRuntime, SocketClient, SpdyClient, Wire, frame

pytestmark = pytest.mark.integration

SOCKETS = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "channel.k8s.io",
    "",
    "v4.base64.channel.k8s.io",
    "base64.channel.k8s.io",
)
SPDY = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")


@pytest.fixture
async def world(tmp_path):
    async with open_world(tmp_path, runtime=ProcessRuntime) as world:
        await world.serve_kubelet()
        await world.create("web")
        await world.until("web", is_running)
        try:
            yield world
        finally:
            assert isinstance(world.runtime, ProcessRuntime)
            for process in world.runtime.processes:
                process.kill()
                await process.wait()


async def address_and_path(world, *, is_direct):
    """The address of a server, and the path of the pod's exec and port-forward there."""
    if is_direct:
        port = (await world.admin.get(NODES, "node1")).status.daemon_endpoints["kubeletEndpoint"]["Port"]
        return ("127.0.0.1", port), "/{}/default/web/app"
    parts = urllib.parse.urlsplit(world.admin.config.server)
    return (parts.hostname, parts.port), "/api/v1/namespaces/default/pods/web/{}"


async def execute(world, script, protocol, *, is_spdy=False, is_direct=False):
    """A client of a shell's exec."""
    address, path = await address_and_path(world, is_direct=is_direct)
    names = ("input", "output", "error") if is_direct else ("stdin", "stdout", "stderr")
    query = [("command", word) for word in ("sh", "-c", script)] + [(name, "1") for name in names]
    url = f"{path.format('exec')}?{urllib.parse.urlencode(query)}"
    return await (SpdyClient if is_spdy else SocketClient).open(address, url, protocol)


async def send_in_pieces(client, data, seed):
    chance, at = random.Random(seed), 0
    while at < len(data):
        size = chance.choice((1, 1000, 40_000, 300_000))
        await client.send(data[at : at + size])
        at += size


async def until_file(world, path: Path, content: bytes) -> None:
    await world.wait_for(lambda: path.exists() and path.read_bytes() == content)


def exit_code(status: bytes) -> int:
    found = json.loads(status)
    return 0 if found["status"] == "Success" else int(found["details"]["causes"][0]["message"])


@pytest.mark.parametrize("is_direct", [False, True], ids=["apiserver", "kubelet"])
async def test_a_client_that_sends_a_file_and_leaves_has_sent_all_of_it(world, tmp_path, is_direct):
    """The command gets every byte and then the end, and goes on when nobody listens any more."""
    data = os.urandom(3_000_000)
    for number, (protocol, is_spdy) in enumerate([(name, False) for name in SOCKETS] + [(name, True) for name in SPDY]):
        path = tmp_path / f"file{number}"
        # It begins to read late, so that most of the file is on its way when the client leaves.
        script = f"sleep 0.2; cat > {path}; sleep 0.1; printf end >> {path}"
        client = await execute(world, script, protocol, is_spdy=is_spdy, is_direct=is_direct)
        if number % 2:
            await client.send(data)
        else:
            await send_in_pieces(client, data, number)
        if number % 3:
            await client.end()
        await client.wire.leave()
        await until_file(world, path, data + b"end")
    assert [await process.wait() for process in world.runtime.processes] == [0] * len(SOCKETS + SPDY)


@pytest.mark.parametrize("is_direct", [False, True], ids=["apiserver", "kubelet"])
@pytest.mark.parametrize("first", ["client", "server"])
async def test_the_server_closes_the_connection_when_both_sides_have_closed_the_websocket(
    world, monkeypatch, first, is_direct
):
    """RFC 6455, 7.1.1: clients wait for this, and some give up only after ten seconds."""
    monkeypatch.setattr(upgrades, "_LINGER_SECONDS", 10 * DEADLINE)
    script = "cat >/dev/null" if first == "client" else "exit 3"
    client = await execute(world, script, "v5.channel.k8s.io", is_direct=is_direct)
    async with asyncio.timeout(DEADLINE):
        if first == "server":
            assert exit_code((await client.receive())[3]) == 3
        client.wire.writer.write(frame(8, b"\x03\xe8"))
        await client.wire.reader.read()  # to its end
    await client.wire.leave()


async def test_a_command_that_reports_what_it_does_is_not_killed_when_its_client_leaves(world, tmp_path):
    path = tmp_path / "file"
    gate = tmp_path / "gate"
    script = (
        f"until [ -e {gate} ]; do sleep 0.02; done; cat > {path}; for i in 1 2 3; do echo $i; done; echo x >> {path}"
    )
    client = await execute(world, script, "v4.channel.k8s.io")
    await client.send(b"words ")
    await client.wire.leave()
    gate.touch()
    await until_file(world, path, b"words x\n")


@pytest.mark.parametrize("close", ["at once", "in the middle"])
async def test_the_python_client_copies_a_file(world, tmp_path, close):
    """The client sends the file in one message, larger than most servers hold, and closes."""
    path, data = tmp_path / "file", os.urandom(5 << 20)
    configuration = kubernetes_client.Configuration(host=world.admin.config.server)
    configuration.api_key = {"authorization": "Bearer admin"}

    def copy() -> None:
        with kubernetes_client.ApiClient(configuration) as session:
            api = kubernetes_client.CoreV1Api(session)
            sent = stream(
                api.connect_get_namespaced_pod_exec,
                "web",
                "default",
                command=["sh", "-c", f"sleep 0.1; cat > {path}"],
                stdin=True,
                stdout=True,
                stderr=True,
                _preload_content=False,
            )
            if close == "at once":
                sent.write_stdin(data)
            else:
                for start in range(0, len(data), 100_000):
                    sent.write_stdin(data[start : start + 100_000])
            sent.close()

    await asyncio.to_thread(copy)
    await until_file(world, path, data)


@pytest.mark.parametrize("is_spdy", [False, True], ids=["websocket", "spdy"])
async def test_output_and_exit_code_come_whole(world, is_spdy):
    protocol = "v4.channel.k8s.io"
    script = "head -c 2000000 /dev/zero; head -c 1000000 /dev/zero >&2; exit 7"
    client = await execute(world, script, protocol, is_spdy=is_spdy)
    got = await client.receive()
    assert (len(got[1]), len(got[2]), exit_code(got[3])) == (2_000_000, 1_000_000, 7)
    await client.wire.leave()

    # Later output of a child is sent, too.
    client = await execute(world, "(sleep 1.5; echo late) & echo early", protocol, is_spdy=is_spdy)
    got = await client.receive()
    assert (got[1], exit_code(got[3])) == (b"early\nlate\n", 0)
    await client.wire.leave()

    # Input that nobody reads is no error.
    client = await execute(world, "exec 0<&-; sleep 0.1; echo deaf; exit 4", protocol, is_spdy=is_spdy)
    with contextlib.suppress(ConnectionError):
        async with asyncio.TaskGroup() as tasks:
            receiving = tasks.create_task(client.receive())
            for _ in range(100):
                if not receiving.done():
                    await client.send(b"x" * 100_000)
    got = receiving.result()
    assert (got[1], exit_code(got[3])) == (b"deaf\n", 4)
    await client.wire.leave()


async def test_both_directions_are_throttled(world):
    """A command whose client reads nothing waits, and so does a client whose command reads nothing."""
    client = await execute(world, "cat /dev/zero", "v4.channel.k8s.io")
    [process] = world.runtime.processes
    counters = Path(f"/proc/{process._process.pid}/io")

    def written() -> int:
        return int(next(line for line in counters.read_text().splitlines() if line.startswith("wchar")).split()[1])

    before = -1
    async with asyncio.timeout(DEADLINE):
        while before != written():
            before = written()
            await asyncio.sleep(0.3)  # silence is tested: in this time it would write more
    assert before < 64 << 20
    await client.wire.leave()

    client = await execute(world, "sleep 1000", "v4.channel.k8s.io")
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 64 << 20:
            async with asyncio.timeout(1.0):
                await client.send(b"x" * 500_000)
            sent += 500_000
    assert sent < 64 << 20
    client.wire.writer.transport.abort()


async def test_a_session_without_bytes_ends(tmp_path):
    async with open_world(tmp_path, runtime=ProcessRuntime) as world:
        await world.serve_kubelet(idle_seconds=0.2)
        await world.create("web")
        await world.until("web", is_running)
        client = await execute(world, "cat; echo end > " + str(tmp_path / "end"), "v4.channel.k8s.io")
        async with asyncio.timeout(DEADLINE):
            while await client.wire.reader.read(4096):
                pass
        await until_file(world, tmp_path / "end", b"end\n")
        await client.wire.leave()


async def test_nothing_is_left_of_clients_that_have_left(world):
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before, tasks = descriptors(), len(asyncio.all_tasks())
    for is_direct in (False, True):
        for is_spdy in (False, True):
            client = await execute(world, "cat; sleep 1000", "v4.channel.k8s.io", is_spdy=is_spdy, is_direct=is_direct)
            await client.send(b"words")
            await client.wire.leave()
    # A command that goes on has its process and one pipe.
    await world.wait_for(lambda: len(asyncio.all_tasks()) <= tasks and descriptors() <= before + 4 * 2)


async def test_a_violation_of_the_protocol_ends_a_session(world):
    client = await execute(world, "cat", "v4.channel.k8s.io")
    client.wire.writer.write(b"\x82\x01x")  # no mask
    assert (await client.receive()) == {1: b""}
    await client.wire.leave()
    client = await execute(world, "cat", "v4.channel.k8s.io", is_spdy=True)
    client.wire.writer.write(b"\x80\x02\x00\x01\x00\x00\x00\x00")
    async with asyncio.timeout(DEADLINE):
        with contextlib.suppress(ConnectionError):
            while await client.wire.reader.read(4096):
                pass
    await client.wire.leave()
    assert [await process.wait() for process in world.runtime.processes] == [0, 0]


async def test_a_follower_of_a_log_that_leaves_ends_its_work(tmp_path):
    """A follower that stays has the whole log."""
    async with open_world(tmp_path) as world:
        kubelet = await world.serve_kubelet()
        await world.create("web")
        pod = await world.until("web", is_running)
        log = kubelet.settings.log_path(pod, "app", 0)
        lines = [f"2026-11-21T03:00:00.000000001Z stdout F {number} {'x' * 200}\n" for number in range(20_000)]
        log.write_text("".join(lines[:10]))

        def readers() -> int:
            links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
            return sum(os.path.realpath(link) == str(log.resolve()) for link in links)

        url = f"{world.admin.config.server}/api/v1/namespaces/default/pods/web/log?follow=true"
        async with aiohttp.ClientSession(headers={"Authorization": "Bearer admin"}) as session:
            staying, leaving = await session.get(url), await session.get(url)
            async with staying:
                async with leaving:
                    await leaving.content.readline()
                    await staying.content.readline()
                    assert readers() == 2
                await world.wait_for(lambda: readers() == 1)
                with log.open("a") as file:
                    file.write("".join(lines[10:]))
                world.runtime.finish(next(iter(world.runtime.containers)), 0)
                rest = await staying.content.read()
                assert [int(line.split()[0]) for line in rest.splitlines()] == list(range(1, 20_000))
        await world.wait_for(lambda: readers() == 0)


async def test_only_version_5_can_end_a_channel(world):
    for protocol, wanted in (("v5.channel.k8s.io", b"1"), ("v4.channel.k8s.io", b"12")):
        client = await execute(world, "head -c 2", protocol)
        await client.send(b"1")
        client.wire.writer.write(frame(2, b"\xff") if protocol.startswith("v5") else b"")
        client.wire.writer.write(frame(2, b"\xff\x00"))
        with contextlib.suppress(ConnectionError):
            await client.send(b"2")
        assert (await client.receive())[1] == wanted
        await client.wire.leave()


async def test_input_that_was_not_asked_for_is_dropped(world):
    address, path = await address_and_path(world, is_direct=False)
    client = await SocketClient.open(address, f"{path.format('exec')}?command=cat&stdout=1", "v4.channel.k8s.io")
    await client.send(b"not read")
    got = await client.receive()
    assert (got[1], exit_code(got[3])) == (b"", 0)
    await client.wire.leave()


async def test_input_before_the_streams_are_open_is_bounded(world):
    address, path = await address_and_path(world, is_direct=False)
    headers = {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io", "Content-Length": "0"}
    url = f"{path.format('exec')}?command=cat&stdin=1&stdout=1"
    wire = await Wire.open(address, "POST", url, headers)
    wire.writer.write(ClientWriter().open_stream(1, {"streamtype": "stdin"}))
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(DEADLINE):
            for _ in range(100):
                wire.writer.write(spdy.data_frame(1, b"x" * 30_000))
                await wire.writer.drain()
            while await wire.reader.read(4096):
                pass
    assert world.runtime.processes == []
    await wire.leave()


# --- Port-forward ------------------------------------------------------------------------------------------------


class Pod:
    """A server on the test's loopback, which stands for the pod's. `run` gets each connection."""

    def __init__(self, run) -> None:
        self._run = run
        self._serving = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._start, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader, writer):
        try:
            with contextlib.suppress(ConnectionError):
                await self._run(reader, writer)
        finally:
            writer.close()

    def _start(self, reader, writer):
        self._serving.append(asyncio.create_task(self._serve(reader, writer)))

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)


async def forward(world, *, is_tunnelled, is_direct):
    """A connection over which SPDY is spoken, and what wraps its bytes."""
    address, path = await address_and_path(world, is_direct=is_direct)
    path = path.format("portForward" if is_direct else "portforward").removesuffix("/app")
    if is_tunnelled:
        client = await SocketClient.open(address, path, "SPDY/3.1+portforward.k8s.io")
        return client.wire, lambda data: frame(2, data)
    headers = {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "portforward.k8s.io", "Content-Length": "0"}
    return await Wire.open(address, "POST", path, headers), lambda data: data


async def write_and_wait(wire, wrapped, data):
    """Write bytes and wait until they have been processed."""
    wire.writer.write(wrapped(data + spdy.ping_frame(1)))
    got = b""
    while spdy.ping_frame(1) not in got:
        got += await wire.reader.read(4096)


def opened(port, number=0):
    """A forwarded connection: its streams are 4 * number + 1 (errors) and 4 * number + 3 (data)."""
    writer = ClientWriter()
    headers = {"port": str(port), "requestid": str(number)}
    return b"".join(
        writer.open_stream(stream, headers | {"streamtype": kind}) for stream, kind in ((1, "error"), (3, "data"))
    ) + spdy.data_frame(1, b"", ends=True)


@pytest.mark.parametrize("is_direct", [False, True], ids=["apiserver", "kubelet"])
@pytest.mark.parametrize("is_tunnelled", [True, False], ids=["websocket", "spdy"])
async def test_port_forward_delivers_what_a_client_sent_before_it_left(world, is_tunnelled, is_direct):
    data, got = os.urandom(2_000_000), asyncio.get_running_loop().create_future()
    all_sent = asyncio.Event()

    async def receive_late(reader, writer):
        await all_sent.wait()
        got.set_result(await reader.read())

    async with Pod(receive_late) as port:
        wire, wrapped = await forward(world, is_tunnelled=is_tunnelled, is_direct=is_direct)
        await write_and_wait(wire, wrapped, opened(port))
        for start in range(0, len(data), 30_000):
            wire.writer.write(wrapped(spdy.data_frame(3, data[start : start + 30_000])))
        all_sent.set()
        await wire.leave()
        async with asyncio.timeout(DEADLINE):
            assert hashlib.md5(await got).digest() == hashlib.md5(data).digest()


async def test_a_half_closed_connection_still_answers(world):
    """A request that ends with the client's direction, and an answer that is made of all of it."""

    async def answer_at_end(reader, writer):
        body = await reader.read()
        await asyncio.sleep(GRACE_SECONDS + 0.2)  # silence is tested: it must not end the connection
        writer.write(body[::-1])
        await writer.drain()

    async with Pod(answer_at_end) as port:
        wire, _ = await forward(world, is_tunnelled=False, is_direct=False)
        wire.writer.write(opened(port) + spdy.data_frame(3, b"abc" * 100_000) + spdy.data_frame(3, b"", ends=True))
        reader, got, is_open = spdy.Reader(), b"", True
        async with asyncio.timeout(DEADLINE):
            while is_open:
                for one in reader.feed_untrusted(await wire.reader.read(65536)):
                    if isinstance(one, spdy.Data) and one.stream == 3:
                        got, is_open = got + one.content, not one.ends
        assert got == b"cba" * 100_000
        await wire.leave()


async def test_a_pod_that_reads_nothing_throttles_its_client(world):
    async def read_nothing(reader, writer):
        await asyncio.Event().wait()

    async with Pod(read_nothing) as port:
        wire, _ = await forward(world, is_tunnelled=False, is_direct=False)
        wire.writer.write(opened(port))
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 64 << 20:
                async with asyncio.timeout(1.0):
                    wire.writer.write(spdy.data_frame(3, b"x" * 500_000))
                    await wire.writer.drain()
                sent += 500_000
        assert sent < 64 << 20
        wire.writer.transport.abort()


async def test_a_connection_that_a_pod_does_not_read_ends_when_it_is_idle(tmp_path):
    async def read_nothing(reader, writer):
        await asyncio.Event().wait()

    async with open_world(tmp_path, runtime=ProcessRuntime) as world:
        await world.serve_kubelet(idle_seconds=0.5)
        await world.create("web")
        await world.until("web", is_running)
        tasks = len(asyncio.all_tasks())
        async with Pod(read_nothing) as port:
            wire, _ = await forward(world, is_tunnelled=False, is_direct=True)
            wire.writer.write(opened(port) + spdy.data_frame(3, b"x" * 900_000) * 32)
            async with asyncio.timeout(30):
                await world.wait_for(lambda: len(asyncio.all_tasks()) <= tasks + 1)  # the pod's
            await wire.leave()


async def test_streams_of_a_forwarded_connection_are_opened_once(world):
    wire, _ = await forward(world, is_tunnelled=False, is_direct=False)
    writer, reader = ClientWriter(), spdy.Reader()
    for number in (1, 3):
        wire.writer.write(writer.open_stream(number, {"port": "1", "requestid": "0", "streamtype": "error"}))
    frames = []
    while spdy.Reset(3) not in frames:
        frames += reader.feed_untrusted(await wire.reader.read(4096))
    await wire.leave()


async def test_bytes_for_a_connection_of_which_one_stream_is_open_hold_up_no_other(world):
    async def greet(reader, writer):
        writer.write(b"hello")

    async with Pod(greet) as port:
        wire, _ = await forward(world, is_tunnelled=False, is_direct=False)
        writer, reader = ClientWriter(), spdy.Reader()
        wire.writer.write(writer.open_stream(1, {"port": str(port), "requestid": "0", "streamtype": "data"}))
        for _ in range(20):
            wire.writer.write(spdy.data_frame(1, b"x" * 30_000))
        for stream, kind in ((3, "error"), (5, "data")):
            headers = {"port": str(port), "requestid": "1", "streamtype": kind}
            wire.writer.write(writer.open_stream(stream, headers))
        frames = []
        async with asyncio.timeout(DEADLINE):
            while not (spdy.Reset(1) in frames and any(getattr(one, "content", b"") == b"hello" for one in frames)):
                frames += reader.feed_untrusted(await wire.reader.read(65536))
        await wire.leave()


async def test_a_reset_ends_one_connection_and_leaves_the_others(world):
    left, connected = asyncio.Event(), asyncio.Semaphore(0)

    async def echo(reader, writer):
        connected.release()
        while data := await reader.read(1000):
            writer.write(data)
            await writer.drain()
        left.set()

    async with Pod(echo) as port:
        wire, _ = await forward(world, is_tunnelled=False, is_direct=False)
        writer = ClientWriter()
        for number in (0, 1):
            for offset, kind in ((1, "error"), (3, "data")):
                headers = {"port": str(port), "requestid": str(number), "streamtype": kind}
                wire.writer.write(writer.open_stream(4 * number + offset, headers))
        async with asyncio.timeout(DEADLINE):
            for _ in range(2):
                await connected.acquire()
            wire.writer.write(spdy.reset_frame(3))
            await left.wait()
            wire.writer.write(spdy.data_frame(7, b"hello"))
            reader, got = spdy.Reader(), b""
            while got != b"hello":
                for one in reader.feed_untrusted(await wire.reader.read(65536)):
                    if isinstance(one, spdy.Data) and one.stream == 7:
                        got += one.content
        await wire.leave()
