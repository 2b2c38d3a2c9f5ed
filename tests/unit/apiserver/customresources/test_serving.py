"""Custom resources as clients see them: definition, instances, subresources, tables, deletion."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest

from bridgehead.apiserver.build import ApiSettings, build_api
from bridgehead.apiserver.resources import build_table
from bridgehead.storage import Facts, Key
from tests.unit.apiserver.world import TABLE, World, open_world, signing_key

from .definitions import (
    DEFINITIONS,
    NAME,
    SCALE,
    SCHEMA,
    SPEC,
    conditions,
    crontab,
    define,
    definition,
    redefine,
    until,
    url,
    version,
)

COLUMNS = [
    {"name": "Spec", "type": "string", "jsonPath": ".spec.cronSpec"},
    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
FULL = version(
    subresources={"status": {}, "scale": SCALE},
    additionalPrinterColumns=COLUMNS,
    selectableFields=[{"jsonPath": ".spec.image"}],
)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


async def test_a_definition_gets_its_defaults_and_is_established(world):
    await define(world, definition())
    crd = await world.get(f"{DEFINITIONS}/{NAME}")
    names = {"plural": "crontabs", "kind": "CronTab", "singular": "crontab", "listKind": "CronTabList"}
    assert crd["spec"]["names"] == crd["status"]["acceptedNames"] == names
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert crd["status"]["storedVersions"] == ["v1"]
    assert await conditions(world) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    table = (await world.call("GET", DEFINITIONS, headers={"accept": TABLE})).json
    assert [(c["name"], c["type"]) for c in table["columnDefinitions"]] == [("Name", "string"), ("Created At", "date")]
    assert table["rows"][0]["cells"] == [NAME, crd["metadata"]["creationTimestamp"]]


async def test_a_definition_with_an_invalid_ca_bundle_waits_for_a_valid_one(world):
    client = {"url": "https://127.0.0.1:1/", "caBundle": "bm90IFBFTQ=="}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    await world.create(DEFINITIONS, definition(conversion={"strategy": "Webhook", "webhook": webhook}))

    async def established() -> tuple[str, str] | None:
        return (await conditions(world)).get("Established")

    assert await until(established) == ("False", "InvalidCABundle")
    patch = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    assert (await world.patch(f"{DEFINITIONS}/{NAME}", patch)).status == 200

    async def is_established() -> bool:
        return await established() == ("True", "InitialNamesAccepted")

    await until(is_established)


async def test_objects_are_pruned_defaulted_and_validated(world):
    await define(world, definition())
    sent = crontab(spec={"cronSpec": "@daily", "imag": "typo"})
    answer = await world.call("POST", url(), sent)
    assert (answer.status, answer.json["spec"]) == (201, {"cronSpec": "@daily", "image": "busybox"})
    assert answer.header("warning") == ['299 - "unknown field \\"spec.imag\\""']
    strict = await world.call("POST", f"{url()}?fieldValidation=Strict", sent)
    assert strict.status == 400
    assert 'strict decoding error: unknown field "spec.imag"' in strict.json["message"]
    refused = await world.call("POST", url(), crontab("b", spec={"cronSpec": 5, "replicas": -1}))
    assert refused.status == 422
    assert refused.json["message"] == (
        'CronTab.stable.example.com "b" is invalid: [spec.cronSpec: Invalid value: "integer": spec.cronSpec in body '
        'must be of type string: "integer", spec.replicas: Invalid value: -1: spec.replicas in body should be greater '
        "than or equal to 0]"
    )
    assert (await world.call("POST", url(), crontab("Bad_Name"))).status == 422


async def test_clients_are_warned_of_tolerated_errors(world):
    """Rules that fail for what an update does not change, and finalizers without a domain."""
    image = {"type": "string", "default": "busybox"}
    await define(world, definition())
    await world.create(url(), crontab(metadata={"name": "a"}, spec={"cronSpec": "@daily", "image": "old"}))
    rule = {"rule": "self != 'old'", "message": "the image is old"}
    properties = {**SPEC["properties"], "image": {**image, "x-kubernetes-validations": [rule]}}
    schema = {**SCHEMA, "properties": {"spec": {**SPEC, "properties": properties}}}
    await redefine(world, definition(version(schema=schema, subresources={"status": {}})))
    changed = await world.patch(url(name="a"), {"spec": {"replicas": 1}})
    assert (changed.status, changed.header("warning")) == (
        200,
        ['299 - "spec.image: Invalid value: \\"old\\": the image is old"'],
    )
    refused = await world.call("POST", url(), crontab("b", spec={"cronSpec": "@daily", "image": "old"}))
    assert refused.status == 422
    await world.patch(url(name="a"), {"spec": {"image": "new"}})
    texts = (
        'metadata.finalizers: "plain": prefer a domain-qualified finalizer name to avoid '
        "accidental conflicts with other finalizer writers",
    )
    headers = ['299 - "' + text.replace('"', '\\"') + '"' for text in texts]
    finalized = await world.patch(url(name="a"), {"metadata": {"finalizers": ["plain", "example.com/x", "orphan"]}})
    assert finalized.header("warning") == headers
    assert (await world.patch(url(name="a"), {"metadata": {"labels": {"a": "b"}}})).header("warning") == []


async def test_writes_follow_the_rules_of_custom_resources(world):
    await define(world, definition())
    created = await world.create(url(), crontab())
    unconditional = await world.call("PUT", url(name="a"), crontab())
    assert unconditional.json["message"] == (
        'crontabs.stable.example.com "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for '
        "an update"
    )
    updated = await world.call("PUT", url(name="a"), {**created, "status": {"replicas": 1}})
    # Without the subresource, the status is a field as any other.
    assert (updated.json["status"], updated.json["metadata"]["generation"]) == ({"replicas": 1}, 2)
    strategic = await world.patch(url(name="a"), {"spec": {"replicas": 1}}, "strategic-merge-patch")
    assert strategic.status == 415
    assert strategic.json["message"].endswith("application/merge-patch+json, application/apply-patch+yaml")
    assert (await world.patch(url(name="a"), {"spec": {"replicas": 2}})).json["spec"]["replicas"] == 2
    with_finalizer = await world.patch(url(name="a"), {"metadata": {"finalizers": ["finalizer.example.com"]}})
    assert with_finalizer.status == 200
    protobuf = {"content-type": "application/vnd.kubernetes.protobuf"}
    assert (await world.call("POST", url(), b"k8s\x00", headers=protobuf)).status == 415
    assert (await world.call("GET", url(name="a/status"))).status == 404
    assert (await world.call("GET", "/apis/stable.example.com/v1/crontabs/a")).status == 404


async def test_apply_knows_the_lists_of_the_schema(world):
    ports = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
        },
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"ports": ports}}}}
    await define(world, definition(version(schema=schema)))

    async def apply(manager: str, *ports: dict[str, Any]) -> Any:
        return await world.call(
            "PATCH",
            f"{url(name='a')}?fieldManager={manager}",
            crontab(spec={"ports": list(ports)}),
            headers={"content-type": "application/apply-patch+yaml"},
        )

    assert (await apply("one", {"name": "a", "port": 1})).status == 201
    merged = await apply("two", {"name": "b", "port": 2})
    assert merged.json["spec"]["ports"] == [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    conflict = await apply("two", {"name": "a", "port": 3})
    assert conflict.status == 409
    assert conflict.json["details"]["causes"][0]["field"] == '.spec.ports[name="a"].port'
    (entry,) = [e for e in merged.json["metadata"]["managedFields"] if e["manager"] == "one"]
    assert entry["fieldsV1"] == {"f:spec": {"f:ports": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:port": {}}}}}
    unknown = await world.call(
        "PATCH",
        f"{url(name='a')}?fieldManager=one",
        crontab(spec={"nope": 1}),
        headers={"content-type": "application/apply-patch+yaml"},
    )
    assert unknown.status == 400
    assert ".spec.nope: field not declared in schema" in unknown.json["message"]


async def test_status_and_scale_are_subresources(world):
    await define(world, definition(FULL))
    created = await world.create(url(), crontab(spec={"cronSpec": "a"}, status={"replicas": 9}))
    assert "status" not in created
    missing = await world.call("GET", url(name="a/scale"))
    assert missing.json["message"] == (
        'Internal error occurred: the spec replicas field ".spec.replicas" does not exist'
    )
    scaled = await world.call("PATCH", url(name="a/scale"), {"spec": {"replicas": 3}}, headers=MERGE)
    assert scaled.json["spec"] == {"replicas": 3}
    sent = {"metadata": {"labels": {"a": "b"}}, "spec": {"image": "x"}, "status": {"replicas": 2, "selector": "a=b"}}
    status = await world.call("PATCH", url(name="a/status"), sent, headers=MERGE)
    # Only the status changes, and the generation counts changes of the rest.
    assert status.json["status"] == {"replicas": 2, "selector": "a=b"}
    assert status.json["spec"] == {"cronSpec": "a", "image": "busybox", "replicas": 3}
    assert "labels" not in status.json["metadata"]
    assert status.json["metadata"]["generation"] == 2
    scale = await world.get(url(name="a/scale"))
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "a=b"})
    managers = {(e["subresource"], *e["fieldsV1"]) for e in status.json["metadata"]["managedFields"][1:]}
    assert managers == {("scale", "f:spec"), ("status", "f:status")}
    refused = await world.call("PATCH", url(name="a/scale"), {"spec": {"replicas": -1}}, headers=MERGE)
    assert refused.status == 422
    put = await world.call("PUT", url(name="a"), {**status.json, "status": {"replicas": 7}})
    assert put.json["status"]["replicas"] == 2


MERGE = {"content-type": "application/merge-patch+json"}


async def test_lists_have_columns_selectors_and_names_of_the_definition(world):
    names = {"shortNames": ["ct"], "categories": ["all"], "listKind": "CronTabs"}
    await define(world, definition(FULL, names=names))
    await world.create(url(), crontab("a", spec={"cronSpec": "x", "replicas": 2}))
    await world.create(url(), crontab("b", spec={"cronSpec": "y", "image": "nginx"}))
    world.clock.now += 90
    table = (await world.call("GET", url(), headers={"accept": TABLE})).json
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Spec", "Replicas", "Age"]
    assert [row["cells"] for row in table["rows"]] == [["a", "x", 2, "90s"], ["b", "y", None, "90s"]]
    chosen = await world.get(f"{url()}?fieldSelector=spec.image=nginx")
    assert (chosen["kind"], [one["metadata"]["name"] for one in chosen["items"]]) == ("CronTabs", ["b"])
    unsupported = await world.call("GET", f"{url()}?fieldSelector=spec.cronSpec=x")
    assert unsupported.json["message"] == "field label not supported: spec.cronSpec"
    (entry, *_) = (await world.get("/apis/stable.example.com/v1"))["resources"]
    assert (entry["shortNames"], entry["categories"], entry["singularName"]) == (["ct"], ["all"], "crontab")


async def test_openapi_describes_the_resource_in_both_versions(world):
    await define(world, definition(FULL))
    answer = await world.get("/openapi/v3/apis/stable.example.com/v1")
    schema = answer["components"]["schemas"]["com.example.stable.v1.CronTab"]
    assert schema["properties"]["spec"]["properties"]["cronSpec"]["description"] == "When it runs."
    assert schema["x-kubernetes-group-version-kind"][0]["kind"] == "CronTab"
    path = answer["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}"]
    assert "application/strategic-merge-patch+json" not in path["patch"]["requestBody"]["content"]
    assert "com.example.stable.v1.CronTab" in (await world.get("/openapi/v2"))["definitions"]
    protobuf = {"accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    assert b"com.example.stable.v1.CronTab" in (await world.call("GET", "/openapi/v2", headers=protobuf)).body


async def test_values_that_look_like_references_do_not_break_openapi(world):
    reference = {"$ref": "#/$defs/unknown"}
    link = {"type": "object", "properties": {"$ref": {"type": "string"}}, "default": reference}
    choice = {"type": "object", "enum": [reference]}
    schema = {"type": "object", "properties": {"link": link, "$ref": {"type": "string"}, "choice": choice}}
    await define(world, definition(version(schema=schema)))
    for path in ("/openapi/v3/apis/stable.example.com/v1", "/openapi/v2"):
        answer = await world.get(path)
        schemas = answer["definitions"] if "definitions" in answer else answer["components"]["schemas"]
        assert schemas["com.example.stable.v1.CronTab"]["properties"]["link"]["default"] == reference
    protobuf = {"accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    assert (await world.call("GET", "/openapi/v2", headers=protobuf)).status == 200


async def test_a_definition_takes_its_instances_with_it(world):
    await define(world, definition())
    await world.create(url(), crontab("a"))
    held = crontab("b")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await world.create(url(), held)
    watch = await world.watch(f"{url()}?resourceVersion={world.store.revision}")
    deleted = (await world.call("DELETE", f"{DEFINITIONS}/{NAME}")).json
    assert deleted["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]

    async def is_waiting() -> bool:
        return (await conditions(world))["Terminating"] == ("True", "InstanceDeletionInProgress")

    await until(is_waiting)
    refused = await world.call("POST", url(), crontab("c"))
    assert (refused.status, refused.json["message"]) == (
        405,
        "create not allowed while custom resource definition is terminating",
    )
    assert (await watch.next())["object"]["metadata"]["name"] == "a"
    assert (await watch.next())["type"] == "MODIFIED"  # b waits for its finalizer
    assert (await world.patch(url(name="b"), {"metadata": {"finalizers": None}})).status == 200
    assert (await watch.next())["type"] == "DELETED"
    assert await watch.next() is None

    async def is_gone() -> bool:
        return (await world.call("GET", f"{DEFINITIONS}/{NAME}")).status == 404

    await until(is_gone)
    assert (await world.call("GET", url())).status == 404
    await define(world, definition())
    assert (await world.get(url()))["items"] == []


async def test_names_can_be_taken_only_once_and_become_free_again(world):
    await define(world, definition(names={"shortNames": ["ct"]}))
    await world.create(DEFINITIONS, definition(plural="cats", kind="CronTab", names={"shortNames": ["ct"]}))

    async def is_refused() -> bool:
        return (await conditions(world, "cats.stable.example.com")).get("NamesAccepted") == (
            "False",
            "ListKindConflict",
        )

    await until(is_refused)
    crd = await world.get(f"{DEFINITIONS}/cats.stable.example.com")
    assert crd["status"]["acceptedNames"] == {"plural": "cats", "kind": ""}
    assert (await conditions(world, "cats.stable.example.com"))["Established"] == ("False", "NotAccepted")
    assert (await world.call("GET", url(plural="cats"))).status == 404
    await world.call("DELETE", f"{DEFINITIONS}/{NAME}")

    async def is_served() -> bool:
        return (await world.call("GET", url(plural="cats"))).status == 200

    await until(is_served)
    assert (await conditions(world, "cats.stable.example.com"))["NamesAccepted"] == ("True", "NoConflicts")


async def test_stored_objects_follow_a_changed_schema(world):
    """Defaults and pruning apply to what is read from storage, as in Kubernetes."""
    loose = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"old": {"type": "string"}}}}}
    await define(world, definition(version(schema=loose)))
    await world.create(url(), crontab(spec={"old": "x"}))
    watch = await world.watch(f"{url()}?resourceVersion={world.store.revision}")
    await redefine(world, definition(names={"singular": "crontab", "listKind": "CronTabList"}))
    # The watch ends: it had the old schema.
    assert await watch.next() is None
    read = await world.get(url(name="a"))
    assert read["spec"] == {"image": "busybox"}
    assert (await world.get(url()))["items"][0]["spec"] == {"image": "busybox"}
    watch = await world.watch(url())
    assert (await watch.next())["object"]["spec"] == {"image": "busybox"}
    await world.patch(url(name="a"), {"spec": {"cronSpec": "a"}})
    assert (await watch.next())["object"]["spec"] == {"image": "busybox", "cronSpec": "a"}
    assert json.loads(world.store.list(NAME)[0].value)["spec"] == {"image": "busybox", "cronSpec": "a"}


async def test_definitions_of_the_store_are_served_from_the_first_request(world):
    await define(world, definition())
    await world.create(url(), crontab())
    table = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))
    again = World(build_api(table, world.store, ApiSettings(signing_key())), world.store, world.clock)
    assert [one["metadata"]["name"] for one in (await again.get(url()))["items"]] == ["a"]
    await again.parts.close()


async def test_a_protected_group_needs_an_approval(world):
    crd = definition(group="sigs.k8s.io")
    refused = await world.call("POST", DEFINITIONS, crd)
    assert refused.status == 422
    assert (
        "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups" in refused.json["message"]
    )
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    await define(world, crd)
    assert (await conditions(world, "crontabs.sigs.k8s.io"))["KubernetesAPIApprovalPolicyConformant"] == (
        "False",
        "UnapprovedAnnotation",
    )


async def test_a_schema_of_10000_levels_is_refused(world):
    depth = 10_000
    schema = '{"type":"object","properties":{"a":' * depth + '{"type":"string"}' + "}}" * depth
    body = json.dumps(definition(version(schema="SCHEMA"))).replace('"SCHEMA"', schema).encode()
    answer = await world.call("POST", DEFINITIONS, body, headers={"content-type": "application/json"})
    assert answer.status in (400, 422)
    assert (await world.get(DEFINITIONS))["items"] == []


async def test_the_status_of_a_definition_can_be_written(world):
    await define(world, definition())
    condition = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set by a test"}
    crd = await world.get(f"{DEFINITIONS}/{NAME}/status")
    crd["status"]["conditions"].append(condition)
    answer = await world.call("PUT", f"{DEFINITIONS}/{NAME}/status", crd)
    assert answer.status == 200
    assert answer.json["status"]["conditions"][-1] == condition | {"lastTransitionTime": None}
    assert (await world.call("GET", url())).status == 200
    assert answer.json["metadata"]["generation"] == 1


async def test_no_instance_outlives_its_definition(world):
    """Clients write while definitions are deleted and defined again."""
    stopping = asyncio.Event()
    answers: Counter[int] = Counter()

    async def write(number: int) -> None:
        for turn in count():
            if stopping.is_set():
                return
            name = f"n{number}-{turn}"
            created = await world.call("POST", url(), crontab(name))
            headers = {"content-type": "application/apply-patch+yaml"}
            applied = await world.call("PATCH", f"{url(name=name)}?fieldManager=x", crontab(name), headers=headers)
            patched = await world.patch(url(name=name), {"spec": {"image": "x"}})
            answers.update((created.status, applied.status, patched.status))
            await asyncio.sleep(0)

    writers = [asyncio.create_task(write(number)) for number in range(4)]

    async def is_gone() -> bool:
        return (await world.call("GET", f"{DEFINITIONS}/{NAME}")).status == 404

    async def are_written() -> bool:
        return len(world.store.list(NAME)) > 8

    for _ in range(3):
        await define(world, definition())
        await until(are_written)
        await world.call("DELETE", f"{DEFINITIONS}/{NAME}")
        await until(is_gone)
        assert world.store.list(NAME) == []
    stopping.set()
    await asyncio.gather(*writers)
    assert set(answers) <= {200, 201, 404, 405, 503}
    assert world.store.list(NAME) == []


async def test_a_definition_cannot_replace_what_kubernetes_has(world):
    backend = {"service": {"name": "a", "port": {"number": 1}}}
    ingress = {"metadata": {"name": "kept"}, "spec": {"defaultBackend": backend}}
    ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
    await world.create(ingresses, ingress)
    crd = definition(plural="ingresses", kind="Ingress", group="networking.k8s.io")
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    await define(world, crd)
    assert (await world.get(f"{ingresses}/kept"))["spec"]["defaultBackend"] == backend
    name = "ingresses.networking.k8s.io"
    await world.call("DELETE", f"{DEFINITIONS}/{name}")

    async def is_gone() -> bool:
        return (await world.call("GET", f"{DEFINITIONS}/{name}")).status == 404

    await until(is_gone)
    assert (await world.call("GET", f"{ingresses}/kept")).status == 200


async def test_a_definition_adds_only_versions_to_a_group_of_kubernetes(world):
    crd = definition(version("v1"), version("v7", storage=False), plural="routes", group="networking.k8s.io")
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    await define(world, crd)
    assert (await world.call("GET", "/apis/networking.k8s.io/v1/routes")).status == 404
    assert "routes" not in {one["name"] for one in (await world.get("/apis/networking.k8s.io/v1"))["resources"]}
    route = {"apiVersion": "networking.k8s.io/v7", "kind": "CronTab", "metadata": {"name": "a"}}
    await world.create("/apis/networking.k8s.io/v7/namespaces/default/routes", route)


async def test_a_broken_definition_in_the_store_leaves_the_others_alone(world, caplog):
    await define(world, definition())
    key = Key("customresourcedefinitions.apiextensions.k8s.io", "", "broken.example.com")
    served = {"conditions": [{"type": "Established", "status": "True"}]}
    await world.store.create(key, {"metadata": {"name": "broken.example.com"}, "status": served}, Facts())
    table = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))
    again = World(build_api(table, world.store, ApiSettings(signing_key())), world.store, world.clock)
    assert (await again.call("GET", url())).status == 200
    assert "cannot serve the CustomResourceDefinition broken.example.com" in caplog.text
    await define(world, definition(plural="tabs", kind="Tab"))
    assert (await world.call("GET", url(plural="tabs"))).status == 200
    await again.parts.close()


async def test_kind_and_version_of_an_instance_are_fields_of_it(world):
    await define(world, definition())
    await world.create(url(), crontab())
    nameless = {"metadata": {"name": "b"}}
    missing = 'Object \'Kind\' is missing in \'{"metadata": {"name": "b"}}\''
    answer = await world.call("POST", url(), nameless)
    head = f"the object provided is unrecognized (must be of type CronTab): {missing}"
    assert (answer.status, answer.json["message"].rpartition(" ({")[0]) == (400, head)
    for given in ("", "stable.example.com/"):
        answer = await world.call("POST", url(), {"kind": "CronTab", "apiVersion": given} | nameless)
        text = f"the API version in the data ({given}) does not match the expected API version (stable.example.com/v1)"
        assert (answer.status, answer.json["message"]) == (400, text)
    answer = await world.call("POST", url(), crontab("b") | {"kind": "Job"})
    text = 'Job.stable.example.com "b" is invalid: kind: Invalid value: "Job": must be CronTab'
    assert (answer.status, answer.json["message"]) == (422, text)
    answer = await world.patch(url(name="a"), {"kind": "Job"})
    assert (answer.status, answer.json["message"]) == (422, text.replace('"b"', '"a"'))
    answer = await world.patch(url(name="a"), {"apiVersion": "stable.example.com/v2"})
    text = 'apiVersion: Invalid value: "stable.example.com/v2": must be stable.example.com/v1'
    assert (answer.status, answer.json["message"]) == (422, f'CronTab.stable.example.com "a" is invalid: {text}')
    answer = await world.patch(url(name="a"), [{"op": "remove", "path": "/kind"}], "json-patch")
    assert answer.status == 422
    assert "Object 'Kind' is missing in" in answer.json["message"]


async def test_an_applied_null_is_kept_where_the_schema_allows_it(world):
    text = {"type": "string"}
    fields = {"kept": text | {"nullable": True}, "defaulted": text | {"default": "x"}, "dropped": text}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    await define(world, definition(version(schema=schema)))
    for values in (("1", "2", "3"), (None, None, None)):
        body = crontab(spec=dict(zip(fields, values, strict=True)))
        headers = {"content-type": "application/apply-patch+yaml"}
        answer = await world.call("PATCH", f"{url(name='a')}?fieldManager=a", body, headers=headers)
        assert answer.status in (200, 201)
    assert answer.json["spec"] == {"kept": None, "defaulted": "x"}
    (entry,) = answer.json["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {"f:kept": {}, "f:defaulted": {}, "f:dropped": {}}}
