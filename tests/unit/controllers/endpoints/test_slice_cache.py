"""A controller knows its own writes before its informer does, and forgets them when the informer has come as far."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.client import Informer
from bridgehead.controllers.endpoints.slice_cache import SliceCache
from bridgehead.objects.endpoint_slices import MANAGED_BY_LABEL, SERVICE_NAME_LABEL, EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES
from bridgehead.objects.meta import ObjectKey, ObjectMeta

WEB = ObjectKey("default", "web")


class World:
    """An informer that receives the API server's events when the test decides."""

    def __init__(self) -> None:
        self.informer: Informer[EndpointSlice] = Informer(None, ENDPOINT_SLICES)  # type: ignore[arg-type]
        self.cache = SliceCache(self.informer, "me")
        self.woken: list[ObjectKey] = []
        self.informer.on_change(lambda old, new: self.woken.extend(self.cache.foreign_changes(old, new)))

    def sees(self, slice_: EndpointSlice) -> None:
        self.informer._cache.put(slice_)
        self.reaches(int(slice_.metadata.resource_version))

    def sees_deleted(self, slice_: EndpointSlice, revision: int) -> None:
        self.informer._cache.remove(slice_.key)
        self.reaches(revision)

    def reaches(self, revision: int) -> None:
        self.informer._resource_version = str(revision)

    def known(self) -> list[str]:
        return [f"{item.metadata.name}@{item.metadata.resource_version}" for item in self.cache.of(WEB)]


@pytest.fixture
async def world() -> World:
    return World()


def slice_(name: str, revision: int, manager: str = "me", service: str = "web", **meta: Any) -> EndpointSlice:
    labels = {SERVICE_NAME_LABEL: service, MANAGED_BY_LABEL: manager}
    return EndpointSlice(
        metadata=ObjectMeta(
            namespace="default", name=name, uid=f"uid-{name}", resource_version=str(revision), labels=labels, **meta
        )
    )


async def test_known_slices_exclude_those_of_other_managers_and_terminating_ones(world: World):
    for item in (
        slice_("b", 1),
        slice_("a", 2),
        slice_("foreign", 3, manager="other"),
        slice_("elsewhere", 4, service="db"),
        slice_("going", 5, deletion_timestamp="2026-01-01T00:00:00Z"),
    ):
        world.sees(item)
    assert world.known() == ["a@2", "b@1"]
    assert world.woken == [WEB, WEB, ObjectKey("default", "db"), WEB]


async def test_a_created_slice_is_known_at_once_and_its_event_is_ignored(world: World):
    world.reaches(4)
    world.cache.record_write(slice_("a", 5))
    assert world.known() == ["a@5"]
    world.sees(slice_("a", 5))
    assert world.known() == ["a@5"]
    assert world.woken == []
    assert world.cache._written == {}


async def test_an_updated_slice_replaces_the_informers_older_one(world: World):
    world.sees(slice_("a", 5))
    world.cache.record_write(slice_("a", 7))
    world.cache.record_write(slice_("a", 9))
    assert world.known() == ["a@9"]
    world.woken.clear()
    world.sees(slice_("a", 7))
    assert world.known() == ["a@9"]
    world.sees(slice_("a", 9))
    assert world.woken == []
    world.sees(slice_("a", 10))
    assert (world.known(), world.woken) == (["a@10"], [WEB])


async def test_a_response_older_than_the_informer_is_ignored(world: World):
    world.sees(slice_("a", 5))
    world.cache.record_write(slice_("a", 5))
    assert world.cache._written == {}


async def test_a_created_slice_that_was_deleted_meanwhile_is_dropped(world: World):
    world.cache.record_write(slice_("a", 5))
    world.reaches(6)
    assert world.known() == []


async def test_a_deleted_slice_is_gone_at_once_and_its_event_is_ignored(world: World):
    old = slice_("a", 5)
    world.sees(old)
    world.woken.clear()
    world.cache.record_deletion(old)
    assert world.known() == []
    world.sees_deleted(old, 6)
    assert world.woken == []
    assert world.cache._deleted == {}


async def test_a_deletion_observed_before_its_response_leaves_nothing(world: World):
    old = slice_("a", 5)
    world.sees(old)
    world.sees_deleted(old, 6)
    world.cache.record_deletion(old)
    assert world.cache._deleted == {}


async def test_a_slice_that_changes_its_service_wakes_both_services(world: World):
    old = slice_("a", 5)
    world.sees(old)
    world.woken.clear()
    labels = {**old.metadata.labels, SERVICE_NAME_LABEL: "db"}
    meta = msgspec.structs.replace(old.metadata, labels=labels, resource_version="6")
    world.sees(msgspec.structs.replace(old, metadata=meta))
    assert set(world.woken) == {WEB, ObjectKey("default", "db")}
