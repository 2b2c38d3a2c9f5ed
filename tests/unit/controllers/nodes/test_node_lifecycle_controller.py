"""Nodes that are judged silent, in virtual time: kubelets renew Leases through an API server that stalls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from bridgehead.client.errors import NotFound, Unreachable
from bridgehead.client.informer_cache import InformerCache
from bridgehead.controllers.nodes.node_lifecycle_controller import LEASE_NAMESPACE, NodeLifecycleController
from bridgehead.controllers.nodes.watch_clock import WatchClock
from bridgehead.controllers.nodes.zone_disruption import (
    Disruption,
    EvictionRateLimiter,
    ZoneState,
    find_disruption,
    zone_state,
)
from bridgehead.objects.coordination import Lease
from bridgehead.objects.core import Node, NodeStatus, Pod, PodSpec, PodStatus
from bridgehead.objects.kinds import LEASES, NODES, PODS, Kind
from bridgehead.objects.meta import Condition, ObjectKey, ObjectMeta
from bridgehead.objects.times import format_micro_time
from tests.unit.virtual_time import run_virtual

RENEWAL_SECONDS = 10.0


class Copy(InformerCache[Any]):
    """An informer that is always synced."""

    async def wait_synced(self) -> None:
        pass


class Api:
    """Objects, and the copies that watches bring up to date.

    `stopped` answers nothing until it goes on, `down` refuses, `slow` takes so many seconds, `deaf` brings no events.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, ObjectKey], Any] = {}
        self.copies = {kind.plural: Copy(kind.plural) for kind in (NODES, LEASES, PODS)}
        self.running = asyncio.Event()
        self.running.set()
        self.down = self.deaf = False
        self.slow = 0.0
        self.version = 0
        self.held: list[Any] = []

    def get(self, kind: Kind[Any]) -> Copy:
        """Return the informer of a kind, as `Informers` does."""
        return self.copies[kind.plural]

    def stop(self) -> None:
        self.running.clear()

    def put(self, kind: Kind[Any], obj: Any) -> Any:
        self.version += 1
        meta = msgspec.structs.replace(obj.metadata, resource_version=str(self.version))
        stored = msgspec.structs.replace(obj, metadata=meta)
        self.objects[kind.plural, stored.key] = stored
        self.held.append((kind, stored))
        self.deliver()
        return stored

    def deliver(self) -> None:
        if not self.deaf:
            for kind, obj in self.held:
                self.copies[kind.plural].put(obj)
            self.held.clear()

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        return self.put(kind, obj)

    async def patch(self, kind: Kind[Any], name: str, namespace: str, patch: Any, **_: Any) -> Any:
        await self.running.wait()
        if self.down:
            raise Unreachable("down")
        await asyncio.sleep(self.slow)
        await self.running.wait()
        old = self.objects.get((kind.plural, ObjectKey(namespace, name)))
        if old is None:
            raise NotFound(404, "NotFound", name)
        document = msgspec.to_builtins(old)
        for condition in patch.get("status", {}).get("conditions", []):
            status = document.setdefault("status", {})
            others = [c for c in status.get("conditions", ()) if c["type"] != condition["type"]]
            status["conditions"] = [*others, condition]
        document.setdefault("spec", {}).update(patch.get("spec", {}))
        return self.put(kind, msgspec.convert(document, type(old)))


class Recorder:
    def record(self, *_: Any, **__: Any) -> None:
        pass


