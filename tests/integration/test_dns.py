"""The DNS server over its sockets: dig sees what the API server has, also while it is away."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import re
import socket
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dnslib
import pytest

from bridgehead.client import ApiClient
from bridgehead.dns import zone_sync as module
from bridgehead.dns.config import CacheSettings, DnsConfig, Server, ZoneSettings
from bridgehead.dns.corefile import Inputs, only_when_changed, read_corefile
from bridgehead.dns.corefile.directives.rewrite import make_rule
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.instance import own_addresses
from bridgehead.dns.process import watch_file
from bridgehead.dns.serving import DnsMetrics, DnsServer, Limits, QueryLog
from bridgehead.dns.serving import server as server_module
from bridgehead.dns.zone import Zone, endpoints_by_address
from bridgehead.dns.zone_sync import ZoneSync
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES, SERVICES
from tests.unit.dns.world import build_zone, never_resolve, packet, read_objects, ready

from .api_world import DEADLINE, api_world, running, until
from .dns_world import ask, connection, data_of, dig, dns, framed, read_framed, send
from .namespaced import in_namespace, sh

pytestmark = pytest.mark.integration

WEB = "web.default.svc.cluster.local"


def service(name: str, **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"name": "http", "port": 80}], **spec}}


def slice_of(name: str, *addresses: str):
    return {
        "metadata": {"name": f"{name}-x", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": [address]} for address in addresses],
    }


async def test_answers_follow_changes_of_the_cluster():
    async with api_world() as world, ApiClient(world.config) as client:
        before = await client.create(SERVICES, service("before"), "default")
        async with dns(client) as port:
            assert await data_of(port, "before.default.svc.cluster.local") == [before.spec.cluster_ip]
            assert (await ask(port, WEB)).header.rcode == dnslib.RCODE.NXDOMAIN

            web = await client.create(SERVICES, service("web"), "default")
            assert await until(lambda: data_of(port, WEB)) == [web.spec.cluster_ip]
            assert await data_of(port, dnslib.label(_reverse(web.spec.cluster_ip)), "PTR") == [f"{WEB}."]

            await client.create(SERVICES, service("db", clusterIP="None"), "default")
            await client.create(ENDPOINT_SLICES, slice_of("db", "10.244.1.2", "10.244.1.3"), "default")
            assert await until(lambda: data_of(port, "db.default.svc.cluster.local")) == ["10.244.1.2", "10.244.1.3"]
            patch = {"endpoints": [{"addresses": ["10.244.1.3"]}]}
            await client.patch(ENDPOINT_SLICES, "db-x", "default", patch)
            await until(lambda: _is(data_of(port, "db.default.svc.cluster.local"), ["10.244.1.3"]))
            assert await data_of(port, "2.1.244.10.in-addr.arpa", "PTR") == []

            # Endpoints that the specification does not know follow, too.
            await client.create(ENDPOINT_SLICES, slice_of("web", "10.244.1.7"), "default")
            assert await until(lambda: data_of(port, f"10-244-1-7.{WEB}")) == ["10.244.1.7"]
            assert await data_of(port, "7.1.244.10.in-addr.arpa", "PTR") == [f"10-244-1-7.{WEB}."]
            endpoints = [{"addresses": [address]} for address in ("10.244.1.8", "10.244.1.3")]
            await client.patch(ENDPOINT_SLICES, "web-x", "default", {"endpoints": endpoints})
            await until(lambda: _is(_rcode(port, f"10-244-1-7.{WEB}"), "NXDOMAIN"))
            assert await data_of(port, "7.1.244.10.in-addr.arpa", "PTR") == []
            both = [f"10-244-1-3.{name}.default.svc.cluster.local." for name in ("db", "web")]
            assert await data_of(port, "3.1.244.10.in-addr.arpa", "PTR") == both
            assert await data_of(port, WEB, "SRV") == [f"0 100 80 {WEB}."]

            await client.delete(SERVICES, "web", "default")
            await until(lambda: _is(_rcode(port, WEB), "NXDOMAIN"))
            assert await _rcode(port, f"10-244-1-8.{WEB}") == "NXDOMAIN"
            assert await data_of(port, "3.1.244.10.in-addr.arpa", "PTR") == both[:1]
            assert await data_of(port, "8.1.244.10.in-addr.arpa", "PTR") == []


async def test_a_slice_is_read_once_for_the_names_of_all_its_addresses(monkeypatch):
    read = []

    def note(one: EndpointSlice) -> Any:
        read.append(one)
        return endpoints_by_address(one)

    monkeypatch.setattr(module, "endpoints_by_address", note)
    async with api_world() as world, ApiClient(world.config) as client:
        zone = Zone()
        zone_sync = ZoneSync(client, zone, DnsMetrics())
        await client.create(SERVICES, service("db", clusterIP="None"), "default")
        await client.create(ENDPOINT_SLICES, slice_of("db", *(f"10.244.1.{n}" for n in range(100))), "default")
        async with running(zone_sync.run()):
            await zone_sync.wait_synced()
            assert len(read) == 1
            await client.delete(ENDPOINT_SLICES, "db-x", "default")
            await until(lambda: asyncio.sleep(0, list(zone.find_reverse("10.244.1.7")) == []))
            await client.create(ENDPOINT_SLICES, slice_of("db", "10.244.1.7", "10.244.1.8"), "default")
            await until(lambda: asyncio.sleep(0, len(list(zone.find_reverse("10.244.1.7"))) == 1))
        assert len(read) == 2


async def test_the_name_server_has_the_addresses_of_its_service():
    """CoreDNS finds its Services by its own addresses; `kube-dns` goes first."""
    ns = "ns.dns.cluster.local"
    async with api_world() as world, ApiClient(world.config) as client:
        zone = Zone()
        zone_sync = ZoneSync(client, zone, DnsMetrics(), own_addresses=("10.244.1.2", "10.244.1.3"))
        responder = ready(zone)

        async def addresses() -> list[str]:
            reply = dnslib.DNSRecord.parse(responder.respond_untrusted(packet(ns)))
            glue = dnslib.DNSRecord.parse(responder.respond_untrusted(packet("cluster.local", "NS"))).ar
            assert sorted(str(rr.rdata) for rr in reply.rr) == sorted(str(rr.rdata) for rr in glue)
            return sorted(str(rr.rdata) for rr in reply.rr)

        async with running(zone_sync.run()):
            await zone_sync.wait_synced()
            assert await addresses() == ["10.244.1.2", "10.244.1.3"]
            other = await client.create(SERVICES, service("dns"), "default")
            await client.create(ENDPOINT_SLICES, slice_of("dns", "10.244.1.2"), "default")
            await until(lambda: _is(addresses(), [other.spec.cluster_ip]))
            spec = {"clusterIP": "10.96.0.10", "ports": [{"port": 53, "protocol": "UDP"}]}
            await client.create(SERVICES, {"metadata": {"name": "kube-dns"}, "spec": spec}, "kube-system")
            await until(lambda: _is(addresses(), ["10.96.0.10"]))
            await client.delete(SERVICES, "kube-dns", "kube-system")
            await until(lambda: _is(addresses(), [other.spec.cluster_ip]))
            await client.delete(ENDPOINT_SLICES, "dns-x", "default")
            await until(lambda: _is(addresses(), ["10.244.1.2", "10.244.1.3"]))


FIB_TRIE = """Local:
  +-- 0.0.0.0/0 3 0 5
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.1
           /32 host LOCAL
     |-- 10.244.1.2
        /32 host LOCAL
     |-- 10.244.1.255
        /32 link BROADCAST
