"""The userspace mode's relaying of connections: real sockets on the loopback, backends that misbehave.

The way from a Service's address to a listener is tried by `test_proxy_modes.py`, as in all modes.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import resource
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from bridgehead.proxy.address_texts import AddressPort
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey
from bridgehead.proxy.userspace.apply import raise_limit
from bridgehead.proxy.userspace.balancing import Balancer, Memory
from bridgehead.proxy.userspace.listeners import Listeners, bound_socket
from bridgehead.proxy.userspace.redirects import LISTENING, Side, redirect
from bridgehead.proxy.userspace.tcp import BUFFER_BYTES, Connection, TcpListener
from bridgehead.proxy.userspace.udp import Sessions, UdpListener

pytestmark = pytest.mark.integration

HERE = "127.0.0.1"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
async def nothing_left_open() -> AsyncIterator[None]:
    asyncio.get_running_loop()
    before = open_files()
    yield
    await eventually(lambda: open_files() <= before, "sockets are left open")


async def eventually(condition: Callable[[], bool], message: str = "") -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - nobody could set an event
            await asyncio.sleep(0.01)


class Relay:
    """A TCP listener on the loopback, and the connections it made."""

    def __init__(self, *targets: AddressPort, seconds: int | None = None) -> None:
        self.memory = Memory()
        self.seconds = seconds
        self.connections: set[Connection] = set()
        self.balancer = Balancer(_backends(targets), seconds, self.memory)
        self.listener = TcpListener(
            asyncio.get_running_loop(), bound_socket(socket.SOCK_STREAM, HERE, 0, ()), self.balancer, self.connections
        )
        self.stop_listening = contextlib.ExitStack()
        self.stop_listening.callback(self.listener.close)

    def change(self, *targets: AddressPort) -> None:
        self.listener.on_removed(self.balancer.change(_backends(targets), self.seconds, self.memory))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(HERE, self.listener.port)

    async def ask(self) -> bytes:
        """Return the answer to a new connection."""
        reader, writer = await self.connect()
        try:
            return await reader.read()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def close(self) -> None:
        self.stop_listening.close()
        for connection in list(self.connections):
            connection.abort()


def _backends(targets: tuple[AddressPort, ...]) -> list[Backend]:
    return [Backend(*target) for target in targets]


@contextlib.asynccontextmanager
async def relaying(*targets: AddressPort, seconds: int | None = None) -> AsyncIterator[Relay]:
    relay = Relay(*targets, seconds=seconds)
    try:
        yield relay
    finally:
        relay.close()


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[AddressPort]:
    """A server whose connections are closed after its handler."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, HERE, 0, backlog=2048)
    async with server:
        yield HERE, server.sockets[0].getsockname()[1]


@contextlib.asynccontextmanager
async def saying(word: bytes) -> AsyncIterator[AddressPort]:
    async def send_word(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word)
        await writer.drain()

    async with serving(send_word) as target:
        yield target


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@contextlib.contextmanager
def refusing() -> Iterator[AddressPort]:
    """A port where nobody listens; it stays so while it is bound."""
    with socket.socket() as sock:
        sock.bind((HERE, 0))
        yield sock.getsockname()


