"""Frontends as the kernel has to know them in the userspace mode, and what `--dry-run` shows."""

from __future__ import annotations

import pytest

from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.frontend_table import FrontendTable
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
from bridgehead.proxy.userspace.redirects import LISTENING, Side, guards, inherited_ports, redirect, sides

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
            frontend(NODE_PORT, backends=(ONE,), cluster_backends=(ONE, OTHER)),
            {Side(NODE_PORT): (ONE,), Side(NODE_PORT, True): (ONE, OTHER)},
        ),
        (frontend(NODE_PORT, cluster_backends=(OTHER,)), {Side(NODE_PORT, True): (OTHER,)}),
    ],
)
def test_each_kind_of_client_with_backends_has_a_listener(given: Frontend, listeners: object) -> None:
    assert sides(given) == listeners


def test_the_listener_is_the_only_backend_and_the_source_is_kept() -> None:
    given = frontend(backends=(ONE, OTHER), source_nat=SourceNat.ALWAYS, affinity_seconds=10, source_ranges=("::/0",))

    redirected = redirect(given, {Side(WEB): 40001})

    assert [(b.address, b.port) for b in redirected.backends] == [(LISTENING[4], 40001)]
    assert redirected.source_nat is SourceNat.NEVER
    assert redirected.affinity_seconds is None
    assert (redirected.key, redirected.owner, redirected.source_ranges, redirected.cluster_backends) == (
        WEB,
        given.owner,
        ("::/0",),
        None,
    )
    assert not redirected.backends[0].is_local
    assert redirected.backends[0].node, "or it would be taken for a pod that may reach itself"


def test_each_family_listens_on_its_own_address() -> None:
    redirected = redirect(frontend(WEB6, backends=(Backend("fd00:244:1::1", 53),)), {Side(WEB6): 40002})

    assert [(b.address, b.port) for b in redirected.backends] == [(LISTENING[6], 40002)]


def test_cluster_clients_have_their_own_listener() -> None:
    given = frontend(NODE_PORT, cluster_backends=(OTHER,), when_empty=Verdict.DROP)

    redirected = redirect(given, {Side(NODE_PORT): 1, Side(NODE_PORT, True): 40003})

    assert redirected.backends == (), "a listener that is about to close is not meant"
    assert redirected.when_empty is Verdict.DROP
    assert [b.port for b in redirected.cluster_backends or ()] == [40003]


def test_clients_without_a_listener_are_rejected() -> None:
    redirected = redirect(frontend(NODE_PORT, backends=(ONE,), cluster_backends=(ONE,), when_empty=Verdict.DROP), {})

    assert (redirected.backends, redirected.cluster_backends, redirected.when_empty) == ((), (), Verdict.REJECT)


def test_listeners_are_protected_in_both_families() -> None:
    assert [(chain.family, "input" in chain.hook) for chain in guards()] == [(4, True), (6, True)]


class _NoKernel:
    """The part of a kernel that rendering needs."""

    safe_elements = 100


def test_a_dry_run_shows_listeners_and_limits_of_the_mode() -> None:
    mode = UserspaceMode(_NoKernel(), Settings())  # type: ignore[arg-type]
    table = FrontendTable()
    local = frontend(
        NODE_PORT, backends=(ONE,), cluster_backends=(ONE, OTHER), is_local=True, published_as=Publication.NODE_PORT
    )
    sctp = frontend(FrontendKey("10.96.0.10", "sctp", 80), backends=(ONE,))
    cluster = frontend(backends=(ONE, OTHER), is_local=True)
    table.update(
        ObjectKey("default", "web"), ServiceFrontends(service=ObjectKey("default", "web"), frontends=(cluster, local))
    )

    text = mode.render(table)

    assert "# 169.254.98.104 32770: 10.96.0.10:80/tcp of 'default/web:' to 10.244.1.1 8080, 10.244.2.1 8080\n" in text
    assert "# 169.254.98.104 32769: 0.0.0.0:30080/tcp, from the cluster of 'default/web:' to" in text
    assert "  10.96.0.10 . tcp . 80 . 1:1 : 169.254.98.104 . 32770" in text
    assert "  0.0.0.0 . tcp . 30080 . 2:1 : 169.254.98.104 . 32769" in text
    assert mode.listeners.ports == {}, "nobody listens"
    reasons = [mode.unsupported(some) for some in (cluster, local, sctp)]
    assert [problem and problem.reason for problem in reasons] == [None, Reason.NOT_SUPPORTED, Reason.NOT_SUPPORTED]


def test_a_restart_listens_where_the_earlier_rules_lead() -> None:
    endpoints = {
        "10.96.0.10 . tcp . 80 . 1:1": f"{LISTENING[4]} . 40001",
        "0.0.0.0 . tcp . 30080 . 2:1": f"{LISTENING[4]} . 40002",
        "10.96.0.99 . tcp . 80 . 1:1": f"{LISTENING[4]} . 40003",  # a Service that was deleted meanwhile
        "fd00:96::10 . udp . 53 . 1:1": f"{LISTENING[6]} . 40004",
        "10.96.0.11 . tcp . 80 . 1:1": "10.244.1.1 . 8080",  # of no listener
    }
    table = [
        frontend(backends=(ONE,)),
        frontend(NODE_PORT, backends=(ONE,), cluster_backends=(OTHER,)),
        frontend(WEB6, backends=(ONE,)),
    ]

    own, avoided = inherited_ports(table, endpoints)

    assert own == {Side(WEB): 40001, Side(NODE_PORT, True): 40002, Side(WEB6): 40004}
    assert avoided == {40001, 40002, 40003, 40004}
