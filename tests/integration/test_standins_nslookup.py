"""The built-in nslookup prints what BusyBox's prints: both ask the same servers in a namespace."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dnslib
import pytest

from bridgehead.client import ApiClient
from bridgehead.objects.kinds import ENDPOINT_SLICES, SERVICES

from .api_world import api_world
from .busybox_comparison import Output, compare, needs_same_version, without_version
from .dns_world import dns
from .namespaced import in_namespace

pytestmark = [pytest.mark.integration, pytest.mark.needs("busybox"), needs_same_version]

SEARCH = "search default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
WEB = "web.default.svc.cluster.local"
CLUSTER = (
    ("web",),
    (WEB,),
    (f"{WEB}.",),
    ("web.default",),  # a name with a dot is a whole one
    ("web.default", "127.0.0.1"),
    ("nosuch",),
    ("nosuch", "127.0.0.1"),  # no search domains with an explicit server
    (WEB, "localhost"),
    (WEB, "127.0.0.1:53"),
    ("kubernetes.default.svc.cluster.local",),
    ("outside",),
    ("-type=srv", "_http._tcp.db.default.svc.cluster.local"),
    ("-type=cname", "outside.default.svc.cluster.local"),
    ("-type=srv", f"_http._tcp.{WEB}"),
    ("-type=srv", "_http._tcp.web"),
    ("-q=SRV", f"_http._tcp.{WEB}", "127.0.0.1"),
    ("-type=soa", "cluster.local"),
    ("-type=ns", "cluster.local"),
    ("-type=txt", "dns-version.cluster.local"),
    ("-type=a", "web"),
    ("-type=aaaa", WEB),
    ("-type=mx", WEB),
    ("-type=ptr", "10.96.0.1"),
    ("-type=a", "-type=soa", WEB),
    ("10.96.0.80",),
    ("10.244.1.9",),
    ("fd00::1",),
    ("::ffff:10.96.0.80",),
    ("example.com",),
    (f"{'a' * 64}.cluster.local", "127.0.0.1"),
    ("a..b",),
)
USAGE = ((), ("-type=srv",), ("a", "b", "c"), ("-nosuch", "a"), ("-", "a"))
INVALID = (
    ("-type=nosuch", "a"),
    ("-type", "a"),
    ("-port=0", "a"),
    ("-port=65536", "a"),
    ("-retry=+1", "a"),
    ("-timeout=x", "a"),
    ("a", "nosuchserver"),
    ("a", "127.0.0.1:x"),
    ("a", "127.0.0.1:65536"),
    ("a", "10.9.9.9"),  # no route
)


def in_any_order(output: Output) -> Output:
    """Sort the replies, and the lines of each."""
    server, *replies = output.stdout.split("\n\n")
    replies = ["\n".join(sorted(reply.split("\n"))) for reply in replies]
    return output._replace(stdout="\n\n".join([server, *sorted(replies)]))


def use_resolver(text: str) -> None:
    file = Path("/run/resolv.conf")
    file.write_text(text)
    subprocess.run(["mount", "--bind", str(file), "/etc/resolv.conf"], check=True)


@in_namespace
async def test_it_prints_what_busybox_prints_for_the_cluster_dns() -> None:
    use_resolver(f"nameserver 127.0.0.1\n{SEARCH}")
    async with api_world() as world, ApiClient(world.config) as client:
        ports = [{"name": "http", "port": 80}]
        for name, spec in (
            ("web", {"ports": ports, "clusterIP": "10.96.0.80"}),
            ("db", {"ports": ports, "clusterIP": "None"}),  # with two addresses, in any order
            ("outside", {"type": "ExternalName", "externalName": WEB}),
        ):
            await client.create(SERVICES, {"metadata": {"name": name}, "spec": spec}, "default")
        pods = {
            "metadata": {"name": "db-x", "labels": {"kubernetes.io/service-name": "db"}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{"addresses": [f"10.244.1.{number}"], "hostname": f"db-{number}"} for number in (8, 9)],
        }
        await client.create(ENDPOINT_SLICES, pods, "default")
        async with dns(client, listen=(("127.0.0.1", 53),)):
            await asyncio.to_thread(compare, "nslookup", CLUSTER, in_any_order)
    compare("nslookup", INVALID)
    compare("nslookup", USAGE, without_version)


# --- servers that misbehave -------------------------------------------------------------------------------------------

Reply = Callable[[bytes, dnslib.DNSRecord], Sequence[bytes]]


def zone(text: str, *, rcode: int = 0, aa: int = 1) -> Reply:
    def reply(message: bytes, query: dnslib.DNSRecord) -> list[bytes]:
        answer = query.reply(aa=aa)
        answer.header.rcode = rcode
        answer.add_answer(*dnslib.RR.fromZone(text))
        return [answer.pack()]

    return reply


def data(type: int, rdata: bytes) -> Reply:
    """One record of any data."""

    def reply(message: bytes, query: dnslib.DNSRecord) -> list[bytes]:
        record = b"\xc0\x0c" + type.to_bytes(2, "big") + b"\0\1\0\0\0\5" + len(rdata).to_bytes(2, "big") + rdata
        header = message[:2] + b"\x85\x80\0\1\0\1\0\0\0\0"
        return [header + message[12:] + record]

    return reply


def raw(*parts: bytes) -> Reply:
    return lambda message, query: [message[:2] + part for part in parts]


def only_a(message: bytes, query: dnslib.DNSRecord) -> Sequence[bytes]:
    return zone("only-a.x 5 A 10.0.0.1")(message, query) if query.q.qtype == 1 else ()


def recovering() -> Reply:
    """SERVFAIL once for each query, then an answer. Both programs ask for the name."""
    failed: set[bytes] = set()

    def reply(message: bytes, query: dnslib.DNSRecord) -> Sequence[bytes]:
        if message in failed:
            failed.remove(message)
            return zone("recovers.x 5 A 10.0.0.1")(message, query)
        failed.add(message)
        return zone("", rcode=2)(message, query)

    return reply


HEADER = b"\x85\x80\0\1\0\1\0\0\0\0"
ODD: dict[str, Reply] = {
    "all.x": zone(
        "all.x 5 A 10.0.0.1\nall.x 5 AAAA fd00::1\nall.x 5 AAAA ::ffff:102:304\nall.x 5 MX 10 mail.x\n"
        'all.x 5 TXT "a b" "c"\nall.x 5 NS ns.x\nall.x 5 CNAME other.x\nall.x 5 PTR a.x\n'
        "all.x 5 SRV 1 2 3 target.x\nall.x 5 SOA ns.x mail.x 1 2 3 4 4294967295\nall.x 5 NAPTR 1 1 a b c .\n"
    ),
    "recursive.x": zone("recursive.x 5 A 10.0.0.1", aa=0),
    "empty.x": zone(""),
    "empty-recursive.x": zone("", aa=0),
    **{f"rcode-{code}.x": zone("", rcode=code) for code in range(1, 16)},
    "long.x": zone("\n".join(f"long.x 5 A 10.0.{number}.1" for number in range(60))),
    "only-a.x": only_a,
    "recovers.x": recovering(),
    "silent.x": lambda message, query: (),
    "short.x": raw(b"", b"\x85", b"\x85\x80"),
    "header.x": raw(HEADER),
    "no-header.x": raw(b"\x85\x80\0\1\0\1"),
    "other-id.x": lambda message, query: [b"\0\0" + message[2:], *zone("other-id.x 5 A 10.0.0.1")(message, query)],
    "twice.x": lambda message, query: [*zone("twice.x 5 A 10.0.0.1")(message, query)] * 2,
    "trailing.x": lambda message, query: [zone("trailing.x 5 A 10.0.0.1")(message, query)[0] + b"\0"],
    "loop.x": lambda message, query: [message[:2] + HEADER + b"\xc0\x0c\0\1\0\1\xc0\x0c\0\1\0\1\0\0\0\5\0\4abcd"],
    "label.x": lambda message, query: [message[:2] + HEADER + b"\x80\x0c\0\1\0\1"],
    "forward.x": data(5, b"\xc0\xff"),
    "escapes.x": data(12, b'\x08a.b;c\\"@\x02\x01\xff\0'),
    "root.x": data(12, b"\0"),
    "a-short.x": data(1, b"abc"),
    "aaaa-short.x": data(28, b"abcd"),
    "mx-short.x": data(15, b"a"),
    "mx-root.x": data(15, b"\0\1\0"),
    "srv-short.x": data(33, b"12345"),
    "soa-short.x": data(6, b"\0\0"),
    "txt-empty.x": data(16, b"\0"),
    "txt-none.x": data(16, b""),
    "txt-bytes.x": data(16, b"\x04a\xffb\x1b"),
    "txt-nul.x": data(16, b"\x03a\0b"),
}


@contextlib.contextmanager
def odd_server() -> Iterator[None]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, ThreadPoolExecutor(1) as threads:
        udp.bind(("127.0.0.1", 53))
        served = threads.submit(serve_odd_replies, udp)
        try:
            yield
        finally:
            udp.sendto(b"end", udp.getsockname())
        served.result(10)


def serve_odd_replies(udp: socket.socket) -> None:
    while (received := udp.recvfrom(512))[0] != b"end":
        message, client = received
        query = dnslib.DNSRecord.parse(message)
        for reply in ODD.get(str(query.q.qname).rstrip("."), zone("", rcode=3))(message, query):
            udp.sendto(reply, client)


@in_namespace
def test_it_prints_what_busybox_prints_for_odd_replies() -> None:
    with odd_server():
        compare("nslookup", [("-timeout=1", "-retry=1", name, "127.0.0.1") for name in ODD])
        compare(
            "nslookup",
            [("-type=any", "all.x", "127.0.0.1"), ("-debug", "-type=any", "-timeout=1", "silent.x", "127.0.0.1")],
        )


CONFIGURATIONS = (
    "",
    "nameserver 127.0.0.1\nnameserver 127.0.0.2\n",
    "nameserver 127.0.0.2\nnameserver 127.0.0.1\n",  # nobody is at the first one
    "domain a.x\nnameserver 127.0.0.1\n",
    "search b.x\ndomain a.x\n",
    "domain a.x\nsearch b.x a.x\n",
    "search a.x\nsearch b.x\n",
    "search\ta.x \t b.x \n",
    "search .\n",
    "search\nnameserver\n# nameserver 127.0.0.3\n\n",
    f"search a.x {' '.join(letter * 50 + '.x' for letter in 'abcdefghij')} b.x\n",
)
ODD |= {name: zone(f"{name} 5 A 10.0.0.1") for name in ("host", "host.a.x", "host.b.x")}


@in_namespace
def test_it_reads_the_configuration_as_busybox_does() -> None:
    with odd_server():
        for text in CONFIGURATIONS:
            use_resolver(text)
            compare("nslookup", [("-timeout=1", "-type=a", "host")])
