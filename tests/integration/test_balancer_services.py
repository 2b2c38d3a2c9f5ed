"""Changes of Services, pools and namespaces while the controller runs, at an API server in the process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.balancer.controller.controller import BalancerController, ControllerSettings
from bridgehead.balancer.controller.other_balancer_watch import OtherBalancerWatch
from bridgehead.balancer.controller.service_patches import CONDITION
from bridgehead.client import ApiClient
from bridgehead.client.errors import NotFound
from bridgehead.objects.address_holders import EIP_NAME_ANNOTATION
from bridgehead.objects.core import Service
from bridgehead.objects.extensions import DEFINITIONS
from bridgehead.objects.kinds import CONFIG_MAPS, EVENTS, NAMESPACES, SERVICES
from bridgehead.objects.meta import find_condition
from bridgehead.objects.metallb import BGP_PEERS, CONFIGURATION_STATES, IP_ADDRESS_POOLS, L2_ADVERTISEMENTS
from bridgehead.objects.openelb import EIPS

from .api_world import api_world, running, until

pytestmark = pytest.mark.integration

NAMESPACE = "metallb-system"


class World:
    """A client, and the controller as a task."""

    def __init__(self, client: ApiClient) -> None:
        self.client = client

    async def pool(self, name: str, *addresses: str, **spec: Any) -> None:
        body = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"addresses": addresses, **spec}}
        await self.client.create(IP_ADDRESS_POOLS, body)

    async def service(self, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        metadata = {"name": name, "namespace": "default", "annotations": annotations or {}}
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": name}, **spec}
        await self.client.create(SERVICES, {"metadata": metadata, "spec": spec})

    async def patch(self, name: str, patch: dict[str, Any], subresource: str = "") -> None:
        await self.client.patch(SERVICES, name, "default", patch, subresource=subresource)

    async def get(self, name: str) -> Service:
        return await self.client.get(SERVICES, name, "default")

    async def has(self, name: str, *addresses: str) -> None:
        """Wait until the Service has these addresses."""

        async def look() -> bool:
            found = await self.get(name)
            return tuple(ingress.ip for ingress in found.status.load_balancer.ingress) == addresses

        await until(look)

    async def waits(self, name: str, reason: str) -> None:
        """Wait until the Service's condition has this reason; "" for no condition."""

        async def look() -> bool:
            condition = find_condition((await self.get(name)).status.conditions, CONDITION)
            return ("" if condition is None else condition.reason) == reason

        await until(look)

    async def has_event(self, name: str, reason: str) -> None:
        async def look() -> bool:
            events = (await self.client.list(EVENTS)).items
            return any(event.involved_object.name == name and event.reason == reason for event in events)

        await until(look)


@contextlib.asynccontextmanager
async def balancer_world() -> AsyncIterator[World]:
    async with api_world() as api, ApiClient(api.config) as client, ApiClient(api.config) as own:
        controller = BalancerController(own, ControllerSettings(namespace=NAMESPACE), OtherBalancerWatch(own, ""))
        await controller.prepare()
        async with running(controller.run()):
            yield World(client)


