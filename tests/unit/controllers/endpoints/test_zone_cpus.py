"""The zones' shares of the cluster's CPUs, the Services whose hints depend on them, and Events about these."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.controllers.endpoints.zone_cpus import Notice, Topology
from bridgehead.controllers.endpoints.zone_hints import HintsResult
from bridgehead.objects.core import Node
from bridgehead.objects.meta import ObjectKey

WEB, OTHER = ObjectKey("default", "web"), ObjectKey("default", "other")
ENABLED = Notice("Normal", "TopologyAwareHintsEnabled", "Topology Aware Hints has been enabled, addressType: IPv4")
EVEN = {"IPv4": HintsResult(zones={"a": 2, "b": 2})}

CONTROL_PLANE: dict[str, Any] = {"node-role.kubernetes.io/control-plane": ""}
MASTER: dict[str, Any] = {"node-role.kubernetes.io/master": ""}


def node(name: str, zone: str = "", cpu: str | None = "2", *, ready: bool = True, **labels: str) -> Node:
    if zone:
        labels["topology.kubernetes.io/zone"] = zone
    status: dict[str, Any] = {
        "allocatable": {} if cpu is None else {"cpu": cpu},
        "conditions": [{"type": "Ready", "status": str(ready)}],
    }
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "status": status}, Node)


def topology(*nodes: Node) -> Topology:
    found = Topology()
    for item in nodes:
        found.node_changed(None, item)
    return found


@pytest.mark.parametrize(
    ("nodes", "shares"),
    [
        ((), {}),
        ((node("1", "a"),), {}),
        ((node("1", "a"), node("2", "a")), {}),
        ((node("1", "a"), node("2", "b")), {"a": 0.5, "b": 0.5}),
        (
            (node("1", "a", "500m"), node("2", "b"), node("3", "a", "1.5"), node("4", "c", "4")),
            {"a": 0.25, "b": 0.25, "c": 0.5},
        ),
        ((node("1", "a"), node("2", "b"), node("3", "b", ready=False)), {"a": 0.5, "b": 0.5}),
        ((node("1", "a"), node("2", "b"), node("3", ready=False)), {"a": 0.5, "b": 0.5}),
        ((node("1", "a"), node("2", "b", **CONTROL_PLANE)), {}),
        (
            (node("1", "a"), node("2", "b"), node("3", "c", **MASTER)),
            {"a": 0.5, "b": 0.5},
        ),
        ((node("1", "a"), node("2", "b"), node("3")), {}),
        ((node("1", "a"), node("2", "b"), node("3", "c", None)), {}),
        ((node("1", "a"), node("2", "b"), node("3", "c", "much")), {}),
    ],
)
def test_zones_share_by_their_processors(nodes: tuple[Node, ...], shares: dict[str, float]) -> None:
    assert topology(*nodes).shares == shares
    assert topology(*reversed(nodes)).shares == shares
    gone = topology(*nodes)
    for item in nodes:
        gone.node_changed(item, None)
    assert gone.shares == {}


def test_a_changed_node_is_counted_once() -> None:
    found = topology(node("1", "a"), node("2"))
    assert found.shares == {}
    found.node_changed(node("2"), node("2", "b", "6"))
    assert found.shares == {"a": 0.25, "b": 0.75}
    found.node_changed(node("2", "b", "6"), node("2", "b", "2"))
    assert found.shares == {"a": 0.5, "b": 0.5}


def test_a_changed_node_affects_services_by_their_hints() -> None:
    found = topology(node("1", "a"), node("2", "b"))
    found.record_hints(WEB, EVEN)
    found.record_hints(OTHER, {"IPv4": HintsResult(problem="too few")})
    found.record_no_hints(ObjectKey("default", "neither"))

    assert found.node_changed(node("2", "b"), node("2", "b", app="x")) == [], "nothing that counts"
    assert found.node_changed(None, node("3", "a", "100m")) == [OTHER], "it may have enough now"
    assert set(found.node_changed(None, node("4", "b", "20"))) == {WEB, OTHER}
    found.forget(WEB)
    found.record_no_hints(OTHER)
    assert found.node_changed(node("4", "b", "20"), None) == []


def test_events_are_recorded_for_changes_only() -> None:
    def disabled(text: str, address_type: str = "IPv4") -> Notice:
        return Notice("Warning", "TopologyAwareHintsDisabled", f"{text}, addressType: {address_type}")

    found = Topology()
    assert found.record_no_hints(WEB) == []
    assert found.record_hints(WEB, {"IPv4": HintsResult(problem="too few (1)")}) == [disabled("too few (1)")]
    assert found.record_hints(WEB, {"IPv4": HintsResult(problem="too few (1)")}) == []
    assert found.record_hints(WEB, {"IPv4": HintsResult(problem="too few (2)")}) == [disabled("too few (2)")]
    assert found.record_hints(WEB, EVEN) == [ENABLED]
    assert found.record_hints(WEB, EVEN) == []
    both = {**EVEN, "IPv6": HintsResult(zones={"a": 1, "b": 1})}
    assert found.record_hints(WEB, both) == []
    assert found.record_hints(WEB, {**EVEN, "IPv6": HintsResult(problem="none")}) == [disabled("none", "IPv6")]
    assert found.record_no_hints(WEB) == [disabled("Topology Aware Hints has been disabled")]
    assert found.record_no_hints(WEB) == []
