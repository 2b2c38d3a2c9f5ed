"""The resources that a pod as a whole requests, and the limits of its use.

Pure: no I/O, no clock, no randomness. Source: Kubernetes component-helpers/resource `PodRequests`, `PodLimits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.quantity_rules import amount_of


class Amount(NamedTuple):
    """A number with the form in which it is written: binary (`1Gi`) or decimal (`1G`)."""

    value: Decimal
    is_binary: bool = False

    def plus(self, other: Amount) -> Amount:
        return Amount(self.value + other.value, self.is_binary if self.value else other.is_binary)


Amounts = dict[str, Amount]

ZERO, ONE = Amount(Decimal(0)), Amount(Decimal(1))


def parse_amounts(quantities: Mapping[str, str | int | float]) -> Amounts:
    """Return the numbers of quantities. Malformed ones, which validation refuses, are left out."""
    parsed = ((name, amount_of(quantity), str(quantity).endswith("i")) for name, quantity in quantities.items())
    return {name: Amount(value, is_binary) for name, value, is_binary in parsed if value is not None}


def add(a: Mapping[str, Amount], b: Mapping[str, Amount]) -> Amounts:
    """Return the sums of two lists; a name of only one of them has its amount there."""
    total = dict(a)
    for name, amount in b.items():
        total[name] = total[name].plus(amount) if name in total else amount
    return total


def pod_amounts(spec: JsonObject, kind: str) -> Amounts:
    """Return what a pod with this spec requests (`kind` is "requests"), or its limits ("limits").

    Containers run at the same time, and with them the init containers that are restarted. Other init containers run one
    after the other, with the restartable ones before them.
    """
    together: Amounts = {}
    for container in spec.get("containers", ()):
        together = add(together, _of(container, kind))
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers", ()):
        own = _of(container, kind)
        if container.get("restartPolicy") == "Always":
            sidecars = add(sidecars, own)
            together = add(together, own)
            largest = _larger(largest, sidecars)
        else:
            largest = _larger(largest, add(own, sidecars))
    total = _larger(together, largest)
    for name, amount in parse_amounts(spec.get("resources", {}).get(kind, {})).items():
        total[name] = amount
    overhead = parse_amounts(spec.get("overhead", {}))
    if kind == "limits":  # only of what is limited at all
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return add(total, overhead)


def _of(container: JsonObject, kind: str) -> Amounts:
    return parse_amounts(container.get("resources", {}).get(kind, {}))


def _larger(a: Mapping[str, Amount], b: Mapping[str, Amount]) -> Amounts:
    result = dict(a)
    for name, amount in b.items():
        if name not in result or amount.value > result[name].value:
            result[name] = amount
    return result