async def test_services_change() -> None:
    async with balancer_world() as world:
        await world.pool("pool", "10.7.0.0/31")

        # A Service of another class: an Event and the condition, and no address.
        await world.service("foreign", loadBalancerClass="example.com/other")
        await world.waits("foreign", "WrongClass")
        await world.has_event("foreign", "LoadBalancerClassIgnored")
        await world.patch("foreign", {"metadata": {"labels": {"app": "foreign"}}})
        # Its own controller gives it one, which is left alone.
        given = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}
        await world.patch("foreign", given, "status")
        await world.waits("foreign", "")
        await world.has("foreign", "192.0.2.1")
        events = (await world.client.list(EVENTS)).items
        assert [event.count for event in events if event.reason == "LoadBalancerClassIgnored"] == [1]

        # A shared address: the port of the first Service is in the way of the third one, until it changes.
        share = {"metallb.io/allow-shared-ip": "key", "metallb.io/loadBalancerIPs": "10.7.0.0"}
        await world.service("first", share)
        await world.has("first", "10.7.0.0")
        await world.service("second", share, ports=[{"port": 81}])
        await world.has("second", "10.7.0.0")
        await world.service("third", share)
        await world.waits("third", "PortInUse")
        await world.patch("first", {"spec": {"ports": [{"port": 82}]}})
        await world.has("third", "10.7.0.0")
        await world.waits("third", "")

        # External IPs of a pool are not taken from it: Services get them, and keep them.
        await world.service("external", type="ClusterIP", externalIPs=["10.7.0.0", "10.7.0.1"])
        await world.has_event("external", "ExternalIPNotAnnounced")
        await world.service("late")
        await world.has("late", "10.7.0.1")
        await world.has_event("late", "ExternalIPClash")
        await world.patch("external", {"spec": {"externalIPs": None}})

        # Another client writes the status.
        await world.patch("late", {"status": {"loadBalancer": {"ingress": None}}}, "status")
        await world.has("late", "10.7.0.1")
        await world.patch("late", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}, "status")
        await world.has("late", "10.7.0.1")
        await world.has_event("late", "ClearAssignment")

        # A Service that is no LoadBalancer any more frees its address and loses the annotation.
        await world.service("waiting")
        await world.waits("waiting", "PoolFull")
        await world.patch("late", {"spec": {"type": "ClusterIP"}})
        await world.has("waiting", "10.7.0.1")

        async def is_clean() -> bool:
            return "metallb.io/ip-allocated-from-pool" not in (await world.get("late")).metadata.annotations

        await until(is_clean)

        # A pool that grows.
        await world.service("more")
        await world.waits("more", "PoolFull")
        patch = {"spec": {"addresses": ["10.7.0.0/31", "10.7.0.8/32"]}}
        await world.client.patch(IP_ADDRESS_POOLS, "pool", NAMESPACE, patch)
        await world.has("more", "10.7.0.8")


async def test_addresses_that_services_have_stay_when_a_balancer_takes_over() -> None:
    async with api_world() as api, ApiClient(api.config) as client, ApiClient(api.config) as own:
        world = World(client)
        settings = ControllerSettings(namespace=NAMESPACE)
        await BalancerController(own, settings, OtherBalancerWatch(own, "")).prepare()
        await world.pool("pool", "10.7.0.0/29")
        # Others list the addresses: at another port, at the same one, all of the pool.
        everything = [f"10.7.0.{n}" for n in range(8)]
        await world.service("a-lists", type="ClusterIP", externalIPs=everything, ports=[{"port": 443}])
        await world.service("b-lists", type="ClusterIP", externalIPs=["10.7.0.3"])
        share = {"metallb.io/allow-shared-ip": "key"}
        contradiction = {"metallb.io/loadBalancerIPs": "10.7.0.6,10.7.0.7", **share}
        has = {"single": "10.7.0.3", "one": "10.7.0.4", "two": "10.7.0.4", "odd": "10.7.0.5", "odd-too": "10.7.0.5"}
        await world.service("single")
        await world.service("one", share)
        await world.service("two", share, ports=[{"port": 81}])
        await world.service("odd", contradiction)
        await world.service("odd-too", share, ports=[{"port": 82}])
        for name, address in has.items():
            await world.patch(name, {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}, "status")

        for _ in range(2):  # a restart
            async with running(BalancerController(own, settings, OtherBalancerWatch(own, "")).run()):
                await world.has_event("single", "ExternalIPClash")
                await world.service("new")
                await world.has("new", "10.7.0.0")
                for name, address in has.items():
                    await world.has(name, address)
                await world.pool("another", "10.7.1.0/29")
                await world.patch("b-lists", {"spec": {"ports": [{"port": 8080}]}})
                await world.patch("two", {"spec": {"ports": [{"port": 83}]}})
                await world.service("pinned", {"metallb.io/address-pool": "another"})
                await world.has("pinned", "10.7.1.0")
                for name, address in has.items():
                    await world.has(name, address)
            for name in ("new", "pinned"):
                await client.delete(SERVICES, name, "default")
            await client.delete(IP_ADDRESS_POOLS, "another", NAMESPACE)
        events = (await client.list(EVENTS)).items
        assert not [event for event in events if event.reason == "ClearAssignment"]


