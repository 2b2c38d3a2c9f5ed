"""Properties of allocation: no address twice without a sharing key, none outside pools, none moves without cause."""

from __future__ import annotations

import ipaddress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.balancer.allocation.free_addresses import FreeAddresses, subtract
from bridgehead.balancer.allocation.pool_addresses import is_buggy, usable_size
from bridgehead.balancer.ranges import AddressRange

from .allocation_world import FALLBACK, Pools, World, s
from .objects import eip, pool

POOL_SETS = [
    (),
    (pool("a", "10.1.0.0/30"),),
    (pool("a", "10.1.0.0/30"), pool("b", "10.2.0.0/31", "2001:db8:2::/126")),
    (pool("a", "10.1.0.0/31"), eip("e", "10.1.0.2-10.1.0.5", default=True)),
    (pool("a", "10.1.0.254-10.1.1.3", avoidBuggyIPs=True),),
    (pool("lab", "10.1.0.0/30", "2001:db8:2::/126", annotations=FALLBACK), pool("a", "10.1.0.2/31")),
    (
        pool("a", "10.1.0.0/30", serviceAllocation={"namespaces": ["default"]}),
        pool("dual", "10.3.0.0/30", "2001:db8::/126"),
    ),
]
SERVICES = st.builds(
    s,
    st.sampled_from([f"s{number}" for number in range(7)]),
    ns=st.sampled_from(["default", "default", "team-x"]),
    versions=st.sampled_from([(4,), (4,), (6,), (4, 6)]),
    policy=st.sampled_from([None, "PreferDualStack"]),
    ports=st.sampled_from([("TCP/80",), ("UDP/80",), ("TCP/81",), ("TCP/80", "TCP/82")]),
    share=st.sampled_from(["", "", "k"]),
    ips=st.sampled_from(["", "", "", "10.1.0.1", "10.1.0.2"]),
    pool=st.sampled_from(["", "", "", "a"]),
)
STEPS = st.lists(
    st.one_of(SERVICES, SERVICES, st.sampled_from(POOL_SETS).map(Pools), st.just("delete"), st.just("restart")),
    max_size=25,
)


def check_invariants(world: World) -> None:
    users: dict[Any, list[str]] = {}
    for name, decision in world.decisions.items():
        for address in decision.allocation.addresses if decision.allocation is not None else ():
            assert any(address in space.pool for space in world.allocator.spaces()), (name, address)
            users.setdefault(address, []).append(name)
    for address, names in users.items():
        services = [world.services[name] for name in names]
        if len(services) > 1:
            keys = {found.metadata.annotations.get("metallb.io/allow-shared-ip", "") for found in services}
            assert len(keys) == 1, (address, names)
            assert keys != {""}, (address, names)
            ports = [(port.protocol, port.port) for found in services for port in found.spec.ports]
            assert len(set(ports)) == len(ports), (address, names)
    for space in world.allocator.spaces():
        held = world.allocator.holders(space)
        for version in (4, 6):
            assert space.in_use[version] == sum(address.version == version for address in held)
            assert 0 <= space.in_use[version] <= space.capacity(version)


@given(steps=STEPS)
def test_invariants_hold_after_each_step(steps: list[Any]) -> None:
    world = World()
    world.play(Pools(POOL_SETS[2]))
    for step in steps:
        if step == "delete":
            if world.services:
                world.play(next(iter(world.services)))
        elif step == "restart":
            before = {name: world.outcome(name) for name, found in world.decisions.items() if found.allocation}
            world.play("restart")
            assert {name: world.outcome(name) for name in before} == before
        else:
            world.play(step)
        check_invariants(world)


# --- Free addresses ------------------------------------------------------------------------------------------


@given(first=st.integers(0, 600), size=st.integers(1, 600), avoid=st.booleans(), version=st.sampled_from([4, 6]))
def test_the_number_of_usable_addresses(first: int, size: int, avoid: bool, version: Any) -> None:
    range_ = AddressRange(version, first, first + size - 1)
    usable = [n for n in range(first, first + size) if not (avoid and is_buggy(version, n))]
    assert usable_size(range_, avoid) == len(usable)


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 6)).map(lambda t: AddressRange(4, t[0], t[0] + t[1])), max_size=5
    )
)
def test_subtraction_of_ranges(others: list[AddressRange]) -> None:
    parts = subtract(AddressRange(4, 5, 25), others)
    left = [number for part in parts for number in range(part.first, part.last + 1)]
    assert left == [n for n in range(5, 26) if not any(other.first <= n <= other.last for other in others)]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=40))
def test_the_first_free_address(steps: list[tuple[bool, int]]) -> None:
    taken: set[int] = set()
    free = FreeAddresses(AddressRange(4, 0, 9), taken.__contains__)
    for is_release, number in steps:
        if is_release and number in taken:
            taken.discard(number)
            free.release(number)
        elif not is_release:
            found = free.first()
            assert found == min(set(range(10)) - taken, default=None)
            if found is not None:
                taken.add(found if number % 2 else max(set(range(10)) - taken))


def test_a_large_range_is_not_scanned() -> None:
    first = int(ipaddress.ip_address("10.0.0.0"))
    looked: list[int] = []

    def is_taken(number: int) -> bool:
        looked.append(number)
        return number in taken

    taken = set(range(first, first + 1000))
    free = FreeAddresses(AddressRange(4, first, first + 2**24 - 1), is_taken)
    assert free.first() == first + 1000
    looked.clear()
    taken.discard(first + 500)
    free.release(first + 500)
    assert free.first() == first + 500
    assert len(looked) == 1
