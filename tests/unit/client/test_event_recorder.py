"""The Events that an EventRecorder writes."""

from __future__ import annotations

import asyncio
from typing import Any

from bridgehead.client import EventRecorder, reference_to
from bridgehead.client.errors import AlreadyExists, Forbidden, NotFound, Unreachable
from bridgehead.objects.core import Event, Pod
from bridgehead.objects.meta import ObjectMeta
from tests.unit.virtual_time import run_virtual

POD = Pod(metadata=ObjectMeta(name="web", namespace="blue", uid="u", resource_version="5"))


class Events:
    """The part of the API that holds events; the next calls fail with `failures`."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.stored: dict[str, Event] = {}
        self.patches: list[dict[str, Any]] = []

    async def create(self, kind: Any, event: Event) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.stored[event.metadata.name] = event

    async def patch(self, kind: Any, name: str, namespace: str, patch: dict[str, Any]) -> None:
        if name not in self.stored:
            raise NotFound(404, "NotFound", name)
        self.patches.append(patch)


async def record(api: Events, *messages: str, times: Any = None) -> None:
    clock = iter(times or range(1000, 2000))
    recorder = EventRecorder(api, "kubelet", "node1", now=lambda: next(clock))  # type: ignore[arg-type]
    for message in messages:
        recorder.record(POD, reason="Pulled", message=message)
    task = asyncio.create_task(recorder.run())
    await asyncio.sleep(1000)
    task.cancel()
    await asyncio.wait([task])


def test_an_event_has_the_fields_that_kubectl_describe_shows():
    api = Events()
    run_virtual(record(api, "m"))
    (event,) = api.stored.values()
    assert event.metadata.name.startswith("web.")
    assert event.metadata.namespace == "blue"
    assert event.involved_object == reference_to(POD)
    assert (event.involved_object.kind, event.involved_object.api_version) == ("Pod", "v1")
    assert (event.type, event.reason, event.message, event.count) == ("Normal", "Pulled", "m", 1)
    assert (event.source.component, event.source.host) == ("kubelet", "node1")
    assert event.first_timestamp == event.last_timestamp == "1970-01-01T00:16:40Z"


def test_a_repeated_event_patches_the_count():
    api = Events()
    run_virtual(record(api, "m", "m", "m"))
    assert len(api.stored) == 1
    assert [(p["count"], p["lastTimestamp"]) for p in api.patches] == [
        (2, "1970-01-01T00:16:41Z"),
        (3, "1970-01-01T00:16:42Z"),
    ]


def test_an_expired_event_is_created_again_with_its_count():
    class Forgetful(Events):
        async def create(self, kind: Any, event: Event) -> None:
            self.stored[f"{event.metadata.name} {event.count}"] = event

    api = Forgetful()
    run_virtual(record(api, "m", "m"))
    assert [event.count for event in api.stored.values()] == [1, 2]


def test_an_outage_delays_events_and_a_refusal_drops_them():
    api = Events(Unreachable("down"), Unreachable("down"))
    run_virtual(record(api, "a", "b"))
    assert [event.message for event in api.stored.values()] == ["a", "b"]
    api = Events(Forbidden(403, "Forbidden", "namespace is being terminated"))
    run_virtual(record(api, "a", "b"))
    assert [event.message for event in api.stored.values()] == ["b"]


def test_long_messages_are_truncated():
    api = Events()
    run_virtual(record(api, "x" * 5000))
    (event,) = api.stored.values()
    assert len(event.message) == 1024
    assert event.message.endswith("x...")


def test_processes_that_record_the_same_make_one_event():
    class Store(Events):
        async def create(self, kind: Any, event: Event) -> None:
            if event.metadata.name in self.stored:
                raise AlreadyExists(409, "AlreadyExists", event.metadata.name)
            self.stored[event.metadata.name] = event

    api = Store()

    async def record_on(node: str, second: float, *messages: str) -> None:
        recorder = EventRecorder(api, "kube-proxy", node, now=lambda: second)  # type: ignore[arg-type]
        for message in messages:
            recorder.record(POD, type="Warning", reason="ReservedAddress", message=message, is_shared=True)
        task = asyncio.create_task(recorder.run())
        await asyncio.sleep(1000)
        task.cancel()
        await asyncio.wait([task])

    run_virtual(record_on("node1", 1000, "a", "b"))
    run_virtual(record_on("node2", 2000, "b", "c"))
    assert [(event.message, event.source.host) for event in api.stored.values()] == [
        ("a", "node1"),
        ("b", "node1"),
        ("c", "node2"),
    ]