async def test_pools_count_while_a_peer_is_not_valid() -> None:
    async with balancer_world() as world:

        async def result() -> tuple[str, str]:
            with contextlib.suppress(NotFound):
                status = (await world.client.get(CONFIGURATION_STATES, "controller", NAMESPACE)).status
                return status.result, status.error_summary
            return "", ""

        async def is_valid() -> bool:
            return await result() == ("Valid", "")

        async def is_invalid() -> bool:
            found, summary = await result()
            return found == "Invalid" and 'CIDR "10.7.0.2/31" in pool "third" overlaps' in summary

        peer = {"myASN": 64500, "peerASN": 64501, "peerAddress": "10.0.0.9", "bfdProfile": "missing"}
        await world.client.create(BGP_PEERS, {"metadata": {"name": "router", "namespace": NAMESPACE}, "spec": peer})
        await world.has_event("router", "InvalidConfiguration")
        await until(is_valid)
        await world.pool("first", "10.7.0.0/32")
        await world.service("first")
        await world.has("first", "10.7.0.0")
        await world.pool("second", "10.7.0.2/32")
        await world.service("second")
        await world.has("second", "10.7.0.2")

        # Pools that are not valid do not count, and Services that wait learn of it.
        await world.pool("third", "10.7.0.2/31")
        await until(is_invalid)
        await world.service("third", {"metallb.io/address-pool": "third"})
        await world.waits("third", "UnknownPool")
        condition = find_condition((await world.get("third")).status.conditions, CONDITION)
        assert condition is not None
        assert "the last valid configuration is in force" in condition.message
        await world.client.patch(IP_ADDRESS_POOLS, "third", NAMESPACE, {"spec": {"addresses": ["10.7.0.3/32"]}})
        await world.has("third", "10.7.0.3")
        await until(is_valid)


async def test_pools_of_namespaces_and_eips() -> None:
    async with balancer_world() as world:
        selectors = [{"matchLabels": {"team": "x"}}]
        await world.pool("team", "10.7.0.0/31", serviceAllocation={"namespaceSelectors": selectors})
        await world.service("web")
        await world.waits("web", "NotAllowed")
        await world.client.patch(NAMESPACES, "default", "", {"metadata": {"labels": {"team": "x"}}})
        await world.has("web", "10.7.0.0")
        await world.client.patch(NAMESPACES, "default", "", {"metadata": {"labels": {"team": None}}})
        await world.waits("web", "NotAllowed")

        # The default Eip takes over; two others do not count, each for a reason in an Event.
        default = {"eip.openelb.kubesphere.io/is-default-eip": "true"}
        spec = {"address": "10.8.0.1", "protocol": "vip", "interface": "eth0"}
        await world.client.create(EIPS, {"metadata": {"name": "eip", "annotations": default}, "spec": spec})
        await world.has("web", "10.8.0.1")
        await world.client.create(EIPS, {"metadata": {"name": "second"}, "spec": {**spec, "address": "10.8.0.0/24"}})
        await world.has_event("second", "InvalidConfiguration")
        stray = {"metadata": {"name": "stray", "namespace": "default"}, "spec": {"addresses": ["10.9.0.0/24"]}}
        await world.client.create(IP_ADDRESS_POOLS, stray)
        await world.has_event("stray", "InvalidConfiguration")

        # An Eip goes: its address stays while another one contains it.
        await world.client.delete(EIPS, "eip")

        async def is_of_second() -> bool:
            return (await world.get("web")).metadata.labels.get(EIP_NAME_ANNOTATION) == "second"

        await until(is_of_second)
        await world.has("web", "10.8.0.1")
        await world.client.delete(EIPS, "second")
        await world.waits("web", "NotAllowed")
        await world.has("web")

        # MetalLB's ConfigMap of before 0.13, with a hint.
        data = {"config": "address-pools: [{name: old, protocol: layer2, addresses: [10.6.0.1/32]}]"}
        config_map = {"metadata": {"name": "config", "namespace": NAMESPACE}, "data": data}
        await world.client.create(CONFIG_MAPS, config_map)
        await world.has("web", "10.6.0.1")
        await world.has_event("config", "DeprecatedConfiguration")


