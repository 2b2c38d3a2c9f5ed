"""The CPUs of each zone, and the Services with zone hints.

The EndpointSlice controller passes Nodes and the results of hints, and gets the Services to reconcile and the Events to
record. `zone_hints` decides about the hints themselves. Pure: no I/O, no clock, no randomness.
Source: Kubernetes "Topology Aware Routing", `k8s.io/endpointslice/topologycache`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from bridgehead.objects.core import Node
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.quantities import milli_value

from .zone_hints import HintsResult, Shares, is_overloaded

_ENABLED = "Topology Aware Hints has been enabled"
_DISABLED = "Topology Aware Hints has been disabled"
_UNCOUNTED_NODES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


class Notice(NamedTuple):
    """An Event to record for a Service."""

    type: str
    reason: str
    message: str


class Topology:
    """CPUs by zone, and the latest hints of each Service that asks for them."""

    def __init__(self) -> None:
        self._milli_cpus: Counter[str] = Counter()  # by zone
        self._incomplete = 0  # nodes with unknown zone or CPUs
        self._results: dict[ObjectKey, dict[str, HintsResult]] = {}

    @property
    def shares(self) -> Shares:
        """Return each zone's share of the CPUs; empty with a single zone, or a ready node of unknown zone or CPUs."""
        cpus = +self._milli_cpus
        if self._incomplete or len(cpus) < 2:
            return {}
        total = cpus.total()
        return {zone: cpus[zone] / total for zone in sorted(cpus)}

    def node_changed(self, old: Node | None, new: Node | None) -> list[ObjectKey]:
        """Return the Services whose hints overload a zone now, and those that may get hints now."""
        before, after = _contribution(old), _contribution(new)
        if before == after:
            return []
        for sign, contribution in ((-1, before), (1, after)):
            if contribution is None:
                continue
            zone, milli_cpu = contribution
            if zone and milli_cpu:
                self._milli_cpus[zone] += sign * milli_cpu
            else:
                self._incomplete += sign
        shares = self.shares
        return [
            key
            for key, results in self._results.items()
            if any(result.zones is None or is_overloaded(result.zones, shares) for result in results.values())
        ]

    def record_hints(self, service: ObjectKey, results: Mapping[str, HintsResult]) -> list[Notice]:
        """Record the result of a Service's hints by address type; return Events for what has changed."""
        before = self._results.get(service, {})
        had_hints = any(result.zones is not None for result in before.values())
        self._results[service] = dict(results)
        notices = []
        for address_type, result in sorted(results.items()):
            if result.zones is None:
                if address_type not in before or before[address_type].problem != result.problem:
                    notices.append(_disabled(result.problem, address_type))
            elif not had_hints:
                notices.append(Notice("Normal", "TopologyAwareHintsEnabled", _with_type(_ENABLED, address_type)))
                had_hints = True
        return notices

    def record_no_hints(self, service: ObjectKey) -> list[Notice]:
        """Record that a Service does not ask for hints; return Events if it did before."""
        before = self._results.pop(service, {})
        return [
            _disabled(_DISABLED, address_type)
            for address_type, result in sorted(before.items())
            if result.zones is not None
        ]

    def forget(self, service: ObjectKey) -> None:
        """Forget a deleted Service."""
        self._results.pop(service, None)


def _contribution(node: Node | None) -> tuple[str, int] | None:
    """Return the node's zone and milli-CPUs; None for a node that does not count."""
    if node is None or not node.is_ready:
        return None
    if any(label in node.metadata.labels for label in _UNCOUNTED_NODES):
        return None
    try:
        milli_cpu = milli_value(node.status.allocatable.get("cpu", 0))
    except ValueError:
        milli_cpu = 0
    return node.zone, milli_cpu


def _disabled(text: str, address_type: str) -> Notice:
    return Notice("Warning", "TopologyAwareHintsDisabled", _with_type(text, address_type))


def _with_type(text: str, address_type: str) -> str:
    return f"{text}, addressType: {address_type}"