"""
IF_INET6 = """fd001024400010000000000000000002 02 40 00 80 eth0
fe80000000000000000000000000000a 02 40 20 80 eth0
00000000000000000000000000000001 01 80 10 80 lo
"""


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        (("",), ("10.244.1.2", "fd00:1024:4000:1000::2")),
        (("127.0.0.1", "10.0.0.7"), ("10.0.0.7",)),
        (("0.0.0.0", "10.0.0.7"), ("10.0.0.7", "10.244.1.2", "fd00:1024:4000:1000::2")),
        ((), ()),
    ],
)
def test_own_addresses_are_those_that_clients_can_use(tmp_path: Path, listen, expected):
    ipv4, ipv6 = tmp_path / "fib_trie", tmp_path / "if_inet6"
    ipv4.write_text(FIB_TRIE)
    ipv6.write_text(IF_INET6)
    addresses = [(host, 53) for host in listen]
    assert own_addresses(addresses, ipv4, ipv6) == expected
    assert own_addresses(addresses, ipv4, tmp_path / "none") == tuple(one for one in expected if ":" not in one)


async def test_only_the_configured_namespaces_have_names():
    async with api_world() as world, ApiClient(world.config) as client:
        web = await client.create(SERVICES, service("web"), "default")
        await client.create(SERVICES, service("web"), "kube-system")
        settings = ZoneSettings(namespaces=("default",))
        async with dns(client, zone=settings) as port:
            assert await data_of(port, WEB) == [web.spec.cluster_ip]
            for name in ("web.kube-system.svc.cluster.local", "kube-system.svc.cluster.local"):
                assert await _rcode(port, name) == "NXDOMAIN"
            assert await _rcode(port, "10-0-0-1.kube-system.pod.cluster.local") == "NXDOMAIN"


async def test_answers_survive_an_outage_of_the_api_server_and_catch_up_after_it():
    async with api_world() as world, ApiClient(world.config) as client:
        web = await client.create(SERVICES, service("web"), "default")
        async with dns(client) as port:
            await world.stop()
            assert await data_of(port, WEB) == [web.spec.cluster_ip]
            await world.start()
            await client.create(SERVICES, service("later"), "default")
            assert await until(lambda: data_of(port, "later.default.svc.cluster.local"))


@pytest.mark.needs("dig")
async def test_an_allowed_client_gets_a_zone_transfer_while_queries_are_answered():
    async with api_world() as world, ApiClient(world.config) as client:
        for name in ("many", "more"):
            await client.create(SERVICES, service(name, clusterIP="None"), "default")
            addresses = [f"10.244.{n >> 8}.{n & 255}" for n in range(1000)]
            await client.create(ENDPOINT_SLICES, slice_of(name, *addresses), "default")
        allowed = (ipaddress.ip_network("127.0.0.0/8"),)
        async with dns(client, transfer_to=allowed) as port:
            more = "more.default.svc.cluster.local"
            await until(lambda: data_of(port, more, tcp=True))
            records = [line.split() for line in await dig(port, "axfr", "cluster.local", "+noall", "+answer")]
            assert records[0] == records[-1]
            assert records[0][3] == "SOA"
            assert len([record for record in records if record[0] == f"{more}." and record[3] == "A"]) == 1000
            # A client that asks and does not read keeps no other waiting.
            async with connection(port) as (reader, writer):
                writer.write(framed(bytes(dnslib.DNSRecord.question("cluster.local", "AXFR").pack())) * 20)
                assert await data_of(port, more, tcp=True)
                first = dnslib.DNSRecord.parse(await read_framed(reader))
                assert first.rr[0].rtype == dnslib.QTYPE.SOA
        async with dns(client) as port:
            assert (await ask(port, "cluster.local", "AXFR", tcp=True)).header.rcode == dnslib.RCODE.REFUSED


@pytest.mark.needs("dig")
async def test_dig_sees_only_the_names_of_a_rewritten_domain():
    rule = make_rule("suffix", ".corp.example", ".default.svc.cluster.local", is_last=True, is_auto=True)
    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(SERVICES, service("db", clusterIP="None"), "default")
        await client.create(ENDPOINT_SLICES, slice_of("db", "10.244.1.2"), "default")
        async with dns(client, rewrites=(rule,)) as port:
            await until(lambda: data_of(port, "db.default.svc.cluster.local"))
            output = await dig(port, "_http._tcp.db.corp.example", "SRV", "+noall", "+answer", "+additional")
    assert [line.split() for line in output] == [
        ["_http._tcp.db.corp.example.", "5", "IN", "SRV", "0", "100", "8080", "10-244-1-2.db.corp.example."],
        ["10-244-1-2.db.corp.example.", "5", "IN", "A", "10.244.1.2"],
    ]


@pytest.mark.needs("dig")
async def test_dig_accepts_the_answers():
    async with api_world() as world, ApiClient(world.config) as client:
        addresses = [f"10.244.{n >> 8}.{n & 255}" for n in range(200)]
        await client.create(SERVICES, service("many", clusterIP="None"), "default")
        await client.create(ENDPOINT_SLICES, slice_of("many", *addresses), "default")
        await client.create(SERVICES, service("ext", type="ExternalName", externalName=WEB), "default")
        web = await client.create(SERVICES, service("web"), "default")
        async with dns(client) as port:
            assert await dig(port, "+short", WEB) == [web.spec.cluster_ip]
            assert await dig(port, "+short", "-x", web.spec.cluster_ip) == [f"{WEB}."]
            assert await dig(port, "+short", f"_http._tcp.{WEB}", "SRV") == [f"0 100 80 {WEB}."]
            assert await dig(port, "+short", "ext.default.svc.cluster.local") == [f"{WEB}.", web.spec.cluster_ip]
            many = "many.default.svc.cluster.local"
            for option in ("+tcp", "+notcp", "+noedns"):  # a cut answer makes dig ask again over TCP
                assert sorted(await dig(port, "+short", option, many)) == sorted(addresses)
            assert len(await dig(port, "+short", "+ignore", many)) < 200
            shown = "\n".join(await dig(port, "+ednsopt=65001:0102", "+bufsize=4096", "nix.cluster.local"))
            for text in ("status: NXDOMAIN", "flags: qr aa rd;", "cluster.local.\t\t0\tIN\tSOA"):
                assert text in shown
            assert "status: BADVERS" in "\n".join(await dig(port, "+edns=1", "+noednsneg", WEB))


async def test_a_tcp_connection_carries_many_messages_and_an_invalid_one_closes_it():
    responder = ready(build_zone(read_objects("{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9}}")))
    server = DnsServer(responder, never_resolve, Limits(idle_seconds=20, connections=2))
    port = server.bind("127.0.0.1", 0)

    async def there_are(count: int) -> None:
        await until(lambda: asyncio.sleep(0, len(server._connections) == count))

    async with running(server.run()):
        query = bytes(dnslib.DNSRecord.question(WEB).pack())
        async with connection(port) as (reader, writer):
            for _ in range(3):
                writer.write(framed(query) * 5)
                for _ in range(5):
                    assert len(dnslib.DNSRecord.parse(await read_framed(reader)).rr) == 1
        async with connection(port) as (reader, writer):
            writer.write(framed(b"\xff" * 40))  # a reply
            assert await reader.read() == b""
        await there_are(0)
        async with connection(port) as (one, writer), connection(port):
            await there_are(2)
            async with connection(port) as (three, _):
                assert await three.read() == b""  # too many
            writer.write(framed(query))
            assert await read_framed(one)  # those that were there before are not
        await there_are(0)
        assert await data_of(port, WEB, tcp=True) == ["10.96.0.9"]
        assert server.traffic["tcp"].messages == 18


def test_another_port_is_chosen_if_the_first_is_in_use_for_udp(monkeypatch):
    real, refused = server_module._socket, []

    def refuse_once(family, kind, address, *others):
        if kind == socket.SOCK_DGRAM and not refused:
            refused.append(address)
            raise OSError(errno.EADDRINUSE, "Address already in use")
        return real(family, kind, address, *others)

    monkeypatch.setattr(server_module, "_socket", refuse_once)
    tcp, udp = server_module.open_sockets("127.0.0.1", 0, shared=False, freebind=False)
    with tcp, udp:
        assert tcp.getsockname() == udp.getsockname()
    assert refused


async def test_an_idle_tcp_connection_is_closed():
    responder = ready(build_zone(read_objects("{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9}}")))
    server = DnsServer(responder, never_resolve, Limits(idle_seconds=0.2))
    port = server.bind("127.0.0.1", 0)
    async with running(server.run()):
        async with connection(port) as (one, _), connection(port) as (two, _):
            assert await one.read() + await two.read() == b""
        assert server.traffic["tcp"].messages == 0


async def test_an_open_tcp_connection_at_shutdown_logs_nothing(caplog):
    server = DnsServer(ready(build_zone(())), never_resolve)
    port = server.bind("127.0.0.1", 0)
    async with connection(port) as (one, _):
        async with running(server.run()):
            await until(lambda: asyncio.sleep(0, len(server._connections) == 1))
        assert await one.read() == b""
    assert caplog.messages == []


async def test_every_query_can_be_logged(caplog):
    responder = ready(build_zone(read_objects("{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9}}")))

    async def resolve(question, client):
        return responder.refuse(question)

    server = DnsServer(responder, resolve, log_query=QueryLog())
    port = server.bind("127.0.0.1", 0)
    caplog.set_level(logging.INFO, "bridgehead.dns.queries")
    async with running(server.run()):
        await ask(port, WEB)
        await ask(port, "example.com")
        await ask(port, "nix.cluster.local", "AAAA", tcp=True)
        await send(port, bytes(12))
        await until(lambda: asyncio.sleep(0, len(caplog.messages) == 4))
    logged = [re.sub(r"127.0.0.1:\d+ - (\d+ )?|\d+\.\d+s", "", line).strip() for line in caplog.messages]
    assert sorted(logged) == sorted(
        [
            f'"A IN {WEB}. udp 47 false 512" NOERROR qr,aa,rd,ra 63',
            '"A IN example.com. udp 29 false 512" REFUSED qr,rd,ra 29',
            '"AAAA IN nix.cluster.local. tcp 35 false 512" NXDOMAIN qr,aa,rd,ra 89',
            '"udp 12: not one question" FORMERR qr 12',
        ]
    )


@in_namespace
async def test_replies_leave_from_the_address_that_was_queried():
    """The addresses include secondary ones and those that were added after the start."""
    responder = ready(build_zone(read_objects("{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9}}")))

    async def resolve(question, client):
        await asyncio.sleep(0)
        return responder.refuse(question)

    sh("ip address add 10.0.0.1/24 dev lo; ip address add fd00::1/64 dev lo")
    for family, every, first, second in (
        (socket.AF_INET, "0.0.0.0", "10.0.0.1", "10.0.0.2"),
        (socket.AF_INET6, "::", "fd00::1", "fd00::2"),
    ):
        server = DnsServer(responder, resolve)
        port = server.bind(every, 0)
        async with running(server.run()):
            sh(f"ip address add {second}/{24 if family == socket.AF_INET else 64} dev lo")
            for asked, name, rcode in ((first, WEB, 0), (second, WEB, 0), (second, "example.com", 5)):
                with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as udp:
                    udp.bind((first, 0))
                    udp.connect((asked, port))  # from now on others' datagrams are not for it
                    reply = await ask_until_answered(udp, bytes(dnslib.DNSRecord.question(name).pack()))
                assert reply.header.rcode == rcode, (asked, name)


async def ask_until_answered(udp: socket.socket, question: bytes) -> dnslib.DNSRecord:
    """Ask again each second: the kernel may drop what comes to an IPv6 address just after that was added."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(DEADLINE):
        while True:
            await loop.sock_sendall(udp, question)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    return dnslib.DNSRecord.parse(await loop.sock_recv(udp, 65535))


