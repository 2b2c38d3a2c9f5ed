"""Random answers of a webhook: the request is stored or refused with a reason, and nothing else happens."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.admission.webhooks import calls
from tests.unit.apiserver.world import World, open_world

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"


class Fake:
    """Stands for the client: gives `answer` to each review. An `answer` that is callable gets the review."""

    def __init__(self) -> None:
        self.answer: Any = {}
        self.seconds: list[float] = []

    async def post(self, config: Any, body: bytes, *, seconds: float) -> Any:
        self.seconds.append(seconds)
        uid = json.loads(body)["request"]["uid"]
        answer = json.loads(json.dumps(self.answer))
        if isinstance(answer.get("response"), dict) and answer["response"].get("uid") == "right":
            answer["response"]["uid"] = uid
        return answer

    async def close(self) -> None: ...


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def fake() -> Fake:
    return Fake()


@pytest.fixture(scope="module")
def world(runner: asyncio.Runner, fake: Fake) -> Iterator[World]:
    context = open_world()
    world = runner.run(context.__aenter__())
    world.parts.webhooks.post = fake.post
    for kind in ("mutating", "validating"):
        hook = {
            "name": f"{kind}.example.com",
            "clientConfig": {"url": "https://127.0.0.1/"},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30,
        }
        url = f"{CONFIGURATIONS}/{kind}webhookconfigurations"
        runner.run(world.create(url, {"metadata": {"name": kind}, "webhooks": [hook]}))
    yield world
    runner.run(context.__aexit__(None, None, None))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "/", "x/y", "é"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "data", "metadata"]), inner, max_size=3)
    ),
    max_leaves=5,
)
PATHS = st.sampled_from(
    ["", "/", "/data", "/data/a", "/metadata", "/metadata/name", "/metadata/labels", "/kind", "/x/~1/-", "a"]
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "copy", "move", "test", "x"]), "path": PATHS},
        optional={"value": JSON, "from": PATHS},
    ),
    max_size=3,
)
PATCHES = OPERATIONS.map(lambda one: base64.b64encode(json.dumps(one).encode()).decode())
RESPONSES = st.fixed_dictionaries(
    {},
    optional={
        "uid": st.just("right") | st.just("right") | JSON,
        "allowed": st.just(True) | st.just(True) | JSON,
        "patch": PATCHES | JSON,
        "patchType": st.just("JSONPatch") | JSON,
        "warnings": JSON,
        "auditAnnotations": JSON,
        "status": JSON
        | st.fixed_dictionaries({}, optional={"code": JSON, "message": JSON, "reason": JSON, "details": JSON}),
    },
)
ANSWERS = st.fixed_dictionaries(
    {
        "response": RESPONSES | JSON,
        "apiVersion": st.just("admission.k8s.io/v1"),
        "kind": st.just("AdmissionReview") | JSON,
    }
)


@given(answer=ANSWERS)
def test_random_answers(world, runner, fake, answer):
    fake.answer = answer
    body = {"metadata": {"name": "a"}, "data": {"a": "b"}}
    created = runner.run(world.call("POST", f"{CONFIG_MAPS}?dryRun=All", body))
    assert created.status in (201, 400, 422, 500) or created.status == answer["response"]["status"]["code"]
    if created.status == 500:
        assert created.json["message"].startswith("Internal error occurred: ")
        assert "see the API server's log" not in created.json["message"]  # the answer to an unexpected exception
    if created.status >= 400:
        assert created.json["message"]


def test_the_webhooks_of_a_request_share_its_time(world, runner, fake, monkeypatch):
    fake.answer = {
        "response": {"uid": "right", "allowed": True},
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
    }
    for request, seconds, code in ((60.0, 30.0, 201), (7.0, 7.0, 201), (0.0, None, 504)):
        monkeypatch.setattr(calls, "_REQUEST_SECONDS", request)
        fake.seconds.clear()
        answer = runner.run(world.call("POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "b"}}))
        assert answer.status == code
        if seconds is None:
            assert answer.json["message"] == "Timeout: request did not complete within requested timeout"
            assert fake.seconds == []
        else:
            assert max(fake.seconds) == seconds
            assert len(fake.seconds) == 2
