"""A DNS server on loopback that follows a real API server, and upstreams that can misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import dnslib

from bridgehead.client import ApiClient
from bridgehead.dns.config import DnsConfig, Server
from bridgehead.dns.process import run

from .api_world import DEADLINE, running, until

LOOPBACK = ("127.0.0.1", 0)


@contextlib.asynccontextmanager
async def dns(client: ApiClient, changes: Any = None, **options: Any) -> AsyncIterator[int]:
    """Yield the port of a server that is ready."""
    pages = {"health": None, "ready": None, "metrics": None}
    config = DnsConfig(**{"listen": (LOOPBACK,), "upstreams": (), **pages, **options})
    ports: asyncio.Queue[int] = asyncio.Queue()
    async with running(run(client, config, changes=changes, on_bound=ports.put_nowait)):
        async with asyncio.timeout(DEADLINE):
            port = await ports.get()

        async def is_ready() -> bool:
            return (await ask(port, config.zone.domain, "SOA")).header.rcode == dnslib.RCODE.NOERROR

        await until(is_ready)
        yield port


async def send(port: int, query: bytes) -> bytes:
    """One datagram there and one back."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as udp:
        udp.connect(("127.0.0.1", port))
        await loop.sock_sendall(udp, query)
        async with asyncio.timeout(DEADLINE):
            return await loop.sock_recv(udp, 65535)


async def ask(port: int, name: str, kind: str = "A", *, tcp: bool = False) -> dnslib.DNSRecord:
    query = bytes(dnslib.DNSRecord.question(name, kind).pack())
    if not tcp:
        return dnslib.DNSRecord.parse(await send(port, query))
    async with connection(port) as (reader, writer):
        writer.write(framed(query))
        return dnslib.DNSRecord.parse(await read_framed(reader))


async def data_of(port: int, name: str, kind: str = "A", **options: Any) -> list[str]:
    return sorted(str(rr.rdata) for rr in (await ask(port, name, kind, **options)).rr)


@contextlib.asynccontextmanager
async def connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(2, "big") + message


async def read_framed(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))


async def dig(port: int, *arguments: str) -> list[str]:
    """Return the output of the command, line by line."""
    process = await asyncio.create_subprocess_exec(
        "dig",
        "@127.0.0.1",
        "-p",
        str(port),
        "+tries=1",
        f"+time={DEADLINE:.0f}",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE):
        out, _ = await process.communicate()
    return out.decode().splitlines()


Answer = Callable[[dnslib.DNSRecord, bool], list[bytes]]


class FakeUpstream:
    """Sends the messages that `answer(query, over_tcp)` returns, or none. `asked` are the questions that came.

    With `tls`, it expects TLS on TCP. It ends a connection after `patience` questions; `open` are the connections it
    has.
    """

    def __init__(self, answer: Answer, *, tls: ssl.SSLContext | None = None, patience: int = 1) -> None:
        self.answer = answer
        self._tls = tls
        self._patience = patience
        self.connections = 0
        self.open: set[asyncio.StreamWriter] = set()
        self.asked: list[str] = []
        self.ports: list[int] = []
        self.ids: list[int] = []
        self._udp: asyncio.DatagramTransport | None = None
        self._tcp: asyncio.Server | None = None
        self.server = Server("127.0.0.1", 0)

    async def __aenter__(self) -> FakeUpstream:
        fake = self

        class Protocol(asyncio.DatagramProtocol):
            transport: asyncio.DatagramTransport

            def connection_made(self, transport: Any) -> None:
                self.transport = transport

            def datagram_received(self, data: bytes, client: Any) -> None:
                fake.ports.append(client[1])
                for message in fake.messages(data, over_tcp=False):
                    self.transport.sendto(message, client)

        loop = asyncio.get_running_loop()
        while self._udp is None:
            self._tcp = await asyncio.start_server(self._converse, *LOOPBACK, ssl=self._tls)
            self.server = Server(*self._tcp.sockets[0].getsockname())
            try:
                self._udp, _ = await loop.create_datagram_endpoint(Protocol, (self.server.host, self.server.port))
            except OSError:  # somebody has the same port of UDP
                self._tcp.close()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._udp is not None:
            self._udp.close()
        if self._tcp is not None:
            self._tcp.close()
            for writer in self.open:
                writer.transport.abort()
            await until(lambda: asyncio.sleep(0, not self.open))  # no socket is left to a loop that ends
            await self._tcp.wait_closed()

    def messages(self, data: bytes, *, over_tcp: bool) -> list[bytes]:
        query = dnslib.DNSRecord.parse(data)
        self.asked.append(f"{query.q.qname} {dnslib.QTYPE[query.q.qtype]}")
        self.ids.append(query.header.id)
        return self.answer(query, over_tcp)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        try:
            for _ in range(self._patience):
                for message in self.messages(await read_framed(reader), over_tcp=True):
                    writer.write(framed(message))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # enough was asked
        finally:
            self.open.discard(writer)
            writer.close()


def always(*records: str, rcode: str = "NOERROR", authority: tuple[str, ...] = ()) -> Answer:
    """An upstream that always answers with these records, in a zone file's notation."""

    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        reply = query.reply(aa=0)
        reply.header.rcode = getattr(dnslib.RCODE, rcode)
        for line in records:
            reply.add_answer(*dnslib.RR.fromZone(line))
        for line in authority:
            reply.add_auth(*dnslib.RR.fromZone(line))
        reply.add_ar(dnslib.EDNS0(udp_len=4096))
        return [bytes(reply.pack())]

    return answer
