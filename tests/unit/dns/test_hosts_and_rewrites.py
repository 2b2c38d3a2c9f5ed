"""Names beside the cluster's: hosts, names answered as others, and the whole zone at once."""

from __future__ import annotations

import ipaddress

import dnslib
import pytest

from bridgehead.dns.answering import HostTable, Responder, Rewriter, TransferRequest, Unresolved
from bridgehead.dns.answering.rewrite import renamed_untrusted
from bridgehead.dns.config import AnswerRule, Hosts, RewriteRule
from bridgehead.dns.corefile.directives.rewrite import make_rule
from bridgehead.dns.messages import wire
from bridgehead.dns.messages.replies import assemble
from bridgehead.dns.messages.upstream_replies import adopt_reply_untrusted
from bridgehead.dns.zone import Zone, zone_file
from tests.unit.dns.answering.test_responder import headless
from tests.unit.dns.world import ask, build_zone, lines, packet, read_objects, ready

OBJECTS = """
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9, "fd00::9"], ports: [{name: http, port: 80}]}
---
kind: Service
metadata: {name: db}
spec: {clusterIP: None, ports: [{name: sql, port: 5432}]}
---
kind: EndpointSlice
metadata: {name: db, labels: {kubernetes.io/service-name: db}}
ports: [{name: sql, port: 5432}]
endpoints: [{addresses: [10.244.0.1], hostname: db-0}, {addresses: [10.244.0.2], hostname: db-1}]
---
{kind: Service, metadata: {name: alias}, spec: {type: ExternalName, externalName: example.com}}
---
{kind: Namespace, metadata: {name: default}}
"""
SVC = "default.svc.cluster.local"


@pytest.fixture(scope="module")
def zone() -> Zone:
    return build_zone(read_objects(OBJECTS))


def with_rules(zone: Zone, *rules: RewriteRule) -> Responder:
    return ready(zone, rewriter=Rewriter(rules))


# --- Hosts -----------------------------------------------------------------------------------------------


@pytest.fixture
def hosts(zone: Zone) -> Responder:
    entries = (("10.0.0.1", ("a.example", "b.example")), ("10.0.0.2", ("a.example",)), ("fd00::1", ("a.example",)))
    return ready(zone, hosts=HostTable([Hosts(entries, ttl=60)], ra=True))


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("a.example", "A", ["a.example. 60 A 10.0.0.1", "a.example. 60 A 10.0.0.2"]),
        ("A.Example", "AAAA", ["A.Example. 60 AAAA fd00::1"]),
        ("b.example", "AAAA", []),
        ("a.example", "MX", []),
        ("1.0.0.10.in-addr.arpa", "PTR", [f"1.0.0.10.in-addr.arpa. 60 PTR {n}.example." for n in "ab"]),
        (f"web.{SVC}", "A", [f"web.{SVC}. 5 A 10.96.0.9"]),
    ],
)
def test_hosts_have_address_and_ptr_records(hosts: Responder, name: str, kind: str, expected: list[str]) -> None:
    reply = ask(hosts, name, kind)

    assert (reply.header.rcode, reply.header.aa) == (0, 1)
    assert lines(reply.rr) == expected


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("apps.example.com", "A", ["192.168.1.10"]),
        ("APPS.example.com", "AAAA", ["fd00::1"]),
        ("apps.example.com", "TXT", []),
        ("a.example.com", "A", ["192.168.1.11"]),
        ("a.example.com", "AAAA", []),  # the name itself is in the list
        ("*.example.com", "A", ["192.168.1.10"]),
        ("example.com", "A", None),
        ("deep.apps.example.com", "A", None),
        ("10.1.168.192.in-addr.arpa", "PTR", None),
        ("11.1.168.192.in-addr.arpa", "PTR", ["a.example.com."]),
    ],
)
def test_hosts_may_have_wildcards(zone: Zone, name: str, kind: str, expected: list[str] | None) -> None:
    """CoreDNS' plugin/hosts since June 2026."""
    entries = (
        ("192.168.1.10", ("*.example.com",)),
        ("fd00::1", ("*.example.com",)),
        ("192.168.1.11", ("a.example.com",)),
    )
    responder = ready(zone, hosts=HostTable([Hosts(entries)], ra=True))
    found = responder.respond_untrusted(packet(name, kind))
    if expected is None:
        assert isinstance(found, Unresolved)
    else:
        assert [str(rr.rdata) for rr in ask(responder, name, kind).rr] == expected


