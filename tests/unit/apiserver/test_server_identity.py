"""Leases of API servers' identities."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.server_identity import IDENTITY_LABEL, ServerIdentity, collect
from bridgehead.objects.times import format_micro_time
from tests.unit.apiserver.world import open_world

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.fixture
async def world():
    async with open_world() as world:
        yield world


async def names(world: Any) -> list[str]:
    return [item["metadata"]["name"] for item in (await world.get(LEASES))["items"]]


def identity(world: Any, address: str = "10.0.0.1:6443") -> ServerIdentity:
    return ServerIdentity(world.parts.registry, "host", address)


async def test_a_server_renews_its_lease_and_takes_that_of_its_last_start(world):
    first, again = identity(world), identity(world)
    await first.renew()
    (lease,) = (await world.get(LEASES))["items"]
    assert lease["metadata"]["name"] == first.name == again.name
    assert lease["metadata"]["labels"] == {IDENTITY_LABEL: "kube-apiserver", "kubernetes.io/hostname": "host"}
    assert lease["spec"]["leaseDurationSeconds"] == 3600
    await again.renew()
    (renewed,) = (await world.get(LEASES))["items"]
    assert renewed["metadata"]["uid"] == lease["metadata"]["uid"]
    assert renewed["spec"]["holderIdentity"].startswith(f"{first.name}_")
    assert renewed["spec"]["holderIdentity"] != lease["spec"]["holderIdentity"]


async def test_servers_of_one_host_have_leases_of_their_own(world):
    for address in ("10.0.0.1:6443", "10.0.0.2:6443"):
        await identity(world, address).renew()
    found = await names(world)
    assert len(found) == 2
    assert all(name.startswith("apiserver-") and len(name) == len("apiserver-") + 26 for name in found)


async def test_leases_of_servers_that_are_gone_are_deleted(world):
    await identity(world).renew()
    now = world.parts.registry.clock()
    for name, labels, seconds in (
        ("gone", {IDENTITY_LABEL: "kube-apiserver"}, 3601.0),
        ("late", {IDENTITY_LABEL: "kube-apiserver"}, 3500.0),
        ("other", {}, 9999.0),
    ):
        spec = {"holderIdentity": name, "leaseDurationSeconds": 3600, "renewTime": format_micro_time(now - seconds)}
        await world.call("POST", LEASES, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    await world.call("POST", LEASES, {"metadata": {"name": "empty", "labels": {IDENTITY_LABEL: "kube-apiserver"}}})
    await collect(world.parts.registry)
    assert await names(world) == [identity(world).name, "late", "other"]
