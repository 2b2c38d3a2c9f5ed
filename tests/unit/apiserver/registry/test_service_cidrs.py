"""ServiceCIDR and IPAddress: ranges that are added and drained, and addresses that are written with their Services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bridgehead.apiserver.registry.ip_addresses import IpAddresses
from bridgehead.apiserver.registry.service_cidrs import FINALIZER, ServiceCidrs, may_be_removed
from tests.unit.apiserver.world import TABLE, World, open_world

GROUP = "/apis/networking.k8s.io/v1"
CIDRS, ADDRESSES = f"{GROUP}/servicecidrs", f"{GROUP}/ipaddresses"
SERVICES = "/api/v1/namespaces/default/services"
MANAGED = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": "IPv4"}


@asynccontextmanager
async def controlled(grace: float = 0.0) -> AsyncIterator[World]:
    """A server with the controllers of ranges and of addresses."""
    async with open_world() as world:
        controllers = (ServiceCidrs(world.parts.registry, grace), IpAddresses(world.parts.registry))
        tasks = [asyncio.create_task(controller.run()) for controller in controllers]
        try:
            yield world
        finally:
            for task in tasks:
                task.cancel()


async def until(what):
    async with asyncio.timeout(30):
        while not (value := await what()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return value


def service(name, **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def address_names(world):
    return {item["metadata"]["name"] for item in (await world.get(ADDRESSES))["items"]}


async def test_the_default_range_and_its_addresses_are_objects():
    async with controlled() as world:
        found = await until(lambda: ready(world, "kubernetes"))
        assert found["spec"] == {"cidrs": ["10.96.0.0/12"]}
        assert found["metadata"]["finalizers"] == [FINALIZER]
        assert found["status"]["conditions"][0]["message"] == "Kubernetes default Service CIDR is ready"
        table = (await world.call("GET", ADDRESSES, headers={"accept": TABLE})).json
        assert [row["cells"][:2] for row in table["rows"]] == [["10.96.0.1", "services/default/kubernetes"]]


async def ready(world, name, status="True"):
    found = await world.get(f"{CIDRS}/{name}")
    conditions = found.get("status", {}).get("conditions", ())
    return found if any(c["type"] == "Ready" and c["status"] == status for c in conditions) else None


async def test_an_address_has_the_same_managers_when_it_is_created_again():
    async with controlled() as world:
        made = await world.create(SERVICES, service("web"))
        url = f"{ADDRESSES}/{made['spec']['clusterIP']}"
        before = (await world.get(url))["metadata"]
        (entry,) = before["managedFields"]
        assert (entry["manager"], entry["apiVersion"]) == ("kube-apiserver", "networking.k8s.io/v1")
        assert set(entry["fieldsV1"]["f:spec"]["f:parentRef"]) == {
            ".",
            "f:name",
            "f:namespace",
            "f:resource",
        }
        await world.call("DELETE", url)

        async def restored():
            found = await world.get(url)
            return found["metadata"] if found["kind"] == "IPAddress" else None

        after = await until(restored)
        assert (after["uid"] != before["uid"], after["managedFields"]) == (True, before["managedFields"])


async def test_an_address_is_written_and_removed_with_its_service():
    async with open_world() as world:
        made = await world.create(SERVICES, service("web"))
        address = await world.get(f"{ADDRESSES}/{made['spec']['clusterIP']}")
        parent = {"resource": "services", "namespace": "default", "name": "web"}
        assert (address["spec"], address["metadata"]["labels"]) == ({"parentRef": parent}, MANAGED)
        assert int(address["metadata"]["resourceVersion"]) == int(made["metadata"]["resourceVersion"]) + 1
        selected = await world.get(f"{ADDRESSES}?labelSelector=ipaddress.kubernetes.io/ip-family=IPv4")
        assert len(selected["items"]) == 2
        changed = await world.patch(f"{SERVICES}/web", {"spec": {"type": "ExternalName", "externalName": "a.b"}})
        assert changed.status == 200, changed.body
        assert await address_names(world) == {"10.96.0.1"}
        back = {"spec": {"type": "ClusterIP", "externalName": None, "clusterIP": "10.96.0.8"}}
        assert (await world.patch(f"{SERVICES}/web", back)).status == 200
        assert await address_names(world) == {"10.96.0.1", "10.96.0.8"}
        await world.call("DELETE", f"{SERVICES}/web")
        assert await address_names(world) == {"10.96.0.1"}


async def test_watchers_see_addresses_come_and_go():
    async with open_world() as world:
        watching = await world.watch(f"{ADDRESSES}?resourceVersion={world.store.revision}")
        await world.create(SERVICES, service("web", clusterIP="10.96.0.9"))
        await world.call("DELETE", f"{SERVICES}/web")
        assert await watching.names(2) == [("ADDED", "10.96.0.9"), ("DELETED", "10.96.0.9")]
        await watching.leave()


@pytest.mark.parametrize("parent", [{"group": "a.io", "resource": "gateways"}, {"resource": "services"}])
async def test_an_address_that_somebody_else_has_is_not_given_to_a_service(parent):
    async with open_world() as world:
        spec = {"parentRef": {**parent, "name": "mine"}}
        await world.create(ADDRESSES, {"metadata": {"name": "10.96.0.7"}, "spec": spec})
        refused = await world.call("POST", SERVICES, service("web", clusterIP="10.96.0.7"))
        assert refused.status == 422
        assert "failed to allocate IP 10.96.0.7: provided IP is already allocated" in refused.json["message"]
        again = await world.call("POST", ADDRESSES, {"metadata": {"name": "10.96.0.7"}, "spec": spec})
        assert (again.status, again.json["reason"]) == (409, "AlreadyExists")


async def test_the_address_of_a_service_is_restored():
    async with controlled() as world:
        made = await world.create(SERVICES, service("web"))
        name = made["spec"]["clusterIP"]
        uid = (await world.get(f"{ADDRESSES}/{name}"))["metadata"]["uid"]
        assert (await world.call("DELETE", f"{ADDRESSES}/{name}")).status == 200
        other = await world.call("POST", SERVICES, service("other", clusterIP=name))
        assert other.status == 422

        async def restored():
            found = await world.get(f"{ADDRESSES}/{name}")
            return found["kind"] == "IPAddress" and found["metadata"]["uid"] != uid

        assert await until(restored)


async def test_a_store_without_address_objects_gets_them():
    async with open_world() as world:
        made = await world.create(SERVICES, service("web"))
        for name in await address_names(world):
            await world.call("DELETE", f"{ADDRESSES}/{name}")
        await IpAddresses(world.parts.registry).repair()
        assert await address_names(world) == {"10.96.0.1", made["spec"]["clusterIP"]}


async def test_a_range_is_added_and_drained_while_services_run():
    async with controlled() as world:
        await world.create(CIDRS, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}})
        await until(lambda: ready(world, "more"))
        await world.create(SERVICES, service("web", clusterIP="10.200.0.9"))
        deleted = await world.call("DELETE", f"{CIDRS}/more")
        assert deleted.status == 200
        condition = (await until(lambda: ready(world, "more", "False")))["status"]["conditions"][0]
        assert condition["reason"] == "Terminating"
        assert condition["message"].startswith("There are still IPAddresses referencing the ServiceCIDR")
        refused = await world.call("POST", SERVICES, service("late", clusterIP="10.200.0.10"))
        assert "the provided network does not match the current range" in refused.json["message"]
        assert (await world.get(f"{SERVICES}/web"))["spec"]["clusterIP"] == "10.200.0.9"
        assert (await world.patch(f"{SERVICES}/web", {"metadata": {"labels": {"a": "b"}}})).status == 200
        await world.call("DELETE", f"{SERVICES}/web")
        await until(lambda: gone(world, "more"))


async def gone(world, name):
    return (await world.call("GET", f"{CIDRS}/{name}")).status == 404


async def test_a_full_range_is_followed_by_the_next():
    async with controlled() as world:
        await world.create(CIDRS, {"metadata": {"name": "small"}, "spec": {"cidrs": ["10.201.0.0/30"]}})
        await until(lambda: ready(world, "small"))
        services: Any = world.parts.registry.find("", "v1", "services")
        ranges = services.strategy.ranges
        ranges.set(["10.201.0.0/30", "10.96.0.0/12"], [])
        made = [(await world.create(SERVICES, service(f"s{i}")))["spec"]["clusterIP"] for i in range(4)]
        assert set(made[:2]) == {"10.201.0.1", "10.201.0.2"}
        assert all(address.startswith(("10.9", "10.10", "10.11")) for address in made[2:])


async def test_the_last_range_waits_for_the_grace_period():
    async with controlled(grace=1000.0) as world:
        await world.create(CIDRS, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}})
        await until(lambda: ready(world, "more"))
        await world.call("DELETE", f"{CIDRS}/more")
        await asyncio.sleep(0)
        assert not await gone(world, "more")
        world.clock.now += 1001.0
        await until(lambda: gone(world, "more"))


def cidr(*cidrs, deleted=False):
    return {"metadata": {"deletionTimestamp": "t"} if deleted else {}, "spec": {"cidrs": list(cidrs)}}


@pytest.mark.parametrize(
    ("others", "addresses", "expected"),
    [
        ([], [], True),
        ([], ["10.0.0.5"], False),
        ([], ["10.1.0.5"], True),
        ([cidr("10.0.0.0/8")], ["10.0.0.5"], True),
        ([cidr("10.0.0.0/25")], ["10.0.0.5"], True),
        ([cidr("10.0.0.0/25")], ["10.0.0.200"], False),
        ([cidr("10.0.0.0/8", deleted=True)], ["10.0.0.5"], False),
        ([cidr("fd00::/64")], ["10.0.0.5"], False),
    ],
)
def test_a_range_is_removed_when_its_addresses_are_in_others(others, addresses, expected):
    assert may_be_removed(cidr("10.0.0.0/24", deleted=True), others, addresses) is expected
