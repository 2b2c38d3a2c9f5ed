"""How the cluster's CPUs are spread over its zones, and which Services have hints because of that. Pure.

The endpoint slice controller tells it of Nodes and of what came of hints, and learns which Services to look at again
and what to tell people. `zone_hints` decides about the hints themselves.
Source: Kubernetes "Topology Aware Routing", `k8s.io/endpointslice/topologycache`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from bridgehead.objects.core import Node
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.quantities import milli_value

from .zone_hints import Shares, Verdict, is_overloaded

_ENABLED = "Topology Aware Hints has been enabled"
_DISABLED = "Topology Aware Hints has been disabled"
_UNCOUNTED_NODES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


class Notice(NamedTuple):
    """An Event of a Service."""

    type: str
    reason: str
    message: str


class Topology:
    """Follows Nodes, and remembers the Services that ask for hints."""

    def __init__(self) -> None:
        self._milli_cpus: Counter[str] = Counter()  # by zone
        self._incomplete = 0  # nodes of which the zone or the CPUs are not known
        self._verdicts: dict[ObjectKey, dict[str, Verdict]] = {}

    @property
    def shares(self) -> Shares:
        """Empty while there is one zone only, or one ready node of which zone or CPUs are not known."""
        cpus = +self._milli_cpus
        if self._incomplete or len(cpus) < 2:
            return {}
        total = cpus.total()
        return {zone: cpus[zone] / total for zone in sorted(cpus)}

    def node_changed(self, old: Node | None, new: Node | None) -> list[ObjectKey]:
        """The Services whose hints do harm now, and those that lacked hints and may have some now."""
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
            for key, verdicts in self._verdicts.items()
            if any(verdict.zones is None or is_overloaded(verdict.zones, shares) for verdict in verdicts.values())
        ]

    def hinted(self, service: ObjectKey, verdicts: Mapping[str, Verdict]) -> list[Notice]:
        """What came of the Service's hints, by address type; what is to be told that was not told the last time."""
        told = self._verdicts.get(service, {})
        had_hints = any(verdict.zones is not None for verdict in told.values())
        self._verdicts[service] = dict(verdicts)
        notices = []
        for address_type, verdict in sorted(verdicts.items()):
            if verdict.zones is None:
                if address_type not in told or told[address_type].problem != verdict.problem:
                    notices.append(_disabled(verdict.problem, address_type))
            elif not had_hints:
                notices.append(Notice("Normal", "TopologyAwareHintsEnabled", _with_type(_ENABLED, address_type)))
                had_hints = True
        return notices

    def not_wanted(self, service: ObjectKey) -> list[Notice]:
        """The Service does not ask for hints; what is to be told if it did."""
        told = self._verdicts.pop(service, {})
        return [
            _disabled(_DISABLED, address_type)
            for address_type, verdict in sorted(told.items())
            if verdict.zones is not None
        ]

    def forget(self, service: ObjectKey) -> None:
        """The Service is deleted."""
        self._verdicts.pop(service, None)


def _contribution(node: Node | None) -> tuple[str, int] | None:
    """The zone, and its CPUs in thousandths; None for a node that is not counted."""
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
