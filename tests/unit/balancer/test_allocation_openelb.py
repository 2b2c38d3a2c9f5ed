"""A table of allocations by OpenELB's rules.

Each row converges its Services in order; a step is a Service, new pools, `restart`, or the name of a Service to delete.
The expectations are the addresses of the Services by name at the end, or the reason why one waits.
"""

from __future__ import annotations

from typing import Any

import pytest

from .allocation_world import BOTH, LAB, OPENELB, SIX, A, Pools, Row, check_row, many, s
from .objects import eip

ROWS: list[Row] = [
    ("the default Eip", [eip("e", "10.5.0.0/30", default=True)], [s()], {"s": "10.5.0.0"}),
    ("the default Eip, annotated", [eip("e", "10.5.0.0/30", default=True)], [s(**OPENELB)], {"s": "10.5.0.0"}),
    ("an Eip that is not default", [eip("e", "10.5.0.0/30")], [s()], {"s": "NoPool"}),
    ("an Eip that is not default, annotated", [eip("e", "10.5.0.0/30")], [s(**OPENELB)], {"s": "NoPool"}),
    (
        "a named Eip",
        [eip("e", "10.5.0.0/30"), eip("f", "10.6.0.0/30", default=True)],
        [s(eip="e", **OPENELB)],
        {"s": "10.5.0.0"},
    ),
    ("a named Eip without the mandatory annotation", [eip("e", "10.5.0.0/30")], [s(eip="e")], {"s": "10.5.0.0"}),
    ("an unknown Eip", [eip("e", "10.5.0.0/30", default=True)], [s(eip="x", **OPENELB)], {"s": "UnknownPool"}),
    ("a disabled Eip", [eip("e", "10.5.0.0/30", default=True, disable=True)], [s(**OPENELB)], {"s": "NoPool"}),
    ("a disabled Eip, named", [eip("e", "10.5.0.0/30", disable=True)], [s(eip="e")], {"s": "NoPool"}),
    ("a disabled Eip, address named", [eip("e", "10.5.0.0/30", disable=True)], [s(eip_ip="10.5.0.1")], {"s": "NoPool"}),
    (
        "an Eip is disabled: the address stays",
        [eip("e", "10.5.0.0/30", default=True)],
        [s(), Pools((eip("e", "10.5.0.0/30", default=True, disable=True),))],
        {"s": "10.5.0.0"},
    ),
    ("an address of an Eip", [eip("e", "10.5.0.0/30")], [s(eip_ip="10.5.0.2", **OPENELB)], {"s": "10.5.0.2"}),
    (
        "the annotation beats spec.loadBalancerIP",
        [eip("e", "10.5.0.0/30")],
        [s(eip_ip="10.5.0.2", ip="10.5.0.1", **OPENELB)],
        {"s": "10.5.0.2"},
    ),
    ("spec.loadBalancerIP with OpenELB", [eip("e", "10.5.0.0/30")], [s(ip="10.5.0.1", **OPENELB)], {"s": "10.5.0.1"}),
    (
        "a used address is shared when named",
        [eip("e", "10.5.0.0/30", default=True)],
        [s("x", **OPENELB), s(eip_ip="10.5.0.0", ports=("TCP/81",))],
        {"s": "10.5.0.0"},
    ),
    (
        "a used address is not shared when not named",
        [eip("e", "10.5.0.0/30", default=True)],
        [s("x", **OPENELB), s(ports=("TCP/81",), **OPENELB)],
        {"s": "10.5.0.1"},
    ),
    (
        "a used port is not shared",
        [eip("e", "10.5.0.0/30", default=True)],
        [s("x", **OPENELB), s(eip_ip="10.5.0.0")],
        {"s": "PortInUse"},
    ),
    ("no address", [eip("e", "10.5.0.0/30")], [s(eip_ip="x")], {"s": "InvalidRequest"}),
    (
        "an address outside the named Eip",
        [eip("e", "10.5.0.0/30"), eip("f", "10.6.0.0/30")],
        [s(eip_ip="10.5.0.1", eip="f")],
        {"s": "InvalidRequest"},
    ),
    (
        "an Eip for the namespace",
        [eip("e", "10.5.0.0/30", default=True), eip("n", "10.6.0.0/30", namespaces=["default"])],
        [s(**OPENELB)],
        {"s": "10.6.0.0"},
    ),
    (
        "an Eip by the namespace's labels",
        [eip("e", "10.5.0.0/30", default=True), eip("n", "10.6.0.0/30", namespaceSelector={"team": "x"})],
        [s(ns="team-x", **OPENELB), s("y", **OPENELB)],
        {"s": "10.6.0.0", "y": "10.5.0.0"},
    ),
    (
        "Eips for the namespace by priority",
        [
            eip("n", "10.6.0.0/32", namespaces=["default"], priority=2),
            eip("o", "10.7.0.0/32", namespaces=["default"], priority=1),
        ],
        many(3, **OPENELB),
        {"m0": "10.7.0.0", "m1": "10.6.0.0", "m2": "PoolFull"},
    ),
    (
        "an Eip without a priority before others",
        [
            eip("n", "10.6.0.0/32", namespaces=["default"], priority=1),
            eip("o", "10.7.0.0/32", namespaces=["default"]),
        ],
        many(2, **OPENELB),
        {"m0": "10.7.0.0", "m1": "10.6.0.0"},
    ),
    (
        "the default Eip when the namespace's is full",
        [eip("e", "10.5.0.0/30", default=True), eip("n", "10.6.0.0/32", namespaces=["default"])],
        many(2, **OPENELB),
        {"m1": "10.5.0.0"},
    ),
    (
        "MetalLB's pools before the default Eip",
        [A, eip("e", "10.5.0.0/30", default=True)],
        [s(), s("y", **OPENELB)],
        {"s": "10.1.0.0", "y": "10.5.0.0"},
    ),
    (
        "the default Eip when MetalLB's pools are full",
        [A, eip("e", "10.5.0.0/30", default=True)],
        many(5),
        {"m4": "10.5.0.0"},
    ),
    ("the default Eip before the lab's pool", [LAB, eip("e", "10.5.0.0/30", default=True)], [s()], {"s": "10.5.0.0"}),
    (
        "the default Eip over the lab's pool",
        [LAB, eip("e", "10.9.0.0-10.9.0.3", default=True)],
        [s()],
        {"s": "10.9.0.0"},
    ),
    (
        "an Eip of one family for both",
        [eip("e", "10.5.0.0/30")],
        [s(eip="e", policy="RequireDualStack", **BOTH), "restart"],
        {"s": "10.5.0.0"},
    ),
    ("an IPv6 Eip", [eip("e", "2001:db8::5", default=True)], [s(**SIX)], {"s": "2001:db8::5"}),
    ("an Eip with one address", [eip("e", "10.5.0.9", default=True)], many(2), {"m0": "10.5.0.9", "m1": "PoolFull"}),
]


@pytest.mark.parametrize(("pools", "steps", "outcomes"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_openelb(pools: list[Any], steps: list[Any], outcomes: dict[str, str]) -> None:
    check_row(pools, steps, outcomes)
