"""Every write passes the chain of admission plug-ins, with its attributes, in Kubernetes' order."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.chain import Chain, Plugin
from bridgehead.apiserver.errors import forbidden
from bridgehead.apiserver.registry.write import Write
from bridgehead.storage import Companions, Facts, Key, Store, Update
from tests.unit.apiserver.world import World, open_world

DEFAULT = "/api/v1/namespaces/default"
CONFIG_MAPS = f"{DEFAULT}/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
COUNTER = Key("configmaps", "default", "counter")
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@dataclass
class Call:
    phase: str
    attributes: Attributes
    obj: dict[str, Any]
    old: dict[str, Any]

    @property
    def summary(self) -> tuple[str, str, str, str, str]:
        attributes = self.attributes
        target = "/".join(part for part in (attributes.resource.id, attributes.subresource) if part)
        return self.phase, attributes.operation, target, attributes.namespace, attributes.name


@dataclass
class Recorder(Plugin):
    """Records its calls; adds the label `seen` where `adds`; asks for a second pass where `repeats`."""

    calls: list[Call] = field(default_factory=list)
    adds: bool = False
    repeats: bool = False
    refuses: str = ""

    def handles(self, attributes: Attributes) -> bool:
        return True

    async def mutate(self, attributes, obj, old):
        self.calls.append(Call("mutate", attributes, copy.deepcopy(obj), copy.deepcopy(old)))
        if self.refuses == "mutate":
            raise forbidden(attributes.resource, attributes.name, "no")
        if self.adds:
            obj["metadata"].setdefault("labels", {})["seen"] = "yes"
        if self.repeats:
            attributes.reinvocation.is_wanted = True
        return obj

    async def validate(self, attributes, obj, old):
        self.calls.append(Call("validate", attributes, copy.deepcopy(obj), copy.deepcopy(old)))
        if self.refuses == "validate":
            raise forbidden(attributes.resource, attributes.name, "no")


@dataclass
class Counter(Recorder):
    """Counts objects in one of its own. Its first attempt expects a revision that this object no longer has."""

    store: Store | None = None

    def charge(self, attributes: Attributes, obj: dict[str, Any], old: dict[str, Any]) -> Companions:
        assert self.store is not None
        self.calls.append(Call("charge", attributes, copy.deepcopy(obj), copy.deepcopy(old)))
        counter = self.store.latest(COUNTER)
        if counter is None or attributes.operation == "DELETE":
            return ()
        attempts = sum(call.phase == "charge" for call in self.calls)
        value = {"metadata": {"name": "counter"}, "data": {"last": obj["metadata"]["name"]}}
        return (Update(COUNTER, value, Facts(), counter.revision - (attempts == 1)),)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


@pytest.fixture
def recorder(world: World) -> Recorder:
    recorder = Recorder()
    world.parts.registry.admission = Chain((recorder,))
    return recorder


def taken(recorder: Recorder) -> list[tuple[str, ...]]:
    """Return the calls since the last question, without the phase: both phases get each request."""
    calls, recorder.calls = recorder.calls, []
    assert [call.phase for call in calls] == ["mutate", "validate"] * (len(calls) // 2)
    return [call.summary[1:] for call in calls[::2]]


async def test_every_write_of_a_stored_object_passes_the_chain(world, recorder):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    merge, apply = ({"content-type": f"application/{kind}"} for kind in ("merge-patch+json", "apply-patch+yaml"))
    target = ("configmaps", "default", "a")
    for method, url, sent, headers, operation in (
        ("POST", CONFIG_MAPS, body, None, "CREATE"),
        ("PUT", f"{CONFIG_MAPS}/a", body | {"data": {"b": "c"}}, None, "UPDATE"),
        ("PUT", f"{CONFIG_MAPS}/a", body | {"data": {"b": "c"}}, None, "UPDATE"),  # nothing changes, as in Kubernetes
        ("PATCH", f"{CONFIG_MAPS}/a", {"data": {"b": "d"}}, merge, "UPDATE"),
        ("PATCH", f"{CONFIG_MAPS}/a?fieldManager=m&force=true", body, apply, "UPDATE"),
        ("DELETE", f"{CONFIG_MAPS}/a", None, None, "DELETE"),
        ("PATCH", f"{CONFIG_MAPS}/a?fieldManager=m", body, apply, "CREATE"),
    ):
        answer = await world.call(method, url, sent, headers=headers)
        assert answer.status in (200, 201), answer.body
        assert taken(recorder)[-1] == (operation, *target), method
    assert (await world.call("DELETE", CONFIG_MAPS)).status == 200
    assert taken(recorder) == [("DELETE", "configmaps", "default", "")]
    await world.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
    assert taken(recorder) == [("CREATE", "namespaces", "n", "n")]
    await world.create(CONFIG_MAPS, {"metadata": {"generateName": "g-"}})
    assert taken(recorder) == [("CREATE", "configmaps", "default", "")]
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    await world.create(f"{DEFAULT}/services", service)
    await world.patch(f"{DEFAULT}/services/s/status", {"status": {"loadBalancer": {}}})
    assert taken(recorder)[-1] == ("UPDATE", "services/status", "default", "s")
    finalize = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "spec": {"finalizers": []}}
    assert (await world.call("PUT", "/api/v1/namespaces/n/finalize", finalize)).status == 200
    assert taken(recorder)[-1] == ("UPDATE", "namespaces/finalize", "n", "n")


async def test_only_the_charge_of_a_create_is_repeated_when_it_is_overtaken(world):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "counter"}})
    counter = Counter(store=world.store)
    world.parts.registry.admission = Chain((counter,))
    role = await world.create(ROLES, {"metadata": {"name": "r"}, "rules": []})
    assert [call.phase for call in counter.calls] == ["mutate", "validate", "charge", "charge"]
    assert counter.calls[2].obj == counter.calls[3].obj, "objects are shown without the nulls that are stored"
    counted = await world.get(f"{CONFIG_MAPS}/counter")
    assert counted["data"] == {"last": "r"}
    assert int(counted["metadata"]["resourceVersion"]) == int(role["metadata"]["resourceVersion"]) + 1


async def test_an_update_begins_again_when_its_charge_is_overtaken(world):
    for name in ("a", "counter"):
        await world.create(CONFIG_MAPS, {"metadata": {"name": name}})
    counter = Counter(store=world.store)
    world.parts.registry.admission = Chain((counter,))
    assert (await world.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}})).status == 200
    assert [call.phase for call in counter.calls] == ["mutate", "validate", "charge"] * 2
    counted = await world.get(f"{CONFIG_MAPS}/counter")
    assert counted["data"] == {"last": "a"}
    assert (await world.call("DELETE", f"{CONFIG_MAPS}/a")).status == 200
    assert await world.get(f"{CONFIG_MAPS}/counter") == counted, "nothing is stored that could be charged"


async def test_reads_and_the_server_itself_do_not_pass_the_chain(world, recorder):
    recorder.refuses = "mutate"
    assert (await world.get(CONFIG_MAPS))["items"] == []
    assert (await world.call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})).status == 403
    recorder.calls.clear()
    resource = world.parts.registry.find("", "v1", "configmaps")
    await world.parts.registry.create(Write(resource, "default"), {"metadata": {"name": "a"}})
    assert recorder.calls == []


async def test_subresources_show_admission_their_own_objects(world, recorder):
    await world.create(f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "default"}})
    container = {"name": "c", "image": "i"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await world.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    await world.create(f"{DEFAULT}/pods", {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    recorder.calls.clear()
    assert (await world.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}})).status == 200
    mutated, validated = recorder.calls
    assert mutated.attributes.object_kind == ("autoscaling", "v1", "Scale")
    assert (mutated.obj["spec"], mutated.old["spec"]) == ({"replicas": 3}, {"replicas": 1})
    assert (validated.obj["kind"], validated.obj["spec"]) == ("Scale", {"replicas": 3})
    recorder.calls.clear()
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "node1"}}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    for url, body in (
        (f"{DEFAULT}/pods/p/binding", binding),
        (f"{DEFAULT}/pods/p/eviction", eviction),
        (f"{DEFAULT}/serviceaccounts/default/token", request),
    ):
        assert (await world.call("POST", url, body)).status == 201
        # An eviction is one request: its delete does not pass the chain.
        assert [call.attributes.operation for call in recorder.calls] == ["CREATE", "CREATE"]
        assert recorder.calls[0].obj["kind"] == body["kind"] == recorder.calls[0].attributes.object_kind[2]
        recorder.calls.clear()


async def test_connections_are_refused_before_the_kubelet_is_asked(world, recorder):
    await world.create(f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "default"}})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await world.create(f"{DEFAULT}/pods", pod)
    recorder.calls.clear()
    recorder.refuses = "validate"
    query = "command=ls&command=-l&stdout=true&container=c"
    answer = await world.call("POST", f"{DEFAULT}/pods/p/exec?{query}")
    assert (answer.status, answer.json["message"]) == (403, 'pods "p" is forbidden: no')
    assert taken(recorder) == [("CONNECT", "pods/exec", "default", "p")]
    await world.call("POST", f"{DEFAULT}/pods/p/exec?{query}")
    assert recorder.calls[0].obj == {
        "kind": "PodExecOptions",
        "apiVersion": "v1",
        "stdout": True,
        "container": "c",
        "command": ["ls", "-l"],
    }
    recorder.calls.clear()
    assert (await world.call("GET", f"{DEFAULT}/pods/p/log?container=c")).status == 200
    assert recorder.calls == []  # reads of logs do not connect


async def test_mutation_comes_before_the_hooks_of_the_resource_and_validation_after(world, recorder):
    recorder.adds = True
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    created = await world.create(f"{DEFAULT}/services", service)
    mutated, validated = recorder.calls
    assert created["metadata"]["labels"] == {"seen": "yes"}
    assert (mutated.obj["kind"], mutated.obj["metadata"]["namespace"]) == ("Service", "default")
    assert "uid" not in mutated.obj["metadata"]
    assert "clusterIP" not in mutated.obj["spec"]
    assert mutated.obj["spec"]["type"] == "ClusterIP"  # a default value
    assert validated.obj["spec"]["clusterIP"] == created["spec"]["clusterIP"]
    assert validated.obj["metadata"]["uid"] == created["metadata"]["uid"]
    assert (mutated.old, validated.old) == ({}, {})
    # The label that admission adds is nobody's, and the managers are visible to plug-ins.
    (entry,) = created["metadata"]["managedFields"]
    assert "f:labels" not in entry["fieldsV1"].get("f:metadata", {})
    assert mutated.obj["metadata"]["managedFields"] == validated.obj["metadata"]["managedFields"]
    recorder.calls.clear()
    # A mutation cannot change what the request cannot change: here the status.
    condition = {"type": "A", "status": "True", "lastTransitionTime": "2026-11-21T03:48:41Z", "reason": "B"}
    change = {"metadata": {"labels": None}, "status": {"conditions": [{**condition, "message": ""}]}}
    patched = await world.patch(f"{DEFAULT}/services/s", change)
    mutated, validated = recorder.calls
    assert "conditions" in mutated.obj["status"]
    assert "conditions" not in validated.obj["status"]
    assert patched.json["metadata"]["labels"] == {"seen": "yes"}
    assert mutated.old["metadata"]["managedFields"] == created["metadata"]["managedFields"]


async def test_a_refusal_stores_nothing(world, recorder):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    before = world.store.revision
    for recorder.refuses in ("mutate", "validate"):
        for method, url, body in (
            ("POST", CONFIG_MAPS, {"metadata": {"name": "b"}}),
            ("PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "a"}, "data": {"c": "d"}}),
            ("DELETE", f"{CONFIG_MAPS}/a", None),
            ("DELETE", CONFIG_MAPS, None),
        ):
            assert (await world.call(method, url, body)).status == 403
    assert world.store.revision == before


async def test_a_second_pass_is_made_once(world):
    first, second = Recorder(), Recorder(repeats=True)
    world.parts.registry.admission = Chain((first, second))
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert [call.phase for call in first.calls] == ["mutate", "mutate", "validate"]
    assert [call.phase for call in second.calls] == ["mutate", "mutate", "validate"]


async def test_options_are_those_of_the_request(world, recorder):
    url = f"{CONFIG_MAPS}?dryRun=All&fieldManager=me&fieldValidation=Strict"
    await world.create(url, {"metadata": {"name": "a"}})
    attributes = recorder.calls[0].attributes
    assert attributes.dry_run
    assert attributes.options == {"dryRun": ["All"], "fieldManager": "me", "fieldValidation": "Strict"}
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    recorder.calls.clear()
    query = "gracePeriodSeconds=5&propagationPolicy=Foreground&dryRun=All"
    await world.call("DELETE", f"{CONFIG_MAPS}/a?{query}")
    assert recorder.calls[0].attributes.options == {
        "gracePeriodSeconds": 5,
        "propagationPolicy": "Foreground",
        "dryRun": ["All"],
    }
    assert recorder.calls[0].attributes.dry_run
    assert (recorder.calls[0].obj, recorder.calls[0].old["metadata"]["name"]) == ({}, "a")
