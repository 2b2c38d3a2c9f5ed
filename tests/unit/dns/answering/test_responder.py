"""Sizes, EDNS, mixed case, turning answers, and what gets no answer or a refusal."""

from __future__ import annotations

from functools import lru_cache

import dnslib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.dns.answering import Responder, Unresolved
from bridgehead.dns.messages import replies, wire
from bridgehead.dns.zone import Zone
from tests.unit.dns.world import ask, build_zone, packet, read_objects, ready, reply_to

NAME = "many.default.svc.cluster.local"
WEB = "web.default.svc.cluster.local"


def headless(count: int) -> str:
    endpoints = ", ".join(f"{{addresses: [10.{n >> 16}.{n >> 8 & 255}.{n & 255}]}}" for n in range(count))
    return f"""
kind: Service
metadata: {{name: many}}
spec: {{clusterIP: None}}
---
kind: EndpointSlice
metadata: {{name: many, labels: {{kubernetes.io/service-name: many}}}}
ports: [{{name: x, port: 1}}]
endpoints: [{endpoints}]
---
{{kind: Service, metadata: {{name: web}}, spec: {{clusterIP: 10.96.0.9}}}}
---
{{kind: Service, metadata: {{name: alias}}, spec: {{type: ExternalName, externalName: example.com}}}}
"""


@lru_cache
def zone_of(count: int) -> Zone:
    return build_zone(read_objects(headless(count)))


def responder_for(count: int, **options) -> Responder:
    return ready(zone_of(count), **options)


@pytest.mark.parametrize(
    ("count", "edns", "udp", "limit"),
    [
        *(
            (count, *limits)
            for count in (1, 2, 29, 30, 73, 80, 1000)
            for limits in ((0, True, 512), (4096, True, 1232), (600, True, 600))
        ),
        *((count, 0, False, 65535) for count in (1, 80, 1000, 5000)),
    ],
)
@pytest.mark.parametrize("kind", ["A", "SRV"])
def test_no_answer_exceeds_the_requested_size(count, kind, edns, udp, limit):
    responder = responder_for(count)
    name = NAME if kind == "A" else f"_x._tcp.{NAME}"
    for _ in range(2):
        reply = ask(responder, name, kind, edns=edns, udp=udp)
        found = {str(rr.rdata) for rr in reply.rr}
        assert len(found) == len(reply.rr) == reply.header.a
        assert reply.header.tc == (len(found) < count)
        assert found
    raw = responder.respond_untrusted(packet(name, kind, edns=edns), is_udp=udp)
    assert isinstance(raw, bytes)
    assert len(raw) <= limit
    if kind == "A" and len(found) < count:
        assert len(raw) > limit - 32  # as many as fit


def test_answers_rotate_so_that_every_address_is_first_in_turn():
    responder = responder_for(5)
    for options in ({}, {"edns": 1232}, {"udp": False}):
        firsts = [str(ask(responder, NAME, **options).rr[0].rdata) for _ in range(20)]
        assert {firsts.count(address) for address in firsts} == {4}


def test_truncated_answers_rotate_through_all_addresses():
    responder = responder_for(100)
    seen = {str(rr.rdata) for _ in range(120) for rr in ask(responder, NAME).rr}
    assert len(seen) == 100


@given(st.integers(0, 2**40))
def test_the_case_of_the_question_is_preserved(bits):
    responder = responder_for(1)
    mixed = "".join(c.upper() if bits >> n & 1 else c for n, c in enumerate(WEB))
    for name in (mixed, f"nothing.{mixed}"):
        for edns in (0, 1232):
            query = packet(name, edns=edns)
            reply = reply_to(responder, query)
            end = query.index(b"\0", 12) + 5
            assert reply[12:end] == query[12:end]
            assert reply[:2] == query[:2]


def test_edns_is_answered():
    responder = responder_for(1)
    assert not ask(responder, WEB).ar
    for options in ({"edns": 1232}, {"edns": 100}, {"edns": 4096, "flags": "do"}):
        for _ in range(2):
            (opt,) = ask(responder, WEB, **options).ar
            assert (opt.rclass, opt.edns_do) == (1232, 1 if "flags" in options else 0)
    cookie = dnslib.EDNSOption(10, b"12345678")
    (opt,) = ask(responder, WEB, edns=1232, opts=[cookie]).ar
    assert opt.rdata == []  # what we do not know is not answered (RFC 6891, 6.1.2)
    reply = ask(responder, WEB, edns=1232, version=1)
    assert (reply.header.rcode, reply.ar[0].ttl >> 24) == (0, 1)  # BADVERS is 16
    assert not reply.rr


def test_flags_rd_and_ra_are_set():
    for is_recursive in (True, False):
        responder = responder_for(1, is_recursive=is_recursive)
        reply = ask(responder, "nix.cluster.local", rd=0)
        assert (reply.header.rd, reply.header.aa) == (0, 1)
    refused = ask(responder, "example.com")
    assert (dnslib.RCODE[refused.header.rcode], refused.header.aa, refused.header.ra) == ("REFUSED", 0, 0)


def test_any_gets_a_minimal_answer():
    responder = responder_for(80)
    for name in (NAME, WEB, "default.svc.cluster.local"):
        reply = ask(responder, name, "ANY")
        assert [(rr.rtype, rr.rdata.data) for rr in reply.rr] == [(wire.HINFO, b"\7RFC8482\0")]
    assert dnslib.RCODE[ask(responder, f"nix.{NAME}", "ANY").header.rcode] == "NXDOMAIN"