class Cluster:
    """Nodes node0, node1 ... with a ready pod each."""

    def __init__(self, count: int) -> None:
        self.api = Api()
        self.names = [f"node{number}" for number in range(count)]
        self.kubelets: dict[str, asyncio.Task[None]] = {}
        loop = asyncio.get_running_loop()
        self.watch_clock = WatchClock(self.api, self.api.get(LEASES), wall_clock=loop.time, clock=loop.time)  # type: ignore[arg-type]
        self.controller = NodeLifecycleController(
            self.api,  # type: ignore[arg-type]
            self.api,  # type: ignore[arg-type]
            Recorder(),  # type: ignore[arg-type]
            watch_clock=self.watch_clock,
            now=loop.time,
            clock=loop.time,
        )
        ready = Condition(type="Ready", status="True", last_heartbeat_time="0")
        for name in self.names:
            self.api.put(NODES, Node(metadata=ObjectMeta(name=name), status=NodeStatus(conditions=(ready,))))
            meta = ObjectMeta(name=f"pod-{name}", namespace="default", uid=name)
            self.api.put(PODS, Pod(metadata=meta, spec=PodSpec(node_name=name), status=PodStatus(conditions=(ready,))))
            self.api.put(LEASES, Lease(metadata=ObjectMeta(name=name, namespace=LEASE_NAMESPACE)))

    def start(self, *names: str) -> None:
        for name in names:
            self.kubelets[name] = asyncio.create_task(self._renew(name))

    def silence(self, *names: str) -> None:
        for name in names:
            self.kubelets.pop(name).cancel()

    async def _renew(self, name: str) -> None:
        await asyncio.sleep(int(name.removeprefix("node")) * 3 % RENEWAL_SECONDS)  # each at a moment of its own
        while True:
            renewed = format_micro_time(asyncio.get_running_loop().time())
            try:
                await self.api.patch(LEASES, name, LEASE_NAMESPACE, {"spec": {"renewTime": renewed}})
            except Unreachable:
                await asyncio.sleep(1)
                continue
            await asyncio.sleep(RENEWAL_SECONDS)

    def seen(self, kind: Kind[Any], namespace: str = "", prefix: str = "") -> dict[str, Any]:
        return {name: self.api.get(kind).get(ObjectKey(namespace, f"{prefix}{name}")) for name in self.names}

    def unready_nodes(self) -> list[str]:
        return [name for name, node in self.seen(NODES).items() if not node.is_ready]

    def unready_pods(self) -> list[str]:
        return [name for name, pod in self.seen(PODS, "default", "pod-").items() if not pod.is_ready]

    def evicted(self) -> list[str]:
        nodes = self.seen(NODES)
        return [name for name, node in nodes.items() if any(t.effect == "NoExecute" for t in node.spec.taints)]


def play(count: int, scene: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        cluster = Cluster(count)
        works = [asyncio.create_task(cluster.watch_clock.run()), asyncio.create_task(cluster.controller.run())]
        cluster.start(*cluster.names)
        await asyncio.sleep(33)
        await scene(cluster)
        for task in (*works, *cluster.kubelets.values()):
            task.cancel()
            await asyncio.wait([task])

    run_virtual(main())


async def stopped(cluster: Cluster, seconds: float) -> None:
    cluster.api.stop()
    await asyncio.sleep(seconds)
    cluster.api.running.set()


async def down(cluster: Cluster, seconds: float) -> None:
    cluster.api.down = True
    await asyncio.sleep(seconds)
    cluster.api.down = False


async def deaf(cluster: Cluster, seconds: float) -> None:
    """Writes work, but no watch brings anything."""
    cluster.api.deaf = True
    await asyncio.sleep(seconds)
    cluster.api.deaf = False
    cluster.api.deliver()


async def slow(cluster: Cluster, seconds: float) -> None:
    cluster.api.slow = 25.0
    await asyncio.sleep(seconds)
    cluster.api.slow = 0.0


@pytest.mark.parametrize("stall", [stopped, down, deaf, slow])
@pytest.mark.parametrize("seconds", [45, 60, 900])
def test_time_without_possible_heartbeats_is_not_counted(stall, seconds):
    async def scene(cluster: Cluster) -> None:
        task = asyncio.create_task(stall(cluster, seconds))
        for _ in range(seconds + 60):
            await asyncio.sleep(1)
            assert cluster.unready_nodes() == cluster.unready_pods() == cluster.evicted() == []
        await task

    play(3, scene)


def test_time_in_which_the_controllers_were_stopped_is_not_counted():
    """The controllers' clock jumps; heartbeats of that time arrive late or not at all."""

    async def scene(cluster: Cluster) -> None:
        jump = 0.0
        cluster.watch_clock._clock = lambda: asyncio.get_running_loop().time() + jump
        cluster.silence(*cluster.names)  # stopped with them: the whole machine was suspended
        jump = 3600.0
        await asyncio.sleep(10)
        cluster.start(*cluster.names)
        await asyncio.sleep(60)
        assert cluster.unready_nodes() == []

    play(3, scene)


def test_one_silent_node_becomes_unreachable_after_its_grace_period():
    async def scene(cluster: Cluster) -> None:
        cluster.silence("node1")
        await asyncio.sleep(29)  # its Lease was renewed 10 s ago at most
        assert cluster.unready_nodes() == []
        await asyncio.sleep(30)
        assert cluster.unready_nodes() == cluster.unready_pods() == cluster.evicted() == ["node1"]

    play(3, scene)


def test_a_silent_node_is_found_after_a_stall_of_the_controllers():
    async def scene(cluster: Cluster) -> None:
        cluster.silence("node1")
        await stopped(cluster, 60)
        await asyncio.sleep(55)
        assert cluster.unready_nodes() == cluster.unready_pods() == ["node1"]

    play(3, scene)


@pytest.mark.parametrize("count", [1, 3, 10])
def test_without_any_heartbeats_nothing_is_evicted(count):
    """The grace period restarts for all nodes after an outage; a node that stays silent is judged alone."""

    async def scene(cluster: Cluster) -> None:
        cluster.silence(*cluster.names)
        await asyncio.sleep(300)
        assert cluster.unready_nodes() == cluster.names
        assert cluster.unready_pods() == cluster.evicted() == []
        back, away = cluster.names[:1], cluster.names[1:]
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}
        cluster.start(*back)
        await cluster.api.patch(NODES, back[0], "", {"status": {"conditions": [ready]}})
        await asyncio.sleep(30)
        assert cluster.unready_pods() == cluster.evicted() == [], "a whole grace period"
        await asyncio.sleep(30)
        assert cluster.unready_pods() == away
        # If one of three is well, the limiter is the usual one. If most of ten have failed, no pod is evicted.
        assert cluster.evicted() == ([] if count > 3 else away[: len(cluster.evicted())])
        await asyncio.sleep(30)
        assert cluster.evicted() == ([] if count > 3 else away)

    play(count, scene)