@contextlib.contextmanager
def silent() -> Iterator[AddressPort]:
    """A server whose queue is full: the kernel does not answer."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind((HERE, 0))
        server.listen(0)
        waiting = stack.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(server.getsockname())
        deadline = time.monotonic() + 20
        while not _queued(server):
            assert time.monotonic() < deadline
        yield server.getsockname()


def _queued(server: socket.socket) -> int:
    """Return how many connections wait to be accepted (linux/tcp.h: tcpi_unacked of a listening socket)."""
    (count,) = struct.unpack_from("=I", server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 24)
    return int(count)


async def test_backends_get_connections_in_turn() -> None:
    async with saying(b"a") as a, saying(b"b") as b, saying(b"c") as c, relaying(a, b, c) as relay:
        answers = [await relay.ask() for _ in range(9)]

    assert answers == [b"a", b"b", b"c"] * 3


@pytest.mark.parametrize("broken", [refusing, silent])
async def test_w33_a_backend_that_does_not_answer_is_skipped(
    broken: Callable[[], contextlib.AbstractContextManager[AddressPort]],
) -> None:
    with broken() as dead:
        async with saying(b"a") as a, relaying(dead, a) as relay:
            answers = [await relay.ask() for _ in range(3)]

    assert answers == [b"a"] * 3


async def test_w33_a_client_of_a_killed_backend_moves_to_another_and_stays_there() -> None:
    async with saying(b"a") as a, relaying(a, seconds=60) as relay:
        async with saying(b"b") as b:
            relay.change(a, b)
            first = [await relay.ask() for _ in range(2)]
            assert len(set(first)) == 1
            if first[0] == b"a":  # it has to be b that ends
                relay.balancer.on_failed(HERE)
                await relay.ask()
            assert {await relay.ask() for _ in range(3)} == {b"b"}
        assert {await relay.ask() for _ in range(3)} == {b"a"}


async def test_without_an_answering_backend_the_connection_is_reset() -> None:
    with refusing() as dead:
        async with relaying(dead) as relay:
            with pytest.raises(ConnectionResetError):
                await relay.ask()


async def test_closing_one_direction_leaves_the_other_open() -> None:
    async def digest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        everything = await reader.read()  # up to the client's end
        writer.write(hashlib.sha256(everything).digest())
        await writer.drain()

    async with serving(digest) as target, relaying(target) as relay:
        reader, writer = await relay.connect()
        data = os.urandom(3 * BUFFER_BYTES + 1)
        writer.write(data)
        writer.write_eof()
        assert await reader.read() == hashlib.sha256(data).digest()
        writer.close()


async def test_a_server_that_has_finished_sending_still_receives() -> None:
    received = asyncio.get_running_loop().create_future()

    async def listen_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"go on")
        writer.write_eof()
        received.set_result(await reader.read())

    async with serving(listen_on) as target, relaying(target) as relay:
        reader, writer = await relay.connect()
        assert await reader.read() == b"go on"
        writer.write(b"still here")
        writer.write_eof()
        assert await received == b"still here"
        writer.close()


async def test_a_slow_receiver_applies_back_pressure_and_loses_nothing() -> None:
    may_read = asyncio.Event()
    result = asyncio.get_running_loop().create_future()

    async def read_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await may_read.wait()
        digest = hashlib.sha256()
        while data := await reader.read(1 << 20):
            digest.update(data)
        result.set_result(digest.digest())

    async with serving(read_late) as target, relaying(target) as relay:
        client = await asyncio.to_thread(socket.create_connection, (HERE, relay.listener.port))
        client.setblocking(False)
        sent, digest, block = 0, hashlib.sha256(), os.urandom(1 << 16)
        last = time.monotonic()
        while sent < (64 << 20) and time.monotonic() - last < 0.3:  # until nothing is taken any more
            try:
                count = client.send(block)
            except BlockingIOError:
                await asyncio.sleep(0.005)
                continue
            digest.update(block[:count])
            sent, last = sent + count, time.monotonic()
        assert sent < 64 << 20, "what the kernel's buffers take is less"
        may_read.set()
        client.shutdown(socket.SHUT_WR)
        assert await result == digest.digest()
        client.close()


@pytest.mark.parametrize("by", ["server", "client"])
async def test_a_reset_is_forwarded(by: str) -> None:
    begun = asyncio.Event()
    ended = asyncio.get_running_loop().create_future()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        begun.set()
        if by == "server":
            reset(writer)
            ended.set_result(None)
            return
        try:
            ended.set_result(await reader.read())
        except ConnectionResetError as error:
            ended.set_result(error)

    async with serving(handle) as target, relaying(target) as relay:
        reader, writer = await relay.connect()
        writer.write(b"?")
        await writer.drain()
        if by == "client":
            await begun.wait()
            reset(writer)
            assert isinstance(await ended, ConnectionResetError)
        else:
            with pytest.raises(ConnectionResetError):
                await reader.read()
        writer.close()
        await eventually(lambda: not relay.connections)


def reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    writer.close()


async def test_open_connections_survive_a_change_and_unused_listeners_close() -> None:
    async with serving(echo) as a, saying(b"b") as b, relaying(a) as relay:
        reader, writer = await relay.connect()
        writer.write(b"1")
        assert await reader.readexactly(1) == b"1"

        relay.change(b)
        writer.write(b"2")
        assert await reader.readexactly(1) == b"2"
        assert await relay.ask() == b"b"

        relay.stop_listening.close()
        writer.write(b"3")
        assert await reader.readexactly(1) == b"3"
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await eventually(lambda: not relay.connections)


async def test_thousands_of_connections_are_served_at_once() -> None:
    most = min(1000, raise_limit() // 12) * 2
    async with serving(echo) as a, serving(echo) as b, relaying(a, b) as relay:
        pairs = [await relay.connect() for _ in range(most)]
        for number, (_, writer) in enumerate(pairs):
            writer.write(b"%08d" % number)
        answers = [await reader.readexactly(8) for reader, _ in pairs]
        counts = Counter(connection._target for connection in relay.connections)
        for _, writer in pairs:
            writer.close()
        await eventually(lambda: not relay.connections)

    assert answers == [b"%08d" % number for number in range(most)]
    assert counts[a] == counts[b] == most // 2


async def test_a_client_that_disconnects_during_backend_selection_leaves_nothing() -> None:
    with silent() as dead:
        async with relaying(dead) as relay:
            for _ in range(5):
                _, writer = await relay.connect()
                writer.close()
            seen = set[Connection]()

            def all_seen() -> bool:
                seen.update(relay.connections)
                return len(seen) == 5

            await eventually(all_seen)
        assert not relay.connections


@contextlib.contextmanager
def few_files(more: int) -> Iterator[None]:
    """This process may open so many more files than it has."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_clients_wait_while_no_descriptors_are_free(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(echo) as target, relaying(target) as relay:
        clients = [socket.socket() for _ in range(8)]
        for client in clients:
            client.setblocking(False)
        fillers = []
        with few_files(0):
            with contextlib.suppress(OSError):
                while True:  # also what is free below
                    fillers.append(os.dup(0))
            for client in clients:
                client.connect_ex((HERE, relay.listener.port))
            await eventually(lambda: "connections wait" in caplog.text)
            assert not relay.connections
        for filler in fillers:
            os.close(filler)
        loop = asyncio.get_running_loop()
        for number, client in enumerate(clients):
            await loop.sock_sendall(client, b"%d" % number)
            assert await loop.sock_recv(client, 10) == b"%d" % number
            client.close()


