"""Long work does not block other requests, and its result does not depend on them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.http import turns
from bridgehead.apiserver.http.worker import LONG_BYTES
from bridgehead.yaml_loader import load
from tests.unit.apiserver.customresources.definitions import define, definition, version
from tests.unit.apiserver.world import TABLE, Answer, World, open_world

pytestmark = pytest.mark.integration

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
MANY = {f"key-{i}": "x" * 20 for i in range(8_000)}
MORE = MANY | {"k": "v"}
SOME = dict(list(MANY.items())[:1_000])
PORTS = [{"name": f"p{i}", "port": i + 1, "protocol": "TCP"} for i in range(5_000)]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


ENOUGH = 20  # more only take processor time from the long work


async def beside(world: World, call: Awaitable[Answer]) -> tuple[Answer, int]:
    """Return the answer, and the number of other requests that were answered before it, of at most `ENOUGH`."""
    task = asyncio.ensure_future(call)
    others = 0
    while not task.done() and others < ENOUGH:
        await asyncio.sleep(0)
        assert (await world.call("GET", "/version")).status == 200
        others += 1
    return await task, others


async def create_many(world: World, count: int) -> None:
    for i in range(count):
        data = {"value": "x" * 300, "number": str(i)}
        await world.create(CONFIG_MAPS, {"metadata": {"name": f"many-{i:05}"}, "data": data})


@pytest.mark.parametrize(
    ("method", "url", "body", "data", "headers"),
    [
        ("POST", CONFIG_MAPS, json.dumps({"metadata": {"name": "b"}, "data": MANY}).encode(), MANY, {}),
        ("POST", SERVICES, json.dumps({"metadata": {"name": "b"}, "spec": {"ports": PORTS}}).encode(), {}, {}),
        (
            "PUT",
            f"{CONFIG_MAPS}/a",
            json.dumps({"metadata": {"name": "a"}, "data": MORE}).encode(),
            MANY,
            {},
        ),
        ("PATCH", f"{CONFIG_MAPS}/a", b'{"data":{"k":"v"}}', MANY, {"content-type": "application/merge-patch+json"}),
        (
            "PATCH",
            f"{CONFIG_MAPS}/a",
            b'[{"op":"add","path":"/data/k","value":"v"}]',
            MANY,
            {"content-type": "application/json-patch+json"},
        ),
        ("GET", f"{CONFIG_MAPS}/a", None, SOME, {"accept": "application/yaml"}),
        ("GET", "/openapi/v2", None, {}, {}),
    ],
    ids=["create", "service", "update", "merge patch", "json patch", "yaml", "openapi"],
)
async def test_other_requests_are_answered_during_long_work(world, method, url, body, data, headers):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": data})
    answer, others = await beside(world, world.call(method, url, body, headers=headers))
    assert answer.status in (200, 201), answer.body[:300]
    assert others >= 3
    if url.startswith(CONFIG_MAPS):
        shown = load(answer.body) if "accept" in headers else answer.json
        assert shown["data"].items() >= data.items()
        assert method not in ("PUT", "PATCH") or shown["data"]["k"] == "v"


@pytest.mark.parametrize(("accept", "count"), [("application/json", 300), (TABLE, 300), ("application/yaml", 100)])
async def test_long_lists_are_built_in_slices(world, accept, count, monkeypatch):
    monkeypatch.setattr(turns, "_TURN_SECONDS", 0.0)  # each piece of this list counts as long work
    await create_many(world, count)
    for query in ("", "?pretty=true"):
        answer, others = await beside(world, world.call("GET", CONFIG_MAPS + query, headers={"accept": accept}))
        assert others >= 3
        assert answer.body.endswith(b"\n") == (accept == "application/yaml" or not query), "as from Go's encoders"
        shown = load(answer.body) if accept == "application/yaml" else answer.json
        items: list[Any] = [row["object"] for row in shown["rows"]] if accept == TABLE else shown["items"]
        assert [item["metadata"]["name"] for item in items] == [f"many-{i:05}" for i in range(count)]


async def test_concurrent_writes_of_a_large_object_conflict_and_lose_nothing(world):
    large = await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": MANY})
    url = f"{CONFIG_MAPS}/a"
    patches = [world.patch(url, {"data": {f"new-{i}": "v"}}) for i in range(5)]
    stale = world.call("PUT", url, large | {"data": {**MANY, "stale": "v"}})
    *patched, put = await asyncio.gather(*patches, stale)
    data = (await world.get(url))["data"]
    assert [answer.status for answer in patched] == [200] * 5
    # The full update was the first, or it was refused.
    assert put.status in (200, 409)
    assert ("stale" in data) == (put.status == 200)
    assert {f"new-{i}" for i in range(5)} <= data.keys()


async def test_copies_by_a_json_patch_have_kubernetes_size_limit(world):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"x": "y" * 100}})
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/k{i}"} for i in range(20)]
    answer = await world.patch(f"{CONFIG_MAPS}/a", doubling, "json-patch")
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")


async def test_warnings_fit_into_response_headers(world):
    unknown = {f"unknown-{'x' * 400}-{i}": 0 for i in range(1000)}
    answer = await world.call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, **unknown})
    warnings = answer.header("warning")
    assert 1 < len(warnings) < 30
    assert all(len(warning) < 280 for warning in warnings)
    strict = await world.call("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", {"metadata": {"name": "b"}, **unknown})
    assert strict.status == 400
    assert strict.json["message"].count("unknown field") == 100


LOOPS = "/apis/a.io/v1/namespaces/default/loops"


async def define_loops(world: World, schema: Any) -> None:
    """Define the custom resource Loop, whose spec has this schema."""
    whole = {"type": "object", "properties": {"spec": schema}}
    await define(world, definition(version(schema=whole), plural="loops", kind="Loop", group="a.io"))


async def test_other_requests_are_answered_while_rules_of_small_objects_loop(world):
    schema = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.items.all(x, self.items.all(y, x + y >= 0))"}],
        "properties": {"items": {"type": "array", "maxItems": 300, "items": {"type": "integer", "maximum": 9}}},
    }
    await define_loops(world, schema)
    obj = {"apiVersion": "a.io/v1", "kind": "Loop", "metadata": {"name": "a"}, "spec": {"items": [1] * 200}}
    answer, others = await beside(world, world.call("POST", LOOPS, obj))
    assert answer.status == 201, answer.body
    assert others >= 3


@pytest.mark.parametrize("verb", ["create", "apply"])
async def test_other_requests_are_answered_while_a_large_schema_is_compiled(world, verb):
    leaves = {f"leaf{i}": {"type": "string", "pattern": "^[a-z]+$", "description": "d" * 80} for i in range(50)}
    many = {f"field{i}": {"type": "object", "properties": leaves} for i in range(40)}
    await define_loops(world, {"type": "object", "properties": many})
    spec = {name: {f"leaf{i}": "a" for i in range(50)} for name in list(many)[:20]}
    obj = {"apiVersion": "a.io/v1", "kind": "Loop", "metadata": {"name": "a"}, "spec": spec}
    assert len(json.dumps(obj)) < LONG_BYTES
    if verb == "create":
        call = world.call("POST", LOOPS, obj)
    else:
        headers = {"content-type": "application/apply-patch+yaml"}
        call = world.call("PATCH", f"{LOOPS}/a?fieldManager=m", obj, headers=headers)
    answer, others = await beside(world, call)
    assert answer.status == 201, answer.body
    assert others >= 3


@pytest.mark.parametrize("kind", ["policy", "condition"])
async def test_expressions_with_loops_that_ask_for_rights_do_not_block(world, kind):
    """The expressions are evaluated in the worker, and the rights are looked up in the loop's thread."""
    check = "authorizer.path('/x/' + string(i)).check('get').allowed()"
    loop = f"[1, 2].all(i, {check})"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    if kind == "policy":
        spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": f"!{loop}"}]}
        await world.create(f"{REGISTRATION}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
        binding = {"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
        await world.create(f"{REGISTRATION}/validatingadmissionpolicybindings", binding)
    else:
        webhook = {
            "name": "hook.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [rule],
            "matchConditions": [{"name": "rights", "expression": loop}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        hooks = {"metadata": {"name": "hooks"}, "webhooks": [webhook]}
        await world.create(f"{REGISTRATION}/validatingwebhookconfigurations", hooks)
    decide, threads = Authorizer.decide, set()

    def decide_and_record(authorizer, user, request):
        if request.path.startswith("/x/"):
            threads.add(threading.get_ident())
        return decide(authorizer, user, request)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Authorizer, "decide", decide_and_record)
        answer, others = await beside(world, world.call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}))
    # The administrator may do everything, so the validation fails, and the webhook is called, which does not exist.
    assert answer.status == (422 if kind == "policy" else 500)
    assert others > 1
    assert threads == {threading.get_ident()}