async def test_usage_is_that_of_what_is_served() -> None:
    async with balancer_world() as world:
        eip = {"spec": {"address": "10.7.0.0-10.7.0.7", "protocol": "layer2", "interface": "eth0"}}
        metadata = {"name": "eip", "annotations": {"eip.openelb.kubesphere.io/is-default-eip": "true"}}
        await world.client.create(EIPS, eip | {"metadata": metadata})
        await world.service("s")
        await world.has("s", "10.7.0.0")

        async def usage(eip_usage: int, is_ready: bool, assigned: int) -> None:
            async def look() -> bool:
                found = (await world.client.get(EIPS, "eip")).status
                pools = (await world.client.list(IP_ADDRESS_POOLS)).items
                in_pools = sum(pool.status.assigned_ipv4 for pool in pools)
                used = (found.usage, found.ready, bool(found.used), in_pools)
                return used == (eip_usage, is_ready, bool(eip_usage), assigned)

            await until(look)

        await usage(1, True, 0)
        # A pool of MetalLB's takes the range over.
        await world.pool("pool", "10.7.0.0/28")
        await usage(0, False, 1)
        await world.has("s", "10.7.0.0")
        await world.client.delete(IP_ADDRESS_POOLS, "pool", NAMESPACE)
        await usage(1, True, 0)


async def test_a_fallback_pool_comes_back_with_its_definition_and_its_namespace() -> None:
    async with balancer_world() as world:
        metadata = {"namespace": NAMESPACE, "annotations": {"bridgehead.io/fallback-pool": "true"}}

        async def create() -> None:
            for kind, spec in (
                (IP_ADDRESS_POOLS, {"addresses": ["10.7.0.0/30"]}),
                (L2_ADVERTISEMENTS, {"ipAddressPools": ["lab"]}),
            ):
                await world.client.create(kind, {"metadata": metadata | {"name": "lab"}, "spec": spec})

        await create()
        await world.pool("own", "10.8.0.0/30", autoAssign=False)
        await world.service("s")
        await world.has("s", "10.7.0.0")
        before = await uids(world)
        for name in ("ipaddresspools.metallb.io", "l2advertisements.metallb.io"):
            await world.client.delete(DEFINITIONS, name)
        await until(lambda: are_others(world, before))
        assert [pool.metadata.name for pool in (await world.client.list(IP_ADDRESS_POOLS)).items] == ["lab"]
        await world.has("s", "10.7.0.0")

        # The deletion of the objects themselves is obeyed.
        await world.client.delete(IP_ADDRESS_POOLS, "lab", NAMESPACE)
        await world.client.delete(L2_ADVERTISEMENTS, "lab", NAMESPACE)
        await world.has("s")
        await world.waits("s", "NoPool")
        assert await uids(world) == ()


async def uids(world: World) -> tuple[str, ...]:
    """Return the uids of the pool and the advertisement `lab`; () while one of them is missing."""
    try:
        found = [await world.client.get(kind, "lab", NAMESPACE) for kind in (IP_ADDRESS_POOLS, L2_ADVERTISEMENTS)]
    except NotFound:
        return ()
    return tuple(obj.metadata.uid for obj in found)


async def are_others(world: World, before: tuple[str, ...]) -> bool:
    found = await uids(world)
    return bool(found) and set(found).isdisjoint(before)