def test_any_gets_a_minimal_answer_at_external_names_too():
    """CoreDNS: the plugin `any` answers before `forward`."""
    reply = ask(ready(Zone(), has_minimal_any=True), "example.com", "ANY")
    assert [(rr.rtype, rr.ttl) for rr in reply.rr] == [(dnslib.QTYPE.HINFO, 8482)]
    assert isinstance(ready(Zone()).respond_untrusted(packet("example.com", "ANY")), Unresolved)


@pytest.mark.parametrize("edns", [0, 1232])
def test_minimal_replies_have_answer_records_only(edns):
    responder = ready(build_zone(read_objects(headless(3))), is_minimal=True)
    for _ in range(2):  # the second time by the short way
        srv = ask(responder, "_x._tcp.many.default.svc.cluster.local", "SRV", edns=edns)
        assert (len(srv.rr), len(srv.auth)) == (3, 0)
        assert [record for record in srv.ar if record.rtype != dnslib.QTYPE.OPT] == []
        assert len(ask(responder, "many.default.svc.cluster.local", edns=edns).rr) == 3
        missing = ask(responder, "nobody.default.svc.cluster.local", edns=edns)
        assert (missing.header.rcode, len(missing.auth)) == (dnslib.RCODE.NXDOMAIN, 1), "negative replies stay whole"


def test_unknown_names_of_the_cluster_may_fall_through():
    """CoreDNS: `fallthrough` of `kubernetes` passes on NXDOMAIN, not NODATA."""
    zone = build_zone(read_objects(headless(3)))
    responder = ready(zone, falls_through=("cluster.local",))
    for kind in ("A", "AAAA", "SRV"):
        assert isinstance(responder.respond_untrusted(packet("nobody.default.svc.cluster.local", kind)), Unresolved)
    for name in ("many.default.svc.cluster.local", "default.svc.cluster.local"):
        assert ask(responder, name, "MX").header.rcode == dnslib.RCODE.NOERROR
    for domain, is_recursive in (("x.cluster.local", True), ("cluster.local", False)):
        other = ready(zone, falls_through=(domain,), is_recursive=is_recursive)
        reply = ask(other, "nobody.default.svc.cluster.local")
        assert (reply.header.rcode, len(reply.auth)) == (dnslib.RCODE.NXDOMAIN, 1)
    responder.is_ready = False
    assert ask(responder, "nobody.default.svc.cluster.local").header.rcode == dnslib.RCODE.SERVFAIL


def test_external_questions_are_passed_to_the_resolver():
    responder = responder_for(1)
    for name, has_alias in (
        ("example.com", False),
        ("alias.default.svc.cluster.local", True),
        ("xcluster.local", False),
    ):
        question = responder.respond_untrusted(packet(name))
        assert isinstance(question, Unresolved)
        assert (question.known is not None, question.limit) == (has_alias, 512)


def test_names_of_an_unsynced_zone_get_servfail():
    zone = build_zone(read_objects(headless(1)))
    responder = Responder(zone)
    for name in (WEB, "nix.cluster.local"):
        assert dnslib.RCODE[ask(responder, name).header.rcode] == "SERVFAIL"
    assert isinstance(responder.respond_untrusted(packet("example.com")), Unresolved)
    responder.set_ready()
    assert len(ask(responder, WEB).rr) == 1


QUESTION = b"\3web\7default\3svc\7cluster\5local\0\0\1\0\1"
HEAD = b"\1\0\0\1\0\0\0\0\0\0"


@pytest.mark.parametrize(
    ("data", "rcode"),
    [
        (b"", None),
        (b"\0" * 11, None),
        (b"id\x81\0\0\1\0\0\0\0\0\0" + QUESTION, None),  # a reply: answering it might go on for ever
        (b"id" + HEAD, "FORMERR"),
        (b"id" + HEAD + QUESTION[:-1], "FORMERR"),
        (b"id\1\0\0\2\0\0\0\0\0\0" + QUESTION * 2, "FORMERR"),
        (b"id\1\0\0\0\0\0\0\0\0\0", "FORMERR"),
        (b"id" + HEAD + QUESTION + b"x", "FORMERR"),
        (b"id" + HEAD + b"\xc0\x0c\0\1\0\1", "FORMERR"),
        (b"id" + HEAD + b"\x40" + b"a" * 64 + b"\0\0\1\0\1", "FORMERR"),
        (b"id" + HEAD + b"\x3f" * 64 * 4 + b"\0\0\1\0\1", "FORMERR"),
        (b"id\1\0\0\1\0\0\0\0\0\2" + QUESTION + replies.opt_record(512) * 2, "FORMERR"),
        (b"id\1\0\0\1\0\0\0\0\0\1" + QUESTION + replies.opt_record(512)[:-1], "FORMERR"),
        (b"id\x29\0\0\1\0\0\0\0\0\0" + QUESTION, "NOTIMP"),  # UPDATE
        (b"id\x20\0\0\1\0\0\0\0\0\1" + QUESTION + replies.opt_record(512), "NOTIMP"),  # NOTIFY
        (b"id\x29\0\0\0\0\0\0\0\0\0", "FORMERR"),
        (b"id" + HEAD + QUESTION[:-4] + b"\0\xfc\0\1", "REFUSED"),  # AXFR
        (b"id" + HEAD + QUESTION[:-1] + b"\3", "REFUSED"),  # class CHAOS
    ],
)
def test_malformed_queries_are_refused(data, rcode):
    if rcode is None:
        assert responder_for(1).respond_untrusted(data) is None
        return
    reply = reply_to(responder_for(1), data)
    assert reply[:2] == b"id"
    assert reply[2] & 0x79 == data[2] & 0x79, "a reply to this operation, recursion desired as it was"
    assert dnslib.RCODE[dnslib.DNSRecord.parse(reply).header.rcode] == rcode
    assert len(reply) <= len(data)