async def test_malformed_messages_do_not_affect_other_clients():
    responder = ready(build_zone(read_objects("{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9}}")))
    server = DnsServer(responder, never_resolve)
    port = server.bind("127.0.0.1", 0)
    good = bytes(dnslib.DNSRecord.question(WEB).pack())
    async with running(server.run()):
        for number in range(300):
            rubbish = bytes((number * step) & 255 for step in range(number))
            asyncio.get_running_loop().call_soon(lambda: None)
            if number >= 12 and not rubbish[2] & 0x80:
                assert (await send(port, rubbish))[:2] == rubbish[:2]
        assert len(dnslib.DNSRecord.parse(await send(port, good)).rr) == 1


async def _rcode(port: int, name: str) -> str:
    return dnslib.RCODE[(await ask(port, name)).header.rcode]


async def _is(found, wanted) -> bool:
    return await found == wanted


def _reverse(address: str) -> str:
    return ".".join(reversed(address.split("."))) + ".in-addr.arpa"


async def test_a_new_configuration_is_applied_without_a_lost_query():
    configurations: asyncio.Queue[DnsConfig] = asyncio.Queue()

    async def changes():
        while True:
            yield await configurations.get()

    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(SERVICES, service("web"), "default")
        async with dns(client, changes=changes()) as port:
            base = DnsConfig(listen=(("127.0.0.1", 0),), upstreams=())
            configurations.put_nowait(replace(base, zone=ZoneSettings(domain="x.cluster.local", ttl=33)))
            new = "web.default.svc.x.cluster.local"
            ttls: set[int] = set()

            async def is_new() -> bool:
                replies = [await ask(port, name) for name in (WEB, new)]
                ttls.update(rr.ttl for reply in replies for rr in reply.rr)
                assert sum(len(reply.rr) for reply in replies) >= 1
                return len(replies[1].rr) == 1

            await until(is_new)
            assert ttls == {5, 33}
            here = ("127.0.0.1", port)
            configurations.put_nowait(replace(base, upstreams=(Server(*here),), listen=(here,)))  # asks itself
            configurations.put_nowait(base)
            await until(lambda: data_of(port, WEB))


