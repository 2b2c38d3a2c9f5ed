"""Queries that are logged: all, or those whose replies are of some classes."""

from __future__ import annotations

import logging

import pytest

from bridgehead.dns.messages import wire
from bridgehead.dns.serving import QueryLog
from tests.unit.dns.world import build_zone, packet, read_objects, ready

CLIENT = ("10.244.1.2", 40712)
WEB = "web.default.svc.cluster.local"


@pytest.mark.parametrize(
    ("classes", "logged"),
    [
        ((), ["NOERROR", "NXDOMAIN", "NOERROR", "REFUSED", "-"]),
        (("success",), ["NOERROR"]),
        (("denial",), ["NXDOMAIN", "NOERROR"]),
        (("denial", "error"), ["NXDOMAIN", "NOERROR", "REFUSED", "-"]),
    ],
)
def test_responses_are_classified(classes, logged, caplog):
    caplog.set_level(logging.INFO, "bridgehead.dns.queries")
    cluster = "{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9}}"
    responder = ready(build_zone(read_objects(cluster)), is_recursive=False)
    log_query = QueryLog(classes)
    queries = [packet(WEB), packet(f"no-{WEB}"), packet(WEB, "AAAA"), packet("example.com")]
    for query in queries:
        reply = responder.respond_untrusted(query)
        assert isinstance(reply, bytes)
        log_query(CLIENT, query, reply, "udp", 0.0)
    log_query(CLIENT, bytes(wire.HEADER_SIZE), None, "udp", 0.0)
    assert [line.rpartition('" ')[2].split()[0] for line in caplog.messages] == logged
