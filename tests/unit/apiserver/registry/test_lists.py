"""Lists: pages of one revision, lists of the past, options."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.registry import freshness
from bridgehead.apiserver.registry.continue_tokens import Position, read_token, write_token
from tests.unit.apiserver.world import World, open_world

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


async def make(world: World, *names: str, **labels: str) -> None:
    for name in names:
        await world.create(CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}, "data": {"k": "old"}})


def names(page: Any) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


async def test_all_pages_are_of_the_first_ones_revision(world):
    await make(world, "a", "b", "c", "d", "e")
    first = await world.get(f"{CONFIG_MAPS}?limit=2")
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 3)
    await make(world, "bb", "f")
    await world.call("DELETE", f"{CONFIG_MAPS}/c")
    await world.patch(f"{CONFIG_MAPS}/d", {"data": {"k": "new"}})
    await world.patch(f"{CONFIG_MAPS}/d", {"data": {"k": "newer"}})
    second = await world.get(f"{CONFIG_MAPS}?limit=2&continue={first['metadata']['continue']}")
    assert (names(second), second["metadata"]["remainingItemCount"]) == (["c", "d"], 1)
    assert [item["data"] for item in second["items"]] == [{"k": "old"}] * 2
    last = await world.get(f"{CONFIG_MAPS}?limit=2&continue={second['metadata']['continue']}")
    assert names(last) == ["e"]
    assert last["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


async def test_an_expired_token_comes_with_one_for_the_rest(world):
    await make(world, "a", "b", "c")
    first = await world.get(f"{CONFIG_MAPS}?limit=1")
    page = f"{CONFIG_MAPS}?limit=1&continue={first['metadata']['continue']}"
    world.clock.now += 301
    assert (await world.call("GET", page)).status == 200, "nothing was written"
    await make(world, "bb")
    answer = await world.call("GET", page)
    assert (answer.status, answer.json["reason"]) == (410, "Expired")
    assert answer.json["message"].startswith("The provided continue parameter is too old to display a consistent list")
    token = answer.json["metadata"]["continue"]
    rest = await world.get(f"{CONFIG_MAPS}?limit=2&continue={token}")
    assert names(rest) == ["b", "bb"]
    assert rest["metadata"]["resourceVersion"] == str(world.store.revision)
    assert names(await world.get(f"{CONFIG_MAPS}?continue={rest['metadata']['continue']}")) == ["c"]


async def test_a_token_expires_with_the_history():
    async with open_world(history_changes=3) as world:
        await make(world, "a", "b")
        token = (await world.get(f"{CONFIG_MAPS}?limit=1"))["metadata"]["continue"]
        await make(world, "c", "d", "e", "f")
        answer = await world.call("GET", f"{CONFIG_MAPS}?limit=1&continue={token}")
        assert answer.status == 410
        token = answer.json["metadata"]["continue"]
        assert names(await world.get(f"{CONFIG_MAPS}?limit=1&continue={token}")) == ["b"]
        exact = await world.call("GET", f"{CONFIG_MAPS}?resourceVersion=1&resourceVersionMatch=Exact")
        assert (exact.status, exact.json["message"]) == (410, "The resourceVersion for the provided list is too old.")


async def test_a_list_of_the_past(world):
    await make(world, "a", "b")
    past = world.store.revision
    await make(world, "c")
    await world.call("DELETE", f"{CONFIG_MAPS}/a")
    now = str(world.store.revision)
    for query, expected in (
        (f"resourceVersion={past}&resourceVersionMatch=Exact", (["a", "b"], str(past))),
        (f"resourceVersion={past}&limit=5", (["a", "b"], str(past))),
        (f"resourceVersion={past}&limit=5&resourceVersionMatch=NotOlderThan", (["b", "c"], now)),
        (f"resourceVersion={past}", (["b", "c"], now)),
        ("resourceVersion=0&limit=1", (["b", "c"], now)),
    ):
        page = await world.get(f"{CONFIG_MAPS}?{query}")
        assert (names(page), page["metadata"]["resourceVersion"]) == expected, query


@pytest.mark.parametrize(
    ("path", "seconds"),
    [
        ("?resourceVersion=99999", 1),
        ("?resourceVersion=99999&resourceVersionMatch=NotOlderThan&limit=1", 1),
        ("/a?resourceVersion=99999", 1),
        # Kubernetes reads these from etcd, without its cache.
        ("?resourceVersion=99999&limit=1", None),
        ("?resourceVersion=99999&resourceVersionMatch=Exact", None),
        (f"?continue={write_token(Position(99999, ('default', 'a')))}", None),
    ],
)
async def test_a_read_of_the_future_is_refused(world, path, seconds):
    await make(world, "a")
    answer = await world.call("GET", f"{CONFIG_MAPS}{path}")
    details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
    assert (answer.status, answer.json["reason"]) == (504, "Timeout")
    assert answer.json["message"] == f"Timeout: Too large resource version: 99999, current: {world.store.revision}"
    assert answer.json["details"] == details | ({"retryAfterSeconds": seconds} if seconds else {})
    assert answer.header("retry-after") == ([str(seconds)] if seconds else [])


@pytest.mark.parametrize("path", ["", "/b"])
async def test_a_read_waits_for_its_version(world, monkeypatch, path):
    monkeypatch.setattr(freshness, "BLOCK_SECONDS", 40)
    version = world.store.revision + 2
    reading = asyncio.create_task(world.get(f"{CONFIG_MAPS}{path}?resourceVersion={version}"))
    await make(world, "a", "b")
    answer = await reading
    assert (names(answer) if not path else answer["metadata"]["name"]) == (["a", "b"] if not path else "b")


async def test_pages_of_a_selection(world):
    await make(world, "a", "c", on="yes")
    await make(world, "b")
    await make(world, "d", on="yes")
    query = "labelSelector=on%3Dyes&limit=2"
    first = await world.get(f"{CONFIG_MAPS}?{query}")
    assert (names(first), "remainingItemCount" in first["metadata"]) == (["a", "c"], False)
    await world.patch(f"{CONFIG_MAPS}/d", {"metadata": {"labels": {"on": "no"}}})
    rest = await world.get(f"{CONFIG_MAPS}?{query}&continue={first['metadata']['continue']}")
    assert names(rest) == ["d"], "as it was"


MATCH = "resourceVersionMatch: "
WITHOUT_VERSION = f"{MATCH}Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
WITH_CONTINUE = f"{MATCH}Forbidden: resourceVersionMatch is forbidden when continue is provided"
EXACT_ZERO = f'{MATCH}Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
UNKNOWN = f'{MATCH}Unsupported value: "x": supported values: "Exact", "NotOlderThan", ""'
WATCH_UNKNOWN = f'{MATCH}Unsupported value: "Exact": supported values: "NotOlderThan"'
LIST_SENDS = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"
WATCH_MATCH = f"{MATCH}Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
WATCH_SENDS = f"{MATCH}Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("resourceVersionMatch=Exact", [WITHOUT_VERSION]),
        ("resourceVersionMatch=Exact&resourceVersion=0", [EXACT_ZERO]),
        ("resourceVersionMatch=x&resourceVersion=1", [UNKNOWN]),
        ("resourceVersionMatch=x&continue=y", [WITHOUT_VERSION, WITH_CONTINUE, UNKNOWN]),
        ("sendInitialEvents=true", [LIST_SENDS]),
        ("watch=1&resourceVersionMatch=NotOlderThan", [WATCH_MATCH]),
        ("watch=1&sendInitialEvents=true", [WATCH_SENDS]),
        ("watch=1&sendInitialEvents=false&resourceVersionMatch=Exact", [WATCH_SENDS, WATCH_UNKNOWN]),
        ("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x", [WITH_CONTINUE]),
    ],
)
async def test_options_that_exclude_each_other(world, query, fields):
    answer = await world.call("GET", f"{CONFIG_MAPS}?{query}")
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert [f"{cause['field']}: {cause['message']}" for cause in answer.json["details"]["causes"]] == fields
    text = fields[0] if len(fields) == 1 else f"[{', '.join(fields)}]"
    assert answer.json["message"] == f'ListOptions.meta.k8s.io "" is invalid: {text}'


def encoded(**token: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("***", "encountered invalid data"),
        (encoded(v="v9", rv=1, start="a"), "server does not recognize this encoded version v9"),
        (encoded(v="meta.k8s.io/v1", start="a"), "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        (encoded(v="meta.k8s.io/v1", rv=1), "encoded start key empty (version meta.k8s.io/v1)"),
    ],
)
async def test_invalid_tokens(world, token, why):
    answer = await world.call("GET", f"{CONFIG_MAPS}?continue={token}")
    assert (answer.status, answer.json["message"]) == (400, f"invalid continue token: continue key is not valid: {why}")


async def test_a_token_excludes_a_version(world):
    await make(world, "a", "b")
    token = (await world.get(f"{CONFIG_MAPS}?limit=1"))["metadata"]["continue"]
    for version, status in (("1", 400), ("0", 200)):
        answer = await world.call("GET", f"{CONFIG_MAPS}?continue={token}&resourceVersion={version}")
        assert answer.status == status


@given(
    st.integers(min_value=1, max_value=2**62), st.from_regex(r"[a-z]*", fullmatch=True),
    st.from_regex(r"[a-z.]+", fullmatch=True), st.integers(min_value=0, max_value=2**40),
)  # fmt: skip
def test_tokens_come_back(revision, namespace, name, since):
    position = Position(revision, (namespace, name), since)
    assert read_token(write_token(position)) == position
