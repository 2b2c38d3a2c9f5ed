"""Changes of pods and Services that are passed on, their receivers and their urgency."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.controllers.endpoints.service_pods import ServicePods
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import ContainerStatus, LoadBalancerIngress, LoadBalancerStatus, ServiceStatus
from bridgehead.objects.kinds import PODS, SERVICES, Kind
from bridgehead.objects.meta import Object, ObjectKey
from tests.unit.controllers.endpoints.sample_objects import pod, service

WEB, OTHER = ObjectKey("default", "web"), ObjectKey("default", "other")


class World:
    """Informers with objects of the test; `notified` returns the notifications since its last call."""

    def __init__(self) -> None:
        self._informers = Informers(None)  # type: ignore[arg-type]
        self.service_pods = self._informers.derived(ServicePods)
        self._notified: set[tuple[ObjectKey, bool]] = set()
        self.service_pods.on_change(lambda key, urgent: self._notified.add((key, urgent)))
        self._version = 0

    def see(self, kind: Kind[Any], obj: Object, **meta: Any) -> None:
        self._version += 1
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self._version), **meta)
        self._informers.get(kind)._cache.put(msgspec.structs.replace(obj, metadata=metadata))

    def lose(self, kind: Kind[Any], obj: Object) -> None:
        self._informers.get(kind)._cache.remove(obj.key)

    @property
    def notified(self) -> set[tuple[ObjectKey, bool]]:
        notified, self._notified = self._notified, set()
        return notified

    def names(self, key: ObjectKey = WEB) -> list[str]:
        return [found.metadata.name for found in self.service_pods.of(key)]


@pytest.fixture
async def world() -> World:
    """The Service web with one ready pod."""
    world = World()
    world.see(SERVICES, service())
    world.see(SERVICES, service(name="other", selector={"app": "other"}))
    world.see(PODS, pod())
    assert world.notified
    assert world.names() == ["p1"]
    return world


async def test_both_controllers_share_one_index() -> None:
    informers = Informers(None)  # type: ignore[arg-type]
    assert informers.derived(ServicePods) is informers.derived(ServicePods)


@pytest.mark.parametrize(
    ("changed", "urgent"),
    [
        (pod(ready=False), True),
        (pod(terminating=True), True),
        (pod(phase="Failed"), True),
        (pod(ips=()), True),
        (pod(ips=("10.244.1.2",)), True),
        (pod(node="node2"), True),
        (pod(hostname="one", subdomain="web"), True),
        (pod(since="2026-02-02T00:00:00Z"), None),
        (msgspec.structs.replace(pod(), status=msgspec.structs.replace(pod().status, message="x")), None),
    ],
)
async def test_a_changed_ready_pod_is_urgent_only_if_it_matters(world: World, changed, urgent) -> None:
    world.see(PODS, changed)
    assert world.notified == (set() if urgent is None else {(WEB, urgent)})


async def test_a_pod_that_becomes_ready_can_be_batched(world: World) -> None:
    world.see(PODS, pod("p2", ips=(), ready=False))
    assert world.notified == set(), "without an address it is no endpoint"
    assert world.names() == ["p1", "p2"]
    world.see(PODS, pod("p2", ("10.244.1.2",), ready=False))
    assert world.notified == {(WEB, False)}
    world.see(PODS, pod("p2", ("10.244.1.2",)))
    assert world.notified == {(WEB, False)}


async def test_restarts_of_an_unready_pod_are_ignored(world: World) -> None:
    world.see(PODS, pod(ready=False))
    assert world.notified
    crashing = pod(ready=False)
    status = msgspec.structs.replace(crashing.status, container_statuses=(ContainerStatus(name="c", restart_count=7),))
    world.see(PODS, msgspec.structs.replace(crashing, status=status))
    assert world.notified == set()


async def test_changed_labels_move_a_pod_between_services(world: World) -> None:
    world.see(PODS, pod(), labels={"app": "other"})
    assert world.notified == {(WEB, True), (OTHER, True)}
    assert (world.names(), world.names(OTHER)) == ([], ["p1"])
    world.see(PODS, pod(), labels={"app": "other", "unrelated": "1"})
    assert world.notified == set()


async def test_a_deleted_pod_notifies_its_services(world: World) -> None:
    world.lose(PODS, pod())
    assert (world.notified, world.names()) == ({(WEB, True)}, [])


async def test_changed_services_are_notified(world: World) -> None:
    world.see(SERVICES, service(publish_not_ready_addresses=True))
    assert world.notified == {(WEB, True)}
    load_balancer = LoadBalancerStatus(ingress=(LoadBalancerIngress(ip="192.0.2.1"),))
    changed = service(publish_not_ready_addresses=True)
    world.see(SERVICES, msgspec.structs.replace(changed, status=ServiceStatus(load_balancer=load_balancer)))
    assert world.notified == set()
    world.see(SERVICES, service(selector={"app": "other"}))
    assert (world.notified, world.names()) == ({(WEB, True)}, [])
    world.see(SERVICES, service())
    assert (world.notified, world.names()) == ({(WEB, True)}, ["p1"])
    world.see(SERVICES, service(type="ExternalName"))
    assert (world.notified, world.names()) == ({(WEB, True)}, [])
    world.lose(SERVICES, service())
    assert world.notified == {(WEB, True)}
