"""The sockets: UDP answered in batches straight from the event loop's reader, TCP with many messages a connection.

`process.py` binds and runs this; what a reply says is `responder.py`'s and `resolver.py`'s business.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from .errors import CannotServe
from .own_address import CONTROL_BYTES, Control, answer_from, is_every_address, tell_addresses
from .responder import Open, Responder, Transfer
from .tallies import Traffic

log = logging.getLogger(__name__)

_BATCH = 64  # packets answered before other tasks get their turn
_LARGEST_QUERY = 4096  # what is longer is no query of this world, and is cut and refused
_BUFFER_BYTES = 4 << 20
_NO_CONTROL: Control = []
_IP_FREEBIND, _IPV6_FREEBIND = 15, 78  # linux/in.h, linux/in6.h; Python has no names for them

Resolve = Callable[[Open, str], Awaitable[bytes]]  # the question, and who asks


Tell = Callable[[tuple[str, int], bytes, bytes | None, str, float], None]


class Limits(NamedTuple):
    """`open_questions` wait for others at one time; TCP connections and their seconds without a message."""

    open_questions: int = 1000
    connections: int = 1000
    idle_seconds: float = 10.0


class DnsServer:
    """One address's sockets. `run` serves until it is cancelled. `tell` hears of every message and its reply."""

    def __init__(
        self,
        responder: Responder,
        resolve: Resolve,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        *,
        tell: Tell | None = None,
    ) -> None:
        self._tell = tell
        self._responder = responder
        self._resolve = resolve
        self._limits = limits
        self._udp: socket.socket | None = None
        self._is_every = False  # address of the machine: replies leave from the one that was asked
        self._tcp: socket.socket | None = None
        self._open = 0
        self._most_open = limits.open_questions
        self._connections: set[asyncio.Task[None]] = set()
        self.place = ("", 0)  # where it serves; "" is every address of a family
        self.is_ipv6 = False
        self.traffic = {"udp": Traffic(), "tcp": Traffic()}
        self.overflows = 0  # queries refused because too many were open

    def bind(self, host: str, port: int, *, shared: bool = False, at_once: bool = False) -> int:
        """Take the address for UDP and TCP; `shared`: with other processes that ask so, too. Returns the port.

        `at_once`: even if this machine does not have the address yet. Raises CannotServe.
        """
        self._tcp, self._udp = take(host, port, shared=shared, at_once=at_once)
        with contextlib.suppress(OSError):
            self._udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._is_every = is_every_address(self._udp)
        if self._is_every:
            tell_addresses(self._udp)
        self.is_ipv6 = ":" in host
        self.place = ("" if self._is_every else host, int(self._tcp.getsockname()[1]))
        return self.place[1]

    def use(self, responder: Responder, resolve: Resolve, tell: Tell | None, most_open: int) -> None:
        """Answer by these from the next message on."""
        self._most_open = most_open
        self._responder = responder
        self._resolve = resolve
        self._tell = tell

    def close(self) -> None:
        for bound in (self._udp, self._tcp):
            if bound is not None:
                bound.close()
        self._udp = self._tcp = None

    async def run(self) -> None:
        """Answer until cancelled. `bind` comes first."""
        if self._udp is None or self._tcp is None:
            raise CannotServe("nothing is bound")
        loop = asyncio.get_running_loop()
        udp, tcp = self._udp, self._tcp
        try:
            async with asyncio.TaskGroup() as tasks:
                server = await asyncio.start_server(self._converse, sock=tcp)
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
        is_every, control = self._is_every, _NO_CONTROL
        respond, traffic = self._responder.respond_untrusted, self.traffic["udp"]
        query_sizes, reply_sizes = traffic.query_sizes, traffic.reply_sizes
        begun = came = time.perf_counter()
        later = 0
        for done in range(_BATCH):
            try:
                if is_every:
                    data, control, _, client = udp.recvmsg(_LARGEST_QUERY, CONTROL_BYTES)
                else:
                    data, client = receive(_LARGEST_QUERY)
            except BlockingIOError:
                self._time(done - later, begun)
                return
            except OSError as error:  # an ICMP error that came back for an earlier reply
                log.debug("receiving: %s", error)
                continue
            if self._tell is not None:
                came = time.perf_counter()
            reply = respond(data, traffic=traffic)
            if isinstance(reply, Open):
                later += 1
                self._ask_others(reply, data, udp, client, control, tasks)
                continue
            query_sizes[len(data)] += 1
            if isinstance(reply, bytes):
                reply_sizes[len(reply)] += 1
                try:
                    if is_every:
                        udp.sendmsg((reply,), answer_from(control), 0, client)
                    else:
                        send(reply, client)
                except OSError as error:  # the client's business: it is gone, or nobody can reach its address
                    log.debug("a reply to %s could not be sent: %s", client[0], error)
            if self._tell is not None:
                answered = reply if isinstance(reply, bytes) else None
                self._tell(client, data, answered, "udp", time.perf_counter() - came)
        self._time(_BATCH - later, begun)

    def _time(self, answered: int, begun: float) -> None:
        """After a batch, whose messages share its time: a look at the clock for each is not worth what it costs."""
        if answered > 0:
            self.traffic["udp"].durations.add((time.perf_counter() - begun) / answered, answered)

    def _ask_others(
        self,
        question: Open,
        data: bytes,
        udp: socket.socket,
        client: tuple[str, int],
        control: Control,
        tasks: asyncio.TaskGroup,
    ) -> None:
        if self._open >= self._most_open:
            self.overflows += 1
            refusal = self._responder.refuse(question)
            self.traffic["udp"].add_late(data, refusal, 0.0)
            self._send(udp, refusal, client, control)
            return
        self._open += 1

        async def work() -> None:
            begun = time.perf_counter()
            try:
                reply = await self._resolve(question, client[0])
            finally:
                self._open -= 1
            self._send(udp, reply, client, control)
            seconds = time.perf_counter() - begun
            self.traffic["udp"].add_late(data, reply, seconds)
            if self._tell is not None:
                self._tell(client, data, reply, "udp", seconds)

        tasks.create_task(work())

    def _send(self, udp: socket.socket, reply: bytes, client: tuple[str, int], control: Control) -> None:
        try:
            udp.sendmsg((reply,), answer_from(control), 0, client)
        except OSError as error:
            log.debug("a reply to %s could not be sent: %s", client[0], error)

    # --- TCP -------------------------------------------------------------------------------------------------

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
                begun, traffic = time.perf_counter(), self.traffic["tcp"]
                found = self._responder.respond_untrusted(data, is_udp=False, traffic=traffic)
                reply = await self._whole(found, client[0], writer)
                seconds = time.perf_counter() - begun
                if reply is None or reply is found:
                    traffic.add_sizes(data, reply)
                    traffic.durations.add(seconds)
                else:
                    traffic.add_late(data, reply, seconds)
                if self._tell is not None:
                    self._tell(client, data, reply, "tcp", seconds)
                if reply is None:
                    break
                await self._write(writer, reply)
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            pass  # it has nothing more to say, or does not listen
        except asyncio.CancelledError:
            pass  # the server ends; nobody waits for this task, and asyncio would log that it was cancelled
        finally:
            self._connections.discard(task)
            writer.close()

    async def _whole(
        self, found: bytes | Open | Transfer | None, client: str, writer: asyncio.StreamWriter
    ) -> bytes | None:
        if isinstance(found, Transfer):
            return await self._transfer(found, client, writer)
        if isinstance(found, Open):
            return await self._resolve(found, client)
        return found

    async def _transfer(self, wanted: Transfer, client: str, writer: asyncio.StreamWriter) -> bytes:
        """Send the whole zone, if the client may have it. Returns the last message, which is still to be sent."""
        last = b""
        for message in self._responder.transfer(wanted, client):
            if last:
                await self._write(writer, last)
                await asyncio.sleep(0)  # queries have their turn even if the client reads as fast as we write
            last = message
        return last

    async def _write(self, writer: asyncio.StreamWriter, message: bytes) -> None:
        async with asyncio.timeout(self._limits.idle_seconds):
            writer.write(len(message).to_bytes(2, "big") + message)
            await writer.drain()


def take(host: str, port: int, *, shared: bool, at_once: bool) -> tuple[socket.socket, socket.socket]:
    """The address for TCP, with connections coming in, and for UDP. Raises CannotServe; arguments as for `bind`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as undo:
        try:
            tcp = undo.enter_context(_socket(family, socket.SOCK_STREAM, (host, port), shared, at_once))
            port = tcp.getsockname()[1]
            tcp.listen(512)
            udp = _socket(family, socket.SOCK_DGRAM, (host, port), shared, at_once)
        except OSError as error:
            raise CannotServe(f"cannot listen on {host}:{port}: {error.strerror}") from error
        undo.pop_all()
    return tcp, udp


def _socket(family: int, kind: int, address: tuple[str, int], shared: bool, at_once: bool) -> socket.socket:
    made = socket.socket(family, kind | socket.SOCK_NONBLOCK)
    try:
        if kind == socket.SOCK_STREAM:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if at_once:
            level, option = (
                (socket.IPPROTO_IPV6, _IPV6_FREEBIND)
                if family == socket.AF_INET6
                else (socket.IPPROTO_IP, _IP_FREEBIND)
            )
            made.setsockopt(level, option, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made
