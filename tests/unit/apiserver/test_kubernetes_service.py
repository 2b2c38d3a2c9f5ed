"""The endpoints of the Service `kubernetes`, with several servers on one store."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.kubernetes_service import KubernetesService, leave_in_time
from bridgehead.storage import StorageError
from tests.unit.apiserver.world import open_world

ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"


class SharedLeases:
    """Leases that several servers see, on a clock of their own."""

    def __init__(self) -> None:
        self.ends: dict[str, float] = {}
        self.now = 0.0

    async def renew(self, address: str, seconds: int) -> None:
        self.ends[address] = self.now + seconds

    async def alive(self) -> set[str]:
        return {address for address, end in self.ends.items() if end > self.now}

    async def remove(self, address: str) -> None:
        self.ends.pop(address, None)


@pytest.fixture
async def world():
    async with open_world() as world:
        yield world


def servers(world: Any, leases: SharedLeases, *addresses: str) -> list[KubernetesService]:
    return [KubernetesService(world.parts.registry, "10.96.0.1", (each, 6443), leases) for each in addresses]


async def addresses(world: Any) -> list[str]:
    """Return the addresses of both objects, which must be the same."""
    subsets = (await world.get(ENDPOINTS))["subsets"]
    found = [[entry["ip"] for entry in subset["addresses"]] for subset in subsets]
    slice_ = await world.get(SLICE)
    assert [slice_["addressType"], [address for one in slice_["endpoints"] for address in one["addresses"]]] == [
        "IPv4",
        *found,
    ]
    assert all(one["conditions"] == {"ready": True} for one in slice_["endpoints"])
    return found[0]


async def test_the_endpoints_are_the_servers_alive_in_order(world):
    leases = SharedLeases()
    one, two, three = servers(world, leases, "10.0.0.1", "10.0.0.11", "10.0.0.2")
    for server in (three, one, two):
        await server.ensure()
    assert await addresses(world) == ["10.0.0.1", "10.0.0.11", "10.0.0.2"]
    before = world.store.revision
    await two.ensure()
    assert world.store.revision == before
    leases.now = 14.0
    await one.ensure()
    leases.now = 16.0
    await one.ensure()
    assert await addresses(world) == ["10.0.0.1"], "the others have not renewed their leases"
    await two.ensure()
    assert await addresses(world) == ["10.0.0.1", "10.0.0.11"]


async def test_a_server_that_stops_removes_itself_and_does_not_come_back(world):
    leases = SharedLeases()
    one, two = servers(world, leases, "10.0.0.1", "10.0.0.2")
    for server in (one, two):
        await server.ensure()
    await one.leave()
    assert await addresses(world) == ["10.0.0.2"]
    await one.ensure()
    assert await addresses(world) == ["10.0.0.2"]
    await two.leave()
    assert await addresses(world) == ["10.0.0.2"], "the last one stays, as Kubernetes never erases all"


async def test_addresses_of_another_family_are_no_endpoints(world):
    leases = SharedLeases()
    (server,) = servers(world, leases, "10.0.0.1")
    leases.ends["fd00::1"] = 15.0
    await server.ensure()
    assert await addresses(world) == ["10.0.0.1"]


async def test_leases_that_cannot_be_read_do_not_delay_the_end_of_a_server(world, caplog):
    class Broken(SharedLeases):
        async def remove(self, address: str) -> None:
            raise StorageError("no answer of the store")

    (server,) = servers(world, Broken(), "10.0.0.1")
    await leave_in_time(server, 1.0)
    assert (
        "cannot remove this server from the endpoints of the Service kubernetes: no answer of the store" in caplog.text
    )