async def test_a_changed_corefile_is_loaded_and_an_invalid_one_is_ignored():
    results: list[DnsConfig | ConfigInvalid] = [
        DnsConfig(),
        ConfigInvalid("no"),
        DnsConfig(),
        DnsConfig(cache=CacheSettings(capacity=1)),
        ConfigInvalid("no"),
        DnsConfig(),
    ]

    def read() -> DnsConfig:
        word = results.pop(0)
        if isinstance(word, ConfigInvalid):
            raise word
        return word

    following = watch_file(read, DnsConfig(), seconds=0)
    found = [await anext(following) for _ in range(4)]
    assert [str(one) if isinstance(one, ConfigInvalid) else one.cache.capacity for one in found] == [
        "no", 1, "no", DnsConfig().cache.capacity
    ]  # fmt: skip
    assert isinstance(following, AsyncGenerator)
    await following.aclose()


def test_a_corefile_is_parsed_again_only_when_one_of_its_files_has_changed(tmp_path: Path) -> None:
    corefile, hosts, custom = tmp_path / "Corefile", tmp_path / "hosts", tmp_path / "a.override"
    corefile.write_text(f". {{\n kubernetes x\n hosts {hosts} {{\n fallthrough\n }}\n import *.override\n}}")
    parsed = 0

    @only_when_changed
    def read(inputs: Inputs) -> DnsConfig:
        nonlocal parsed
        parsed += 1
        sources = inputs.sources(str(tmp_path))
        return read_corefile(sources.read(str(corefile)), DnsConfig(), sources).config

    def names() -> list[str]:
        return [name for found in read().hosts for _, its in found.entries for name in its]

    assert names() == names() == []
    assert parsed == 1
    hosts.write_text("10.0.0.1 a.example\n")
    assert names() == names() == ["a.example"]
    custom.write_text("nonsense\n")
    for _ in range(2):
        with pytest.raises(ConfigInvalid, match="not supported: nonsense"):
            read()
    assert parsed == 3
    custom.write_text("errors\n")
    assert names() == ["a.example"]
    custom.unlink()
    assert names() == ["a.example"]
    hosts.unlink()
    assert names() == names() == []
    assert parsed == 6


