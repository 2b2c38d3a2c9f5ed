"""Events and conditions of decisions: MetalLB's reasons and texts."""

from __future__ import annotations

from typing import Any

import pytest

from .allocation_world import BOTH, DUAL, OPENELB, A, B, Pools, World, many, pinned, s
from .objects import eip, pool

FAILED = 'Failed to allocate IP for "default/s": '


def play(*steps: Any) -> World:
    world = World()
    for step in steps:
        world.play(step)
    return world


def notes(world: World, name: str = "s") -> list[tuple[str, str, str]]:
    return [(note.type, note.reason, note.message) for note in world.decisions[name].notes]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([Pools((A,)), s()], ("Normal", "IPAllocated", 'Assigned IP ["10.1.0.0"]')),
        (
            [Pools((DUAL,)), s(policy="RequireDualStack", **BOTH)],
            ("Normal", "IPAllocated", 'Assigned IP ["10.3.0.0" "2001:db8:3::"]'),
        ),
        (
            [Pools((A,)), *many(4), s()],
            (
                "Warning",
                "AllocationFailed",
                f'{FAILED}no available IPs (pool "a" (10.1.0.0-10.1.0.3): 4 of 4 IPv4 addresses in use)',
            ),
        ),
        (
            [Pools((A,)), *many(4), s(pool="a")],
            ("Warning", "AllocationFailed", f'{FAILED}no available IPs in pool "a" for ipv4 IPFamily'),
        ),
        ([Pools((A,)), s(pool="x")], ("Warning", "AllocationFailed", f'{FAILED}unknown pool "x"')),
        (
            [Pools((A,)), s(ips="10.7.0.1")],
            (
                "Warning",
                "AllocationFailed",
                f'{FAILED}["10.7.0.1"] is not allowed in config (pools have 10.1.0.0-10.1.0.3 of pool "a")',
            ),
        ),
        (
            [Pools((pinned("z", "10.8.0.0/30", namespaces=["o"]),)), s(pool="z")],
            ("Warning", "AllocationFailed", f"{FAILED}pool z not compatible for ip assignment"),
        ),
        (
            [Pools((A,)), s("x"), s(ips="10.1.0.0")],
            (
                "Warning",
                "AllocationFailed",
                f'{FAILED}can\'t change sharing key for "default/s", address also in use by default/x',
            ),
        ),
        (
            [Pools((A,)), s("x", share="k"), s(share="k", ips="10.1.0.0")],
            ("Warning", "AllocationFailed", f'{FAILED}port TCP/80 is already in use on "10.1.0.0"'),
        ),
        (
            [Pools((A,)), s(ips="10.1.0.1", ip="10.1.0.1")],
            (
                "Warning",
                "AllocationFailed",
                f"{FAILED}service can not have both metallb.io/loadBalancerIPs and svc.Spec.LoadBalancerIP",
            ),
        ),
        (
            [Pools((A, B)), s(ips="10.1.0.2", pool="b")],
            (
                "Warning",
                "AllocationFailed",
                f'{FAILED}requested loadBalancer IP(s) ["10.1.0.2"] is not compatible with requested address pool b',
            ),
        ),
        (
            [Pools((A,)), s(), s(ips="x")],
            (
                "Warning",
                "LoadBalancerFailed",
                'invalid requested loadbalancer IPs: invalid metallb.io/loadBalancerIPs: "x"',
            ),
        ),
        (
            [Pools((A,)), s(policy="PreferDualStack", **BOTH), s(policy="PreferDualStack", **BOTH)],
            (
                "Normal",
                "AdditionalAssignFailed",
                'cannot assign additional IP in PreferDualStack: no available IPs in pool "a" for ipv6 IPFamily',
            ),
        ),
        (
            [
                Pools((A,)),
                s(policy="PreferDualStack", **BOTH),
                Pools((pool("a", "10.1.0.0/30", "2001:db8:1::/126"),)),
            ],
            ("Normal", "IPAllocated", 'Assigned additional IP "2001:db8:1::"'),
        ),
        (
            [Pools((eip("e", "10.5.0.0/30", default=True),)), s(**OPENELB)],
            ("Normal", "AssignIP", "success to assign ip 10.5.0.0 from eip e"),
        ),
        (
            [Pools((eip("e", "10.5.0.0/30"),)), s(**OPENELB)],
            (
                "Warning",
                "AssignIPFailed",
                'no available eip for service "default/s" (pool "e" is not the default Eip)',
            ),
        ),
        (
            [Pools((A,)), s(old_pool="a")],
            (
                "Warning",
                "deprecatedAnnotation",
                "metallb.universe.tf/address-pool: the prefix metallb.universe.tf is deprecated, use metallb.io",
            ),
        ),
    ],
)
def test_the_event_of_a_decision(steps: list[Any], expected: tuple[str, str, str]) -> None:
    assert expected in notes(play(*steps))


def test_an_address_that_the_pools_lost_is_cleared() -> None:
    world = play(Pools((A,)), s(), Pools((B,)))
    assert notes(world) == [
        (
            "Normal",
            "ClearAssignment",
            'current IP for "default/s" not allowed by config, will attempt for new IP assignment:'
            ' ["10.1.0.0"] is not allowed in config',
        ),
        ("Normal", "IPAllocated", 'Assigned IP ["10.2.0.0"]'),
    ]


def test_nothing_is_noted_when_nothing_changes() -> None:
    world = play(Pools((A,)), s(), s())
    assert notes(world) == []


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([Pools(()), s()], "no available IPs (there is no IPAddressPool and no Eip)"),
        ([Pools((A,)), *many(4), s()], 'no available IPs (pool "a" (10.1.0.0-10.1.0.3): 4 of 4 IPv4 addresses in use)'),
        (
            [Pools((pool("a", "10.1.0.0/30", autoAssign=False),)), s()],
            'no available IPs (pool "a" gives addresses only to Services that name it (autoAssign: false))',
        ),
        (
            [Pools((pinned("z", "10.8.0.0/30", namespaces=["o"]),)), s()],
            'no available IPs (pool "z" is for other namespaces or Services)',
        ),
        ([Pools((A,)), s(versions=(6,))], 'no available IPs (pool "a" has no addresses of the Service\'s IP family)'),
        ([Pools((eip("e", "10.5.0.0/30"),)), s()], 'no available IPs (pool "e" is not the default Eip)'),
        ([Pools((eip("e", "10.5.0.0/30", disable=True),)), s()], 'no available IPs (pool "e" is disabled)'),
        (
            [Pools(tuple(pool(f"p{n}", f"10.1.{n}.0/32", autoAssign=False) for n in range(7))), s()],
            "(autoAssign: false); and 2 more pools)",
        ),
    ],
)
def test_the_condition_explains_each_pool(steps: list[Any], text: str) -> None:
    pending = play(*steps).decisions["s"].pending
    assert pending is not None
    assert text in pending.message


def test_addresses_of_other_families_are_not_replaced_silently() -> None:
    world = play(Pools((A,)), s(status=("10.1.0.1", "10.1.0.2")))
    assert world.outcome("s") == "10.1.0.0"
    text = '["10.1.0.1" "10.1.0.2"] of "default/s" do not fit its IP families, will attempt for new IP assignment'
    assert ("Normal", "ClearAssignment", text) in notes(world)
