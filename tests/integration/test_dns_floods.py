"""Floods: malformed packets, connections with malformed messages, unknown names.

Meanwhile valid queries are answered, and no table grows without bound.
"""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import struct
import tracemalloc
from collections.abc import Iterable, Iterator

import dnslib
import pytest

from bridgehead.dns.answering import Resolver, Responder, Unresolved
from bridgehead.dns.config import CacheSettings, Server
from bridgehead.dns.serving import DnsServer, Limits
from bridgehead.dns.upstreams.cache import Cache
from bridgehead.dns.upstreams.forward import Forwarder
from tests.unit.dns.answering.test_responder import headless
from tests.unit.dns.world import build_zone, never_resolve, packet, read_objects, ready

from .api_world import running, until
from .dns_world import connection, data_of, framed, read_framed

pytestmark = pytest.mark.integration

WEB = "web.default.svc.cluster.local"
CLUSTER = (
    "{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9}}\n---\n"
    "{kind: Service, metadata: {name: ext}, spec: {type: ExternalName, externalName: ext.default.svc.cluster.local}}\n"
)
PACKETS = 250_000
QUESTION = bytes(packet(WEB))[12:]
HEAD = b"id\1\0\0\1\0\0\0\0\0\0"
SOUND = (
    packet(WEB),
    packet("many.default.svc.cluster.local", edns=1232),
    packet("_x._tcp.many.default.svc.cluster.local", "SRV", edns=600),
    packet("nix.default.svc.cluster.local", "AAAA", edns=4096),
    packet("9.0.96.10.in-addr.arpa", "PTR"),
)
LOOPS = (
    HEAD + b"\xc0\x0c\0\1\0\1",  # a name that begins with itself
    HEAD + b"\3web\xc0\x0c\0\1\0\1",
    HEAD + b"\3web\xc0\x12\xc0\x10\0\1\0\1",  # two that lead to each other
    HEAD + b"\3web\xff\xff\0\1\0\1",
)


def responder() -> Responder:
    return ready(build_zone([*read_objects(CLUSTER), *read_objects(headless(40))]))


def rubbish(seed: int, count: int) -> Iterator[bytes]:
    """Random, damaged, cut, oversized and looping packets. Cheap to make: a slice of noise and of what is sound."""
    dice = random.Random(seed)
    noise = dice.randbytes(1 << 16)
    bases = [*SOUND, *LOOPS, HEAD + QUESTION, HEAD + b"\x3f" * 700]
    offsets = [dice.randrange(len(noise) - 5000) for _ in range(997)]
    for number in range(count):
        at = offsets[number % 997]
        base = bases[number % len(bases)]
        cut = noise[at] % (len(base) + 1)
        match number % 5:
            case 0:
                yield noise[at : at + noise[at + 1] * 2]
            case 1:
                yield base[:cut]
            case 2:
                yield base[:cut] + noise[at : at + 3] + base[cut + 3 :]
            case 3:
                yield base + noise[at : at + (4900 if number % 500 == 3 else noise[at + 1])]
            case _:
                yield base[:2] + noise[at : at + 10] + base[12:]


def test_malformed_packets_leave_no_memory_behind():
    answering = responder()
    flood = rubbish(1, PACKETS)
    feed(answering, flood, 100_000)  # what is remembered once has its place by now
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        feed(answering, flood, 20_000)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()
    feed(answering, flood, PACKETS)
    assert len(dnslib.DNSRecord.parse(answering.respond_untrusted(packet(WEB))).rr) == 1


def feed(answering: Responder, packets: Iterator[bytes], count: int) -> None:
    """Answer all packets, or the first `count`. A reply is for who asked, and never longer than a client without EDNS
    takes, or than we send at all."""
    respond = answering.respond_untrusted
    for number, data in zip(range(count), packets, strict=False):
        reply = respond(data, is_udp=number % 7 != 0)
        if reply is None or isinstance(reply, Unresolved):
            continue
        if reply[:2] != data[:2] or not reply[2] & 0x80 or (number % 7 and len(reply) > 1232):
            pytest.fail(f"{data!r} got {reply!r}")


async def test_malformed_messages_on_the_sockets_do_not_stop_queries():
    """The flood has 50,000 datagrams and 400 connections. UDP queries that it displaced are repeated."""
    answering = responder()

    async def resolve(question: Unresolved, client: str) -> bytes:
        return answering.refuse(question)

    server = DnsServer(answering, resolve, Limits(idle_seconds=5))
    port = server.bind("127.0.0.1", 0)
    async with running(server.run()):
        flood = asyncio.create_task(send_all(port, rubbish(2, 50_000)))
        answered = 0
        try:
            for number in range(400):
                await talk_rubbish(port, number)
                if number % 4 == 0:
                    assert await data_of(port, WEB, tcp=True) == ["10.96.0.9"]
                    await ask_until_answered(port)
                    answered += 1
        finally:
            await flood
        assert answered == 100
        assert await data_of(port, WEB) == ["10.96.0.9"]
    assert server.traffic["udp"].messages > 40_000
    assert server.traffic["tcp"].messages > 300
    assert server.traffic["udp"].malformed > 10_000