def frontend(port: int, *targets: AddressPort, protocol: str = "tcp", owner: str = "default/web:") -> Frontend:
    return Frontend(key=FrontendKey("10.96.0.1", protocol, port), owner=owner, backends=tuple(_backends(targets)))


async def test_listeners_that_cannot_be_opened_are_logged_once_and_retried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(LISTENING, 4, HERE)
    with contextlib.closing(Listeners()) as listeners:
        one, other = frontend(1, (HERE, 1)), frontend(2, (HERE, 1), protocol="udp")
        assert listeners.open(one) == 1
        fillers = []
        with few_files(0):
            with contextlib.suppress(OSError):
                while True:
                    fillers.append(os.dup(0))
            for _ in range(2):
                listeners.open(other)
        for filler in fillers:
            os.close(filler)
        assert listeners.unopened == {Side(other.key)}
        assert caplog.text.count("cannot listen for 10.96.0.1:2/udp of default/web:/udp: Too many open files") == 1
        assert redirect(other, listeners.ports).backends == ()

        assert listeners.open(other) == 1
        assert not listeners.unopened
        assert redirect(other, listeners.ports).backends[0].port == listeners.ports[Side(other.key)]
        assert listeners.open(other) == 0, "nothing to do"

        closed = listeners.close_unless(listeners.sides(), {Side(one.key)})
        assert list(closed) == [Side(other.key)]
        assert list(listeners.ports) == [Side(one.key)]


async def test_an_address_that_moves_to_another_service_keeps_its_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LISTENING, 4, HERE)
    with contextlib.closing(Listeners()) as listeners:
        listeners.open(frontend(1, (HERE, 1)))
        port = listeners.ports[Side(FrontendKey("10.96.0.1", "tcp", 1))]

        listeners.open(frontend(1, (HERE, 2), owner="other/web:"))

        assert listeners.ports == {Side(FrontendKey("10.96.0.1", "tcp", 1)): port}
        assert listeners.targets(Side(FrontendKey("10.96.0.1", "tcp", 1))) == [(HERE, 2)]


# --- UDP -----------------------------------------------------------------------------------------------------


class UdpServer(asyncio.DatagramProtocol):
    """Answers every datagram with its own name and the datagram, from the address it came to."""

    def __init__(self, name: bytes) -> None:
        self.name = name

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: AddressPort) -> None:
        self.transport.sendto(self.name + data, addr)


@contextlib.asynccontextmanager
async def udp_server(name: bytes) -> AsyncIterator[AddressPort]:
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: UdpServer(name), local_addr=(HERE, 0)
    )
    try:
        yield transport.get_extra_info("sockname")
    finally:
        transport.close()
        await asyncio.sleep(0)


