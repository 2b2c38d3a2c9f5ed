"""Any bytes from the network: only BadPacket is raised, and no reply is longer than the client accepts."""

from __future__ import annotations

import contextlib
import inspect

import dnslib
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.dns.answering import Unresolved, rewriting
from bridgehead.dns.answering import responder as responder_module
from bridgehead.dns.errors import BadPacket
from bridgehead.dns.messages import foreign, wire
from bridgehead.dns.serving import query_log
from tests.unit.dns.test_responder import headless
from tests.unit.dns.world import build_zone, packet, read_objects, ready

QUESTION = b"\3web\7default\3svc\7cluster\5local\0\0\1\0\1"
RESPONDER = ready(build_zone(read_objects(headless(40))))
GOOD = [
    packet("web.default.svc.cluster.local"),
    packet("many.default.svc.cluster.local", edns=1232),
    packet("_x._tcp.many.default.svc.cluster.local", "SRV", edns=600),
    packet("x.default.svc.cluster.local", "AAAA", edns=4096, opts=[dnslib.EDNSOption(10, b"12345678")]),
]
ANSWERED = wire.parse_query_untrusted(GOOD[0])
REPLIES = [RESPONDER.respond_untrusted(query) for query in GOOD]


@st.composite
def damaged(draw: st.DrawFn, sound: list[bytes] = GOOD) -> bytes:
    """A sound message after some bytes changed, went or came."""
    data = bytearray(draw(st.sampled_from(sound)))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["set", "cut", "insert", "delete"])):
            case "set" if data:
                data[at] = draw(st.sampled_from([0, 1, 12, 41, 63, 64, 0xC0, 0xFF]) | st.integers(0, 255))
            case "cut":
                del data[at:]
            case "insert":
                data[at:at] = draw(st.binary(max_size=12))
            case "delete":
                del data[at : at + draw(st.integers(1, 8))]
    return bytes(data)


ANY_BYTES = st.one_of(st.binary(max_size=600), damaged(), damaged(REPLIES))

FEEDS = {
    wire.parse_query_untrusted: lambda data: wire.parse_query_untrusted(data),
    foreign.parse_reply_untrusted: lambda data: foreign.parse_reply_untrusted(data, _own_question(data)),
    foreign.adopt_reply_untrusted: lambda data: _adopt(data),
    foreign.each_record_untrusted: lambda data: list(foreign.each_record_untrusted(data, 12, (2, 2, 2))),
    foreign.plain_records_untrusted: lambda data: foreign.plain_records_untrusted(
        wire.Answer(data[2:12].ljust(10, b"\0"), data[12:], 0), QUESTION
    ),
    foreign.read_name_untrusted: lambda data: [foreign.read_name_untrusted(data, at) for at in range(0, len(data), 5)],
    wire.skip_name_untrusted: lambda data: wire.skip_name_untrusted(data, 12),
    wire.skip_record_untrusted: lambda data: wire.skip_record_untrusted(data, 12),
    wire._parse_edns_untrusted: lambda data: wire._parse_edns_untrusted(data.ljust(12, b"\0"), 12),
    query_log.query_line_untrusted: lambda data: (
        query_log.query_line_untrusted(("::1", 1), data, data[:4], "udp", 0.1) if len(data) > 3 else None
    ),
    foreign.plain_data_untrusted: lambda data: [
        foreign.plain_data_untrusted(data, kind, 12, len(data)) for kind in (2, 5, 6, 12, 15, 16, 33)
    ],
    rewriting.renamed_untrusted: lambda data: rewriting.renamed_untrusted(
        wire.Answer(data[2:12].ljust(10, b"\0"), data[12:], 0), wire.parse_query_untrusted(GOOD[1]), ANSWERED
    ),
    wire.format_error_untrusted: lambda data: wire.format_error_untrusted(data),
}


def _own_question(data: bytes) -> bytes:
    """The question of the reply is right, so that it is never the reason of a refusal."""
    end = data.find(b"\0", 12) + 5
    return data[12:end]


def _adopt(data: bytes) -> None:
    question = _own_question(data)
    found = foreign.adopt_reply_untrusted(data, question)
    foreign.aged(found, 7)
    foreign.plain_records_untrusted(found.answer, question)


def test_all_functions_for_untrusted_bytes_are_tested():
    there = {
        function
        for module in (wire, foreign, responder_module, query_log, rewriting)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if name.endswith("_untrusted")
    }
    assert there == set(FEEDS)


@settings(max_examples=500)
@given(data=ANY_BYTES)
def test_only_bad_packet_is_raised(data):
    for feed in FEEDS.values():
        with contextlib.suppress(BadPacket):
            feed(data)


@settings(max_examples=1000)
@given(data=ANY_BYTES, is_udp=st.booleans())
def test_no_packet_makes_the_responder_fail(data, is_udp):
    reply = RESPONDER.respond_untrusted(data, is_udp=is_udp)
    if isinstance(reply, Unresolved) or reply is None:
        return
    assert reply[:2] == data[:2]
    assert reply[2] & 0x80
    try:
        query = wire.parse_query_untrusted(data)
    except BadPacket:
        assert len(reply) == 12
        return
    assert len(reply) <= RESPONDER.limit(query, is_udp)
    if query.edns is None:
        assert len(reply) <= 512 or not is_udp
    foreign.parse_reply_untrusted(reply, query.question)
