"""The DNS server's metrics: CoreDNS's names and labels, filled by what servers, cache and upstreams have counted."""

from __future__ import annotations

from types import SimpleNamespace

import dnslib
import pytest

from bridgehead.dns.config import CacheSettings, DnsConfig, Hosts, Server
from bridgehead.dns.counters import Durations
from bridgehead.dns.messages import wire
from bridgehead.dns.messages.upstream_replies import adopt_reply_untrusted
from bridgehead.dns.serving import DnsMetrics, DnsServer
from bridgehead.dns.upstreams.cache import Cache
from bridgehead.dns.upstreams.forward import Forwarder
from bridgehead.exposition.formats import render
from tests.unit.dns.world import build_zone, never_resolve, read_objects, ready

UPSTREAM = Server("192.0.2.1")


def question(name: str, kind: str = "A") -> bytes:
    return bytes(dnslib.DNSRecord.question(name, kind).pack())


def upstream_reply(name: str, *lines: str, rcode: int = 0) -> tuple[bytes, bytes]:
    """The key under which it is kept, and the message."""
    reply = dnslib.DNSRecord.parse(question(name)).reply()
    reply.header.rcode = rcode
    for line in lines:
        add = reply.add_auth if " SOA " in line else reply.add_answer
        add(*dnslib.RR.fromZone(line))
    data = bytes(reply.pack())
    return question(name)[wire.HEADER_SIZE :], data


@pytest.fixture
def shown() -> dict[str, float]:
    """Values by name and labels, as Prometheus reads them."""
    responder = ready(build_zone(read_objects("{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9}}")))
    web = question("web.default.svc.cluster.local")
    servers = [DnsServer(responder, never_resolve) for _ in range(2)]
    for server, host in zip(servers, ("0.0.0.0", "::"), strict=True):
        server.address, server.is_ipv6 = ("", 53), ":" in host
    caa = question("nix.cluster.local", "CAA")
    for server, protocol, messages in (
        (servers[0], "udp", (web, web)),
        (servers[0], "tcp", (web,)),
        (servers[1], "udp", (caa, bytes(12), b"?")),
    ):
        traffic = server.traffic[protocol]
        for message in messages:
            reply = responder.respond_untrusted(message, is_udp=protocol == "udp", traffic=traffic)
            traffic.add_sizes(message, reply)  # type: ignore[arg-type]
    outside = question("example.com")
    servers[1].traffic["udp"].add_query(outside, responder.respond_untrusted(outside))
    servers[1].traffic["udp"].add_deferred(outside, outside[:3] + b"\x82" + outside[4:], 0.001)
    servers[1].traffic["udp"].durations.add(0.001)
    servers[1].overflows = 3

    now = 0.0
    cache = Cache(lambda: now, CacheSettings(capacity=1, stale_seconds=100))
    soa = "example. 60 IN SOA ns.example. root.example. 1 2 3 4 60"
    for name, lines, rcode in (
        ("gone.example", ("gone.example. 60 IN A 192.0.2.9",), 0),
        ("no.example", (soa,), 3),
        ("yes.example", ("yes.example. 60 IN A 192.0.2.9",), 0),
    ):
        key, data = upstream_reply(name, *lines, rcode=rcode)
        cache.put(key + b"\0\0", adopt_reply_untrusted(data, key))
    for name in ("yes.example", "yes.example", "no.example", "gone.example"):
        cache.get(question(name)[wire.HEADER_SIZE :] + b"\0\0")
    now = 100.0
    cache.get_stale(question("yes.example")[wire.HEADER_SIZE :] + b"\0\0")
    cache.prefetches = 5

    forwarders = (Forwarder((UPSTREAM,), lambda: now), Forwarder((UPSTREAM,), lambda: now))
    for forwarder in forwarders:
        forwarder.requests[UPSTREAM] = 4
        forwarder.failures[UPSTREAM] = 1
        forwarder.all_failed = 1
        forwarder.durations[UPSTREAM, wire.NXDOMAIN] = Durations()
        forwarder.durations[UPSTREAM, wire.NXDOMAIN].add(0.01)

    config = DnsConfig(hosts=(Hosts((("192.0.2.7", ("a.example", "b.example")),)),))
    metrics = DnsMetrics()
    metrics.failed_reloads.inc()
    metrics.programming_seconds.observe(0.5)
    resolver = SimpleNamespace(panics=1)
    running = SimpleNamespace(config=config, responder=responder, resolver=resolver, cache=cache, forwarders=forwarders)
    metrics.watch(lambda: running, servers)
    samples = [
        line.rpartition(" ") for line in render(metrics.registry)[0].decode().splitlines() if not line.startswith("#")
    ]
    assert len({name for name, _, _ in samples}) == len(samples), "each is there once"
    return {name: float(value) for name, _, value in samples}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("panics_total", 1),
        ('plugin_enabled{name="kubernetes",server="dns://:53",view="",zone="."}', 1),
        ('dns_requests_total{family="1",proto="udp",server="dns://:53",type="A"}', 2),
        ('dns_requests_total{family="1",proto="tcp",server="dns://:53",type="A"}', 1),
        ('dns_requests_total{family="2",proto="udp",server="dns://:53",type="other"}', 1),
        ('dns_responses_total{rcode="NOERROR",server="dns://:53"}', 3),
        ('dns_responses_total{rcode="NXDOMAIN",server="dns://:53"}', 1),
        ('dns_responses_total{rcode="FORMERR",server="dns://:53"}', 1),
        ('dns_requests_total{family="2",proto="udp",server="dns://:53",type="A"}', 1),
        ('dns_responses_total{rcode="SERVFAIL",server="dns://:53"}', 1),
        ('dns_request_duration_seconds_count{server="dns://:53"}', 2),
        ('dns_request_duration_seconds_bucket{le="0.001",server="dns://:53"}', 2),
        ('dns_request_size_bytes_count{proto="udp",server="dns://:53"}', 6),
        ('dns_response_size_bytes_count{proto="udp",server="dns://:53"}', 5),
        ('dns_response_size_bytes_count{proto="tcp",server="dns://:53"}', 1),
        ("forward_max_concurrent_rejects_total", 3),
        ('cache_entries{type="success"}', 1),
        ('cache_entries{type="denial"}', 1),
        ('cache_hits_total{type="success"}', 2),
        ('cache_hits_total{type="denial"}', 1),
        ("cache_requests_total", 4),
        ("cache_misses_total", 1),
        ('cache_evictions_total{type="success"}', 1),
        ("cache_prefetch_total", 5),
        ("cache_served_stale_total", 1),
        ('forward_requests_total{to="192.0.2.1:53"}', 8),
        ("forward_healthcheck_broken_total", 2),
        ('proxy_request_duration_seconds_count{proxy_name="forward",rcode="NXDOMAIN",to="192.0.2.1:53"}', 2),
        ("hosts_entries", 2),
        ("reload_failed_total", 1),
        ('kubernetes_dns_programming_duration_seconds_count{service_kind="headless_with_selector"}', 1),
    ],
)
def test_metrics_of_coredns_are_exported(shown: dict[str, float], name: str, value: float) -> None:
    assert shown[f"coredns_{name}"] == value


def test_metrics_of_this_project_are_exported(shown: dict[str, float]) -> None:
    assert shown["bridgehead_dns_malformed_total"] == 2
    assert shown['bridgehead_dns_forward_failures_total{to="192.0.2.1:53"}'] == 2
    assert shown["bridgehead_dns_answers"] > 0
    assert shown["process_open_fds"] > 0
