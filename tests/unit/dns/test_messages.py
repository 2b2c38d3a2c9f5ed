"""Parts of messages: options, chains of aliases, names of addresses, and the endpoints that have them."""

from __future__ import annotations

import dnslib
import pytest

from bridgehead.dns.errors import BadPacket
from bridgehead.dns.messages import upstream_replies, wire
from bridgehead.dns.messages.domain_names import address_of_reverse, reverse_name
from bridgehead.dns.messages.replies import Answer, assemble, head
from bridgehead.dns.messages.upstream_replies import PlainRecord
from bridgehead.dns.zone import endpoint_names, index_by_address
from tests.unit.dns.world import lines, packet, read_objects

QUESTION = wire.question_key(wire.encode_name("www.example.com"), 1)


@pytest.mark.parametrize(
    ("options", "has_subnet"),
    [
        (b"", False),
        (b"\0\x0a\0\2ab", False),
        (b"\0\x0a\0\2ab\0\x08\0\0", True),
        (b"\0\x08\0\4\0\1\x18\0", True),
        (b"\0\x0a\0\x08\0\x08\0\0", False),  # the first one is longer than the record
        (b"\0\x08", False),
    ],
)
def test_options_of_a_query_are_found_by_their_code(options: bytes, has_subnet: bool) -> None:
    assert wire.Edns(1232, 0, False, options).has_option(wire.CLIENT_SUBNET) is has_subnet


def test_options_are_read_as_they_were_received() -> None:
    query = wire.parse_query_untrusted(packet("a", edns=1232, opts=[dnslib.EDNSOption(10, b"12345678")]))
    assert query.edns == wire.Edns(1232, 0, False, b"\0\x0a\0\x0812345678")


@pytest.mark.parametrize(
    ("reply", "is_refusal"),
    [
        (b"\0\1\x80\1" + bytes(8), True),  # FORMERR
        (b"\0\1\x81\x84" + bytes(8), True),  # NOTIMP
        (b"\0\1\x80\2" + bytes(8), False),  # SERVFAIL
        (b"\0\1\0\1" + bytes(8), False),  # a query
        (b"\0\1\x80\1\0\1" + bytes(6), False),  # a question is missing
        (b"\0\1\x80\1" + bytes(9), False),
    ],
)
def test_a_header_alone_can_refuse_a_query(reply: bytes, is_refusal: bool) -> None:
    if is_refusal:
        found = upstream_replies.adopt_reply_untrusted(reply, QUESTION)
        assert (found.rcode, found.options, found.answer.body) == (reply[3] & 15, None, b"")
    else:
        with pytest.raises(BadPacket):
            upstream_replies.adopt_reply_untrusted(reply, QUESTION)


@pytest.mark.parametrize(("size", "is_passed_on"), [(400, True), (1000, False), (60_000, False)])
def test_options_of_an_upstream_do_not_make_a_reply_too_large(size: int, is_passed_on: bool) -> None:
    query = wire.parse_query_untrusted(packet("www.example.com", edns=512))
    options = b"\xfd\xe9" + (size - 4).to_bytes(2, "big") + bytes(size - 4)
    answer = Answer(head(wire.NOERROR, 1), b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\x7f\0\0\1", 0)
    reply = assemble(query, answer, 512, 1232, options=options, extended_rcode=1)
    assert len(reply) <= 512
    assert len(dnslib.DNSRecord.parse(reply).rr) == 1
    assert (options in reply) is is_passed_on


def test_a_chain_of_aliases_may_have_a_soa() -> None:
    name, target = wire.encode_name("a.example"), wire.encode_name("b.example")
    soa = wire.encode_name("ns") + wire.encode_name("root") + bytes(20)
    chain = upstream_replies.compile_chain(
        name,
        [PlainRecord(name, wire.TYPES["CNAME"], 5, target)],
        wire.NXDOMAIN,
        ra=True,
        authority=[PlainRecord(wire.encode_name("example"), wire.TYPES["SOA"], 7, soa)],
    )
    query = wire.parse_query_untrusted(packet("a.example"))
    reply = dnslib.DNSRecord.parse(assemble(query, chain, 512, 1232))
    assert (reply.header.rcode, reply.header.aa) == (dnslib.RCODE.NXDOMAIN, 1)
    assert lines(reply.rr) == ["a.example. 5 CNAME b.example."]
    assert lines(reply.auth) == ["example. 7 SOA ns. root. 0 0 0 0 0"]
    assert [record.owner for record in upstream_replies.plain_soa_untrusted(chain, query.question)] == [b"\7example\0"]


def test_ttls_with_the_most_significant_bit_are_0() -> None:
    """RFC 2181, section 8."""
    reply = dnslib.DNSRecord.parse(packet("www.example.com")).reply()
    reply.add_answer(dnslib.RR("www.example.com", ttl=1 << 31, rdata=dnslib.A("192.0.2.1")))
    found = upstream_replies.with_ttls(
        upstream_replies.adopt_reply_untrusted(bytes(reply.pack()), QUESTION), lambda ttl: ttl + 7
    )
    assert found.ttl == int.from_bytes(found.answer.body[6:10]) == 7


@pytest.mark.parametrize("address", ["10.96.0.1", "0.0.0.0", "fd00:10:96::a", "::"])
def test_names_of_addresses_are_read_back(address: str) -> None:
    assert address_of_reverse(reverse_name(address)) == address


@pytest.mark.parametrize(
    "name",
    [
        "in-addr.arpa",
        "10.in-addr.arpa",
        "1.2.3.4.5.in-addr.arpa",
        "256.0.0.10.in-addr.arpa",
        "x.0.0.10.in-addr.arpa",
        "ip6.arpa",
        f"{'0.' * 31}ip6.arpa",
        f"00.{'0.' * 31}ip6.arpa",
        f"g.{'0.' * 31}ip6.arpa",
        "www.example.com",
    ],
)
def test_other_names_are_those_of_no_address(name: str) -> None:
    assert address_of_reverse(name) is None


SLICES = """
kind: EndpointSlice
metadata: {name: b, labels: {kubernetes.io/service-name: web}}
endpoints:
- {addresses: [10.244.0.1], targetRef: {kind: Pod, name: web-7}}
- {addresses: [10.244.0.2], conditions: {ready: false}}
- {addresses: [10.244.0.1, nonsense], hostname: host}
---
kind: EndpointSlice
metadata: {name: a}
endpoints: [{addresses: [10.244.0.1]}]
---
kind: EndpointSlice
metadata: {name: long, labels: {kubernetes.io/service-name: LONG}}
endpoints: [{addresses: [10.244.0.1]}]
---
kind: EndpointSlice
metadata: {name: elsewhere, labels: {kubernetes.io/service-name: web}}
addressType: FQDN
endpoints: [{addresses: [10.244.0.9]}]
""".replace("LONG", "x" * 230)


@pytest.mark.parametrize(("by_pod", "first"), [(False, "10-244-0-1"), (True, "web-7")])
def test_an_address_has_the_names_of_its_ready_endpoints(by_pod: bool, first: str) -> None:
    slices = read_objects(SLICES)
    names = [f"{label}.web.default.svc.x" for label in (first, "host")]
    assert endpoint_names(slices, "10.244.0.1", "x", by_pod=by_pod) == names
    assert endpoint_names(slices, "10.244.0.2", "x", by_pod=by_pod) == []
    indexed = [sorted(index_by_address(slice_)) for slice_ in slices]
    assert indexed == [["10.244.0.1", "10.244.0.2"], ["10.244.0.1"], ["10.244.0.1"], []]
