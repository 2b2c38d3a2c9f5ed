"""External names: upstreams that answer, truncate, forge, refuse or are silent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dnslib
import pytest

from bridgehead.client import ApiClient
from bridgehead.dns.answering import HostTable, Resolver, Rewriter, Templates
from bridgehead.dns.config import (
    CacheSettings,
    DnsConfig,
    ForwardSettings,
    Hosts,
    Server,
    Template,
    TemplateRecord,
    TtlLimits,
)
from bridgehead.dns.corefile.directives.rewrite import make_rule
from bridgehead.dns.errors import UpstreamFailed
from bridgehead.dns.messages import wire
from bridgehead.dns.messages.upstream_replies import UpstreamAnswer
from bridgehead.dns.upstreams.cache import Cache
from bridgehead.dns.upstreams.forward import Forwarder, OutgoingQuery
from bridgehead.dns.upstreams.routing import Denial, plan_forwarders
from bridgehead.dns.zone import Zone
from bridgehead.objects.kinds import SERVICES
from tests.unit.dns.world import build_zone, packet, read_objects, ready, unresolved

from .api_world import api_world, until
from .dns_world import FakeUpstream, always, ask, data_of, dns

pytestmark = pytest.mark.integration

EXAMPLE = "www.example.com. 60 A 192.0.2.1"
CLIENT = "10.244.1.2"
IN_ORDER = ForwardSettings(policy="sequential", health_seconds=3600)
SOA = "example.com. 300 SOA ns.example.com. root.example.com. 1 2 3 4 30"


class World:
    """A resolver over these upstreams, and a clock that the test moves."""

    def __init__(
        self,
        *upstreams: FakeUpstream,
        zone: Zone | None = None,
        attempt_seconds: float = 10,
        size: int = 1 << 20,
        **cache,
    ) -> None:
        self.now = 1000.0
        self.responder = ready(zone or Zone())
        servers = [upstream.server for upstream in upstreams]
        self.forwarder = Forwarder(servers, lambda: self.now, IN_ORDER)
        self.wait(attempt_seconds)
        self.cache = Cache(lambda: self.now, CacheSettings(**cache), size=size)
        self.resolver = Resolver(self.responder, {b"\0": self.forwarder}, self.cache)

    def wait(self, seconds: float) -> None:
        """Set the time limit of each upstream. Upstreams that have to answer get more than a busy machine needs."""
        self.forwarder._attempt_seconds = seconds

    async def ask(self, name: str, kind: str = "A", **options) -> dnslib.DNSRecord:
        question = unresolved(self.responder, packet(name, kind, **options))
        return dnslib.DNSRecord.parse(await self.resolver.resolve(question, CLIENT))


async def test_hosts_and_rewrite_rules_apply_to_cluster_and_external_names():
    objects = "{kind: Service, metadata: {name: ext}, spec: {type: ExternalName, externalName: db.example}}"
    rules = [
        make_rule("suffix", ".old.example", ".example.com", is_last=True),
        make_rule("exact", "mine.example", "ext.default.svc.cluster.local", is_last=True),
    ]
    mail = "www.example.com. 60 MX 10 mail.example.com."
    async with FakeUpstream(always(mail)) as upstream:
        world = World(upstream, zone=build_zone(read_objects(objects)))
        hosts = HostTable([Hosts((("10.0.0.7", ("db.example",)),))], ra=True)
        world.responder = ready(world.responder.zone, hosts=hosts, rewriter=Rewriter(rules))
        world.resolver = Resolver(world.responder, {b"\0": world.forwarder}, world.cache)

        inside = await world.ask("mine.example")
        outside = await world.ask("WWW.old.example", "MX")

    assert [str(rr.rdata) for rr in inside.rr] == ["db.example.", "10.0.0.7"]
    assert str(inside.q.qname) == str(inside.rr[0].rname) == "mine.example."
    assert str(outside.q.qname) == "WWW.old.example."
    assert [(str(rr.rname), str(rr.rdata)) for rr in outside.rr] == [("WWW.old.example.", "10 mail.example.com.")]
    assert upstream.asked == ["www.example.com. MX"]


def rcode(reply: dnslib.DNSRecord) -> str:
    return dnslib.RCODE[reply.header.rcode]


async def test_an_external_name_is_queried_once_and_cached_with_its_ttl():
    async with FakeUpstream(always(EXAMPLE)) as upstream:
        world = World(upstream)
        first = await world.ask("WWW.example.com", edns=1232)
        assert [str(rr.rdata) for rr in first.rr] == ["192.0.2.1"]
        assert str(first.q.qname) == "WWW.example.com."
        assert (first.header.aa, first.header.ra, len(first.ar)) == (0, 1, 1)
        world.now += 20
        second = await world.ask("www.example.com")
        assert (second.rr[0].ttl, len(second.ar), len(upstream.asked)) == (40, 0, 1)
        world.now += 41
        assert (await world.ask("www.example.com")).rr[0].ttl == 60
        assert len(upstream.asked) == 2
        assert (world.cache.hits, world.cache.misses) == (1, 2)


@pytest.mark.parametrize("is_authentic", [True, False])
async def test_the_ad_flag_is_returned_to_clients_that_request_it(is_authentic):
    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        reply = dnslib.DNSRecord.parse(always(EXAMPLE)(query, over_tcp)[0])
        reply.header.ad = is_authentic and query.header.ad
        return [bytes(reply.pack())]

    async with FakeUpstream(answer) as upstream:
        world = World(upstream)
        for _ in range(2):  # the second time from the cache
            assert (await world.ask("www.example.com")).header.ad == 0
            assert (await world.ask("www.example.com", ad=1)).header.ad == is_authentic
            assert (await world.ask("www.example.com", edns=1232, flags="do")).header.ad == is_authentic
    renamed = ready(Zone(), rewriter=Rewriter([make_rule("exact", "old.example", "www.example.com", is_last=True)]))
    question = unresolved(renamed, packet("old.example", ad=1))
    found = await Resolver(renamed, {b"\0": world.forwarder}, world.cache).resolve(question, CLIENT)
    assert (dnslib.DNSRecord.parse(found).header.ad, len(dnslib.DNSRecord.parse(found).rr)) == (0, 1)


@pytest.mark.parametrize(
    ("cached", "uncached", "times"),
    [
        ([""], [], (1, 1)),
        (["com"], [], (1, 1)),
        (["example.org", "ple.com"], [], (2, 2)),
        ([""], [("success", "example.com")], (2, 1)),
        ([""], [("denial", "")], (1, 2)),
        ([""], [("success", "org"), ("denial", "ple.com"), ("denial", "a.www.example.com")], (1, 1)),
    ],
)
async def test_uncached_names_are_queried_each_time(cached, uncached, times):
    async with (
        FakeUpstream(always(EXAMPLE)) as one,
        FakeUpstream(always(rcode="NXDOMAIN", authority=(SOA,))) as other,
    ):
        for upstream in (one, other):
            world = World(upstream, zones=tuple(cached), uncached=tuple(uncached))
            for _ in range(2):
                await world.ask("www.example.com")
        assert (len(one.asked), len(other.asked)) == times


async def test_policies_order_the_upstreams():
    servers = tuple(Server("127.0.0.1", port) for port in range(1, 9))
    config = DnsConfig(
        upstreams=servers,
        stub_domains=(("lan", servers),),
        forwarding=(("lan", ForwardSettings(policy="sequential")), ("", ForwardSettings(policy="round_robin"))),
    )
    forwarders: Any = plan_forwarders(config, lambda server: False)
    orders = {name: [tuple(forwarder._order()) for _ in range(20)] for name, forwarder in forwarders.items()}
    assert set(orders[b"\3lan\0"]) == {servers}
    assert [order[0] for order in orders[b"\0"][:9]] == [*servers, servers[0]]
    random: Any = plan_forwarders(replace(config, forwarding=()), lambda server: False)[b"\0"]
    assert len({tuple(random._order()) for _ in range(20)}) > 1


async def test_a_popular_name_is_prefetched_before_it_expires():
    async with FakeUpstream(always(EXAMPLE)) as upstream:
        world = World(upstream)
        for passed in (0, 10, 10, 35):
            world.now += passed
            await world.ask("www.example.com")

        async def is_new() -> bool:
            return (await world.ask("www.example.com")).rr[0].ttl == 60

        await until(is_new)  # behind the back of whom had 5 seconds left
        world.now += 20
        assert (await world.ask("www.example.com")).rr[0].ttl == 40
        assert len(upstream.asked) == 2


async def test_addresses_of_cached_answers_rotate():
    """CoreDNS: `loadbalance`. A chain of aliases stays in order."""
    records = ["www.example.com. 60 CNAME cdn.example.net.", *(f"cdn.example.net. 60 A 192.0.2.{n}" for n in (1, 2, 3))]
    async with FakeUpstream(always(*records)) as upstream:
        world = World(upstream)
        seen = set()
        for _ in range(6):
            reply = await world.ask("www.example.com")
            assert [str(rr.rname) for rr in reply.rr] == ["www.example.com."] + 3 * ["cdn.example.net."]
            assert sorted(str(rr.rdata) for rr in reply.rr[1:]) == ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
            seen.add(str(reply.rr[1].rdata))
        assert len(seen) == 3
        assert len(upstream.asked) == 1


async def test_unknown_names_of_the_cluster_are_asked_of_upstreams_if_they_fall_through():
    async with FakeUpstream(always("nobody.cluster.local. 60 A 192.0.2.1")) as upstream:
        world = World(upstream)
        world.responder = ready(world.responder.zone, falls_through=("cluster.local",))
        for forwarders, code, count in (({b"\0": world.forwarder}, "NOERROR", 1), ({b"\0": Denial(5)}, "NXDOMAIN", 0)):
            world.resolver = Resolver(world.responder, forwarders, world.cache)
            reply = await world.ask("nobody.cluster.local")
            assert (rcode(reply), len(reply.rr), len(reply.auth)) == (code, count, 1 - count)


async def test_a_negative_answer_is_cached_for_the_ttl_of_its_soa():
    async with FakeUpstream(always(rcode="NXDOMAIN", authority=(SOA,))) as upstream:
        world = World(upstream)
        for passed, asked in ((0, 1), (29, 1), (2, 2)):
            world.now += passed
            reply = await world.ask("nix.example.com")
            assert (rcode(reply), len(reply.auth), len(upstream.asked)) == ("NXDOMAIN", 1, asked)


async def test_identical_queries_are_sent_once_with_a_random_port_and_id():
    async with FakeUpstream(always(EXAMPLE)) as upstream:
        world = World(upstream)
        await asyncio.gather(*(world.ask("www.example.com") for _ in range(20)))
        assert len(upstream.asked) == 1
        await asyncio.gather(*(world.ask(f"{n}.example.com") for n in range(20)))
        assert len(upstream.ports) == 21
        assert len(set(upstream.ports)) >= 20  # the first one's may be chosen again, by chance
        assert len(set(upstream.ids)) > 15


async def test_forged_replies_are_ignored():
    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        (good,) = always(EXAMPLE)(query, over_tcp)
        other = dnslib.DNSRecord.question("www.example.org")
        other.header.id = query.header.id
        (wrong_question,) = always("www.example.org. 60 A 203.0.113.1")(other, over_tcp)
        wrong_id = bytes((good[0] ^ 1,)) + good[1:]
        return [b"", b"x", wrong_id, wrong_question, good[:20], bytes(query.pack()), good]

    async with FakeUpstream(answer) as upstream:
        reply = await World(upstream).ask("www.example.com")
        assert [str(rr.rdata) for rr in reply.rr] == ["192.0.2.1"]
        assert len(upstream.asked) == 1


async def test_a_truncated_answer_is_retried_over_tcp():
    records = [f"www.example.com. 60 A 192.0.2.{n}" for n in range(200)]

    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        if over_tcp:
            return always(*records)(query, over_tcp)
        reply = query.reply()
        reply.header.tc = 1
        return [bytes(reply.pack())]

    async with FakeUpstream(answer) as upstream:
        world = World(upstream)
        assert (await world.ask("www.example.com")).header.tc == 1
        question = unresolved(world.responder, packet("www.example.com"), udp=False)
        assert len(dnslib.DNSRecord.parse(await world.resolver.resolve(question, CLIENT)).rr) == 200
        assert len(upstream.asked) == 2  # UDP, TCP; then from the cache
        world.forwarder.close()


async def test_after_a_timeout_another_upstream_is_preferred_for_a_while():
    def be_silent(*_) -> list[bytes]:
        world.wait(10)  # for the others
        return []

    async with (
        FakeUpstream(be_silent) as silent,
        FakeUpstream(always(rcode="SERVFAIL")) as broken,
        FakeUpstream(always(EXAMPLE)) as good,
    ):
        world = World(silent, broken, good, attempt_seconds=0.2)
        for n in range(3):
            assert rcode(await world.ask(f"{n}.example.com")) == "NOERROR"
        assert (len(silent.asked), len(good.asked)) == (1, 3)


class Patient:
    """An upstream that is silent until `is_silent` is false. `probes` are the questions of health checks."""

    def __init__(self, *, is_silent: bool = True) -> None:
        self.is_silent = is_silent
        self.on_silence: Callable[[], None] = lambda: None
        self.probes: list[dnslib.DNSRecord] = []

    def __call__(self, query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        if query.q.qtype == dnslib.QTYPE.NS:
            self.probes.append(query)
        if self.is_silent:
            self.on_silence()
            return []
        return always(f"{query.q.qname} 60 A 192.0.2.1")(query, over_tcp)


async def test_a_server_that_does_not_answer_is_probed_until_it_does():
    first, second = Patient(), Patient(is_silent=False)
    async with FakeUpstream(first) as one, FakeUpstream(second) as other:
        servers = [one.server, other.server]
        settings = ForwardSettings("sequential", health_seconds=0.05, health_rd=False, health_name="example.org")
        forwarder = Forwarder(servers, lambda: 0.0, settings, attempt_seconds=0.2, probe_seconds=0.2)
        first.on_silence = lambda: setattr(forwarder, "_attempt_seconds", 10)  # for the other one
        question = wire.question_key(wire.encode_name("www.example.com"), 1)
        await forwarder.ask(OutgoingQuery(question))
        assert list(forwarder.requests.values()) == [1, 1]
        await until(lambda: asyncio.sleep(0, len(first.probes) > 2))
        await forwarder.ask(OutgoingQuery(question))
        assert list(forwarder.requests.values()) == [1, 2], "asked last"
        first.is_silent = False
        await until(lambda: asyncio.sleep(0, not forwarder._health.is_down(one.server)))
        await forwarder.ask(OutgoingQuery(question))
        assert list(forwarder.requests.values()) == [2, 2]
        forwarder.close()
    assert {(str(query.q.qname), query.header.rd, len(query.ar)) for query in first.probes} == {("example.org.", 0, 0)}
    assert second.probes == []


@pytest.mark.parametrize(
    ("settings", "requests"),
    [
        ({"max_fails": 0}, [2, 2]),  # never down: asked first each time
        ({"max_fails": 2}, [2, 2]),
        ({}, [1, 2]),
        ({"most_attempts": 1}, [1, 1]),
    ],
)
async def test_how_servers_that_fail_are_asked(settings, requests):
    silent = Patient()
    async with FakeUpstream(silent) as one, FakeUpstream(Patient(is_silent=False)) as other:
        forwarder = Forwarder([one.server, other.server], lambda: 0.0, replace(IN_ORDER, **settings))
        silent.on_silence = lambda: setattr(forwarder, "_attempt_seconds", 10)  # for the other one
        question = wire.question_key(wire.encode_name("www.example.com"), 1)
        for _ in range(2):
            forwarder._attempt_seconds = 10 if forwarder._health.is_down(one.server) else 0.2
            with contextlib.suppress(UpstreamFailed):
                await forwarder.ask(OutgoingQuery(question))
        assert list(forwarder.requests.values()) == requests
        forwarder.close()


async def test_while_all_servers_are_down_none_need_be_asked():
    """A probe has to fail as well: a server may be silent about one name only, which any client can ask for."""
    patient = Patient()
    async with FakeUpstream(patient) as upstream:
        settings = replace(IN_ORDER, fails_fast=True, health_seconds=0.05)
        forwarder = Forwarder([upstream.server], lambda: 0.0, settings, attempt_seconds=0.1, probe_seconds=0.1)
        question = wire.question_key(wire.encode_name("www.example.com"), 1)
        for refused in range(2):
            with pytest.raises(UpstreamFailed):
                await forwarder.ask(OutgoingQuery(question))
            assert (forwarder.requests[upstream.server], forwarder.all_failed) == (1, refused)
            await until(lambda: asyncio.sleep(0, forwarder._health.is_silent_to_probes(upstream.server)))
        patient.is_silent = False
        await until(lambda: asyncio.sleep(0, not forwarder._health.is_down(upstream.server)))
        await forwarder.ask(OutgoingQuery(question))
        forwarder.close()


async def test_a_name_about_which_a_server_is_silent_does_not_end_answers_about_others():
    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        return [] if "silent" in str(query.q.qname) else Recorder()(query, over_tcp)

    async with FakeUpstream(answer) as upstream:
        settings = replace(IN_ORDER, fails_fast=True, health_seconds=1000)
        forwarder = Forwarder([upstream.server], lambda: 0.0, settings, attempt_seconds=0.1)
        with pytest.raises(UpstreamFailed):
            await forwarder.ask(OutgoingQuery(wire.question_key(wire.encode_name("silent.example.com"), 1)))
        forwarder._attempt_seconds = 10
        assert await forwarder.ask(OutgoingQuery(wire.question_key(wire.encode_name("www.example.com"), 1)))
        forwarder.close()


@pytest.mark.parametrize(
    ("failover", "code", "asked"),
    [
        (None, "SERVFAIL", 2),
        (None, "NXDOMAIN", 1),
        ({"REFUSED"}, "SERVFAIL", 1),
        ({"REFUSED", "SERVFAIL"}, "SERVFAIL", 2),
        ({"NXDOMAIN"}, "NXDOMAIN", 2),
    ],
)
async def test_response_codes_that_lead_to_the_next_server(failover, code, asked):
    codes = None if failover is None else frozenset(getattr(dnslib.RCODE, name) for name in failover)
    async with FakeUpstream(always(rcode=code)) as one, FakeUpstream(always(rcode=code)) as other:
        world = World(one, other)
        world.forwarder = Forwarder([one.server, other.server], lambda: 0.0, replace(IN_ORDER, failover=codes))
        world.resolver = Resolver(world.responder, {b"\0": world.forwarder}, world.cache)
        assert rcode(await world.ask("www.example.com")) == code
        assert len(one.asked) + len(other.asked) == asked


async def test_without_a_working_upstream_the_answer_is_servfail():
    async with FakeUpstream(always(EXAMPLE)) as upstream:
        world, patient = World(upstream), World(upstream, stale_seconds=3600)
        for w in (world, patient):
            await w.ask("www.example.com")
            w.now += 100
    # No server listens there any more.
    assert rcode(await world.ask("www.example.com")) == "SERVFAIL"
    stale = await patient.ask("www.example.com")
    assert (rcode(stale), stale.rr[0].ttl) == ("NOERROR", 0)


async def test_stale_answers_are_used_at_once_and_renewed_behind_the_clients_back():
    """CoreDNS: `serve_stale` is `immediate` by default."""
    async with FakeUpstream(always(EXAMPLE)) as upstream:
        world = World(upstream, stale_seconds=3600, stale_mode="immediate")
        await world.ask("www.example.com")
        world.now += 100
        assert (await world.ask("www.example.com")).rr[0].ttl == 0

        async def is_new() -> bool:
            return (await world.ask("www.example.com")).rr[0].ttl == 60

        await until(is_new)
        assert len(upstream.asked) == 2


async def test_stale_answers_are_verified_first():
    records = [EXAMPLE]
    codes = ["NOERROR"]

    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        return always(*records, rcode=codes[0])(query, over_tcp)

    async with FakeUpstream(answer) as upstream:
        world = World(upstream, stale_seconds=3600, stale_mode="verify", servfail_seconds=5)
        await world.ask("www.example.com")
        world.now += 100
        records[0] = "www.example.com. 60 A 192.0.2.2"
        fresh = await world.ask("www.example.com")
        assert [(rr.ttl, str(rr.rdata)) for rr in fresh.rr] == [(60, "192.0.2.2")]
        world.now += 100
        records.clear()
        codes[0] = "SERVFAIL"
        for _ in range(2):
            stale = await world.ask("www.example.com")
            assert (rcode(stale), stale.rr[0].ttl) == ("NOERROR", 0)


async def test_verifying_may_have_a_time_limit(monkeypatch):
    release = asyncio.Event()

    async with FakeUpstream(lambda query, over_tcp: always(EXAMPLE)(query, over_tcp)) as upstream:
        world = World(upstream, stale_seconds=3600, stale_mode="verify", verify_seconds=0.05)
        await world.ask("www.example.com")
        world.now += 100
        ask = world.forwarder.ask

        async def wait(query: OutgoingQuery) -> UpstreamAnswer:
            await release.wait()
            return await ask(query)

        monkeypatch.setattr(world.forwarder, "ask", wait)
        assert (await world.ask("www.example.com")).rr[0].ttl == 0
        release.set()

        async def is_new() -> bool:
            return (await world.ask("www.example.com")).rr[0].ttl == 60

        await until(is_new)
        assert len(upstream.asked) == 2


async def test_ttls_are_limited_from_the_first_answer_on():
    async with FakeUpstream(always(EXAMPLE)) as upstream:
        world = World(upstream, ttl=TtlLimits(0, 10))
        assert [(await world.ask("www.example.com")).rr[0].ttl for _ in range(2)] == [10, 10]
        world = World(upstream, ttl=TtlLimits(90, 3600))
        assert [(await world.ask("www.example.com")).rr[0].ttl for _ in range(2)] == [90, 90]
    async with FakeUpstream(always(rcode="NXDOMAIN", authority=(SOA,))) as upstream:
        world = World(upstream, negative_ttl=TtlLimits(0, 7))
        assert [(await world.ask("nix.example.com")).auth[0].ttl for _ in range(2)] == [7, 7]


async def test_failures_are_cached():
    async with FakeUpstream(always(rcode="SERVFAIL")) as upstream:
        world = World(upstream, servfail_seconds=5)
        for passed, asked in ((0, 1), (4, 1), (2, 2)):
            world.now += passed
            assert rcode(await world.ask("www.example.com")) == "SERVFAIL"
            assert len(upstream.asked) == asked


# --- What of a client's query upstreams get (CoreDNS forwards the message as it is) ------------------------------


class Recorder:
    """Answers, and records the queries. `options` are in the OPT record of replies to queries that have one."""

    def __init__(self, *options: dnslib.EDNSOption) -> None:
        self.queries: list[dnslib.DNSRecord] = []
        self._options = list(options)

    def __call__(self, query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        self.queries.append(query)
        reply = query.reply()
        reply.add_answer(*dnslib.RR.fromZone(f"{query.q.qname} 60 A 192.0.2.1"))
        if query.ar:
            reply.add_ar(dnslib.EDNS0(udp_len=4096, opts=self._options))
        return [bytes(reply.pack())]


COOKIE, SUBNET = dnslib.EDNSOption(10, b"12345678"), dnslib.EDNSOption(8, b"\0\1\x18\0\x0a\0\0")


def options_of(message: dnslib.DNSRecord) -> list[tuple[int, bytes]]:
    return [(option.code, option.data) for record in message.ar for option in record.rdata]


async def test_a_query_without_edns_is_forwarded_without_it():
    upstream = Recorder()
    async with FakeUpstream(upstream) as server:
        world = World(server)
        await world.ask("a.example.com")
        await world.ask("b.example.com", edns=4096)
        await world.ask("c.example.com", edns=4096, flags="do")
    assert [len(query.ar) for query in upstream.queries] == [0, 1, 1]
    assert [(query.ar[0].rclass, query.ar[0].ttl) for query in upstream.queries[1:]] == [(1232, 0), (1232, 0x8000)]


async def test_options_are_passed_on_in_both_directions():
    upstream = Recorder(dnslib.EDNSOption(10, b"12345678abcdefgh"))
    async with FakeUpstream(upstream) as server:
        world = World(server)
        reply = await world.ask("www.example.com", edns=1232, opts=[COOKIE])
        cached = await world.ask("www.example.com", edns=1232, opts=[COOKIE])
    assert options_of(upstream.queries[0]) == [(10, b"12345678")]
    assert options_of(reply) == [(10, b"12345678abcdefgh")]
    assert options_of(cached) == [], "a cookie belongs to one reply"
    assert len(upstream.queries) == 1


async def test_clients_with_other_options_do_not_share_a_query():
    upstream = Recorder()
    other = dnslib.EDNSOption(10, b"87654321")
    async with FakeUpstream(upstream) as server:
        world = World(server)
        queries: list[dict[str, Any]] = [
            {"edns": 1232, "opts": [COOKIE]},
            {"edns": 1232, "opts": [other]},
            {"edns": 1232},
            {},
        ]
        await asyncio.gather(*(world.ask("www.example.com", **query) for query in queries * 5))
    assert len(upstream.queries) == 4


async def test_answers_for_a_subnet_are_not_for_other_clients():
    """RFC 7871: such an answer is good for addresses of the subnet."""
    upstream = Recorder()
    async with FakeUpstream(upstream) as server:
        world = World(server)
        for options in ([SUBNET], [], [SUBNET], []):
            await world.ask("www.example.com", edns=1232, opts=options)
    assert [options_of(query) for query in upstream.queries] == [[(8, SUBNET.data)], [], [(8, SUBNET.data)]]


async def test_rd_is_passed_on_and_answers_without_recursion_are_not_kept():
    upstream = Recorder()
    async with FakeUpstream(upstream) as server:
        world = World(server)
        for rd in (0, 1, 1, 0):
            assert (await world.ask("www.example.com", rd=rd)).header.rd == rd
    assert [query.header.rd for query in upstream.queries] == [0, 1, 0]


def refusing_edns(how: str, on_silence: Callable[[], None]) -> Callable[[dnslib.DNSRecord, bool], list[bytes]]:
    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        if not query.ar:
            return Recorder()(query, over_tcp)
        reply = query.reply()
        match how:
            case "silence":
                on_silence()
                return []
            case "FORMERR with nothing but a header":
                return [query.pack()[:2] + b"\x80\x01" + bytes(8)]
        reply.header.rcode = getattr(dnslib.RCODE, how)
        return [bytes(reply.pack())]

    return answer


@pytest.mark.parametrize("how", ["FORMERR", "NOTIMP", "FORMERR with nothing but a header", "silence"])
async def test_an_upstream_that_refuses_edns_is_asked_without_it(how):
    async with FakeUpstream(refusing_edns(how, lambda: world.wait(10))) as upstream:
        world = World(upstream, attempt_seconds=0.2 if how == "silence" else 10)
        for n, asked in enumerate((2, 3)):
            reply = await world.ask(f"{n}.example.com", edns=1232)
            assert (rcode(reply), [str(rr.rdata) for rr in reply.rr]) == ("NOERROR", ["192.0.2.1"])
            assert len(upstream.asked) == asked, "it is known the second time"
        world.now += 400
        world.wait(0.2 if how == "silence" else 10)
        await world.ask("later.example.com", edns=1232)
        assert len(upstream.asked) == 5


@pytest.mark.parametrize("how", ["FORMERR", "FORMERR with nothing but a header", "silence"])
async def test_options_that_a_server_refuses_do_not_end_edns_for_other_clients(how):
    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        refuse = query.ar and options_of(query)
        return (refusing_edns(how, lambda: world.wait(10)) if refuse else Recorder())(query, over_tcp)

    async with FakeUpstream(answer) as upstream:
        world = World(upstream, attempt_seconds=0.2 if how == "silence" else 10)
        reply = await world.ask("one.example.com", edns=1232, opts=[COOKIE])
        assert (rcode(reply), [str(rr.rdata) for rr in reply.rr]) == ("NOERROR", ["192.0.2.1"])
        await world.ask("two.example.com", edns=1232)
        assert world.forwarder._plain_until == {}
        assert world.forwarder._silent_to_edns == set()


def test_options_that_make_a_query_too_large_for_a_datagram_are_left_out():
    question = wire.question_key(wire.encode_name("www.example.com"), 1)
    for size, is_passed_on in ((40, True), (1300, False), (65_000, False)):
        options = b"\0\x0a" + size.to_bytes(2, "big") + bytes(size)
        message = OutgoingQuery(question, edns=wire.Edns(1232, 0, True, options)).message()
        assert len(message) <= 1232
        assert (options in message) is is_passed_on
        parsed = wire.parse_query_untrusted(message)
        assert parsed.edns is not None
        assert parsed.edns.do


async def test_probes_find_out_that_a_server_is_silent_because_of_edns():
    """Health checks have no EDNS: without a second one the server would be asked first again and again."""
    async with (
        FakeUpstream(refusing_edns("silence", lambda: setattr(forwarder, "_attempt_seconds", 10))) as one,
        FakeUpstream(Patient(is_silent=False)) as other,
    ):
        settings = ForwardSettings("sequential", health_seconds=0.05)
        servers = [one.server, other.server]
        forwarder = Forwarder(servers, lambda: 0.0, settings, attempt_seconds=0.2, probe_seconds=0.2)
        query = OutgoingQuery(wire.question_key(wire.encode_name("www.example.com"), 1), edns=wire.Edns(1232, 0, False))
        await forwarder.ask(query)
        assert list(forwarder.requests.values()) == [1, 1]
        await until(lambda: asyncio.sleep(0, not forwarder._health.is_down(one.server)))
        await forwarder.ask(query)
        assert list(forwarder.requests.values()) == [2, 1], "without EDNS"
        forwarder.close()


async def test_a_server_that_is_down_is_not_asked_twice():
    async with FakeUpstream(Patient()) as upstream:
        forwarder = Forwarder([upstream.server], lambda: 0.0, IN_ORDER, attempt_seconds=0.1)
        query = OutgoingQuery(wire.question_key(wire.encode_name("www.example.com"), 1), edns=wire.Edns(1232, 0, False))
        for asked in (2, 3):  # the first time without EDNS, too
            with pytest.raises(UpstreamFailed):
                await forwarder.ask(query)
            assert forwarder.requests[upstream.server] == asked
        forwarder.close()


async def test_a_format_error_of_a_server_with_edns_is_final():
    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        return always(rcode="FORMERR")(query, over_tcp)

    async with FakeUpstream(answer) as upstream:
        assert rcode(await World(upstream).ask("www.example.com", edns=1232)) == "FORMERR"
        assert len(upstream.asked) == 1


async def test_an_extended_response_code_reaches_the_client():
    """BADCOOKIE (23) has its upper bits in the OPT record."""

    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        reply = query.reply()
        reply.header.rcode = 23 & 15
        reply.add_ar(dnslib.EDNS0(ext_rcode=23 >> 4))
        return [bytes(reply.pack())]

    async with FakeUpstream(answer) as upstream:
        reply = await World(upstream).ask("www.example.com", edns=1232, opts=[COOKIE])
    assert reply.header.rcode | reply.ar[0].ttl >> 24 << 4 == 23


ALIASES = """
{kind: Service, metadata: {name: ext}, spec: {type: ExternalName, externalName: www.example.com}}
---
{kind: Service, metadata: {name: inner}, spec: {type: ExternalName, externalName: ext.default.svc.cluster.local}}
---
{kind: Service, metadata: {name: loop}, spec: {type: ExternalName, externalName: loop.default.svc.cluster.local}}
---
{kind: Service, metadata: {name: lost}, spec: {type: ExternalName, externalName: nix.default.svc.cluster.local}}
---
{kind: Service, metadata: {name: back}, spec: {type: ExternalName, externalName: back.example.com}}
---
{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9}}
"""


async def test_aliases_are_followed():
    chain = always("www.example.com. 60 CNAME cdn.example.net.", "cdn.example.net. 60 A 192.0.2.1")
    back = always("back.example.com. 60 CNAME web.default.svc.cluster.local.", rcode="NXDOMAIN")

    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        return (back if "back" in str(query.q.qname) else chain)(query, over_tcp)

    async with FakeUpstream(answer) as upstream:
        world = World(upstream, zone=build_zone(read_objects(ALIASES)))
        outside = ["www.example.com.", "cdn.example.net.", "192.0.2.1"]
        table = {
            "ext": ("NOERROR", outside),
            "inner": ("NOERROR", ["ext.default.svc.cluster.local.", *outside]),
            "lost": ("NXDOMAIN", ["nix.default.svc.cluster.local."]),
            "loop": ("NOERROR", ["loop.default.svc.cluster.local."]),
            "back": ("NOERROR", ["back.example.com.", "web.default.svc.cluster.local.", "10.96.0.9"]),
        }
        for name, expected in table.items():
            reply = await world.ask(f"{name}.default.svc.cluster.local")
            assert (rcode(reply), [str(rr.rdata) for rr in reply.rr]) == expected
            assert reply.header.aa == 1
        assert not any("cluster.local" in question for question in upstream.asked)


async def test_negative_answers_behind_an_alias_have_the_soa_and_aa():
    """RFC 2308: without the SOA nobody may keep that there is nothing."""
    chain = ("www.example.com. 60 CNAME cdn.example.com.",)

    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        records = chain if query.q.qtype == dnslib.QTYPE.AAAA else ()
        code = "NXDOMAIN" if query.q.qtype == dnslib.QTYPE.A else "NOERROR"
        return always(*records, rcode=code, authority=(SOA,))(query, over_tcp)

    async with FakeUpstream(answer) as upstream:
        world = World(upstream, zone=build_zone(read_objects(ALIASES)))
        table = {
            ("ext", "A"): ("NXDOMAIN", ["www.example.com."], "example.com."),
            ("ext", "AAAA"): ("NOERROR", ["www.example.com.", "cdn.example.com."], "example.com."),
            ("lost", "A"): ("NXDOMAIN", ["nix.default.svc.cluster.local."], "cluster.local."),
        }
        for (name, kind), (code, data, apex) in table.items():
            reply = await world.ask(f"{name}.default.svc.cluster.local", kind)
            assert (rcode(reply), reply.header.aa) == (code, 1)
            assert [str(rr.rdata) for rr in reply.rr] == data
            assert [(str(rr.rname), dnslib.QTYPE[rr.rtype]) for rr in reply.auth] == [(apex, "SOA")]


async def test_unknown_addresses_in_zones_of_the_cluster_do_not_exist():
    async with FakeUpstream(always(EXAMPLE)) as upstream:
        world = World(upstream)
        denial = Denial(3, is_owned=True)
        forwarders: dict[bytes, Forwarder | Denial] = {b"\0": world.forwarder, b"\x0210\x07in-addr\4arpa\0": denial}
        world.resolver = Resolver(world.responder, forwarders, world.cache)
        reply = await world.ask("1.2.3.10.in-addr.arpa", "PTR")
        assert (rcode(reply), reply.header.aa) == ("NXDOMAIN", 1)
        assert [str(rr.rname) for rr in reply.auth] == ["10.in-addr.arpa."]
        assert upstream.asked == []


async def test_aliases_of_templates_are_followed():
    async with FakeUpstream(always("www.example.com. 60 A 192.0.2.1")) as upstream:
        world = World(upstream, zone=build_zone(read_objects(ALIASES)))
        targets = {"in.test": "web.default.svc.cluster.local", "out.test": "www.example.com"}
        templates = [
            Template("ANY", (name,), records=(TemplateRecord("CNAME", 30, target),)) for name, target in targets.items()
        ]
        world.responder = ready(world.responder.zone, templates=Templates(templates, ra=True))
        world.resolver = Resolver(world.responder, {b"\0": world.forwarder}, world.cache)

        found = {name: [str(rr.rdata) for rr in (await world.ask(f"x.{name}")).rr] for name in targets}

    assert found == {
        "in.test": ["web.default.svc.cluster.local.", "10.96.0.9"],
        "out.test": ["www.example.com.", "192.0.2.1"],
    }


async def test_cluster_names_are_never_forwarded():
    async with (
        FakeUpstream(always(EXAMPLE)) as upstream,
        api_world() as world,
        ApiClient(world.config) as client,
        dns(client, upstreams=(upstream.server,)) as port,
    ):
        spec = {"type": "ExternalName", "externalName": "www.example.com"}
        await client.create(SERVICES, {"metadata": {"name": "ext"}, "spec": spec}, "default")
        assert await data_of(port, "www.example.com") == ["192.0.2.1"]
        assert await data_of(port, "www.example.com", tcp=True) == ["192.0.2.1"]
        for name in ("www.example.com.default.svc.cluster.local", "cluster.local", "x.y.z.cluster.local"):
            assert (await ask(port, name)).header.ra == 1
        assert upstream.asked == ["www.example.com. A"]


async def test_a_flood_of_external_names_is_bounded_and_cluster_names_are_answered():
    async with FakeUpstream(
        lambda query, over_tcp: always(f"{query.q.qname} 60 A 192.0.2.1")(query, over_tcp)
    ) as upstream:
        world = World(upstream, capacity=50, size=20_000)
        for n in range(120):
            await world.ask(f"name-{n}.example.com")
        assert len(world.cache) <= 50
        assert world.cache.size <= 20_000


async def test_autopath_resolves_the_search_list_of_pods_only():
    def answer(query: dnslib.DNSRecord, over_tcp: bool) -> list[bytes]:
        if str(query.q.qname) != "www.example.com.":
            return always(rcode="NXDOMAIN", authority=(SOA,))(query, over_tcp)
        return always(*([EXAMPLE] if query.q.qtype == dnslib.QTYPE.A else []))(query, over_tcp)

    zone = build_zone(read_objects(ALIASES))
    first = "www.example.com.default.svc.cluster.local"
    async with FakeUpstream(answer) as upstream:
        world = World(upstream, zone=zone)
        world.responder.has_autopath = True
        pods = {CLIENT: "default", "10.244.1.3": "other"}
        search = (b"\3lan\0",)
        world.resolver = Resolver(
            world.responder, {b"\0": world.forwarder}, world.cache, namespace_of=pods.get, search=search
        )
        reply = await world.ask(first)
        assert [str(rr.rdata) for rr in reply.rr] == ["www.example.com.", "192.0.2.1"]
        assert (str(reply.rr[0].rname), reply.rr[0].ttl) == (f"{first}.", 60)
        assert upstream.asked == ["www.example.com.lan. A", "www.example.com. A"]
        v6 = await world.ask(first, "AAAA")
        assert (rcode(v6), [str(rr.rdata) for rr in v6.rr]) == ("NOERROR", ["www.example.com."])
        found = await world.ask("web.default.default.svc.cluster.local")  # a pod's search for web.default
        assert [str(rr.rdata) for rr in found.rr] == ["web.default.svc.cluster.local.", "10.96.0.9"]
        aliased = await world.ask("ext.default.default.svc.cluster.local")
        assert [str(rr.rdata) for rr in aliased.rr][-1] == "192.0.2.1"
        missing = await world.ask("nix.default.svc.cluster.local")
        assert (rcode(missing), missing.header.aa, len(missing.auth)) == ("NXDOMAIN", 1, 1)
        question = unresolved(world.responder, packet(first))
        for other_client in ("10.244.1.3", "10.244.9.9"):
            assert rcode(dnslib.DNSRecord.parse(await world.resolver.resolve(question, other_client))) == "NXDOMAIN"
        plain = world.responder.respond_untrusted(packet(first, "SRV"))
        assert isinstance(plain, bytes)
    # No server listens there any more; it is known all the same that this name of the cluster does not exist.
    assert rcode(await world.ask("nox.default.svc.cluster.local")) == "NXDOMAIN"


async def test_stub_domains_have_their_own_upstreams():
    async with (
        FakeUpstream(always(EXAMPLE)) as general,
        FakeUpstream(always("x.corp.example. 60 A 192.0.2.9")) as corp,
    ):
        world = World(general)
        stub = Forwarder([corp.server], lambda: world.now)
        world.resolver = Resolver(world.responder, {b"\0": world.forwarder, b"\4corp\7example\0": stub}, world.cache)
        for name in ("x.corp.example", "corp.example", "www.example.com", "xcorp.example"):
            await world.ask(name)
        assert corp.asked == ["x.corp.example. A", "corp.example. A"]
        assert general.asked == ["www.example.com. A", "xcorp.example. A"]
        only = Resolver(world.responder, {b"\4corp\7example\0": stub}, Cache(lambda: 0.0))
        question = unresolved(world.responder, packet("www.example.com"))
        assert rcode(dnslib.DNSRecord.parse(await only.resolve(question, CLIENT))) == "REFUSED"


async def test_the_address_of_the_dns_itself_is_never_an_upstream(caplog):
    """Queries to kube-dns as upstream would loop."""
    loop = {"upstreams": (Server("10.96.0.10"),), "stub_domains": (("corp.example", (Server("10.96.0.10"),)),)}
    async with api_world() as world, ApiClient(world.config) as client:
        spec = {"clusterIP": "10.96.0.10", "ports": [{"port": 53, "protocol": "UDP"}]}
        await client.create(SERVICES, {"metadata": {"name": "kube-dns"}, "spec": spec}, "kube-system")
        async with dns(client, **loop) as port:
            for name in ("www.example.com", "www.corp.example", "www.example.com"):
                assert rcode(await ask(port, name)) == "SERVFAIL"
    logged = [message for message in caplog.messages if "is the address of this DNS server itself" in message]
    assert len(logged) == 2  # each of the two is logged of once