def test_nodes_are_evicted_one_after_another():
    async def scene(cluster: Cluster) -> None:
        cluster.silence("node1", "node2", "node3")
        seen = []
        for _ in range(90):
            await asyncio.sleep(1)
            seen.append(len(cluster.evicted()))
        assert seen[-1] == 3
        assert all(seen.count(number) >= 9 for number in (1, 2))

    play(8, scene)


@pytest.mark.parametrize(
    ("healthy", "unhealthy", "state"),
    [
        (0, 0, ZoneState.NORMAL),
        (1, 0, ZoneState.NORMAL),
        (0, 1, ZoneState.FULL_DISRUPTION),
        (1, 2, ZoneState.NORMAL),
        (1, 3, ZoneState.PARTIAL_DISRUPTION),
        (9, 11, ZoneState.PARTIAL_DISRUPTION),
        (46, 54, ZoneState.NORMAL),
        (0, 100, ZoneState.FULL_DISRUPTION),
    ],
)
def test_the_zone_state_matches_kube_controller_manager(healthy, unhealthy, state):
    """The cases are those of kube-controller-manager's `TestComputeZoneState`."""
    assert zone_state(healthy, unhealthy) is state


def zoned(name: str, zone: str, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels={"topology.kubernetes.io/zone": zone, **labels}))


def test_eviction_rates_depend_on_the_zone_state():
    a, b = ("", "a"), ("", "b")
    ill_zone = find_disruption([*((zoned("n", "a"), False) for _ in range(5)), (zoned("m", "b"), True)])
    assert (ill_zone.states[a], ill_zone.states[b]) == (ZoneState.FULL_DISRUPTION, ZoneState.NORMAL)
    assert not ill_zone.is_total
    assert ill_zone.eviction_rate(a) == 0.1, "the zone failed, not the control plane"
    both = find_disruption([(zoned("n", "a"), False), (zoned("m", "b"), False)])
    assert both.is_total
    assert both.eviction_rate(a) == 0.0
    excluded = {"node.kubernetes.io/exclude-disruption": ""}
    assert not find_disruption([(zoned("n", "a", **excluded), False)]).is_total
    partial = {a: ZoneState.PARTIAL_DISRUPTION}
    assert Disruption(partial, {a: 50}).eviction_rate(a) == 0.0
    assert Disruption(partial, {a: 51}).eviction_rate(a) == 0.01


def test_the_rate_limiter_spaces_evictions():
    limiter, zone = EvictionRateLimiter(), ("", "")
    assert limiter.take(zone, "a", 0.0, 0.0) == float("inf")
    assert limiter.take(zone, "a", 0.1, 0.0) == 0
    assert limiter.take(zone, "b", 0.1, 4.0) == 6.0
    assert limiter.take(("", "other"), "b", 0.1, 4.0) == 0
    assert limiter.take(zone, "a", 0.1, 4.0) == 0, "the same node again: its taint was not written"
    assert limiter.take(zone, "b", 0.1, 14.0) == 0
