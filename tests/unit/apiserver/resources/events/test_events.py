"""Events in two groups."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.apiserver.world import TABLE, World, open_world

OLD, NEW = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
EVENT = {
    "metadata": {"name": "a.1", "labels": {"x": "y"}},
    "eventTime": "2026-11-21T03:48:41.000000Z",
    "reportingController": "example.com/a",
    "reportingInstance": "a-0",
    "action": "Start",
    "reason": "Started",
    "regarding": {"kind": "Pod", "namespace": "default", "name": "web"},
    "note": "it runs",
    "type": "Normal",
}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


async def test_an_event_has_two_forms(world):
    made = await world.create(NEW, EVENT)
    assert (made["apiVersion"], made["note"], made["regarding"]["name"]) == ("events.k8s.io/v1", "it runs", "web")
    old = await world.get(f"{OLD}/a.1")
    assert (old["apiVersion"], old["message"], old["involvedObject"]["name"]) == ("v1", "it runs", "web")
    assert (old["reportingComponent"], old["metadata"]["uid"]) == ("example.com/a", made["metadata"]["uid"])
    listed = await world.get(NEW)
    typed = {"kind": "Event", "apiVersion": "events.k8s.io/v1"}  # the items of a list have no types of their own
    assert (listed["kind"], typed | listed["items"][0]) == ("EventList", made)
    assert typed.keys().isdisjoint(listed["items"][0])
    rows = [(await world.call("GET", url, headers={"accept": TABLE})).json["rows"][0]["cells"] for url in (OLD, NEW)]
    assert rows[0] == rows[1]
    with_object = await world.call("GET", f"{NEW}?includeObject=Object", headers={"accept": TABLE})
    assert with_object.json["rows"][0]["object"] == made


async def test_an_old_event_is_shown_in_the_new_form(world):
    watching = await world.watch(NEW)
    involved = {"kind": "Pod", "namespace": "default", "name": "web"}
    event = {
        "metadata": {"name": "b.1"},
        "involvedObject": involved,
        "message": "m",
        "count": 3,
        "source": {"host": "n"},
    }
    await world.create(OLD, event)
    seen = (await watching.next())["object"]
    await watching.leave()
    assert (seen["apiVersion"], seen["note"], seen["deprecatedCount"]) == ("events.k8s.io/v1", "m", 3)
    assert seen["deprecatedSource"] == {"host": "n"}
    for url, selector in ((NEW, "regarding.name=web"), (OLD, "involvedObject.name=web")):
        assert len((await world.get(f"{url}?fieldSelector={selector}"))["items"]) == 1
    assert (await world.call("GET", f"{NEW}?fieldSelector=involvedObject.name=web")).status == 400


async def test_the_new_form_has_stricter_rules(world):
    await world.create(NEW, EVENT)
    series = {"count": 2, "lastObservedTime": "2026-11-21T03:49:41.000000Z"}
    changed = await world.patch(f"{NEW}/a.1", {"series": series}, "strategic-merge-patch")
    assert (changed.status, changed.json["series"]) == (200, series)
    refused = await world.patch(f"{NEW}/a.1", {"note": "other"})
    assert (refused.status, refused.json["message"]) == (
        422,
        'Event "a.1" is invalid: message: Invalid value: "other": field is immutable',
    )
    assert (await world.patch(f"{OLD}/a.1", {"message": "other"})).status == 200
    refused = await world.call("POST", NEW, {**EVENT, "metadata": {"name": "c"}, "deprecatedCount": 2})
    assert 'count: Invalid value: "": needs to be unset' in refused.json["message"]
    gone = await world.call("DELETE", f"{NEW}/a.1")
    assert gone.json["details"]["group"] == "events.k8s.io"
    missing = await world.call("GET", f"{NEW}/a.1")
    assert missing.json["message"] == 'events.events.k8s.io "a.1" not found'
