"""Bad input: each gets the API's own error, nobody else is hurt, and nothing that is stored is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabFiles

from .api import JSON, Api
from .conftest import Lab, Namespace

YAML = "application/yaml"


@pytest.fixture
def api(lab: Lab) -> Api:
    return lab.api


@pytest.fixture(autouse=True)
def nothing_dies(lab: Lab) -> Iterator[None]:
    before = state_directories.read_parts(LabFiles(lab.state_dir))
    yield
    after = state_directories.read_parts(LabFiles(lab.state_dir))
    assert {p.name: p.restarts for p in after} == {p.name: p.restarts for p in before}


def config_maps(ns: Namespace) -> str:
    return f"/api/v1/namespaces/{ns.name}/configmaps"


def named(**more: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}} | more).encode()


@pytest.mark.parametrize(
    ("body", "content_type", "status", "reason"),
    [
        (b'{"kind": ', JSON, 400, "BadRequest"),
        (b"[" * 100_000, JSON, 400, "BadRequest"),
        (b"a: [b", YAML, 400, "BadRequest"),
        (b"a: " + b"[" * 100_000, YAML, 400, "BadRequest"),
        (named(kind="Nope"), JSON, 400, "BadRequest"),
        (named(data={"a": 1}), JSON, 400, "BadRequest"),
        (named(), "text/plain", 415, "UnsupportedMediaType"),
        (named(metadata={"name": "No_Name"}), JSON, 422, "Invalid"),
        (b"x" * (3 * 1024 * 1024 + 1), JSON, 413, "RequestEntityTooLarge"),
    ],
    ids=["json", "deep-json", "yaml", "deep-yaml", "kind", "type", "content-type", "name", "size"],
)
def test_unreadable_bodies_are_refused(
    api: Api, ns: Namespace, body: bytes, content_type: str, status: int, reason: str
) -> None:
    code, answer = api.call("POST", config_maps(ns), body, content_type)
    assert (code, answer["kind"], answer["reason"]) == (status, "Status", reason)
    # The controllers may not have written it yet.
    assert {item["metadata"]["name"] for item in ns.list_all("configmaps")} <= {"kube-root-ca.crt"}


def test_a_chunked_body_that_exceeds_the_limit_is_refused(api: Api, ns: Namespace) -> None:
    """The chunked body has no length in its header."""
    code, answer = api.call("POST", config_maps(ns), (b"x" * 65536 for _ in range(60)), chunked=True)
    assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")


def test_the_second_update_of_a_version_conflicts(api: Api, ns: Namespace) -> None:
    """The first update is kept."""
    _, stored = api.call("POST", config_maps(ns), named(data={"by": "nobody"}))
    path = f"{config_maps(ns)}/one"
    assert api.call("PUT", path, json.dumps(stored | {"data": {"by": "first"}}))[0] == 200
    code, answer = api.call("PUT", path, json.dumps(stored | {"data": {"by": "second"}}))
    assert (code, answer["reason"]) == (409, "Conflict")
    assert "the object has been modified" in answer["message"]
    assert ns.get("configmaps", "one")["data"] == {"by": "first"}


def test_clients_that_never_read_their_watches_do_not_delay_others(api: Api, ns: Namespace) -> None:
    """More is written than the sockets of the slow clients hold; other clients are not delayed."""
    connections = [api.connect() for _ in range(100)]
    try:
        for connection in connections:
            connection.request("GET", f"{config_maps(ns)}?watch=1")
        assert api.call("POST", config_maps(ns), named())[0] == 201
        for number in range(60):
            patch = json.dumps({"data": {"number": str(number), "much": "x" * 100_000}})
            assert api.call("PATCH", f"{config_maps(ns)}/one", patch, "application/merge-patch+json")[0] == 200
        assert ns.get("configmaps", "one")["data"]["number"] == "59"
        ns.kubectl("run", "beside", "--image=busybox", "--restart=Never", "--", "true")
        ns.succeeded("beside")
    finally:
        for connection in connections:
            connection.close()
