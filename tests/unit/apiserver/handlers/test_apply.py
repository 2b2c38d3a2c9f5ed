"""Server-side apply and managedFields by requests: conflicts, options, subresources, errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridgehead import yaml_loader
from bridgehead.apiserver.http.user import User
from tests.unit.apiserver.world import Answer, World, open_world

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
BOB = User("bob", ("system:authenticated",))


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def deployment(**spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "nginx", "ports": [{"containerPort": 80}]}]},
    }
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


@pytest.fixture
async def world():
    async with open_world() as world:
        yield world


async def send_apply(
    world: World, url: str, configuration: Any, manager: str = "one", *, query: str = "", **options: Any
) -> Answer:
    body = configuration if isinstance(configuration, bytes) else json.dumps(configuration).encode()
    url = f"{url}?fieldManager={manager}{query}"
    return await world.call("PATCH", url, body, headers={"content-type": "application/apply-patch+yaml"}, **options)


def managers(obj: dict[str, Any]) -> dict[str, Any]:
    return {
        " ".join(filter(None, (one["manager"], one["operation"], one.get("subresource")))): one["fieldsV1"]
        for one in obj["metadata"].get("managedFields", [])
    }


async def test_apply_creates_and_changes(world):
    created = await send_apply(world, f"{MAPS}/c", config_map(a="1"))
    assert created.status == 201
    assert managers(created.json) == {"one Apply": {"f:data": {"f:a": {}}}}
    world.clock.now += 60
    unchanged = await send_apply(world, f"{MAPS}/c", config_map(a="1"))
    assert (unchanged.status, unchanged.json) == (200, created.json)
    changed = await send_apply(world, f"{MAPS}/c", b"apiVersion: v1\nkind: ConfigMap\ndata: {b: '2'}\n")
    assert changed.json["data"] == {"b": "2"}
    (entry,) = changed.json["metadata"]["managedFields"]
    assert entry["time"] == "2026-11-21T03:49:41Z"


async def test_a_conflict(world):
    await send_apply(world, f"{MAPS}/c", config_map(a="1", b="1"))
    await world.patch(f"{MAPS}/c?fieldManager=editor", {"data": {"b": "2"}})
    answer = await send_apply(world, f"{MAPS}/c", config_map(a="2", b="3"), "two")
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 2 conflicts: conflicts with "editor" using v1:\n- .data.b\n'
        'conflicts with "one":\n- .data.a',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "editor" using v1',
                    "field": ".data.b",
                },
                {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"},
            ]
        },
        "code": 409,
    }
    one = await send_apply(world, f"{MAPS}/c", config_map(a="2"), "two")
    assert one.json["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    forced = await send_apply(world, f"{MAPS}/c", config_map(a="2"), "two", query="&force=true")
    assert forced.json["data"] == {"a": "2", "b": "2"}
    assert managers(forced.json) == {"two Apply": {"f:data": {"f:a": {}}}, "editor Update": {"f:data": {"f:b": {}}}}


async def test_dry_run(world):
    answer = await send_apply(world, f"{MAPS}/c", config_map(a="1"), query="&dryRun=All")
    assert answer.status == 201
    assert (await world.call("GET", f"{MAPS}/c")).status == 404
    await send_apply(world, f"{MAPS}/c", config_map(a="1"))
    answer = await send_apply(world, f"{MAPS}/c", config_map(a="2"), query="&dryRun=All")
    assert answer.json["data"] == {"a": "2"}
    assert (await world.get(f"{MAPS}/c"))["data"] == {"a": "1"}


async def test_defaults_complete_the_keys_of_elements(world):
    created = (await send_apply(world, f"{DEPLOYMENTS}/web", deployment())).json
    container = managers(created)["one Apply"]["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"web"}']
    assert container["f:ports"] == {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}
    port = {"name": "dns", "containerPort": 80, "protocol": "UDP"}
    wanted = deployment()
    wanted["spec"]["template"]["spec"]["containers"][0]["ports"].append(port)
    changed = (await send_apply(world, f"{DEPLOYMENTS}/web", wanted)).json
    ports = changed["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert ports == [{"containerPort": 80, "protocol": "TCP"}, port]


async def test_status_and_scale_have_entries_of_their_own(world):
    await send_apply(world, f"{DEPLOYMENTS}/web", deployment(replicas=1))
    status = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 9}, "status": {"replicas": 1}}
    answer = await send_apply(world, f"{DEPLOYMENTS}/web/status", status, "controller")
    assert answer.json["spec"]["replicas"] == 1
    assert managers(answer.json)["controller Apply status"] == {"f:status": {"f:replicas": {}}}
    assert (await send_apply(world, f"{DEPLOYMENTS}/none/status", status)).status == 404

    await world.patch(f"{DEPLOYMENTS}/web/scale?fieldManager=scaler", {"spec": {"replicas": 2}})
    found = managers(await world.get(f"{DEPLOYMENTS}/web"))
    assert found["scaler Update scale"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in found["one Apply"]["f:spec"]
    refused = await send_apply(world, f"{DEPLOYMENTS}/web", deployment(replicas=1))
    assert refused.json["message"] == (
        'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" using apps/v1: .spec.replicas'
    )

    scale: dict[str, Any] = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3},
    }
    refused = await send_apply(world, f"{DEPLOYMENTS}/web/scale", scale, "other")
    assert refused.json["reason"] == "Conflict"
    answer = await send_apply(world, f"{DEPLOYMENTS}/web/scale", scale, "other", query="&force=true")
    assert answer.json["spec"] == {"replicas": 3}
    found = managers(await world.get(f"{DEPLOYMENTS}/web"))
    assert found["other Apply scale"] == {"f:spec": {"f:replicas": {}}}
    assert "scaler Update scale" not in found
    answer = await send_apply(world, f"{DEPLOYMENTS}/web/scale", {**scale, "metadata": []}, "other")
    assert answer.json["message"] == (
        "failed to create typed patch object (/; autoscaling/v1, Kind=Scale): .metadata: expected map, got []"
    )
    scale["spec"]["replicas"] = -1
    assert (await send_apply(world, f"{DEPLOYMENTS}/web/scale", scale, "other")).status == 422


async def test_every_write_has_a_manager(world):
    agent = {"user-agent": "my-program/v1 (linux)", "content-type": "application/json"}
    created = await world.call("POST", MAPS, config_map(a="1"), headers=agent)
    assert managers(created.json) == {"my-program Update": {"f:data": {".": {}, "f:a": {}}}}
    replaced = await world.call("PUT", f"{MAPS}/c?fieldManager=put", config_map(a="1", b="2"), headers=agent)
    assert managers(replaced.json)["put Update"] == {"f:data": {"f:b": {}}}
    for kind, patch in (
        ("merge-patch", {"data": {"c": "1"}}),
        ("strategic-merge-patch", {"data": {"d": "1"}}),
        ("json-patch", [{"op": "add", "path": "/data/e", "value": "1"}]),
    ):
        await world.patch(f"{MAPS}/c?fieldManager={kind}", patch, kind)
    found = managers(await world.get(f"{MAPS}/c"))
    assert found["merge-patch Update"] == {"f:data": {"f:c": {}}}
    assert found["strategic-merge-patch Update"] == {"f:data": {"f:d": {}}}
    assert found["json-patch Update"] == {"f:data": {"f:e": {}}}
    system = await world.get("/api/v1/namespaces/default/services/kubernetes")
    assert list(managers(system)) == ["kube-apiserver Update"]


async def test_what_admission_and_allocation_add_has_no_manager(world):
    await world.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "X"}}
    spec = managers(await world.create("/api/v1/namespaces/default/pods", pod))["unknown Update"]
    assert list(spec) == ["f:spec"]
    assert not {"f:volumes", "f:serviceAccountName", "f:priority"} & set(spec["f:spec"])
    container = spec["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert "f:imagePullPolicy" in container
    assert "f:volumeMounts" not in container
    bound = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    await world.create("/api/v1/namespaces/default/pods/p/binding", bound)
    assert managers(await world.get("/api/v1/namespaces/default/pods/p")) == {"unknown Update": spec}
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    created = await world.create("/api/v1/namespaces/default/services", service)
    assert set(managers(created)["unknown Update"]["f:spec"]) == {
        "f:internalTrafficPolicy",
        "f:ports",
        "f:sessionAffinity",
        "f:type",
    }


async def test_classes_that_admission_adds_have_no_manager(world):
    annotation = {"ingressclass.kubernetes.io/is-default-class": "true"}
    usual = {"metadata": {"name": "usual", "annotations": annotation}, "spec": {"controller": "example.com/a"}}
    await world.create("/apis/networking.k8s.io/v1/ingressclasses", usual)
    ingress = {"metadata": {"name": "i"}, "spec": {"defaultBackend": {"resource": {"kind": "A", "name": "b"}}}}
    created = await world.create("/apis/networking.k8s.io/v1/namespaces/default/ingresses", ingress)
    assert created["spec"]["ingressClassName"] == "usual"
    assert managers(created) == {"unknown Update": {"f:spec": {"f:defaultBackend": {".": {}, "f:resource": {}}}}}


async def test_an_event_has_the_managers_of_its_stored_form(world):
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "web"},
        "eventTime": "2026-11-21T03:48:41.000000Z",
        "reportingController": "example.com/a",
        "reportingInstance": "a-1",
        "action": "Run",
        "reason": "Ran",
        "type": "Normal",
        "note": "first",
    }
    created = await send_apply(world, f"{EVENTS}/e", event)
    assert (created.status, created.json["note"]) == (201, "first")
    fields = managers(created.json)["one Apply"]
    assert {"f:message", "f:involvedObject", "f:reportingComponent"} < set(fields)
    assert [entry["apiVersion"] for entry in created.json["metadata"]["managedFields"]] == ["v1"]
    series = {"count": 2, "lastObservedTime": "2026-11-21T03:49:41.000000Z"}
    changed = await send_apply(world, f"{EVENTS}/e", {**event, "series": series})
    assert (changed.status, changed.json["series"]) == (200, series)
    core = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "message": "second"}
    conflict = await send_apply(world, "/api/v1/namespaces/default/events/e", core, "two")
    assert conflict.json["message"] == 'Apply failed with 1 conflict: conflict with "one": .message'


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"message": "of core/v1"}, 400, ".message: field not declared in schema"),
        ({"type": "Odd"}, 422, "type: Invalid value"),
    ],
)
async def test_the_rules_of_the_newer_events_hold_for_applies(world, change, code, message):
    event = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, **change}
    answer = await send_apply(world, f"{EVENTS}/e", event)
    assert (answer.status, message in answer.json["message"]) == (code, True), answer.json
    assert (await world.call("GET", f"{EVENTS}/e")).status == 404


async def test_an_update_without_effect_writes_nothing(world):
    created = await world.create(MAPS, config_map(a="1"))
    world.clock.now += 60
    for url in (f"{MAPS}/c?fieldManager=other", f"{MAPS}/c"):
        assert (await world.call("PUT", url, config_map(a="1"))).json == created
    assert (await world.call("PUT", f"{MAPS}/c", created)).json == created


@pytest.mark.parametrize("reset", [[], [{}]])
async def test_a_reset_of_managed_fields(world, reset):
    await world.create(MAPS, config_map(a="1"))
    await world.patch(f"{MAPS}/c", {"metadata": {"managedFields": reset}})
    assert "managedFields" not in (await world.get(f"{MAPS}/c"))["metadata"]
    await world.patch(f"{MAPS}/c", {"data": {"a": "2"}})
    assert "managedFields" not in (await world.get(f"{MAPS}/c"))["metadata"]
    answer = await send_apply(world, f"{MAPS}/c", config_map(a="3"))
    assert 'conflict with "before-first-apply" using v1: .data.a' in answer.json["message"]


async def test_kubectls_migration_writes_managed_fields(world):
    created = await world.create(f"{MAPS}?fieldManager=kubectl-client-side-apply", config_map(a="1"))
    entry = {**created["metadata"]["managedFields"][0], "manager": "kubectl", "operation": "Apply"}
    patch = [
        {"op": "replace", "path": "/metadata/managedFields", "value": [entry]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": created["metadata"]["resourceVersion"]},
    ]
    assert (await world.patch(f"{MAPS}/c", patch, "json-patch")).status == 200
    answer = await send_apply(world, f"{MAPS}/c", config_map(b="1"), "kubectl")
    assert answer.json["data"] == {"b": "1"}
    assert (await world.patch(f"{MAPS}/c", patch, "json-patch")).status == 409


async def test_deletes_keep_the_managers(world):
    await send_apply(world, f"{MAPS}/c", {**config_map(a="1"), "metadata": {"name": "c", "finalizers": ["x/y"]}})
    deleted = (await world.call("DELETE", f"{MAPS}/c")).json
    assert managers(deleted)["one Apply"]["f:metadata"] == {"f:finalizers": {'v:"x/y"': {}}}


async def test_a_user_who_may_only_patch_cannot_create(world):
    answer = await send_apply(world, f"{MAPS}/c", config_map(a="1"), user=BOB)
    assert answer.status == 403


@pytest.mark.parametrize(
    ("change", "query", "code", "message"),
    [
        ({"kind": "Secret"}, "", 400, "invalid object type: /v1, Kind=Secret"),
        ({"apiVersion": None}, "", 400, "invalid object type: /, Kind=ConfigMap"),
        ({"metadata": {"managedFields": []}}, "", 400, "metadata.managedFields must be nil"),
        (
            {"metadata": {"name": "d"}},
            "",
            400,
            "the name of the object (d) does not match the name on the URL (c)",
        ),
        (
            {"metadata": {"name": "c", "resourceVersion": "v1"}},
            "",
            500,
            'strconv.ParseUint: parsing "v1": invalid syntax',
        ),
        (
            {"metadata": {"name": "c", "uid": "u"}},
            "",
            409,
            'Operation cannot be fulfilled on configmaps "c": uid mismatch: the provided object specified uid u, '
            "and no existing object was found",
        ),
        (
            {"data": {"a": 1}},
            "",
            400,
            "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .data.a: expected string, "
            "got &value.valueUnstructured{Value:1}",
        ),
        ({"binaryData": {"a": "%"}}, "", 400, "failed to convert new typed object to object: illegal base64"),
        ({}, "&dryRun=Some", 422, "dryRun: Unsupported value"),
    ],
)
async def test_refusals(world, change, query, code, message):
    answer = await send_apply(world, f"{MAPS}/c", {**config_map(a="1"), **change}, query=query)
    assert answer.status == code
    assert message in answer.json["message"]


@pytest.mark.parametrize(
    ("body", "query", "code", "message"),
    [
        (b"[]", "", 400, "error decoding YAML"),
        (b"a: [", "", 400, "error converting YAML to JSON"),
        (b"[" * 5000, "", 400, "max depth"),
        (
            b'{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1","a":"2"}}',
            "&fieldValidation=Strict",
            400,
            'error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 1: key "a"',
        ),
        (
            b'{\n "apiVersion": "v1",\n "kind": "ConfigMap",\n "data": {\n  "a": "1",\n  "a": "2"\n }\n}',
            "&fieldValidation=Strict",
            400,
            'unmarshal errors:\n  line 6: key "a" already set in map',
        ),
    ],
)
async def test_malformed_bodies(world, body, query, code, message):
    answer = await send_apply(world, f"{MAPS}/c", body, query=query)
    assert answer.status == code
    assert message in answer.json["message"]


async def test_duplicate_fields_are_a_warning(world, monkeypatch):
    monkeypatch.setattr(yaml_loader, "_MAX_EVENTS", 1)  # a bound for YAML, whose aliases can expand
    body = b'{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1","a":"2"}}'
    answer = await send_apply(world, f"{MAPS}/c", body)
    assert answer.status == 201
    assert "already set in map" in answer.header("warning")[0]


async def test_the_manager_is_required_and_checked(world):
    await world.create(MAPS, config_map(a="1"))
    answer = await send_apply(world, f"{MAPS}/c", config_map(a="1"), "")
    assert answer.json["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )
    answer = await world.patch(f"{MAPS}/c?force=true", {})
    assert answer.json["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch'
    )
    answer = await world.call("PUT", f"{MAPS}/c?fieldManager={'x' * 129}", config_map())
    assert answer.json["message"] == (
        'UpdateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes'
    )
    answer = await world.call("POST", f"{MAPS}?fieldManager=a%0Ab", config_map())
    assert answer.json["message"] == (
        'CreateOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "a\\nb": '
        "invalid character U+000A (at position 1)"
    )


async def test_cbor_is_not_supported(world):
    headers = {"content-type": "application/apply-patch+cbor"}
    answer = await world.call("PATCH", f"{MAPS}/c?fieldManager=x", b"\xa0", headers=headers)
    assert answer.status == 415
    assert answer.json["message"].endswith(
        "accepted media types include: application/json-patch+json, application/merge-patch+json, "
        "application/strategic-merge-patch+json, application/apply-patch+yaml"
    )