async def send_all(port: int, packets: Iterable[bytes]) -> None:
    """Send packets as fast as they are taken; nobody listens to replies."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as udp:
        udp.connect(("127.0.0.1", port))
        for number, data in enumerate(packets):
            udp.send(data)
            if number % 32 == 31:
                await asyncio.sleep(0)


async def ask_until_answered(port: int) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as udp:
        udp.connect(("127.0.0.1", port))
        async with asyncio.timeout(20):
            while True:
                await loop.sock_sendall(udp, packet(WEB))
                try:
                    async with asyncio.timeout(0.5):
                        reply = await loop.sock_recv(udp, 4096)
                except TimeoutError:
                    continue
                assert len(dnslib.DNSRecord.parse(reply).rr) == 1
                return


async def talk_rubbish(port: int, number: int) -> None:
    """Lengths that are lies, empty messages, ends in the middle, and endings without a word."""
    async with connection(port) as (reader, writer):
        dice = random.Random(number)
        match number % 5:
            case 0:
                writer.write(b"\xff\xff" + dice.randbytes(100))  # and never the rest
            case 1:
                writer.write(b"\0\0" * 20)
            case 2:
                writer.write(framed(dice.randbytes(60_000)))
            case 3:
                writer.write(framed(HEAD + QUESTION)[: dice.randrange(2, 30)])
            case _:
                setting = struct.pack("ii", 1, 0)  # closes with a reset
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, setting)
                writer.write(framed(HEAD + QUESTION) * 50)
        if number % 10 == 1:
            assert await reader.read(1) in (b"", b"\0")


async def test_a_flood_of_unknown_names_keeps_cache_and_pending_queries_bounded():
    """The flood has 20,000 different external names."""
    answering = responder()
    loop = asyncio.get_running_loop()

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as upstream:
        upstream.bind(("127.0.0.1", 0))
        loop.add_reader(upstream.fileno(), answer_all, upstream)
        forwarder = Forwarder([Server(*upstream.getsockname())], loop.time)
        cache = Cache(loop.time, CacheSettings(capacity=500))
        resolver = Resolver(answering, {b"\0": forwarder}, cache)
        server = DnsServer(answering, resolver.resolve, Limits(concurrent=100))
        port = server.bind("127.0.0.1", 0)
        async with running(server.run()):
            sent = asyncio.create_task(send_all(port, map(outside, range(20_000))))
            while not sent.done():
                await ask_until_answered(port)
            await sent
            await until(lambda: data_of(port, "name-1.example.com"))  # there is room again for open questions
            assert await data_of(port, WEB) == ["10.96.0.9"]
        loop.remove_reader(upstream.fileno())
    assert 0 < len(cache) <= 500
    assert server.traffic["udp"].messages > 16_000
    assert server.overflows > 1000


def outside(number: int) -> bytes:
    name = b"name-%d" % number
    return b"%c%c" % (number >> 8 & 255, number & 255) + HEAD[2:] + bytes((len(name),)) + name + QUESTION_TAIL


QUESTION_TAIL = b"\7example\3com\0\0\1\0\1"
ANSWER = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1"


def answer_all(upstream: socket.socket) -> None:
    while True:
        try:
            data, client = upstream.recvfrom(4096)
        except BlockingIOError:
            return
        end = data.index(b"\0", 12) + 5
        upstream.sendto(data[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + data[12:end] + ANSWER, client)


@pytest.mark.parametrize("kind", ["A", "AAAA"])
async def test_an_alias_that_is_its_own_target_appears_once(kind):
    """`ext` is an alias of itself."""
    answering = responder()
    resolver = Resolver(answering, {}, Cache(asyncio.get_running_loop().time))
    question = answering.respond_untrusted(packet("ext.default.svc.cluster.local", kind))
    assert isinstance(question, Unresolved)
    reply = dnslib.DNSRecord.parse(await resolver.resolve(question, "10.244.1.2"))
    assert len(reply.rr) == 1


async def test_one_connection_carries_many_pipelined_messages():
    server = DnsServer(responder(), never_resolve)
    port = server.bind("127.0.0.1", 0)
    async with running(server.run()), connection(port) as (reader, writer):
        writer.write(framed(packet(WEB)) * 2000)
        for _ in range(2000):
            assert await read_framed(reader)