def test_hosts_answer_other_types_with_nodata_or_pass_them_on(zone: Zone) -> None:
    entries = (("10.0.0.1", ("a.example", "a.test")),)
    responder = ready(zone, hosts=HostTable([Hosts(entries, passes_types=("example",))], ra=True))

    assert isinstance(responder.respond_untrusted(packet("a.example", "TXT")), Unresolved)
    for name, kind in (("a.example", "AAAA"), ("a.test", "TXT"), ("1.0.0.10.in-addr.arpa", "TXT")):
        assert (ask(responder, name, kind).header.rcode, ask(responder, name, kind).rr) == (0, [])


def test_names_missing_in_hosts_are_passed_to_the_resolver(hosts: Responder) -> None:
    assert isinstance(hosts.respond_untrusted(packet("c.example")), Unresolved)
    assert isinstance(hosts.respond_untrusted(packet("example")), Unresolved)


# --- Rules -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        (("exact", "Shop.example.com", f"web.{SVC}"), "shop.example.com"),
        (("suffix", ".example.com", f".{SVC}"), "web.example.com"),
        (("prefix", "old-", ""), f"old-web.{SVC}"),
        (("substring", ".prod.", ".default."), "web.prod.svc.cluster.local"),
        (("regex", r"^(.*)-in-([a-z]+)\.example\.$", "{1}.{2}.svc.cluster.local"), "web-in-default.example"),
    ],
)
def test_each_kind_of_rule_rewrites(zone: Zone, rule: tuple[str, str, str], asked: str) -> None:
    responder = with_rules(zone, make_rule(*rule, is_last=True))

    for name in (asked, asked.title()):
        assert lines(ask(responder, name).rr) == [f"{name}. 5 A 10.96.0.9"]
    assert lines(ask(responder, f"web.{SVC}").rr) == [f"web.{SVC}. 5 A 10.96.0.9"], "its own name goes on"
    assert isinstance(responder.respond_untrusted(packet("x.example.net")), Unresolved)


def test_the_first_matching_rule_is_the_last_unless_it_has_continue(zone: Zone) -> None:
    first = make_rule("suffix", ".a", ".b", is_last=False)
    second = make_rule("suffix", ".b", f".{SVC}", is_last=True)
    third = make_rule("substring", "web", "db-0.db", is_last=True)

    assert lines(ask(with_rules(zone, first, second, third), "web.a").rr) == ["web.a. 5 A 10.96.0.9"]
    assert isinstance(with_rules(zone, second, first).respond_untrusted(packet("web.a")), Unresolved)


def test_a_rule_can_match_cluster_names(zone: Zone) -> None:
    responder = with_rules(zone, make_rule("exact", f"web.{SVC}", f"db-1.db.{SVC}", is_last=True))

    assert lines(ask(responder, f"web.{SVC}").rr) == [f"web.{SVC}. 5 A 10.244.0.2"]


def test_a_rule_outside_the_cluster_block_matches_no_cluster_name(zone: Zone) -> None:
    responder = with_rules(zone, make_rule("substring", "web", "db-1.db", is_last=True, for_others=True))

    assert lines(ask(responder, f"web.{SVC}").rr) == [f"web.{SVC}. 5 A 10.96.0.9"]
    found = responder.respond_untrusted(packet("web.example"))
    assert isinstance(found, Unresolved)
    assert wire.decode_name(found.query.name) == "db-1.db.example"


