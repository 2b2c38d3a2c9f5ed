"""Default roles at a start, and the rules of aggregated roles."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from bridgehead.apiserver.registry.aggregated_roles import AggregatedRoles
from bridgehead.apiserver.registry.default_roles import ensure_default_roles
from tests.unit.apiserver.world import World, open_world

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


async def test_a_new_cluster_has_the_default_roles(world):
    admin, edit, view = [await world.get(f"{ROLES}/{name}") for name in ("admin", "edit", "view")]
    # Each has the rules of those that it gathers, the gathered ones' gathered ones included.
    assert all(rule in admin["rules"] for rule in edit["rules"])
    assert all(rule in edit["rules"] for rule in view["rules"])
    managers = {entry["manager"]: entry["fieldsV1"] for entry in view["metadata"]["managedFields"]}
    assert managers["clusterrole-aggregation-controller"] == {"f:rules": {}}
    assert "f:aggregationRule" in managers["kube-apiserver"]
    role = await world.get(f"{RBAC}/namespaces/kube-system/roles/system::leader-locking-kube-scheduler")
    assert role["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults"}
    assert role["metadata"]["uid"]


async def test_a_later_start_writes_only_what_is_missing(world):
    revision = world.store.revision
    await ensure_default_roles(world.parts.registry)
    await AggregatedRoles(world.parts.registry).sync()
    assert world.store.revision == revision
    own = {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}
    await world.patch(f"{ROLES}/system:kube-dns", {"rules": [own]})
    off = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    await world.patch(f"{ROLES}/system:heapster", {"rules": [own], "metadata": {"annotations": off}})
    await world.call("DELETE", f"{ROLES}/system:monitoring")
    await world.call("DELETE", f"{BINDINGS}/system:monitoring")
    other = {"roleRef": {"kind": "ClusterRole", "name": "view"}, "metadata": {"name": "system:monitoring"}}
    await world.create(BINDINGS, other)
    await ensure_default_roles(world.parts.registry)
    dns = await world.get(f"{ROLES}/system:kube-dns")
    assert dns["rules"][0] == own
    assert {"verbs": ["list"], "apiGroups": [""], "resources": ["services"]} in dns["rules"]
    assert (await world.get(f"{ROLES}/system:heapster"))["rules"] == [own]
    assert (await world.get(f"{ROLES}/system:monitoring"))["rules"]
    binding = await world.get(f"{BINDINGS}/system:monitoring")
    assert (binding["roleRef"]["name"], binding["subjects"][0]["name"]) == ("system:monitoring", "system:monitoring")


@contextlib.asynccontextmanager
async def aggregating(world):
    task = asyncio.create_task(AggregatedRoles(world.parts.registry).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def resources_of(world, name):
    return [rule["resources"][0] for rule in (await world.get(f"{ROLES}/{name}"))["rules"] or ()]


async def until(world, name, expected):
    """Wait until a role has rules for the expected resources, in any order, and maybe for others."""
    watch = world.store.watch("clusterroles.rbac.authorization.k8s.io", since=world.store.revision)
    async with asyncio.timeout(40):
        while not expected(set(await resources_of(world, name))):
            await anext(aiter(watch))
    watch.close()


def role(name, *resources, labels=None, selects=None):
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": [one]} for one in resources]
    obj = {"metadata": {"name": name, "labels": labels or {}}, "rules": rules}
    if selects:
        obj["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": one} for one in selects]}
    return obj


async def test_aggregated_roles_follow_the_roles_that_they_select(world):
    async with aggregating(world):
        await world.create(ROLES, role("b", "pods", labels={"to": "a"}))
        await world.create(ROLES, role("a", "mine", selects=[{"to": "a"}, {"also": "a"}]))
        # Rules that another client writes there are replaced.
        await until(world, "a", {"pods"}.__eq__)
        await world.create(ROLES, role("c", "nodes", "pods", labels={"to": "a", "also": "a"}))
        await until(world, "a", {"pods", "nodes"}.__eq__)
        await world.patch(f"{ROLES}/c", {"metadata": {"labels": {"to": None}}})
        await world.patch(f"{ROLES}/b", {"rules": []})
        await until(world, "a", {"nodes", "pods"}.__eq__)
        await world.patch(f"{ROLES}/a", {"rules": []})
        await until(world, "a", {"nodes", "pods"}.__eq__)
        await world.call("DELETE", f"{ROLES}/c")
        await until(world, "a", set().__eq__)
        await world.create(
            ROLES, role("custom", "widgets", labels={"rbac.authorization.k8s.io/aggregate-to-view": "true"})
        )
        await until(world, "admin", {"widgets"}.issubset)
        await world.call("DELETE", f"{ROLES}/a")


async def test_roles_that_select_each_other_come_to_an_end(world):
    async with aggregating(world):
        for name, other in (("x", "z"), ("y", "x"), ("z", "y")):
            await world.create(ROLES, role(name, labels={name: "1"}, selects=[{other: "1"}, {"base": name}]))
            await world.create(ROLES, role(f"base-{name}", name, labels={"base": name}))
        for name in "xyz":
            await until(world, name, {"x", "y", "z"}.__eq__)
    await AggregatedRoles(world.parts.registry).sync()
    revision = world.store.revision
    await AggregatedRoles(world.parts.registry).sync()
    assert world.store.revision == revision
