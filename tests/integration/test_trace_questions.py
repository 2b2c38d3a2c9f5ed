"""The DNS questions of a trace, to servers that answer well, badly and not at all."""

from __future__ import annotations

import socket
import threading

from bridgehead.dns.messages.wire import HEADER_SIZE, TYPES
from bridgehead.insight.trace.dns_queries import Questions, ask_names
from tests.integration.namespaced import in_namespace

_A = TYPES["A"].to_bytes(2)
NAMES = ("web.default.svc.cluster.local", "web.svc.cluster.local")


def reply(query: bytes, rcode: int, address: bytes = b"") -> bytes:
    is_a = query[-4:-2] == _A
    count = 1 if address and is_a else 0
    record = b"\xc0\x0c" + _A + b"\0\1" + bytes(4) + b"\0\4" + address if count else b""
    return query[:2] + bytes([0x84, rcode]) + b"\0\1" + count.to_bytes(2) + bytes(4) + query[HEADER_SIZE:] + record


def answer(make_replies) -> socket.socket:
    """Serve 127.0.0.1:53: `make_replies` returns the datagrams that answer a query."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))

    def serve() -> None:
        while True:
            query, client = server.recvfrom(4096)
            for one in make_replies(query):
                server.sendto(one, client)

    threading.Thread(target=serve, daemon=True).start()
    return server


@in_namespace
def test_the_first_name_with_an_address_ends_the_search():
    def replies(query: bytes) -> list[bytes]:
        is_second = b"\3web\3svc" in query
        return [reply(query, 0, bytes([10, 96, 0, 10])) if is_second else reply(query, 3)]

    with answer(replies):
        found = ask_names(Questions(server="127.0.0.1", names=(*NAMES, "web"), seconds=5)).answers
    assert [(one.name, one.rcode, one.addresses) for one in found] == [
        (NAMES[0], "NXDOMAIN", ()),
        (NAMES[1], "NOERROR", ("10.96.0.10",)),
    ]
    assert found[-1].server == "127.0.0.1"


@in_namespace
def test_replies_with_other_ids_are_ignored_and_broken_ones_reported():
    with answer(lambda query: [b"xx" + reply(query, 0)[2:], query[:2] + b"\x84"]):
        (found,) = ask_names(Questions(server="127.0.0.1", names=NAMES, seconds=5)).answers
    assert found.addresses == ()
    assert "not a reply" in found.rcode


@in_namespace
def test_a_server_that_is_silent_or_absent_is_asked_once():
    (found,) = ask_names(Questions(server="127.0.0.1", names=NAMES, seconds=5)).answers
    assert found.rcode == "connection refused"
    with answer(lambda query: []):
        (found,) = ask_names(Questions(server="127.0.0.1", names=NAMES, seconds=0.05)).answers
    assert found.rcode == "no answer within 0.05 s"