@pytest.mark.parametrize(
    ("rule", "touches"),
    [
        (("exact", "a.example", "b"), False),
        (("suffix", "example.", "b"), False),
        (("exact", "web.default.svc.cluster.local", "b"), True),
        (("suffix", ".local", "b"), True),
        (("suffix", ".", "b"), True),
        (("suffix", "x.cluster.local", "b"), True),
        (("substring", "a", "b"), True),
        (("prefix", "a", "b"), True),
        (("regex", "a", "b"), True),
    ],
)
def test_rules_that_can_match_cluster_names_are_recognized(rule: tuple[str, str, str], touches: bool) -> None:
    assert Rewriter([make_rule(*rule, is_last=True)]).touches("cluster.local") is touches


def test_a_rule_with_an_invalid_result_is_skipped(zone: Zone) -> None:
    responder = with_rules(zone, make_rule("substring", "a", "a" * 60, is_last=True))

    assert isinstance(responder.respond_untrusted(packet("aa.example")), Unresolved)
    assert isinstance(responder.respond_untrusted(packet(dnslib.DNSLabel([b"a\\.\xff", b"example"]))), Unresolved)


@pytest.mark.parametrize(
    ("name", "kind", "rest"),
    [
        ("_sql._tcp.db", "SRV", ["SRV 0 50 5432 db-0.db.default.svc.cluster.local."]),
        ("db", "A", ["A 10.244.0.1", "A 10.244.0.2"]),
        ("web", "MX", []),
        ("nobody", "A", []),
    ],
)
def test_answers_have_the_original_name(zone: Zone, name: str, kind: str, rest: list[str]) -> None:
    responder = with_rules(zone, make_rule("suffix", ".much.longer.example.com", f".{SVC}", is_last=True))
    asked = f"{name}.much.longer.example.com"

    reply, direct = ask(responder, asked, kind), ask(ready(zone), f"{name}.{SVC}", kind)

    assert str(reply.q.qname) == f"{asked}."
    assert reply.header.rcode == direct.header.rcode
    assert {str(rr.rname) for rr in reply.rr} <= {f"{asked}."}
    assert [line for line in rest if f"{asked}. 5 {line}" not in lines(reply.rr)] == []
    for section in ("rr", "auth", "ar"):
        there = [(rr.rtype, str(rr.rdata)) for rr in getattr(reply, section)]
        assert sorted(there) == sorted((rr.rtype, str(rr.rdata)) for rr in getattr(direct, section))


def test_the_resolver_gets_the_rewritten_name(zone: Zone) -> None:
    responder = with_rules(zone, make_rule("suffix", ".a.example", ".b.example", is_last=True))

    found = responder.respond_untrusted(packet("x.a.example"))

    assert isinstance(found, Unresolved)
    assert wire.decode_name(found.query.name) == "x.b.example"
    assert found.rewriting is not None
    assert wire.decode_name(found.rewriting.asked.name) == "x.a.example"
    refused = dnslib.DNSRecord.parse(responder.refuse(found))
    assert str(refused.q.qname) == "x.a.example."


# --- Names and values in answers (records as CoreDNS' plugin/rewrite/name.go makes them) ------------------------------


def rewritten(rule: RewriteRule, asked: str, upstream: str, *others: RewriteRule) -> dnslib.DNSRecord:
    """The reply to `asked` if an upstream has these records: those of three sections, divided by ---."""
    rewriting = Rewriter([rule, *others]).apply(wire.parse_query_untrusted(packet(asked)), in_zone=False)
    assert rewriting is not None
    message = dnslib.DNSRecord.parse(packet(wire.decode_name(rewriting.answered.name))).reply()
    adds = (message.add_answer, message.add_auth, message.add_ar)
    for add, text in zip(adds, upstream.split("---"), strict=False):
        add(*dnslib.RR.fromZone(text))
    found = adopt_reply_untrusted(bytes(message.pack()), rewriting.answered.question)
    answer = renamed_untrusted(found.answer, rewriting)
    return dnslib.DNSRecord.parse(assemble(rewriting.asked, answer, 65535, 1232))


