"""Webhooks of custom resources: denials, mutations, pruning, and other versions than that of the request."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.unit.apiserver.customresources.definitions import crontab, define, definition, url, version
from tests.unit.apiserver.customresources.test_conversion import convert, hosts
from tests.unit.apiserver.world import World, open_world

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
FIELDS = {name: {"type": "string"} for name in ("start", "one")}
DATA = {"type": "object", "properties": {"data": {"type": "object", "properties": FIELDS}}}


class Programs:
    """Stands for admission webhooks, which `answers` has by path, and for a conversion webhook."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
        self.reviews: list[dict[str, Any]] = []
        self.conversions: list[str] = []

    async def post(self, config: Any, body: bytes, *, seconds: float) -> Any:
        review = json.loads(body)
        request = review["request"]
        answer = {"kind": review["kind"], "apiVersion": review["apiVersion"]}
        if review["kind"] == "ConversionReview":
            wanted = request["desiredAPIVersion"]
            self.conversions.append(wanted)
            converted = [convert(one, wanted) for one in request["objects"]]
            return {
                **answer,
                "response": {"uid": request["uid"], "convertedObjects": converted, "result": {"status": "Success"}},
            }
        self.reviews.append(request)
        return {**answer, "response": {"uid": request["uid"], **self.answers[config.url.rpartition("/")[2]](request)}}


@pytest.fixture
async def world(programs: Programs, monkeypatch) -> AsyncIterator[World]:
    async with open_world() as world:
        monkeypatch.setattr(world.parts.webhooks, "post", programs.post)
        yield world


@pytest.fixture
def programs() -> Programs:
    return Programs()


async def register(world: World, kind: str, *names: str, **settings: Any) -> None:
    rule = {"operations": ["*"], "apiGroups": ["stable.example.com"], "apiVersions": ["v1"], "resources": ["crontabs"]}
    hooks = [
        {
            "name": f"{name}.example.com",
            "clientConfig": {"url": f"https://127.0.0.1/{name}"},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **settings,
        }
        for name in names
    ]
    await world.create(f"{CONFIGURATIONS}/{kind}webhookconfigurations", {"metadata": {"name": kind}, "webhooks": hooks})


def patch(*operations: Any) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


async def test_denials(world, programs):
    await define(world, definition(version(schema=DATA)))
    programs.answers["deny"] = lambda request: {
        "allowed": "bad" not in (request["object"] or request["oldObject"])["data"].values(),
        "status": {"message": "bad data"},
    }
    await register(world, "validating", "deny")
    answer = await world.call("POST", url(), crontab("a", data={"start": "bad"}))
    assert answer.json["message"] == 'admission webhook "deny.example.com" denied the request: bad data'
    await world.create(url(), crontab("a", data={"start": "good"}))
    assert (await world.patch(url(name="a"), {"data": {"start": "bad"}})).status == 400
    assert (await world.call("DELETE", url(name="a"))).status == 200
    assert [request["operation"] for request in programs.reviews] == ["CREATE", "CREATE", "UPDATE", "DELETE"]
    assert programs.reviews[-1]["oldObject"]["data"] == {"start": "good"}


async def test_mutations_are_pruned(world, programs):
    await define(world, definition(version(schema=DATA)))
    programs.answers |= {
        "one": lambda _: patch({"op": "add", "path": "/data/one", "value": "yes"}),
        "two": lambda _: patch({"op": "add", "path": "/data/two", "value": "yes"}),
    }
    await register(world, "mutating", "one", "two")
    made = await world.create(url(), crontab("a", data={"start": "yes"}))
    assert made["data"] == {"start": "yes", "one": "yes"}
    stored = await world.get(url(name="a"))
    assert stored["data"] == made["data"]
    # Fields that a webhook adds have to be valid, too.
    programs.answers["one"] = lambda _: patch({"op": "add", "path": "/data/one", "value": 7})
    answer = await world.patch(url(name="a"), {"data": {"start": "no"}})
    assert answer.status == 422, answer.body


async def test_a_webhook_gets_the_version_of_its_rule(world, programs):
    await define(world, hosts())
    programs.answers["move"] = lambda _: patch({"op": "replace", "path": "/hostPort", "value": "b.example.com:81"})
    await register(world, "mutating", "move")
    made = await world.create(url(version="v2"), crontab("a", version="v2", host="a.example.com", port="80"))
    (request,) = programs.reviews
    assert request["object"]["hostPort"] == "a.example.com:80"
    assert request["object"]["apiVersion"] == "stable.example.com/v1"
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
    assert (request["resource"]["version"], request["requestResource"]["version"]) == ("v1", "v2")
    assert (made["apiVersion"], made["host"], made["port"]) == ("stable.example.com/v2", "b.example.com", "81")


async def test_an_exact_webhook_is_not_asked_about_other_versions(world, programs):
    await define(world, hosts())
    await register(world, "validating", "exact", matchPolicy="Exact")
    await world.create(url(version="v2"), crontab("a", version="v2", host="a.example.com", port="80"))
    assert programs.reviews == []


async def test_two_webhooks_share_a_conversion(world, programs):
    await define(world, hosts(storage="v2"))
    programs.answers |= {name: lambda _: {"allowed": True} for name in ("one", "two")}
    await register(world, "validating", "one", "two")
    await world.create(url(version="v2"), crontab("a", version="v2", host="a.example.com", port="80"))
    assert len(programs.reviews) == 2
    assert programs.conversions == ["stable.example.com/v1"]


async def test_a_webhook_may_be_asked_about_definitions(world, programs):
    programs.answers["crd"] = lambda request: {"allowed": request["object"]["spec"]["names"]["kind"] != "CronTab"}
    rule = {"operations": ["CREATE"], "apiGroups": ["apiextensions.k8s.io"], "apiVersions": ["v1"]}
    await register(world, "validating", "crd", rules=[{**rule, "resources": ["customresourcedefinitions"]}])
    answer = await world.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    assert answer.json["message"] == 'admission webhook "crd.example.com" denied the request without explanation'
