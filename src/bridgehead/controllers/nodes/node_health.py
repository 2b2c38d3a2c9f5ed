"""Node health: heartbeats, the conditions of a silent node, and the taints that follow from conditions.

Pure: no I/O, no clock, no randomness.
Source: `pkg/controller/nodelifecycle`; reasons, messages and taint keys are Kubernetes' own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from bridgehead.objects.core import Node, Taint
from bridgehead.objects.meta import Condition, find_condition
from bridgehead.objects.taints import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)

# The conditions that a kubelet reports. They are Unknown when the kubelet is silent.
KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_PRESSURE_TAINTS = {
    "MemoryPressure": MEMORY_PRESSURE,
    "DiskPressure": DISK_PRESSURE,
    "PIDPressure": PID_PRESSURE,
    "NetworkUnavailable": NETWORK_UNAVAILABLE,
}
_MANAGED = frozenset({NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURE_TAINTS.values()})


@dataclass(frozen=True)
class Heartbeat:
    """Values that change while a node's kubelet lives. `seen_at`: time of the last change, on the watch clock."""

    renew_time: str | None
    ready_heartbeat: str | None
    seen_at: float


def next_heartbeat(last: Heartbeat | None, renew_time: str | None, node: Node, now: float) -> Heartbeat:
    """Return `last` if no value has changed. The clocks of the node and of this process are never compared."""
    ready = find_condition(node.status.conditions, "Ready")
    ready_heartbeat = ready.last_heartbeat_time if ready is not None and ready.status != "Unknown" else None
    if last is not None:
        if ready_heartbeat is None:
            ready_heartbeat = last.ready_heartbeat  # a condition that this controller wrote is no heartbeat
        if (renew_time, ready_heartbeat) == (last.renew_time, last.ready_heartbeat):
            return last
    return Heartbeat(renew_time, ready_heartbeat, now)


def plan_unknown_conditions(node: Node, now: str) -> list[dict[str, Any]]:
    """Return the conditions to change on a node that has been silent for too long; none when they are written."""
    changed = []
    for name in KUBELET_CONDITIONS:
        current = find_condition(node.status.conditions, name)
        if current is None:
            condition = Condition(
                type=name,
                status="Unknown",
                reason="NodeStatusNeverUpdated",
                message="Kubelet never posted node status.",
                last_heartbeat_time=node.metadata.creation_timestamp,
                last_transition_time=now,
            )
        elif current.status != "Unknown":
            condition = msgspec.structs.replace(
                current,
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                last_transition_time=now,
            )
        else:
            continue
        changed.append(msgspec.to_builtins(condition))
    return changed


def find_eviction_taint(node: Node) -> str | None:
    """Return the key of the NoExecute taint for the node's Ready condition; None for a ready node."""
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None or ready.status == "True":
        return None
    return UNREACHABLE if ready.status == "Unknown" else NOT_READY


def has_eviction_taint(node: Node) -> bool:
    return any(t.effect == "NoExecute" and t.key in (NOT_READY, UNREACHABLE) for t in node.spec.taints)


def plan_taints(node: Node, now: str, *, may_evict: bool) -> tuple[Taint, ...] | None:
    """Return all taints that the node should have, other writers' included; None without changes.

    Nodes that are not ready or unreachable also get NoExecute if `may_evict`; else they lose it.
    """
    wanted: dict[tuple[str, str], None] = {}
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None or ready.status == "False":
        wanted[NOT_READY, "NoSchedule"] = None
    elif ready.status == "Unknown":
        wanted[UNREACHABLE, "NoSchedule"] = None
    for name, key in _PRESSURE_TAINTS.items():
        condition = find_condition(node.status.conditions, name)
        if condition is not None and condition.status == "True":
            wanted[key, "NoSchedule"] = None
    if node.spec.unschedulable:
        wanted[UNSCHEDULABLE, "NoSchedule"] = None
    eviction = find_eviction_taint(node)
    if eviction is not None and may_evict:
        wanted[eviction, "NoExecute"] = None
    kept = tuple(t for t in node.spec.taints if t.key not in _MANAGED or (t.key, t.effect) in wanted)
    there = {(taint.key, taint.effect) for taint in kept}
    missing = tuple(Taint(key=k, effect=e, time_added=now) for k, e in wanted if (k, e) not in there)
    taints = kept + missing
    return None if taints == node.spec.taints else taints