def wait_for(sock: socket.socket, event: int) -> None:
    """Wait without the event loop, which would see the event, too."""
    poll = select.poll()
    poll.register(sock, event)
    assert poll.poll(20_000)


class UdpRelay:
    def __init__(self, *targets: AddressPort, idle: float = 60, most: int = 100) -> None:
        self.memory = Memory()
        self.sessions = Sessions(asyncio.get_running_loop(), idle, most)
        self.balancer = Balancer(_backends(targets), None, self.memory)
        self.listener = UdpListener(self.sessions, bound_socket(socket.SOCK_DGRAM, HERE, 0, ()), self.balancer)
        self._clients: list[socket.socket] = []

    def client(self) -> socket.socket:
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.setblocking(False)
        client.connect((HERE, self.listener.port))
        self._clients.append(client)
        return client

    async def ask(self, client: socket.socket, data: bytes = b"?") -> bytes:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            await loop.sock_sendall(client, data)
            return await loop.sock_recv(client, 65536)

    def close(self) -> None:
        self.listener.close()
        self.sessions.close()
        for client in self._clients:
            client.close()


async def test_each_udp_client_has_a_session() -> None:
    async with udp_server(b"a") as a, udp_server(b"b") as b:
        with contextlib.closing(UdpRelay(a, b)) as relay:
            clients = [relay.client() for _ in range(4)]
            first = [await relay.ask(client) for client in clients]
            again = [await relay.ask(client, b"!") for client in clients]

    assert first == [b"a?", b"b?", b"a?", b"b?"]
    assert again == [b"a!", b"b!", b"a!", b"b!"]


async def test_large_and_empty_datagrams_are_forwarded() -> None:
    async with udp_server(b"a") as a:
        with contextlib.closing(UdpRelay(a)) as relay:
            data = os.urandom(60_000)
            assert await relay.ask(relay.client(), data) == b"a" + data
            assert await relay.ask(relay.client(), b"") == b"a"


async def test_idle_sessions_expire() -> None:
    async with udp_server(b"a") as a:
        with contextlib.closing(UdpRelay(a, idle=0.1)) as relay:
            client, answer = relay.client(), b""
            while not answer:  # on a machine that pauses, a session may end before its answer comes
                client.send(b"?")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        answer = await asyncio.get_running_loop().sock_recv(client, 10)
            await eventually(lambda: not len(relay.sessions) and not relay.listener.sessions)


async def test_the_longest_idle_session_is_evicted_when_the_table_is_full() -> None:
    async with udp_server(b"a") as a:
        with contextlib.closing(UdpRelay(a, most=3)) as relay:
            clients = [relay.client() for _ in range(3)]
            for client in (*clients, clients[0], relay.client()):
                await relay.ask(client)
            ports = {peer[1] for peer in relay.listener.sessions}
            assert len(relay.sessions) == 3
            assert clients[0].getsockname()[1] in ports
            assert clients[1].getsockname()[1] not in ports


async def test_a_udp_backend_that_refuses_loses_its_sessions() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind((HERE, 0))
        held.connect((HERE, 9))  # receives from nobody else, so that the kernel refuses what others send there
        async with udp_server(b"a") as a:
            with contextlib.closing(UdpRelay(held.getsockname(), a)) as relay:
                client = relay.client()
                client.send(b"lost")  # to nobody
                wait_for(relay.listener._socket, select.POLLIN)
                relay.listener._receive()
                (session,) = relay.listener.sessions.values()
                wait_for(session._socket, select.POLLERR)  # the kernel reports it
                assert await relay.ask(client) == b"a?", "sent on another way"
                assert await relay.ask(client) == b"a?"


async def test_sessions_of_a_removed_udp_backend_move_and_its_last_answers_arrive() -> None:
    asked = asyncio.get_running_loop().create_future()

    class Late(asyncio.DatagramProtocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, addr: AddressPort) -> None:
            asked.set_result((self.transport, addr))

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Late, local_addr=(HERE, 0))
    late = transport.get_extra_info("sockname")
    async with udp_server(b"b") as b:
        with contextlib.closing(UdpRelay(late)) as relay:
            client = relay.client()
            client.send(b"?")
            its, addr = await asked
            relay.listener.on_removed(relay.balancer.change(_backends((b,)), None, relay.memory))
            assert await relay.ask(client) == b"b?"
            its.sendto(b"late", addr)
            async with asyncio.timeout(60):
                assert await loop.sock_recv(client, 100) == b"late"
            transport.close()
            await asyncio.sleep(0)
