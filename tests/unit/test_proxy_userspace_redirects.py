"""Frontends as the kernel has to know them in the userspace mode, and what `--dry-run` shows."""

from __future__ import annotations

import pytest

from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.changes import FrontendTable
from bridgehead.proxy.frontends import (
    Backend,
    Frontend,
    FrontendKey,
    Publication,
    Reason,
    ServiceFrontends,
    SourceNat,
    Verdict,
)
from bridgehead.proxy.mode import Settings
from bridgehead.proxy.userspace import UserspaceMode
from bridgehead.proxy.userspace.redirects import LISTENING, Side, guards, redirect, sides

WEB = FrontendKey("10.96.0.10", "tcp", 80)
WEB6 = FrontendKey("fd00:96::10", "udp", 53)
NODE_PORT = FrontendKey("0.0.0.0", "tcp", 30080)
ONE, OTHER = Backend("10.244.1.1", 8080, "node1", "", True), Backend("10.244.2.1", 8080, "node2")


def frontend(key: FrontendKey = WEB, **values: object) -> Frontend:
    return Frontend(**({"key": key, "owner": "default/web:"} | values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "listeners"),
    [
        (frontend(backends=(ONE,)), {Side(WEB): (ONE,)}),
        (frontend(), {}),
        (frontend(FrontendKey("10.96.0.10", "sctp", 80), backends=(ONE,)), {}),
        (
            frontend(NODE_PORT, backends=(ONE,), inside=(ONE, OTHER)),
            {Side(NODE_PORT): (ONE,), Side(NODE_PORT, True): (ONE, OTHER)},
        ),
        (frontend(NODE_PORT, inside=(OTHER,)), {Side(NODE_PORT, True): (OTHER,)}),
    ],
)
def test_a_listener_for_each_kind_of_clients_that_has_backends(given: Frontend, listeners: object) -> None:
    assert sides(given) == listeners


def test_the_only_backend_is_the_listener_and_nothing_hides_the_client_from_it() -> None:
    given = frontend(backends=(ONE, OTHER), source_nat=SourceNat.ALWAYS, affinity_seconds=10, source_ranges=("::/0",))

    told = redirect(given, {Side(WEB): 40001})

    assert [(b.address, b.port) for b in told.backends] == [(LISTENING[4], 40001)]
    assert told.source_nat is SourceNat.NEVER
    assert told.affinity_seconds is None
    assert (told.key, told.owner, told.source_ranges, told.inside) == (WEB, given.owner, ("::/0",), None)
    assert not told.backends[0].is_local
    assert told.backends[0].node, "or it would be taken for a pod that may reach itself"


def test_each_family_listens_in_its_own() -> None:
    told = redirect(frontend(WEB6, backends=(Backend("fd00:244:1::1", 53),)), {Side(WEB6): 40002})

    assert [(b.address, b.port) for b in told.backends] == [(LISTENING[6], 40002)]


def test_insiders_have_a_listener_of_their_own() -> None:
    given = frontend(NODE_PORT, inside=(OTHER,), when_empty=Verdict.DROP)

    told = redirect(given, {Side(NODE_PORT): 1, Side(NODE_PORT, True): 40003})

    assert told.backends == (), "a listener that is about to close is not meant"
    assert told.when_empty is Verdict.DROP
    assert [b.port for b in told.inside or ()] == [40003]


def test_whoever_finds_no_listener_is_refused() -> None:
    told = redirect(frontend(NODE_PORT, backends=(ONE,), inside=(ONE,), when_empty=Verdict.DROP), {})

    assert (told.backends, told.inside, told.when_empty) == ((), (), Verdict.REJECT)


def test_listeners_are_guarded_in_both_families() -> None:
    assert [(chain.family, "input" in chain.hook) for chain in guards()] == [(4, True), (6, True)]


class _NoKernel:
    """What rendering needs of a kernel."""

    safe_elements = 100


def test_a_dry_run_shows_who_would_listen_and_what_the_mode_lacks() -> None:
    mode = UserspaceMode(_NoKernel(), Settings())  # type: ignore[arg-type]
    table = FrontendTable()
    local = frontend(NODE_PORT, backends=(ONE,), inside=(ONE, OTHER), is_local=True, published_as=Publication.NODE_PORT)
    sctp = frontend(FrontendKey("10.96.0.10", "sctp", 80), backends=(ONE,))
    cluster = frontend(backends=(ONE, OTHER), is_local=True)
    table.update(
        ObjectKey("default", "web"), ServiceFrontends(service=ObjectKey("default", "web"), frontends=(cluster, local))
    )

    text = mode.render(table)

    assert "# 169.254.98.104 32770: 10.96.0.10:80/tcp of 'default/web:' to 10.244.1.1 8080, 10.244.2.1 8080\n" in text
    assert "# 169.254.98.104 32769: 0.0.0.0:30080/tcp, from inside of 'default/web:' to" in text
    assert "  10.96.0.10 . 80 . 0 : 169.254.98.104 . 32770" in text
    assert "  30080 . 65536 : 169.254.98.104 . 32769" in text
    assert mode.listeners.ports == {}, "nobody listens"
    reasons = [mode.unsupported(some) for some in (cluster, local, sctp)]
    assert [problem and problem.reason for problem in reasons] == [None, Reason.NOT_SUPPORTED, Reason.NOT_SUPPORTED]
