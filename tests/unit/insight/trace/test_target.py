"""Targets and origins as the user writes them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.trace.target import (
    BadTarget,
    Origin,
    OriginKind,
    Target,
    TargetKind,
    parse_origin,
    parse_target,
)

NAME, ADDRESS, SERVICE, POD = TargetKind


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("web", Target(NAME, "web")),
        ("web:80", Target(NAME, "web", port="80")),
        ("Web.prod:http", Target(NAME, "web.prod", port="http")),
        ("web.prod.svc.cluster.local.", Target(NAME, "web.prod.svc.cluster.local.")),
        ("http://web/path?q", Target(NAME, "web", port="80")),
        ("https://web:8443", Target(NAME, "web", port="8443")),
        ("10.96.0.1:443", Target(ADDRESS, "10.96.0.1", port="443")),
        ("FD00::1", Target(ADDRESS, "fd00::1")),
        ("[fd00:0::1]:80", Target(ADDRESS, "fd00::1", port="80")),
        ("service/web", Target(SERVICE, "web")),
        ("svc/web:http", Target(SERVICE, "web", port="http")),
        ("service/prod/web:80", Target(SERVICE, "web", "prod", "80")),
        ("pod/web-1:8080", Target(POD, "web-1", port="8080")),
    ],
)
def test_targets(text, target):
    assert parse_target(text) == target


@pytest.mark.parametrize(
    "text",
    ["", ":80", "web:0", "web:65536", "web:" + "9" * 500, "deployment/web", "service/", "ftp://web", "[fd00::1:80",
     "we b", "a" * 300, "service/..", "web:ht tp", "\x1b[31mred", "w\u00e9b"],
)  # fmt: skip
def test_texts_that_are_no_targets(text):
    with pytest.raises(BadTarget) as error:
        parse_target(text)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("outside", Origin(OriginKind.OUTSIDE)),
        ("node/node1", Origin(OriginKind.NODE, "node1")),
        ("pod/web-1", Origin(OriginKind.POD, "web-1")),
        ("pod/prod/web-1", Origin(OriginKind.POD, "web-1", "prod")),
    ],
)
def test_origins(text, origin):
    assert parse_origin(text) == origin


@pytest.mark.parametrize("text", ["", "pod", "pod/", "inside", "service/web", "node/a b"])
def test_texts_that_are_no_origins(text):
    with pytest.raises(BadTarget):
        parse_origin(text)


@given(st.text(max_size=300))
def test_any_text_is_a_target_or_an_error(text):
    for parse in (parse_target, parse_origin):
        with contextlib.suppress(BadTarget):
            parse(text)