EVERY_SECTION = """
x.new.example. 60 SRV 0 1 80 a.new.example.
x.new.example. 60 MX 5 mail.new.example.
x.new.example. 60 CNAME y.new.example.
y.new.example. 60 PTR ptr.new.example.
y.new.example. 60 NAPTR 1 2 "s" "x" "" n.new.example.
y.new.example. 60 TXT "y.new.example."
---
new.example. 60 NS ns.new.example.
new.example. 60 SOA soa.new.example. root.new.example. 1 2 3 4 5
---
a.new.example. 60 A 192.0.2.1
other.example. 60 A 192.0.2.2
"""


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        (make_rule("suffix", ".old.test", ".new.example", is_last=True, is_auto=True), "x.old.test"),
        (
            make_rule(
                "regex",
                r"^(.*)\.old\.test\.$",
                "{1}.new.example",
                is_last=True,
                answers=tuple(
                    AnswerRule(field, r"^(.*)\.new\.example\.$", "{1}.old.test.") for field in ("name", "value")
                ),
            ),
            "x.old.test",
        ),
    ],
    ids=["answer auto", "answer name and value"],
)
def test_names_and_values_of_all_sections_are_rewritten_back(rule: RewriteRule, asked: str) -> None:
    reply = rewritten(rule, asked, EVERY_SECTION)

    assert lines(reply.rr) == [
        "x.old.test. 60 CNAME y.old.test.",
        "x.old.test. 60 MX 5 mail.old.test.",
        "x.old.test. 60 SRV 0 1 80 a.old.test.",
        'y.old.test. 60 NAPTR 1 2 "s" "x" "" n.old.test.',
        "y.old.test. 60 PTR ptr.old.test.",
        'y.old.test. 60 TXT "y.new.example."',
    ]
    assert lines(reply.ar) == ["a.old.test. 60 A 192.0.2.1", "other.example. 60 A 192.0.2.2"]
    assert [line.replace("new.example. 60", "* 60") for line in lines(reply.auth)] == [
        "* 60 NS ns.old.test.",
        "* 60 SOA soa.old.test. root.new.example. 1 2 3 4 5",
    ], "the zone itself does not end with .new.example"


def test_an_exact_rule_rewrites_names_below_its_own_without_being_asked() -> None:
    """CoreDNS: `exact` is always `answer auto`. The client sees only the name that it knows."""
    rule = make_rule("exact", "Red.example", "blue.test", is_last=True)

    reply = rewritten(
        rule, "red.EXAMPLE", "blue.test. 60 MX 5 a.blue.test.\nblue.test. 60 MX 6 notblue.test.\n---\n---\n"
    )

    assert lines(reply.rr) == ["red.EXAMPLE. 60 MX 5 a.red.example.", "red.EXAMPLE. 60 MX 6 notblue.test."]


@pytest.mark.parametrize("kind", ["prefix", "substring", "regex"])
def test_auto_of_other_kinds_exchanges_the_whole_name(kind: str) -> None:
    rule = make_rule(kind, "old", "new", is_last=True, is_auto=True)
    asked = "old.example" if kind != "regex" else "old"
    new = "new.example." if kind != "regex" else "new."

    reply = rewritten(rule, asked, f"{new} 60 CNAME www.{new}\nwww.{new} 60 A 192.0.2.1\n---\n---\n")

    assert lines(reply.rr) == [f"{asked}. 60 CNAME www.{asked}.", f"www.{asked}. 60 A 192.0.2.1"]


def test_without_answer_only_the_name_of_the_question_is_restored() -> None:
    rule = make_rule("suffix", ".old.test", ".new.example", is_last=True)

    reply = rewritten(
        rule, "x.old.test", "x.new.example. 60 CNAME y.new.example.\ny.new.example. 60 A 192.0.2.1\n---\n---\n"
    )

    assert lines(reply.rr) == ["x.old.test. 60 CNAME y.new.example.", "y.new.example. 60 A 192.0.2.1"]


def test_rules_that_continue_are_undone_in_the_opposite_order() -> None:
    first = make_rule("suffix", ".a.test", ".b.test", is_last=False, is_auto=True)
    second = make_rule("suffix", ".b.test", ".c.test", is_last=True, is_auto=True)

    reply = rewritten(first, "x.a.test", "x.c.test. 60 CNAME y.c.test.\n---\n---\n", second)

    assert lines(reply.rr) == ["x.a.test. 60 CNAME y.a.test."]


