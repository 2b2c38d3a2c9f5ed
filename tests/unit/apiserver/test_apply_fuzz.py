"""Random applies and random managedFields: the answer names the error, and what is stored stays usable."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.admission import service_accounts
from tests.unit.apiserver.test_fuzz import OBJECTS, ODD, nearly_sound
from tests.unit.apiserver.world import World, open_world
from tests.unit.examples import examples

KINDS = {
    "serviceaccounts": "ServiceAccount",
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "services": "Service",
    "endpoints": "Endpoints",
    "pods": "Pod",
    "nodes": "Node",
    "deployments": "Deployment",
    "replicasets": "ReplicaSet",
    "daemonsets": "DaemonSet",
    "statefulsets": "StatefulSet",
    "endpointslices": "EndpointSlice",
    "leases": "Lease",
}
WHOLE = {url: obj for url, obj in OBJECTS.items() if url.rpartition("/")[2] in KINDS}
APPLY = {"content-type": "application/apply-patch+yaml"}


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def world(runner: asyncio.Runner) -> Iterator[World]:
    patched = pytest.MonkeyPatch()
    patched.setattr(service_accounts, "_DEFAULT_ACCOUNT_SECONDS", 0.0)
    context = open_world()
    world = runner.run(context.__aenter__())
    for url, obj in OBJECTS.items():
        runner.run(world.call("POST", url, obj))
    yield world
    runner.run(context.__aexit__(None, None, None))
    patched.undo()


def _version(url: str) -> str:
    parts = url.split("/")
    return parts[2] if parts[1] == "api" else "/".join(parts[2:4])


@st.composite
def applies(draw: st.DrawFn) -> dict[str, Any]:
    url, obj = draw(st.sampled_from(sorted(WHOLE.items(), key=str)))
    kind = KINDS[url.rpartition("/")[2]]
    configuration = draw(nearly_sound(obj))
    if isinstance(configuration, dict):
        configuration = {"apiVersion": _version(url), "kind": kind, **configuration}
    manager = draw(st.sampled_from(["one", "two", "kubectl"]))
    force = draw(st.sampled_from(["", "&force=true"]))
    name = "default" if kind == "ServiceAccount" else "x"
    suffix = draw(st.sampled_from(["", "", "", "/status", "/scale"]))
    if suffix == "/scale" and isinstance(configuration, dict):
        configuration |= {"apiVersion": "autoscaling/v1", "kind": "Scale"}
    url = f"{url}/{name}{suffix}?fieldManager={manager}{force}"
    return {"method": "PATCH", "url": url, "body": json.dumps(configuration).encode(), "headers": APPLY}


_STEPS = st.sampled_from(
    ["f:spec", "f:data", "f:k", ".", 'k:{"port":80}', 'k:{"a":{}}', "k:[]", "v:1", "v:NaN", 'v:{"a":1}', "i:1", "", "x"]
)
_FIELDS = st.recursive(
    st.sampled_from([{}, None, [], "x", 1]), lambda inner: st.dictionaries(_STEPS, inner, max_size=3), max_leaves=6
)
_ENTRIES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "manager": st.sampled_from(["one", "", "x" * 200, None]),
            "operation": st.sampled_from(["Apply", "Update", "x"]),
            "apiVersion": st.sampled_from(["v1", "v0", ""]),
            "fieldsType": st.sampled_from(["FieldsV1", "x"]),
            "fieldsV1": _FIELDS,
            "time": st.sampled_from(["2026-11-21T03:48:41Z", "x", None]),
            "subresource": st.sampled_from(["status", ""]),
        },
    ),
    max_size=3,
)


@st.composite
def writes_of_managers(draw: st.DrawFn) -> dict[str, Any]:
    entries = draw(_ENTRIES | st.sampled_from(ODD))
    data = {"k": draw(st.sampled_from(["1", "2"]))}
    body = {"metadata": {"name": "x", "managedFields": entries}, "data": data}
    kind = draw(st.sampled_from(["json", "merge-patch+json"]))
    url = "/api/v1/namespaces/default/configmaps/x"
    method = "PUT" if kind == "json" else "PATCH"
    headers = {"content-type": f"application/{kind}"}
    return {"method": method, "url": url, "body": json.dumps(body).encode(), "headers": headers}


def test_no_apply_is_too_odd_for_an_answer(runner, world, caplog):
    @examples(300)
    @given(applies() | writes_of_managers())
    def ask(request: dict[str, Any]) -> None:
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            answer = runner.run(world.call(**request))
        assert answer.status < 500, (request, answer.body)
        assert not caplog.records, (request, caplog.text)

    ask()


@pytest.mark.parametrize(
    "ports",
    ["[{port: !!set {a}}]", "[{port: 2026-01-01}]", "[{port: !!binary YQ==}]", "[{port: .nan}]", "[{port: 1e999}]"],
)
def test_odd_keys_in_yaml(runner, world, ports):
    body = f"apiVersion: v1\nkind: Service\nmetadata: {{name: y}}\nspec: {{ports: {ports}}}\n".encode()
    url = "/api/v1/namespaces/default/services/y?fieldManager=one"
    answer = runner.run(world.call("PATCH", url, body, headers=APPLY))
    assert answer.status in (400, 422), answer.body


def test_a_deep_configuration_is_refused(runner, world):
    deep = b'{"a":' * 800 + b"1" + b"}" * 800
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":' + deep + b"}}"
    url = "/api/v1/namespaces/default/configmaps/x?fieldManager=one"
    assert runner.run(world.call("PATCH", url, body, headers=APPLY)).status == 400
    body = (
        b'{"metadata":{"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1",'
    )
    body += b'"fieldsV1":' + b'{"f:a":' * 700 + b"{}" + b"}" * 700 + b"}]}}"
    headers = {"content-type": "application/merge-patch+json"}
    assert runner.run(world.call("PATCH", url, body, headers=headers)).status < 500
