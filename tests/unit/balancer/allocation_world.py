"""Services and pools of the tables of allocations, and an allocator that is driven as the controller drives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bridgehead.balancer.allocation import Allocator, Decision, adopt, converge
from bridgehead.balancer.configuration import compile_configuration
from bridgehead.objects.core import Service

from .objects import gather, pool
from .services import service, with_status

# description: pools, steps, outcomes
Row = tuple[str, list[Any], list[Any], dict[str, str]]

A = pool("a", "10.1.0.0/30")
B = pool("b", "10.2.0.0/30")
V6 = pool("v6", "2001:db8::/126")
DUAL = pool("dual", "10.3.0.0/30", "2001:db8:3::/126")
BOTH: dict[str, Any] = {"versions": (4, 6)}
SIX: dict[str, Any] = {"versions": (6,)}
FALLBACK = {"bridgehead.io/fallback-pool": "true"}
LAB = pool("lab", "10.9.0.0/30", annotations=FALLBACK)
OPENELB = {"openelb": "openelb"}


def pinned(name: str, address: str, **allocation: Any) -> Any:
    return pool(name, address, serviceAllocation=allocation)


@dataclass
class Pools:
    """New pools: later steps converge all Services again, as the controller does."""

    objects: tuple[Any, ...]


@dataclass
class World:
    """Services with their status, as the API has them."""

    allocator: Allocator = field(default_factory=Allocator)
    services: dict[str, Service] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=lambda: {"team-x": {"team": "x"}})

    def play(self, step: Any) -> None:
        if isinstance(step, Pools):
            self.allocator.set_pools(compile_configuration(gather(*step.objects)).configuration.pools)
            for name in list(self.services):
                self.converge(name)
        elif isinstance(step, Service):
            name = step.metadata.name
            if name in self.services and not step.status.load_balancer.ingress:
                step = with_status(step, self.decisions[name])
            self.services[name] = step
            self.converge(name)
        elif step == "restart":
            self.restart()
        else:
            self.allocator.release(self.services.pop(step).key)
            del self.decisions[step]
            for name, decision in self.decisions.items():
                if decision.allocation is None:
                    self.converge(name)

    def converge(self, name: str) -> None:
        found = self.services[name]
        labels = self.namespaces.get(found.metadata.namespace, {})
        decision = self.decisions[name] = converge(self.allocator, found, labels)
        self.services[name] = with_status(found, decision)

    def restart(self) -> None:
        """Begin with an empty allocator, and adopt the addresses that Services have, as the controller does."""
        spaces = [space.pool for space in self.allocator.spaces()]
        self.allocator = Allocator()
        self.allocator.set_pools(spaces)
        for found in self.services.values():
            adopt(self.allocator, found, self.namespaces.get(found.metadata.namespace, {}))
        for name in self.services:
            self.converge(name)

    def outcome(self, name: str) -> str:
        decision = self.decisions[name]
        if decision.allocation is None:
            assert decision.pending is not None
            return decision.pending.reason.value
        assert decision.pending is None
        assert self.allocator.allocation(self.services[name].key) == decision.allocation
        return " ".join(map(str, decision.allocation.addresses))


def s(name: str = "s", **more: Any) -> Service:
    return service(name, **more)


def many(count: int, **more: Any) -> list[Service]:
    return [s(f"m{number}", **more) for number in range(count)]


def check_row(pools: list[Any], steps: list[Any], outcomes: dict[str, str]) -> None:
    """Play the steps, compare, and check that neither another convergence nor a restart changes anything."""
    world = World()
    compiled = compile_configuration(gather(*pools))
    assert compiled.rejections == ()
    world.allocator.set_pools(compiled.configuration.pools)
    for step in steps:
        world.play(step)
    assert {name: world.outcome(name) for name in outcomes} == outcomes
    settled = {name: world.outcome(name) for name in world.services}
    for name in world.services:
        world.converge(name)
    world.restart()
    assert {name: world.outcome(name) for name in world.services} == settled
