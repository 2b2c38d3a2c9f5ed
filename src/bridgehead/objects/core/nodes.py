"""Nodes.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Any

from bridgehead.objects.meta import Condition, Object, Part, is_condition_true


class Taint(Part, frozen=True, kw_only=True):
    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeSpec(Part, frozen=True, kw_only=True):
    pod_cidr: str = ""
    pod_cidrs: tuple[str, ...] = ()
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = ""


class NodeAddress(Part, frozen=True, kw_only=True):
    type: str
    address: str


class ContainerImage(Part, frozen=True, kw_only=True):
    """An image that a node has."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Part, frozen=True, kw_only=True):
    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[Condition, ...] = ()
    capacity: dict[str, str | int | float] = {}
    allocatable: dict[str, str | int | float] = {}
    node_info: dict[str, Any] = {}
    daemon_endpoints: dict[str, Any] = {}
    images: tuple[ContainerImage, ...] = ()


ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"


class Node(Object, frozen=True, kw_only=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def zone(self) -> str:
        """The zone in the node's label; "" without one."""
        return self.metadata.labels.get(ZONE_LABEL, "")

    @property
    def is_ready(self) -> bool:
        return is_condition_true(self.status.conditions, "Ready")

    @property
    def internal_ips(self) -> tuple[str, ...]:
        return tuple(a.address for a in self.status.addresses if a.type == "InternalIP")