async def test_changes_outside_the_zone_are_applied_without_the_api_server(caplog):
    """The zone needs the API server; the query log and external names change at once."""
    caplog.set_level(logging.INFO, "bridgehead.dns")
    configurations: asyncio.Queue[DnsConfig] = asyncio.Queue()

    async def changes():
        while True:
            yield await configurations.get()

    async with api_world() as world, ApiClient(world.config) as client:
        web = await client.create(SERVICES, service("web"), "default")
        denying = DnsConfig(listen=(("127.0.0.1", 0),), upstreams=(), denied=(("", 3), ("refused.example", 5)))
        async with dns(client, changes=changes(), denied=denying.denied) as port:
            assert await _rcode(port, "outside.example") == "NXDOMAIN"
            assert await _rcode(port, "a.refused.example") == "REFUSED"
            await world.stop()
            configurations.put_nowait(replace(denying, denied=(("", 5),), log_queries=True))
            await until(lambda: _is(_rcode(port, "outside.example"), "REFUSED"))
            assert await data_of(port, WEB) == [web.spec.cluster_ip]
            await until(lambda: _is(_has(caplog, f'"A IN {WEB}. udp'), True))
            configurations.put_nowait(denying)
            await until(lambda: _is(_rcode(port, "outside.example"), "NXDOMAIN"))
            caplog.clear()
            assert await data_of(port, WEB) == [web.spec.cluster_ip]
            assert not await _has(caplog, WEB)


async def _has(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return any(text in record.getMessage() for record in caplog.records)