def test_values_alone_can_be_rewritten() -> None:
    """The example of CoreDNS' manual: PTR records in another domain."""
    value = AnswerRule("value", r"(.*)\.service\.consul\.", "{1}.coredns.rocks.")
    rule = make_rule("suffix", ".arpa", ".arpa", is_last=True, is_auto=True, answers=(value,))
    name = "30.30.30.10.in-addr.arpa"

    reply = rewritten(rule, name, f"{name}. 60 PTR ftp.service.consul.\n---\n---\n")

    assert lines(reply.rr) == [f"{name}. 60 PTR ftp.coredns.rocks."]


@pytest.mark.parametrize("result", ["", "a" * 64, "a..b"])
def test_a_name_that_would_become_invalid_stays(result: str) -> None:
    rule = make_rule("regex", "^x", "y", is_last=True, answers=(AnswerRule("value", "^bad", result + "."),))

    reply = rewritten(rule, "x.test", "y. 60 CNAME bad.test.\n---\n---\n")

    assert lines(reply.rr) == ["x.test. 60 CNAME bad.test."]


# --- The whole zone --------------------------------------------------------------------------------------

ANYBODY = (ipaddress.ip_network("10.0.0.0/8"),)


def transferred(responder: Responder, kind: str = "AXFR", client: str = "10.0.0.1") -> list[dnslib.DNSRecord]:
    found = responder.respond_untrusted(packet("cluster.local", kind), is_udp=False)
    assert isinstance(found, TransferRequest)
    return [dnslib.DNSRecord.parse(message) for message in responder.transfer(found, client)]


@pytest.mark.parametrize("text", [OBJECTS, headless(900)])
@pytest.mark.parametrize("kind", ["AXFR", "IXFR"])
def test_a_transfer_equals_the_dump_of_the_zone(text: str, kind: str) -> None:
    zone = build_zone(read_objects(text))

    messages = transferred(ready(zone, transfer_to=ANYBODY), kind)

    records = [rr for message in messages for rr in message.rr]
    assert records[0].rtype == records[-1].rtype == dnslib.QTYPE.SOA
    assert all(message.header.aa and message.header.id == 0x1234 for message in messages)
    assert (len(messages) > 1) is (text != OBJECTS)
    dumped = [line.split(maxsplit=4) for line in zone_file(zone).splitlines()[1:]]
    ours = [line for line in dumped if line[0].endswith("cluster.local.") and line[3] != "SOA"]
    assert sorted((str(rr.rname), str(rr.ttl), dnslib.QTYPE[rr.rtype]) for rr in records[1:-1]) == sorted(
        (line[0], line[1], line[3]) for line in ours
    )


def test_only_allowed_clients_may_transfer_the_zone(zone: Zone) -> None:
    responder = ready(zone, transfer_to=ANYBODY)

    (refused,) = transferred(responder, client="192.0.2.1")
    assert refused.header.rcode == dnslib.RCODE.REFUSED
    for asked in (ask(responder, "cluster.local", "AXFR"), ask(ready(zone), "cluster.local", "AXFR", udp=False)):
        assert asked.header.rcode == dnslib.RCODE.REFUSED, "by UDP; or where nobody may"
    assert ask(responder, "example.com", "AXFR", udp=False).header.rcode == dnslib.RCODE.REFUSED


def test_a_transfer_is_a_snapshot_of_the_zone() -> None:
    zone = build_zone(read_objects(headless(900)))
    responder = ready(zone, transfer_to=ANYBODY)
    found = responder.respond_untrusted(packet("cluster.local", "AXFR"), is_udp=False)
    assert isinstance(found, TransferRequest)
    messages = responder.transfer(found, "10.0.0.1")
    first = dnslib.DNSRecord.parse(next(messages))

    for key in [key for key in zone.table if b"\4many" in key]:
        del zone.table[key]
    zone.set_serial(99)

    rest = [dnslib.DNSRecord.parse(message) for message in messages]
    assert sum(len(message.rr) for message in (first, *rest)) > 900
    assert str(rest[-1].rr[-1].rdata) == str(first.rr[0].rdata), "the same SOA"
