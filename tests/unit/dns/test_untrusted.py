"""Any bytes from the network: only BadPacket is raised, and no reply is longer than the client accepts."""

from __future__ import annotations

import contextlib
import inspect
from random import Random
from typing import Any

import dnslib
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.dns.answering import Rewriter, rewrite
from bridgehead.dns.answering import responder as responder_module
from bridgehead.dns.config import AnswerRule
from bridgehead.dns.corefile.directives.rewrite import make_rule
from bridgehead.dns.errors import BadPacket
from bridgehead.dns.messages import replies, upstream_replies, wire
from bridgehead.dns.serving import query_log
from tests.unit.dns.answering.test_responder import headless
from tests.unit.dns.world import build_zone, packet, read_objects, ready, reply_to
from tests.unit.examples import examples

QUESTION = b"\3web\7default\3svc\7cluster\5local\0\0\1\0\1"
RESPONDER = ready(build_zone(read_objects(headless(40))))
GOOD = [
    packet("web.default.svc.cluster.local"),
    packet("many.default.svc.cluster.local", edns=1232),
    packet("_x._tcp.many.default.svc.cluster.local", "SRV", edns=600),
    packet("x.default.svc.cluster.local", "AAAA", edns=4096, opts=[dnslib.EDNSOption(10, b"12345678")]),
]
REWRITING: Any = Rewriter(
    [
        make_rule("exact", "default.svc.cluster.local", "web.default.svc.cluster.local", is_last=False),
        make_rule("suffix", "local", "example", is_last=True, answers=(AnswerRule("value", "e", "x"),)),
    ]
).apply(wire.parse_query_untrusted(packet("default.svc.cluster.local", "SRV")), in_zone=True)
REPLIES = [reply_to(RESPONDER, query) for query in GOOD]


MESSAGES_AT_ONCE = 20  # `random` damages messages much faster than Hypothesis draws


def damaged(random: Random) -> bytes:
    """A sound message after some bytes changed, went or came."""
    data = bytearray(random.choice(GOOD if random.random() < 0.5 else REPLIES))
    for _ in range(random.randint(0, 6)):
        at = random.randint(0, max(0, len(data) - 1))
        match random.choice(("set", "cut", "insert", "delete")):
            case "set" if data:
                data[at] = random.choice((0, 1, 12, 41, 63, 64, 0xC0, 0xFF, random.randint(0, 255)))
            case "cut":
                del data[at:]
            case "insert":
                data[at:at] = random.randbytes(random.randint(0, 12))
            case "delete":
                del data[at : at + random.randint(1, 8)]
    return bytes(data)


def damaged_messages(seed: int) -> list[bytes]:
    random = Random(seed)
    return [damaged(random) for _ in range(MESSAGES_AT_ONCE)]


# Lists of messages.
MESSAGES = st.binary(max_size=600).map(lambda data: [data]) | st.integers(0, 2**32).map(damaged_messages)

FEEDS = {
    wire.parse_query_untrusted: lambda data: wire.parse_query_untrusted(data),
    upstream_replies.parse_reply_untrusted: lambda data: upstream_replies.parse_reply_untrusted(
        data, _own_question(data)
    ),
    upstream_replies.adopt_reply_untrusted: lambda data: _adopt(data),
    upstream_replies.each_record_untrusted: lambda data: list(
        upstream_replies.each_record_untrusted(data, 12, (2, 2, 2))
    ),
    upstream_replies.plain_records_untrusted: lambda data: upstream_replies.plain_records_untrusted(
        replies.Answer(data[2:12].ljust(10, b"\0"), data[12:], 0), QUESTION
    ),
    upstream_replies.plain_soa_untrusted: lambda data: upstream_replies.plain_soa_untrusted(
        replies.Answer(data[2:12].ljust(10, b"\0"), data[12:], 0), QUESTION
    ),
    upstream_replies.read_name_untrusted: lambda data: [
        upstream_replies.read_name_untrusted(data, at) for at in range(0, len(data), 5)
    ],
    wire.skip_name_untrusted: lambda data: wire.skip_name_untrusted(data, 12),
    wire.skip_record_untrusted: lambda data: wire.skip_record_untrusted(data, 12),
    wire._parse_edns_untrusted: lambda data: wire._parse_edns_untrusted(data.ljust(12, b"\0"), 12),
    query_log.query_line_untrusted: lambda data: (
        query_log.query_line_untrusted(("::1", 1), data, data[:4], "udp", 0.1) if len(data) > 3 else None
    ),
    upstream_replies.plain_data_untrusted: lambda data: [
        upstream_replies.plain_data_untrusted(data, kind, 12, len(data)) for kind in (2, 5, 6, 12, 15, 16, 33, 35, 39)
    ],
    upstream_replies._name_offset_untrusted: lambda data: upstream_replies._name_offset_untrusted(
        data, 35, 12, len(data)
    ),
    upstream_replies.map_value_name_untrusted: lambda data: [
        upstream_replies.map_value_name_untrusted(kind, data, lambda name: name) for kind in (2, 6, 15, 16, 33, 35)
    ],
    rewrite.renamed_untrusted: lambda data: rewrite.renamed_untrusted(
        replies.Answer(data[2:12].ljust(10, b"\0"), data[12:], 0), REWRITING
    ),
    replies.format_error_untrusted: lambda data: replies.format_error_untrusted(data),
}


def _own_question(data: bytes) -> bytes:
    """The question of the reply is right, so that it is never the reason of a refusal."""
    end = data.find(b"\0", 12) + 5
    return data[12:end]


def _adopt(data: bytes) -> None:
    question = _own_question(data)
    found = upstream_replies.adopt_reply_untrusted(data, question)
    upstream_replies.aged(found, 7)
    upstream_replies.plain_records_untrusted(found.answer, question)


def test_all_functions_for_untrusted_bytes_are_tested():
    there = {
        function
        for module in (wire, replies, upstream_replies, responder_module, query_log, rewrite)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if name.endswith("_untrusted")
    }
    assert there == set(FEEDS)


@examples(100)
@given(messages=MESSAGES)
def test_only_bad_packet_is_raised(messages):
    for data in messages:
        for feed in FEEDS.values():
            with contextlib.suppress(BadPacket):
                feed(data)


@examples(150)
@given(messages=MESSAGES, is_udp=st.booleans())
def test_no_packet_makes_the_responder_fail(messages, is_udp):
    for data in messages:
        respond(data, is_udp)


def respond(data: bytes, is_udp: bool) -> None:
    """Check the reply to one packet."""
    reply = RESPONDER.respond_untrusted(data, is_udp=is_udp)
    if not isinstance(reply, bytes):
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
    upstream_replies.parse_reply_untrusted(reply, query.question)
