"""UDP and TCP sockets of one listening address.

UDP is read and answered in batches, in the event loop's reader callback. TCP connections carry any number of messages
(RFC 7766). `process.py` binds and runs this; `answering/` makes the replies.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bridgehead.dns.answering import Responder, TransferRequest, Unresolved
from bridgehead.dns.counters import Traffic
from bridgehead.dns.errors import CannotServe

from .socket_options import (
    CONTROL_BYTES,
    IP_FREEBIND,
    IPV6_FREEBIND,
    Control,
    enable_pktinfo,
    is_wildcard,
    source_of_reply,
)

log = logging.getLogger(__name__)

_BATCH = 64  # datagrams answered before other tasks run
_LARGEST_QUERY = 4096  # bytes; a longer datagram is cut, and refused as malformed
_BUFFER_BYTES = 4 << 20
_PORTS_TRIED = 5  # if any port will do
_NO_CONTROL: Control = []

# Query and client address -> reply.
Resolve = Callable[[Unresolved, str], Awaitable[bytes]]
# Client, query, reply (None: none is sent), protocol, seconds.
LogQuery = Callable[[tuple[str, int], bytes, bytes | None, str, float], None]


class Limits(NamedTuple):
    """Limits of one listening address."""

    concurrent: int = 1000  # queries that wait for the resolver
    connections: int = 1000  # of TCP
    idle_seconds: float = 10.0  # of a TCP connection between two messages


class DnsServer:
    """The sockets of one listening address. `log_query` is called for every message after its reply."""

    def __init__(
        self,
        responder: Responder,
        resolve: Resolve,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        *,
        log_query: LogQuery | None = None,
    ) -> None:
        self._log_query = log_query
        self._responder = responder
        self._resolve = resolve
        self._limits = limits
        self._udp: socket.socket | None = None
        self._is_wildcard = False
        self._tcp: socket.socket | None = None
        self._concurrent = 0
        self._max_concurrent = limits.concurrent
        self._connections: set[asyncio.Task[None]] = set()
        self.address = ("", 0)  # host and port; "" is every address of the family
        self.is_ipv6 = False
        self.traffic = {"udp": Traffic(), "tcp": Traffic()}
        self.overflows = 0  # queries refused because of `Limits.concurrent`

    def bind(self, host: str, port: int, *, shared: bool = False, freebind: bool = False) -> int:
        """Bind UDP and TCP sockets, and return the port. Raises CannotServe.

        `shared`: other processes may bind the same port (SO_REUSEPORT). `freebind`: the address may be
        missing on the machine.
        """
        self._tcp, self._udp = open_sockets(host, port, shared=shared, freebind=freebind)
        with contextlib.suppress(OSError):
            self._udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._is_wildcard = is_wildcard(self._udp)
        if self._is_wildcard:
            enable_pktinfo(self._udp)
        self.is_ipv6 = ":" in host
        self.address = ("" if self._is_wildcard else host, int(self._tcp.getsockname()[1]))
        return self.address[1]

    def use(self, responder: Responder, resolve: Resolve, log_query: LogQuery | None, max_concurrent: int) -> None:
        """Answer by these from the next message on."""
        self._max_concurrent = max_concurrent
        self._responder = responder
        self._resolve = resolve
        self._log_query = log_query

    def close(self) -> None:
        for bound in (self._udp, self._tcp):
            if bound is not None:
                bound.close()
        self._udp = self._tcp = None

    async def run(self) -> None:
        """Answer until cancelled. Needs `bind` first."""
        if self._udp is None or self._tcp is None:
            raise CannotServe("no socket is bound")
        loop = asyncio.get_running_loop()
        udp, tcp = self._udp, self._tcp
        try:
            async with asyncio.TaskGroup() as tasks:
                server = await asyncio.start_server(self._serve_connection, sock=tcp)
                async with server:
                    loop.add_reader(udp.fileno(), self._read_batch, udp, tasks)
                    try:
                        await server.serve_forever()
                    finally:
                        loop.remove_reader(udp.fileno())
                        for connection in self._connections:
                            connection.cancel()
        finally:
            self.close()

    # --- UDP -------------------------------------------------------------------------------------------------

    def _read_batch(self, udp: socket.socket, tasks: asyncio.TaskGroup) -> None:
        receive, send = udp.recvfrom, udp.sendto
        is_wildcard, control = self._is_wildcard, _NO_CONTROL
        respond, traffic = self._responder.respond_untrusted, self.traffic["udp"]
        query_sizes, reply_sizes = traffic.query_sizes, traffic.reply_sizes
        batch_start = start = time.perf_counter()
        later = 0
        for done in range(_BATCH):
            try:
                if is_wildcard:
                    data, control, _, client = udp.recvmsg(_LARGEST_QUERY, CONTROL_BYTES)
                else:
                    data, client = receive(_LARGEST_QUERY)
            except BlockingIOError:
                self._record_time(done - later, batch_start)
                return
            except OSError as error:  # an ICMP error that an earlier reply caused
                log.debug("receiving: %s", error)
                continue
            if self._log_query is not None:
                start = time.perf_counter()
            reply = respond(data, traffic=traffic)
            if isinstance(reply, Unresolved):
                later += 1
                self._resolve_later(reply, data, udp, client, control, tasks)
                continue
            query_sizes[len(data)] += 1
            if isinstance(reply, bytes):
                reply_sizes[len(reply)] += 1
                try:
                    if is_wildcard:
                        udp.sendmsg((reply,), source_of_reply(control), 0, client)
                    else:
                        send(reply, client)
                except OSError as error:  # the client is gone or unreachable
                    log.debug("a reply to %s could not be sent: %s", client[0], error)
            if self._log_query is not None:
                sent = reply if isinstance(reply, bytes) else None
                self._log_query(client, data, sent, "udp", time.perf_counter() - start)
        self._record_time(_BATCH - later, batch_start)

    def _record_time(self, answered: int, start: float) -> None:
        """Count the time of a batch in equal parts for its messages: reading the clock for each costs too much."""
        if answered > 0:
            self.traffic["udp"].durations.add((time.perf_counter() - start) / answered, answered)

    def _resolve_later(
        self,
        question: Unresolved,
        data: bytes,
        udp: socket.socket,
        client: tuple[str, int],
        control: Control,
        tasks: asyncio.TaskGroup,
    ) -> None:
        if self._concurrent >= self._max_concurrent:
            self.overflows += 1
            refusal = self._responder.refuse(question)
            self.traffic["udp"].add_deferred(data, refusal, 0.0)
            self._send(udp, refusal, client, control)
            return
        self._concurrent += 1

        async def work() -> None:
            start = time.perf_counter()
            try:
                reply = await self._resolve(question, client[0])
            finally:
                self._concurrent -= 1
            self._send(udp, reply, client, control)
            seconds = time.perf_counter() - start
            self.traffic["udp"].add_deferred(data, reply, seconds)
            if self._log_query is not None:
                self._log_query(client, data, reply, "udp", seconds)

        tasks.create_task(work())

    def _send(self, udp: socket.socket, reply: bytes, client: tuple[str, int], control: Control) -> None:
        try:
            udp.sendmsg((reply,), source_of_reply(control), 0, client)
        except OSError as error:
            log.debug("a reply to %s could not be sent: %s", client[0], error)

    # --- TCP -------------------------------------------------------------------------------------------------

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= self._limits.connections:
            writer.transport.abort()
            return
        self._connections.add(task)
        client = writer.get_extra_info("peername")[:2]
        try:
            while True:
                async with asyncio.timeout(self._limits.idle_seconds):
                    data = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
                start, traffic = time.perf_counter(), self.traffic["tcp"]
                found = self._responder.respond_untrusted(data, is_udp=False, traffic=traffic)
                reply = await self._final_reply(found, client[0], writer)
                seconds = time.perf_counter() - start
                if reply is None or reply is found:
                    traffic.add_sizes(data, reply)
                    traffic.durations.add(seconds)
                else:
                    traffic.add_deferred(data, reply, seconds)
                if self._log_query is not None:
                    self._log_query(client, data, reply, "tcp", seconds)
                if reply is None:
                    break
                await self._write(writer, reply)
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            pass  # the client is idle, has closed the connection, or does not read
        except asyncio.CancelledError:
            pass  # `run` ends: no task awaits this one, and asyncio would log its cancellation
        finally:
            self._connections.discard(task)
            writer.close()

    async def _final_reply(
        self, found: bytes | Unresolved | TransferRequest | None, client: str, writer: asyncio.StreamWriter
    ) -> bytes | None:
        if isinstance(found, TransferRequest):
            return await self._transfer(found, client, writer)
        if isinstance(found, Unresolved):
            return await self._resolve(found, client)
        return found

    async def _transfer(self, request: TransferRequest, client: str, writer: asyncio.StreamWriter) -> bytes:
        """Send the zone, if the client may have it. Returns the last message, which the caller sends."""
        last = b""
        for message in self._responder.transfer(request, client):
            if last:
                await self._write(writer, last)
                await asyncio.sleep(0)  # other queries are answered, however fast the client reads
            last = message
        return last

    async def _write(self, writer: asyncio.StreamWriter, message: bytes) -> None:
        async with asyncio.timeout(self._limits.idle_seconds):
            writer.write(len(message).to_bytes(2, "big") + message)
            await writer.drain()


def open_sockets(host: str, port: int, *, shared: bool, freebind: bool) -> tuple[socket.socket, socket.socket]:
    """Return a listening TCP socket and a UDP socket. Arguments as for `DnsServer.bind`. Raises CannotServe."""
    for _ in range(0 if port else _PORTS_TRIED - 1):  # what the kernel chooses for TCP may be in use for UDP
        with contextlib.suppress(OSError):
            return _open_pair(host, port, shared, freebind)
    try:
        return _open_pair(host, port, shared, freebind)
    except OSError as error:
        raise CannotServe(f"cannot listen on {host}:{port}: {error.strerror}") from error


def _open_pair(host: str, port: int, shared: bool, freebind: bool) -> tuple[socket.socket, socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as undo:
        tcp = undo.enter_context(_socket(family, socket.SOCK_STREAM, (host, port), shared, freebind))
        tcp.listen(512)
        udp = _socket(family, socket.SOCK_DGRAM, (host, tcp.getsockname()[1]), shared, freebind)
        undo.pop_all()
    return tcp, udp


def _socket(family: int, kind: int, address: tuple[str, int], shared: bool, freebind: bool) -> socket.socket:
    bound = socket.socket(family, kind | socket.SOCK_NONBLOCK)
    try:
        if kind == socket.SOCK_STREAM:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if freebind:
            level, option = (
                (socket.IPPROTO_IPV6, IPV6_FREEBIND) if family == socket.AF_INET6 else (socket.IPPROTO_IP, IP_FREEBIND)
            )
            bound.setsockopt(level, option, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound
