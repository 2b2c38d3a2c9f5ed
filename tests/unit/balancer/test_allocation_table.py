"""A table of allocations: choice of pools, named pools and addresses, serviceAllocation, sharing.

Each row converges its Services in order; a step is a Service, new pools, `restart`, or the name of a Service to delete.
The expectations are the addresses of the Services by name at the end, or the reason why one waits.
"""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.objects.meta import ObjectKey

from .allocation_world import SIX, V6, A, B, Pools, Row, World, check_row, many, pinned, s
from .objects import pool

ROWS: list[Row] = [
    # --- No choice
    ("no pools", [], [s()], {"s": "NoPool"}),
    ("the first address", [A], [s()], {"s": "10.1.0.0"}),
    ("addresses in order", [A], many(3), {"m0": "10.1.0.0", "m1": "10.1.0.1", "m2": "10.1.0.2"}),
    ("a full pool", [A], many(5), {"m3": "10.1.0.3", "m4": "PoolFull"}),
    ("a range", [pool("r", "10.1.0.9-10.1.0.10")], many(3), {"m0": "10.1.0.9", "m1": "10.1.0.10", "m2": "PoolFull"}),
    (
        "ranges in order",
        [pool("r", "10.1.0.9/32", "10.1.0.1/32")],
        many(3),
        {"m0": "10.1.0.9", "m1": "10.1.0.1", "m2": "PoolFull"},
    ),
    ("a second pool when the first is full", [A, B], many(5), {"m3": "10.1.0.3", "m4": "10.2.0.0"}),
    ("the first address of a large pool", [pool("r", "10.0.0.0/8")], [s()], {"s": "10.0.0.0"}),
    ("the first address of a large IPv6 pool", [pool("r", "2001:db8::/32")], [s(**SIX)], {"s": "2001:db8::"}),
    ("the freed address", [A], [*many(4), "m1", s()], {"s": "10.1.0.1"}),
    ("the lowest freed address", [A], [*many(4), "m2", "m1", s()], {"s": "10.1.0.1"}),
    ("a waiting Service gets the freed address", [A], [*many(5), "m1"], {"m4": "10.1.0.1"}),
    ("waiting Services in the order of arrival", [A], [*many(6), "m1"], {"m4": "10.1.0.1", "m5": "PoolFull"}),
    ("the same Service again", [A], [s(), s(), s()], {"s": "10.1.0.0"}),
    ("a Service with other ports keeps its address", [A], [s(), s(ports=("TCP/81",))], {"s": "10.1.0.0"}),
    # --- autoAssign, avoidBuggyIPs
    ("no automatic assignment", [pool("a", "10.1.0.0/30", autoAssign=False)], [s()], {"s": "NoPool"}),
    ("no automatic assignment, named", [pool("a", "10.1.0.0/30", autoAssign=False)], [s(pool="a")], {"s": "10.1.0.0"}),
    (
        "no automatic assignment, address named",
        [pool("a", "10.1.0.0/30", autoAssign=False)],
        [s(ips="10.1.0.2")],
        {"s": "10.1.0.2"},
    ),
    (
        "buggy addresses avoided",
        [pool("a", "10.1.0.254-10.1.1.1", avoidBuggyIPs=True)],
        many(3),
        {"m0": "10.1.0.254", "m1": "10.1.1.1", "m2": "PoolFull"},
    ),
    ("buggy addresses given out", [pool("a", "10.1.0.255-10.1.1.0")], many(2), {"m0": "10.1.0.255", "m1": "10.1.1.0"}),
    (
        "a buggy address named",
        [pool("a", "10.1.0.0/24", avoidBuggyIPs=True)],
        [s(ips="10.1.0.255")],
        {"s": "OutsidePools"},
    ),
    ("no buggy addresses in IPv6", [pool("a", "2001:db8::/127", avoidBuggyIPs=True)], [s(**SIX)], {"s": "2001:db8::"}),
    # --- Named pools
    ("a named pool", [A, B], [s(pool="b")], {"s": "10.2.0.0"}),
    ("a named pool, deprecated annotation", [A, B], [s(old_pool="b")], {"s": "10.2.0.0"}),
    ("the new annotation counts", [A, B], [s(pool="a", old_pool="b")], {"s": "10.1.0.0"}),
    ("an unknown pool", [A], [s(pool="x")], {"s": "UnknownPool"}),
    ("a named pool that is full", [A, B], [*many(4, pool="a"), s(pool="a")], {"s": "PoolFull"}),
    ("a named pool of the other family", [V6], [s(pool="v6")], {"s": "PoolFull"}),
    ("another pool is named later", [A, B], [s(), s(pool="b")], {"s": "10.2.0.0"}),
    ("an unknown pool is named later", [A, B], [s(), s(pool="x")], {"s": "UnknownPool"}),
    ("the same pool is named later", [A, B], [s(), s(pool="a")], {"s": "10.1.0.0"}),
    # --- Named addresses
    ("a named address", [A], [s(ips="10.1.0.2")], {"s": "10.1.0.2"}),
    ("a named address, deprecated annotation", [A], [s(old_ips="10.1.0.2")], {"s": "10.1.0.2"}),
    ("spec.loadBalancerIP", [A], [s(ip="10.1.0.2")], {"s": "10.1.0.2"}),
    ("both ways to name an address", [A], [s(ip="10.1.0.2", ips="10.1.0.2")], {"s": "InvalidRequest"}),
    ("no address", [A], [s(ips="first")], {"s": "InvalidRequest"}),
    ("no address in the spec", [A], [s(ip="first")], {"s": "InvalidRequest"}),
    ("two addresses of a family", [A], [s(ips="10.1.0.1,10.1.0.2")], {"s": "InvalidRequest"}),
    ("an address of the other family", [A, V6], [s(ips="2001:db8::1")], {"s": "InvalidRequest"}),
    ("an address outside", [A], [s(ips="10.7.0.1")], {"s": "OutsidePools"}),
    ("an address in use", [A], [s("x"), s(ips="10.1.0.0")], {"x": "10.1.0.0", "s": "AddressInUse"}),
    ("an address that becomes free", [A], [s("x"), s(ips="10.1.0.0"), "x"], {"s": "10.1.0.0"}),
    ("a named address is passed over later", [A], [s(ips="10.1.0.0"), s("x")], {"x": "10.1.0.1"}),
    ("named address and pool", [A, B], [s(ips="10.1.0.2", pool="a")], {"s": "10.1.0.2"}),
    ("named address outside the named pool", [A, B], [s(ips="10.1.0.2", pool="b")], {"s": "InvalidRequest"}),
    ("another address is named later", [A], [s(), s(ips="10.1.0.3")], {"s": "10.1.0.3"}),
    ("the same address is named later", [A], [s(), s(ips="10.1.0.0")], {"s": "10.1.0.0"}),
    ("an invalid address is named later", [A], [s(), s(ips="x")], {"s": "10.1.0.0"}),
    ("an address in use is named later", [A], [s("x"), s(), s(ips="10.1.0.0")], {"s": "AddressInUse"}),
    (
        "the address is free for the one who named it first",
        [A],
        [s("x", ips="10.1.0.1"), s(), s("y")],
        {"s": "10.1.0.0", "y": "10.1.0.2"},
    ),
    # --- serviceAllocation
    (
        "a pool for the namespace first",
        [A, pinned("z", "10.8.0.0/30", namespaces=["default"])],
        [s()],
        {"s": "10.8.0.0"},
    ),
    ("a pool for another namespace", [pinned("z", "10.8.0.0/30", namespaces=["other"])], [s()], {"s": "NotAllowed"}),
    (
        "a pool for another namespace, named",
        [pinned("z", "10.8.0.0/30", namespaces=["other"])],
        [s(pool="z")],
        {"s": "NotAllowed"},
    ),
    (
        "a pool for another namespace, address named",
        [pinned("z", "10.8.0.0/30", namespaces=["other"])],
        [s(ips="10.8.0.0")],
        {"s": "NotAllowed"},
    ),
    (
        "a pool by the namespace's labels",
        [pinned("z", "10.8.0.0/30", namespaceSelectors=[{"matchLabels": {"team": "x"}}])],
        [s(ns="team-x"), s("y")],
        {"s": "10.8.0.0", "y": "NotAllowed"},
    ),
    (
        "a pool by the Service's labels",
        [pinned("z", "10.8.0.0/30", serviceSelectors=[{"matchLabels": {"app": "w"}}])],
        [s(labels={"app": "w"}), s("y")],
        {"s": "10.8.0.0", "y": "NotAllowed"},
    ),
    (
        "namespace and labels",
        [pinned("z", "10.8.0.0/30", namespaces=["default"], serviceSelectors=[{"matchLabels": {"app": "w"}}])],
        [s(labels={"app": "w"}), s("y"), s("o", ns="o", labels={"app": "w"})],
        {"s": "10.8.0.0", "y": "NotAllowed", "o": "NotAllowed"},
    ),
    (
        "the lowest priority first",
        [pinned("p", "10.8.0.0/32", priority=20), pinned("q", "10.8.1.0/32", priority=10)],
        many(3),
        {"m0": "10.8.1.0", "m1": "10.8.0.0", "m2": "PoolFull"},
    ),
    (
        "priority 0 last",
        [pinned("p", "10.8.0.0/32", priority=0), pinned("q", "10.8.1.0/32", priority=10)],
        many(2),
        {"m0": "10.8.1.0", "m1": "10.8.0.0"},
    ),
    (
        "unpinned pools after pinned ones",
        [A, pinned("z", "10.8.0.0/32", priority=5)],
        many(2),
        {"m0": "10.8.0.0", "m1": "10.1.0.0"},
    ),
    (
        "an empty serviceAllocation is for all",
        [A, pinned("z", "10.8.0.0/32")],
        many(2),
        {"m0": "10.8.0.0", "m1": "10.1.0.0"},
    ),
    (
        "a pinned pool without automatic assignment",
        [A, pool("z", "10.8.0.0/30", autoAssign=False, serviceAllocation={"namespaces": ["default"]})],
        [s()],
        {"s": "10.1.0.0"},
    ),
    (
        "labels change: the pool is not for the Service any more",
        [A, pinned("z", "10.8.0.0/30", serviceSelectors=[{"matchLabels": {"app": "w"}}])],
        [s(labels={"app": "w"}), s()],
        {"s": "10.1.0.0"},
    ),
    # --- Sharing
    (
        "no sharing without a key",
        [A],
        [s("x", ips="10.1.0.0"), s(ips="10.1.0.0", ports=("TCP/81",))],
        {"s": "AddressInUse"},
    ),
    ("sharing by key", [A], [s("x", share="k"), s(share="k", ports=("TCP/81",))], {"x": "10.1.0.0", "s": "10.1.0.0"}),
    ("sharing by the deprecated key", [A], [s("x", share="k"), s(old_share="k", ports=("TCP/81",))], {"s": "10.1.0.0"}),
    (
        "sharing of one port by two protocols",
        [A],
        [s("x", share="k"), s(share="k", ports=("UDP/80",))],
        {"s": "10.1.0.0"},
    ),
    ("a port clash leads to another address", [A], [s("x", share="k"), s(share="k")], {"s": "10.1.0.1"}),
    ("a port clash at a named address", [A], [s("x", share="k"), s(share="k", ips="10.1.0.0")], {"s": "PortInUse"}),
    ("a port clash heals", [A], [s("x", share="k"), s(share="k", ips="10.1.0.0"), "x"], {"s": "10.1.0.0"}),
    ("another key", [A], [s("x", share="k"), s(share="l", ports=("TCP/81",))], {"s": "10.1.0.1"}),
    (
        "another key at a named address",
        [A],
        [s("x", share="k"), s(share="l", ports=("TCP/81",), ips="10.1.0.0")],
        {"s": "AddressInUse"},
    ),
    (
        "three share",
        [A],
        [s(f"x{n}", share="k", ports=(f"TCP/{n}",)) for n in (1, 2, 3)],
        dict.fromkeys(("x1", "x2", "x3"), "10.1.0.0"),
    ),
    (
        "sharing with local backends, same selector",
        [A],
        [s("x", share="k", local={"a": "b"}), s(share="k", local={"a": "b"}, ports=("TCP/81",))],
        {"s": "10.1.0.0"},
    ),
    (
        "no sharing with other local backends",
        [A],
        [s("x", share="k", local={"a": "b"}), s(share="k", local={"a": "c"}, ports=("TCP/81",))],
        {"s": "10.1.0.1"},
    ),
    (
        "no sharing of local and cluster",
        [A],
        [s("x", share="k", local={"a": "b"}), s(share="k", ports=("TCP/81",))],
        {"s": "10.1.0.1"},
    ),
    (
        "a lower free address before a shared one",
        [A],
        [s("w"), s("x", share="k", ips="10.1.0.2"), "w", s(share="k", ports=("TCP/81",))],
        {"s": "10.1.0.0"},
    ),
    (
        "a lower shared address before a free one",
        [A],
        [s("x", share="k"), s("y"), s(share="k", ports=("TCP/81",))],
        {"s": "10.1.0.0"},
    ),
    (
        "the key changes while alone",
        [A],
        [s("x", share="k"), s("x", share="l"), s(share="l", ports=("TCP/81",))],
        {"x": "10.1.0.0", "s": "10.1.0.0"},
    ),
    (
        "the key changes while shared",
        [A],
        [s("x", share="k"), s(share="k", ports=("TCP/81",)), s("x", share="l")],
        {"x": "10.1.0.1", "s": "10.1.0.0"},
    ),
    (
        "a shared address stays while one is left",
        [A],
        [s("x", share="k"), s(share="k", ports=("TCP/81",)), "x", s("y")],
        {"s": "10.1.0.0", "y": "10.1.0.1"},
    ),
    (
        "a shared address is free after the last one",
        [A],
        [s("x", share="k"), s(share="k", ports=("TCP/81",)), "x", "s", s("y")],
        {"y": "10.1.0.0"},
    ),
    (
        "ports move within a shared address",
        [A],
        [s("x", share="k"), s("x", share="k", ports=("TCP/81",)), s(share="k")],
        {"x": "10.1.0.0", "s": "10.1.0.0"},
    ),
    (
        "a new port clashes",
        [A],
        [s("x", share="k"), s(share="k", ports=("TCP/81",)), s(share="k", ports=("TCP/80",))],
        {"x": "10.1.0.0", "s": "10.1.0.1"},
    ),
    (
        "sharing of one of two keys of IPv6",
        [V6],
        [s("x", share="k", **SIX), s(share="k", ports=("TCP/81",), **SIX)],
        {"s": "2001:db8::"},
    ),
]


@pytest.mark.parametrize(("pools", "steps", "outcomes"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_choice(pools: list[Any], steps: list[Any], outcomes: dict[str, str]) -> None:
    check_row(pools, steps, outcomes)


def test_a_released_service_has_no_allocation() -> None:
    world = World()
    world.play(Pools((A,)))
    world.play(s())
    assert world.allocator.release(ObjectKey("default", "s"))
    assert not world.allocator.release(ObjectKey("default", "s"))
    assert world.allocator.allocation(ObjectKey("default", "s")) is None
