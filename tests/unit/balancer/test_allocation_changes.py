"""A table of allocations: families, changes of pools under live Services, restarts.

Each row converges its Services in order; a step is a Service, new pools, `restart`, or the name of a Service to delete.
The expectations are the addresses of the Services by name at the end, or the reason why one waits.
"""

from __future__ import annotations

from typing import Any

import pytest

from .allocation_world import BOTH, DUAL, LAB, SIX, V6, A, B, Pools, Row, check_row, many, pinned, s
from .objects import pool

ROWS: list[Row] = [
    # --- Families
    ("IPv6", [A, V6], [s(**SIX)], {"s": "2001:db8::"}),
    ("no IPv6 pool", [A], [s(**SIX)], {"s": "PoolFull"}),
    ("both families required", [A, V6, DUAL], [s(policy="RequireDualStack", **BOTH)], {"s": "10.3.0.0 2001:db8:3::"}),
    # MetalLB refuses addresses of two pools.
    (
        "addresses of two pools named, and a restart",
        [A, V6],
        [s(ips="10.1.0.1,2001:db8::1", policy="RequireDualStack", **BOTH), "restart"],
        {"s": "10.1.0.1 2001:db8::1"},
    ),
    ("both families required, in two pools", [A, V6], [s(policy="RequireDualStack", **BOTH)], {"s": "PoolFull"}),
    ("both families required, one cluster IP", [DUAL], [s(policy="RequireDualStack")], {"s": "InvalidRequest"}),
    ("IPv6 first", [DUAL], [s(policy="RequireDualStack", versions=(6, 4))], {"s": "2001:db8:3:: 10.3.0.0"}),
    ("both families preferred", [A, DUAL], [s(policy="PreferDualStack", **BOTH)], {"s": "10.3.0.0 2001:db8:3::"}),
    ("both preferred, only IPv4 there", [A], [s(policy="PreferDualStack", **BOTH)], {"s": "10.1.0.0"}),
    ("both preferred, only IPv6 there", [V6], [s(policy="PreferDualStack", **BOTH)], {"s": "2001:db8::"}),
    (
        "both preferred, IPv6 first, in two pools",
        [A, V6],
        [s(policy="PreferDualStack", versions=(6, 4))],
        {"s": "2001:db8::"},
    ),
    ("both preferred, in a cluster of one family", [DUAL], [s(policy="PreferDualStack")], {"s": "10.3.0.0"}),
    (
        "the second family is added later",
        [A],
        [s(policy="PreferDualStack", **BOTH), Pools((pool("a", "10.1.0.0/30", "2001:db8:1::/126"),))],
        {"s": "10.1.0.0 2001:db8:1::"},
    ),
    (
        "both required, one of two addresses left",
        [DUAL],
        [s(policy="RequireDualStack", **BOTH), Pools((A,))],
        {"s": "PoolFull"},
    ),
    (
        "both addresses named",
        [DUAL],
        [s(ips="2001:db8:3::2, 10.3.0.2", policy="RequireDualStack", **BOTH)],
        {"s": "2001:db8:3::2 10.3.0.2"},
    ),
    (
        "one of two addresses named",
        [DUAL],
        [s(ips="10.3.0.2", policy="RequireDualStack", **BOTH)],
        {"s": "InvalidRequest"},
    ),
    (
        "a named pool with both",
        [A, DUAL],
        [s(pool="dual", policy="RequireDualStack", **BOTH)],
        {"s": "10.3.0.0 2001:db8:3::"},
    ),
    (
        "a named pool with one, both required",
        [A, DUAL],
        [s(pool="a", policy="RequireDualStack", **BOTH)],
        {"s": "PoolFull"},
    ),
    (
        "a named pool with one, both preferred",
        [A, DUAL],
        [s(pool="a", policy="PreferDualStack", **BOTH)],
        {"s": "10.1.0.0"},
    ),
    (
        "sharing in both families",
        [DUAL],
        [
            s("x", share="k", policy="RequireDualStack", **BOTH),
            s(share="k", ports=("TCP/81",), policy="RequireDualStack", **BOTH),
        ],
        {"s": "10.3.0.0 2001:db8:3::"},
    ),
    # --- Pools change under live Services
    ("a pool grows", [A], [*many(5), Pools((pool("a", "10.1.0.0/29"),))], {"m3": "10.1.0.3", "m4": "10.1.0.4"}),
    ("a pool goes", [A, B], [s(), Pools((B,))], {"s": "10.2.0.0"}),
    ("the last pool goes", [A], [s(), Pools(())], {"s": "NoPool"}),
    ("a pool comes", [], [s(), Pools((A,))], {"s": "10.1.0.0"}),
    (
        "a pool shrinks",
        [A],
        [*many(3), Pools((pool("a", "10.1.0.1/32"), B))],
        {"m0": "10.2.0.0", "m1": "10.1.0.1", "m2": "10.2.0.1"},
    ),
    ("a pool is renamed", [A], [s(), Pools((pool("new", "10.1.0.0/30"),))], {"s": "10.1.0.0"}),
    (
        "a pool is closed to automatic assignment",
        [A],
        [s(), Pools((pool("a", "10.1.0.0/30", autoAssign=False),))],
        {"s": "10.1.0.0"},
    ),
    (
        "a pool is given to another namespace",
        [A],
        [s(), Pools((pinned("a", "10.1.0.0/30", namespaces=["o"]), B))],
        {"s": "10.2.0.0"},
    ),
    (
        "a better pool comes: nothing moves",
        [A],
        [s(), Pools((A, pinned("z", "10.8.0.0/30", priority=1)))],
        {"s": "10.1.0.0"},
    ),
    (
        "buggy addresses are avoided from now on",
        [pool("a", "10.1.0.0/30")],
        [s(), Pools((pool("a", "10.1.0.0/30", avoidBuggyIPs=True),))],
        {"s": "10.1.0.1"},
    ),
    # --- The lab's own pool
    ("the fallback pool last", [LAB, A], many(5), {"m0": "10.1.0.0", "m4": "10.9.0.0"}),
    (
        "addresses that another pool contains are not the fallback's",
        [LAB, pool("o", "10.9.0.0/31", autoAssign=False)],
        many(3),
        {"m0": "10.9.0.2", "m1": "10.9.0.3", "m2": "PoolFull"},
    ),
    (
        "an overlapping pool comes: the address stays",
        [LAB],
        [s(), Pools((LAB, pool("o", "10.9.0.0/31")))],
        {"s": "10.9.0.0"},
    ),
    (
        "an overlapping pool for others comes: the address stays",
        [LAB],
        [s(), Pools((LAB, pinned("o", "10.9.0.0/31", namespaces=["o"])))],
        {"s": "10.9.0.0"},
    ),
    (
        "an overlapping pool of the tutorial",
        [LAB, pool("o", "10.9.0.0/30", avoidBuggyIPs=True)],
        [s()],
        {"s": "10.9.0.1"},
    ),
    # --- Restarts
    (
        "a restart changes nothing",
        [A],
        [*many(5), "m1", "restart"],
        {"m0": "10.1.0.0", "m2": "10.1.0.2", "m4": "10.1.0.1"},
    ),
    (
        "existing addresses before new ones",
        [A],
        [s("new"), s("old", status=("10.1.0.3",)), "restart"],
        {"new": "10.1.0.0", "old": "10.1.0.3"},
    ),
    ("an address of nobody's pool", [A], [s(status=("192.0.2.1",))], {"s": "10.1.0.0"}),
    ("a status without addresses", [A], [s(status=("",))], {"s": "10.1.0.0"}),
    (
        "two Services with one address",
        [A],
        [s("x", status=("10.1.0.2",)), s("y", status=("10.1.0.2",)), "restart"],
        {"x": "10.1.0.2", "y": "10.1.0.0"},
    ),
    (
        "two Services that share one address",
        [A],
        [
            s("x", share="k", status=("10.1.0.2",)),
            s("y", share="k", ports=("TCP/81",), status=("10.1.0.2",)),
            "restart",
        ],
        {"x": "10.1.0.2", "y": "10.1.0.2"},
    ),
    ("a status with two addresses of a family", [A], [s(status=("10.1.0.1", "10.1.0.2"))], {"s": "10.1.0.0"}),
    ("a status of the wrong family", [A, V6], [s(status=("2001:db8::1",))], {"s": "10.1.0.0"}),
    (
        "a status of both families",
        [DUAL],
        [s(status=("10.3.0.3", "2001:db8:3::3"), policy="RequireDualStack", **BOTH), "restart"],
        {"s": "10.3.0.3 2001:db8:3::3"},
    ),
]


@pytest.mark.parametrize(("pools", "steps", "outcomes"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_change(pools: list[Any], steps: list[Any], outcomes: dict[str, str]) -> None:
    check_row(pools, steps, outcomes)
