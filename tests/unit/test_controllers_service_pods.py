"""Which changes of pods and Services are passed on, to whom, and how urgently."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.controllers.endpoints.service_pods import ServicePods
from bridgehead.controllers.shared import Informers
from bridgehead.objects.core import ContainerStatus, LoadBalancerIngress, LoadBalancerStatus, ServiceStatus
from bridgehead.objects.kinds import PODS, SERVICES, Kind
from bridgehead.objects.meta import Object, ObjectKey

from .endpoint_objects import pod, service

WEB, OTHER = ObjectKey("default", "web"), ObjectKey("default", "other")


class World:
    """Informers that are told what to show; `heard` is what was passed on since it was last looked at."""

    def __init__(self) -> None:
        self._informers = Informers(None)  # type: ignore[arg-type]
        self.service_pods = self._informers.derived(ServicePods)
        self._heard: set[tuple[ObjectKey, bool]] = set()
        self.service_pods.on_change(lambda key, urgent: self._heard.add((key, urgent)))
        self._version = 0

    def see(self, kind: Kind[Any], obj: Object, **meta: Any) -> None:
        self._version += 1
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self._version), **meta)
        self._informers.get(kind)._store.put(msgspec.structs.replace(obj, metadata=metadata))

    def lose(self, kind: Kind[Any], obj: Object) -> None:
        self._informers.get(kind)._store.remove(obj.key)

    @property
    def heard(self) -> set[tuple[ObjectKey, bool]]:
        heard, self._heard = self._heard, set()
        return heard

    def names(self, key: ObjectKey = WEB) -> list[str]:
        return [found.metadata.name for found in self.service_pods.of(key)]


@pytest.fixture
async def world() -> World:
    """The Service web with one ready pod."""
    world = World()
    world.see(SERVICES, service())
    world.see(SERVICES, service(name="other", selector={"app": "other"}))
    world.see(PODS, pod())
    assert world.heard
    assert world.names() == ["p1"]
    return world


async def test_both_controllers_get_the_same_one() -> None:
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
async def test_changes_of_a_ready_pod(world: World, changed, urgent) -> None:
    world.see(PODS, changed)
    assert world.heard == (set() if urgent is None else {(WEB, urgent)})


async def test_a_pod_that_becomes_ready_may_wait_for_others(world: World) -> None:
    world.see(PODS, pod("p2", ips=(), ready=False))
    assert world.heard == set(), "without an address it is no endpoint"
    assert world.names() == ["p1", "p2"]
    world.see(PODS, pod("p2", ("10.244.1.2",), ready=False))
    assert world.heard == {(WEB, False)}
    world.see(PODS, pod("p2", ("10.244.1.2",)))
    assert world.heard == {(WEB, False)}


async def test_restarts_of_a_pod_that_stays_unready_are_not_passed_on(world: World) -> None:
    world.see(PODS, pod(ready=False))
    assert world.heard
    crashing = pod(ready=False)
    status = msgspec.structs.replace(crashing.status, container_statuses=(ContainerStatus(name="c", restart_count=7),))
    world.see(PODS, msgspec.structs.replace(crashing, status=status))
    assert world.heard == set()


async def test_labels_move_a_pod_from_one_service_to_another(world: World) -> None:
    world.see(PODS, pod(), labels={"app": "other"})
    assert world.heard == {(WEB, True), (OTHER, True)}
    assert (world.names(), world.names(OTHER)) == ([], ["p1"])
    world.see(PODS, pod(), labels={"app": "other", "unrelated": "1"})
    assert world.heard == set()


async def test_a_deleted_pod(world: World) -> None:
    world.lose(PODS, pod())
    assert (world.heard, world.names()) == ({(WEB, True)}, [])


async def test_services(world: World) -> None:
    world.see(SERVICES, service(publish_not_ready_addresses=True))
    assert world.heard == {(WEB, True)}
    load_balancer = LoadBalancerStatus(ingress=(LoadBalancerIngress(ip="192.0.2.1"),))
    changed = service(publish_not_ready_addresses=True)
    world.see(SERVICES, msgspec.structs.replace(changed, status=ServiceStatus(load_balancer=load_balancer)))
    assert world.heard == set()
    world.see(SERVICES, service(selector={"app": "other"}))
    assert (world.heard, world.names()) == ({(WEB, True)}, [])
    world.see(SERVICES, service())
    assert (world.heard, world.names()) == ({(WEB, True)}, ["p1"])
    world.see(SERVICES, service(type="ExternalName"))
    assert (world.heard, world.names()) == ({(WEB, True)}, [])
    world.lose(SERVICES, service())
    assert world.heard == {(WEB, True)}
