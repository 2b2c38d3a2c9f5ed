"""Formats of metrics: the choice by an Accept header, and protobuf."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary

from bridgehead.exposition.formats import Format, choose, render

PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
# Accept headers of Prometheus 2.53 and 3.4.
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3 = f"{PROTOBUF};q=0.6,{PROMETHEUS_2}"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", Format.TEXT),
        ("*/*", Format.TEXT),
        ("text/html", Format.TEXT),
        ("text/plain", Format.TEXT),
        ("text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.1", Format.TEXT),
        ("text/plain;version=9, application/openmetrics-text", Format.OPENMETRICS),
        ("application/openmetrics-text; version=2.0.0", Format.TEXT),
        ("application/openmetrics-text; version=1.0.0; q=none, text/plain", Format.TEXT),
        ("Application/OpenMetrics-Text", Format.OPENMETRICS),
        (PROTOBUF, Format.PROTOBUF),
        (PROTOBUF.replace("delimited", "text"), Format.TEXT),
        (
            'application/vnd.google.protobuf; proto="io.prometheus.client.MetricFamily"; encoding=delimited',
            Format.PROTOBUF,
        ),
        (PROMETHEUS_2, Format.OPENMETRICS),
        (PROMETHEUS_3, Format.PROTOBUF),
        ("," * 1000 + "application/openmetrics-text", Format.TEXT),
    ],
)
def test_a_scraper_gets_the_format_that_it_prefers(accept: str, expected: Format) -> None:
    assert choose(accept) is expected


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("a", "Calls.", ("code",), registry=registry).labels("200").inc(3)
    Gauge("b", "Now.", registry=registry).set(-1.5)
    Histogram("c_seconds", "Took.", ("verb",), buckets=(1, 2), registry=registry).labels("GET").observe(1.5)
    Summary("d", "Sizes.", registry=registry).observe(300)
    return registry


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text"])
def test_no_series_has_the_time_of_another_ones_creation(registry: CollectorRegistry, accept: str) -> None:
    page, content_type = render(registry, accept)
    assert b"_created" not in page
    assert b'a_total{code="200"} 3.0\n' in page
    assert content_type.startswith(accept or "text/plain; version=0.0.4")


def test_protobuf_has_the_same_numbers(registry: CollectorRegistry) -> None:
    page, content_type = render(registry, PROTOBUF)
    assert content_type == PROTOBUF.replace(";", "; ")
    families = [decode(family) for _, family in fields_of(page, framed=True)]
    label = {1: [b"code"], 2: [b"200"]}
    assert families[0] == {1: [b"a_total"], 2: [b"Calls."], 3: [0], 4: [{1: [label], 3: [{1: [3.0]}]}]}
    assert families[1] == {1: [b"b"], 2: [b"Now."], 3: [1], 4: [{2: [{1: [-1.5]}]}]}
    buckets = [{1: [0], 2: [1.0]}, {1: [1], 2: [2.0]}, {1: [1], 2: [float("inf")]}]
    histogram = {1: [1], 2: [1.5], 3: buckets}
    assert families[2] == {
        1: [b"c_seconds"],
        2: [b"Took."],
        3: [4],
        4: [{1: [{1: [b"verb"], 2: [b"GET"]}], 7: [histogram]}],
    }
    assert families[3] == {1: [b"d"], 2: [b"Sizes."], 3: [2], 4: [{4: [{1: [1], 2: [300.0]}]}]}


# Fields that are messages, by the path of their numbers below MetricFamily.
MESSAGES = {(4,), (4, 1), (4, 2), (4, 3), (4, 4), (4, 7), (4, 7, 3)}


def decode(message: bytes, path: tuple[int, ...] = ()) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for number, value in fields_of(message):
        here = (*path, number)
        found.setdefault(number, []).append(decode(value, here) if here in MESSAGES else value)
    return found


def fields_of(data: bytes, *, framed: bool = False) -> list[tuple[int, Any]]:
    """The fields of a message, or the messages of a page, each of which is after its length."""
    found: list[tuple[int, Any]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        number, kind = divmod(varint(), 8) if not framed else (0, 2)
        if kind == 0:
            found.append((number, varint()))
        elif kind == 1:
            found.append((number, struct.unpack_from("<d", data, at)[0]))
            at += 8
        else:
            size = varint()
            found.append((number, data[at : at + size]))
            at += size
    return found
