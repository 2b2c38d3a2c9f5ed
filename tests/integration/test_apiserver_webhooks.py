"""Admission webhooks: a whole API server, called by ASGI, and a real HTTPS server that it asks.

The cases are those of Kubernetes' test/e2e/apimachinery/webhook.go, and webhooks that break the rules.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.apiserver.http.user import User
from bridgehead.storage import Facts, Key
from tests.unit.apiserver.customresources.definitions import crontab, define, definition, version
from tests.unit.apiserver.customresources.definitions import url as crontabs_url
from tests.unit.apiserver.world import Answer, World, open_world

from .api_world import hold_port
from .webhook_server import WebhookServer, allow, deny, http, patch, respond, webhook_server

pytestmark = [pytest.mark.integration]

KINDS = "/apis/admissionregistration.k8s.io/v1"
DEFAULT = "/api/v1/namespaces/default"
CONFIG_MAPS = f"{DEFAULT}/configmaps"
ANY = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
MAPS = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


class Cluster:
    """A server and its webhooks."""

    def __init__(self, world: World, hooks: WebhookServer) -> None:
        self.world = world
        self.hooks = hooks

    def hook(self, name: str, **settings: Any) -> dict[str, Any]:
        """Return a webhook `NAME.example.com` that the server asks at /NAME."""
        made = {
            "name": f"{name}.example.com",
            "clientConfig": self.hooks.client_config(f"/{name}"),
            "rules": [MAPS],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30,
        }
        return {**made, **settings}

    async def register(self, kind: str, *hooks: dict[str, Any], name: str = "test") -> None:
        plural = f"{kind}webhookconfigurations"
        await self.world.create(f"{KINDS}/{plural}", {"metadata": {"name": name}, "webhooks": list(hooks)})

    async def create(self, name: str = "a", *, url: str = CONFIG_MAPS, query: str = "", **fields: Any) -> Answer:
        metadata = {"name": name, **fields.pop("metadata", {})}
        return await self.world.call("POST", f"{url}{query}", {"metadata": metadata, **fields})

    def reviews(self, path: str = "") -> list[dict[str, Any]]:
        return [body["request"] for target, _, body in self.hooks.requests if target.startswith(path)]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with webhook_server() as hooks, open_world() as world:
        await world.create(f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "default"}})
        yield Cluster(world, hooks)


def pod(**spec: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i"}], **spec}


async def test_a_validating_webhook_denies_and_allows(cluster):
    cluster.hooks.handlers["/check"] = lambda review: (
        deny(review, message="the configmap contains unwanted key and value", code=403, reason="Forbidden")
        if "unwanted" in (review["request"]["object"] or {}).get("data", {})
        else allow(review, warnings=["be careful"], auditAnnotations={"key": "value"})
    )
    await cluster.register("validating", cluster.hook("check"))
    answer = await cluster.create(data={"unwanted": "x"})
    assert (answer.status, answer.json["reason"], answer.json["message"]) == (
        403,
        "Forbidden",
        'admission webhook "check.example.com" denied the request: the configmap contains unwanted key and value',
    )
    answer = await cluster.create()
    assert (answer.status, answer.header("warning")) == (201, ['299 - "be careful"'])
    # Updates, patches and applies are asked, too; the server checks what will be stored.
    stored = answer.json
    for change in ("PUT", "PATCH"):
        body = {**stored, "data": {"unwanted": "x"}}
        kind = {"PUT": "application/json", "PATCH": "application/merge-patch+json"}[change]
        answer = await cluster.world.call(change, f"{CONFIG_MAPS}/a", body, headers={"content-type": kind})
        assert answer.status == 403, answer.body
    (created,) = [one for one in cluster.reviews() if one["operation"] == "CREATE"][1:]
    assert created["object"]["metadata"]["uid"] == stored["metadata"]["uid"]
    assert created["oldObject"] is None
    updated = cluster.reviews()[-1]
    assert (updated["operation"], updated["oldObject"]["metadata"]["uid"]) == ("UPDATE", stored["metadata"]["uid"])
    # A configuration that is gone counts no more.
    url = f"{KINDS}/validatingwebhookconfigurations/test"
    assert (await cluster.world.call("DELETE", url)).status == 200
    assert (await cluster.create("b", data={"unwanted": "x"})).status == 201


async def test_the_review_describes_the_request(cluster):
    cluster.hooks.handlers["/check"] = allow
    await cluster.register("validating", cluster.hook("check", rules=[ANY]))
    await cluster.create(query="?fieldManager=me&dryRun=All")
    _, headers, review = cluster.hooks.requests[0]
    request = review["request"]
    assert (review["kind"], review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    assert headers["content-type"] == "application/json"
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    obj = request.pop("object")
    assert (obj["kind"], obj["apiVersion"], obj["metadata"]["name"]) == ("ConfigMap", "v1", "a")
    assert request == {
        "uid": request["uid"],
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "a",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]},
        "oldObject": None,
        "dryRun": True,
        "options": {
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": "me",
            "dryRun": ["All"],
        },
    }
    await cluster.create()
    await cluster.world.call("DELETE", f"{CONFIG_MAPS}/a")
    request = cluster.reviews()[-1]
    assert (request["operation"], request["object"], request["oldObject"]["kind"]) == ("DELETE", None, "ConfigMap")
    assert request["options"] == {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}


async def test_subresources_and_connections_are_asked_about_their_own_kinds(cluster):
    cluster.hooks.handlers["/check"] = lambda review: (
        deny(review, message="no attaching") if review["request"].get("subResource") == "attach" else allow(review)
    )
    await cluster.register("validating", cluster.hook("check", rules=[ANY]))
    await cluster.create("p", url=f"{DEFAULT}/pods", spec=pod())
    answer = await cluster.world.call("GET", f"{DEFAULT}/pods/p/attach?container=c&stdin=true")
    # As in Kubernetes, a denial without a code is a 400.
    assert (answer.status, answer.json["message"]) == (
        400,
        'admission webhook "check.example.com" denied the request: no attaching',
    )
    assert "reason" not in answer.json
    request = cluster.reviews()[-1]
    assert (request["operation"], request["options"], request["requestSubResource"]) == ("CONNECT", None, "attach")
    assert request["object"] == {"kind": "PodAttachOptions", "apiVersion": "v1", "stdin": True, "container": "c"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    url = "/apis/apps/v1/namespaces/default/deployments"
    await cluster.create("d", url=url, spec=spec)
    assert (await cluster.world.patch(f"{url}/d/scale", {"spec": {"replicas": 2}})).status == 200
    request = cluster.reviews()[-1]
    assert (request["kind"]["kind"], request["resource"]["resource"]) == ("Scale", "deployments")
    assert (request["object"]["spec"], request["oldObject"]["spec"]) == ({"replicas": 2}, {"replicas": 1})


async def test_a_mutation_of_a_connection_counts(cluster):
    cluster.hooks.handlers["/default"] = lambda review: patch(
        review, [{"op": "add", "path": "/container", "value": "missing"}]
    )
    rules = [{**MAPS, "operations": ["CONNECT"], "resources": ["pods/attach"]}]
    await cluster.register("mutating", cluster.hook("default", rules=rules))
    await cluster.create("p", url=f"{DEFAULT}/pods", spec=pod())
    answer = await cluster.world.call("GET", f"{DEFAULT}/pods/p/attach?container=c&stdin=true")
    assert (answer.status, answer.json["message"]) == (400, "container missing is not valid for pod p")


async def test_mutating_webhooks_patch_in_order(cluster):
    def stage(number: int):
        def answer(review):
            data = review["request"]["object"].get("data", {})
            if number > 1 and f"stage-{number - 1}" not in data:
                return allow(review)
            return patch(review, [{"op": "add", "path": f"/data/stage-{number}", "value": "yes"}])

        return answer

    cluster.hooks.handlers |= {"/one": stage(1), "/two": stage(2)}
    # Configurations are ordered by name.
    await cluster.register("mutating", cluster.hook("two"), name="b")
    await cluster.register("mutating", cluster.hook("one"), name="a")
    answer = await cluster.create(data={"start": "yes"})
    assert answer.json["data"] == {"start": "yes", "stage-1": "yes", "stage-2": "yes"}
    # Fields that a webhook adds have no manager.
    (entry,) = answer.json["metadata"]["managedFields"]
    assert set(entry["fieldsV1"]["f:data"]) == {".", "f:start"}
    assert "uid" not in cluster.reviews("/one")[0]["object"]["metadata"]


async def test_defaults_are_set_after_a_mutation(cluster):
    containers = [{"op": "add", "path": "/spec/initContainers", "value": [{"name": "added", "image": "x"}]}]
    cluster.hooks.handlers["/init"] = lambda review: patch(review, containers)
    rules = [{**MAPS, "operations": ["CREATE"], "resources": ["pods"]}]
    await cluster.register("mutating", cluster.hook("init", rules=rules))
    made = (await cluster.create("p", url=f"{DEFAULT}/pods", spec=pod())).json
    (container,) = made["spec"]["initContainers"]
    assert (container["imagePullPolicy"], container["terminationMessagePolicy"]) == ("Always", "File")
    # The built-in plug-ins ran again: the new container has the token of the service account.
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == [
        "/var/run/secrets/kubernetes.io/serviceaccount"
    ]
    assert len(made["spec"]["volumes"]) == 1


async def test_webhooks_are_asked_again_after_a_change_if_they_want_it(cluster):
    def add(name: str):
        def answer(review):
            data = review["request"]["object"].get("data", {})
            count = int(data.get(name, "0")) + 1
            if count > 1:
                return allow(review)
            return patch(review, [{"op": "add", "path": f"/data/{name}", "value": str(count)}])

        return answer

    cluster.hooks.handlers |= {"/needed": add("needed"), "/never": add("never"), "/last": add("last")}
    hooks = [
        cluster.hook("needed", reinvocationPolicy="IfNeeded"),
        cluster.hook("never"),
        cluster.hook("last", reinvocationPolicy="IfNeeded"),
    ]
    await cluster.register("mutating", *hooks)
    assert (await cluster.create(data={"a": "b"})).status == 201
    # `never` and `last` changed the object after `needed` had seen it; nothing changed after `last`.
    assert [target.partition("?")[0] for target, _, _ in cluster.hooks.requests] == [
        "/needed",
        "/never",
        "/last",
        "/needed",
    ]
    assert "last" in cluster.reviews("/needed")[1]["object"]["data"]


async def test_a_mutation_of_an_update_keeps_to_the_rules_of_the_subresource(cluster):
    change = [
        {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}},
        {"op": "replace", "path": "/spec/type", "value": "NodePort"},
    ]
    cluster.hooks.handlers["/svc"] = lambda review: patch(review, change)
    rules = [{**MAPS, "operations": ["UPDATE"], "resources": ["services/status"]}]
    await cluster.register("mutating", cluster.hook("svc", rules=rules))
    await cluster.create("s", url=f"{DEFAULT}/services", spec={"ports": [{"port": 80}]})
    condition = {"type": "A", "status": "True", "lastTransitionTime": "2026-11-21T03:48:41Z", "reason": "B"}
    status = {"status": {"conditions": [{**condition, "message": ""}]}}
    answer = await cluster.world.patch(f"{DEFAULT}/services/s/status", status)
    assert answer.status == 200, answer.body
    stored = answer.json
    assert stored["spec"]["type"] == "ClusterIP"
    assert stored["status"]["conditions"][0]["type"] == "A"
    assert stored["metadata"]["labels"] == {"seen": "yes"}
    (request,) = cluster.reviews()
    assert (request["subResource"], request["object"]["status"]) == ("status", stored["status"])
    change.append({"op": "add", "path": "/metadata/uid", "value": "stolen"})
    refused = await cluster.world.patch(f"{DEFAULT}/services/s/status", status)
    assert (refused.status, refused.json["details"]["causes"][0]["field"]) == (422, "metadata.uid")


async def test_selectors_choose_namespaces_and_objects(cluster):
    cluster.hooks.handlers |= {"/ns": deny, "/obj": deny}
    not_exempt = {"matchExpressions": [{"key": "exempt", "operator": "DoesNotExist"}]}
    labelled = {"matchLabels": {"guarded": "yes"}}
    await cluster.register(
        "validating",
        cluster.hook("ns", namespaceSelector=not_exempt, rules=[{**MAPS, "resources": ["configmaps", "namespaces"]}]),
        cluster.hook("obj", objectSelector=labelled, namespaceSelector={"matchLabels": {"exempt": "yes"}}),
    )
    answer = await cluster.create()
    assert answer.json["message"] == 'admission webhook "ns.example.com" denied the request without explanation'
    # A Namespace is chosen by its own labels.
    assert (await cluster.create("free", url="/api/v1/namespaces")).status == 400
    labels = {"metadata": {"labels": {"exempt": "yes"}}}
    assert (await cluster.create("free", url="/api/v1/namespaces", **labels)).status == 201
    free = "/api/v1/namespaces/free/configmaps"
    guarded = {"metadata": {"labels": {"guarded": "yes"}}}
    assert (await cluster.create(url=free)).status == 201
    assert (await cluster.create("b", url=free, **guarded)).status == 400
    # The old object counts, too: a label can't be removed to escape the webhook.
    cluster.hooks.handlers["/obj"] = allow
    assert (await cluster.create("c", url=free, **guarded)).status == 201
    cluster.hooks.handlers["/obj"] = deny
    assert (await cluster.world.patch(f"{free}/c", {"metadata": {"labels": None}})).status == 400


async def test_configurations_of_webhooks_are_not_asked_about(cluster):
    cluster.hooks.handlers["/deny"] = deny
    cluster.hooks.handlers["/mutate"] = lambda review: patch(
        review, [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]
    )
    await cluster.register("validating", cluster.hook("deny", rules=[ANY]))
    await cluster.register("mutating", cluster.hook("mutate", rules=[ANY]))
    url = f"{KINDS}/mutatingwebhookconfigurations/test"
    assert (await cluster.world.patch(url, {"metadata": {"annotations": {"a": "b"}}})).status == 200
    assert (await cluster.world.call("DELETE", url)).status == 200
    assert (await cluster.world.call("DELETE", f"{KINDS}/validatingwebhookconfigurations/test")).status == 200
    assert cluster.hooks.requests == []


async def test_equivalent_resources_are_asked_about_in_the_version_of_the_rule(cluster):
    cluster.hooks.handlers |= {"/core": allow, "/exact": allow}
    core = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["events"]}
    await cluster.register("validating", cluster.hook("core", rules=[core]))
    change = [{"op": "add", "path": "/message", "value": "changed"}]
    cluster.hooks.handlers["/change"] = lambda review: patch(review, change)
    await cluster.register(
        "mutating", cluster.hook("change", rules=[core]), cluster.hook("exact", rules=[core], matchPolicy="Exact")
    )
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-11-21T03:48:41.000000Z",
        "reportingController": "example.com/me",
        "reportingInstance": "me-1",
        "action": "Did",
        "reason": "Because",
        "type": "Normal",
        "note": "first",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    }
    answer = await cluster.world.call("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert (answer.status, answer.json["note"]) == (201, "changed"), answer.body
    assert cluster.reviews("/exact") == []
    (request,) = cluster.reviews("/core")
    assert (request["resource"]["group"], request["requestResource"]["group"]) == ("", "events.k8s.io")
    assert (request["kind"]["group"], request["requestKind"]["group"]) == ("", "events.k8s.io")
    assert (request["object"]["apiVersion"], request["object"]["message"]) == ("v1", "changed")


async def test_a_dry_run_needs_a_webhook_without_side_effects(cluster):
    cluster.hooks.handlers["/check"] = allow
    await cluster.register("validating", cluster.hook("check", sideEffects="NoneOnDryRun"))
    assert (await cluster.create(query="?dryRun=All")).status == 201
    # Configurations that were stored by earlier versions may have side effects.
    old = {
        "metadata": {"name": "old"},
        "webhooks": [cluster.hook("old", sideEffects="Unknown", failurePolicy="Ignore")],
    }
    cluster.hooks.handlers["/old"] = allow
    await cluster.world.store.create(
        Key("validatingwebhookconfigurations.admissionregistration.k8s.io", "", "old"), old, Facts()
    )
    answer = await cluster.create(query="?dryRun=All")
    assert (answer.status, answer.json["message"]) == (
        400,
        'admission webhook "old.example.com" does not support dry run',
    )
    assert (await cluster.create()).status == 201


async def test_validating_webhooks_are_asked_at_once_and_all_are_waited_for(cluster):
    together = asyncio.Barrier(3)

    def answering(answer):
        async def wait(review):
            await together.wait()
            return answer(review)

        return wait

    cluster.hooks.handlers |= {
        "/one": answering(allow),
        "/two": answering(lambda review: deny(review, message="first")),
        "/three": answering(lambda review: deny(review, message="second")),
    }
    await cluster.register("validating", *(cluster.hook(name) for name in ("one", "two", "three")))
    answer = await cluster.create()
    assert answer.json["message"] == 'admission webhook "two.example.com" denied the request: first'
    # They are waited for once. Three times that are more than the request took, which would leave nothing of it.
    page = (await cluster.world.call("GET", "/metrics")).body.decode()
    own = re.findall(r'^apiserver_request_sli_duration_seconds_sum{.*resource="configmaps".*} (.*)', page, re.MULTILINE)
    assert [float(seconds) > 0 for seconds in own] == [True]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


PATCHES = (
    # what the webhook answers; why the call failed (None: no failure of the call); or the error of the request
    ("wrong uid", {"uid": "x", "allowed": True}, 'received invalid webhook response: expected response.uid="'),
    ("absent", None, "received invalid webhook response: webhook response was absent"),
    ("no type", {"allowed": True, "patch": "W10="}, "webhook returned response.patch but not response.patchType"),
    ("no patch", {"allowed": True, "patchType": "JSONPatch"}, "webhook returned response.patchType but not"),
    ("empty type", {"allowed": True, "patch": "W10=", "patchType": ""}, 'invalid response.patchType of ""'),
    ("not base64", {"allowed": True, "patch": "!", "patchType": "JSONPatch"}, "json: cannot unmarshal"),
    ("not bool", {"allowed": "yes"}, "json: cannot unmarshal"),
    ("a header", {"status": {"details": {"retryAfterSeconds": "1\r\nX: y"}}}, "json: cannot unmarshal"),
    ("not a list", {"allowed": True, "patch": encoded(b"{}"), "patchType": "JSONPatch"}, "undecodable"),
    ("not JSON", {"allowed": True, "patch": encoded(b"["), "patchType": "JSONPatch"}, "undecodable"),
    ("merge patch", {"allowed": True, "patch": encoded(b'[{"op":"test"}]'), "patchType": "MergePatch"}, "unsupported"),
)  # fmt: skip


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_invalid_answers_count_as_failed_calls(cluster, policy):
    await cluster.register("mutating", cluster.hook("bad", failurePolicy=policy))
    for name, response, why in PATCHES:

        def answer(review, response=response):
            if response is None:
                return {"apiVersion": review["apiVersion"], "kind": review["kind"]}
            return respond(review, **response)

        cluster.hooks.handlers["/bad"] = answer
        created = await cluster.create(name.replace(" ", "-").lower())
        if policy == "Ignore":
            assert created.status == 201, name
        else:
            message = created.json["message"]
            assert (created.status, created.json["reason"]) == (500, "InternalError"), name
            assert message.startswith('Internal error occurred: failed calling webhook "bad.example.com": '), message
            assert why in message


async def test_a_denial_is_an_error_whatever_its_code(cluster):
    await cluster.register("validating", cluster.hook("check"))
    for code, shown in ((200, 400), (-1, 400), (418, 418), (999, 400), (10**9, 400)):
        cluster.hooks.handlers["/check"] = lambda review, code=code: deny(review, message="no", code=code)
        answer = await cluster.create()
        assert (answer.status, answer.json["code"]) == (shown, shown), code
        assert answer.json["message"] == 'admission webhook "check.example.com" denied the request: no'


async def test_a_mutation_does_not_move_or_rename_an_object(cluster):
    renames = [{"op": "replace", "path": "/metadata/name", "value": "other"}]
    moves = [{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}]
    await cluster.create()
    await cluster.register("mutating", cluster.hook("bad"))
    cluster.hooks.handlers["/bad"] = lambda review: patch(review, moves)
    why = "the namespace of the provided object does not match the namespace sent on the request"
    for answer in (await cluster.create("b"), await cluster.world.patch(f"{CONFIG_MAPS}/a", {"data": {"a": "c"}})):
        assert (answer.status, answer.json["message"]) == (400, why)
    cluster.hooks.handlers["/bad"] = lambda review: patch(review, renames)
    answer = await cluster.world.patch(f"{CONFIG_MAPS}/a", {"data": {"a": "c"}})
    assert (answer.status, answer.json["message"]) == (
        422,
        'ConfigMap "a" is invalid: metadata.name: Invalid value: "other": field is immutable',
    )
    assert (await cluster.create("b")).json["metadata"]["name"] == "other"  # a new object may get any name


async def test_patches_that_break_the_object_are_errors_whatever_the_failure_policy(cluster):
    await cluster.register("mutating", cluster.hook("bad", failurePolicy="Ignore"))
    huge = [{"op": "add", "path": "/data", "value": {"a": "x" * 1000}}]
    huge += [{"op": "copy", "from": "/data", "path": f"/data{n}"} for n in range(9_999)]
    for operations in (
        [{"op": "replace", "path": "/data/missing", "value": "x"}],
        [{"op": "remove", "path": "/nothing"}],
        [{"op": "replace", "path": "", "value": []}],
        [{"op": "replace", "path": "/kind", "value": "Secret"}],
        [{"op": "replace", "path": "/metadata", "value": "x"}],
        [{"op": "add", "path": "/data", "value": {"a": 7}}],
        [{"op": "jump", "path": "/data"}],
        [{}],
        huge,
        [{"op": "add", "path": "/x", "value": 1}] * 10_001,
    ):
        cluster.hooks.handlers["/bad"] = lambda review, operations=operations: patch(review, operations)
        answer = await cluster.create()
        assert (answer.status, answer.json["reason"]) == (500, "InternalError"), (operations[0], answer.body)
    # A patch that leaves an object that is not valid: the object's validation refuses it.
    for operations, code in (
        ([{"op": "add", "path": "/metadata/labels", "value": {"!": "x"}}], 422),
        ([{"op": "remove", "path": "/metadata"}], 422),
        ([{"op": "add", "path": "/unknown", "value": "x"}], 201),
    ):
        cluster.hooks.handlers["/bad"] = lambda review, operations=operations: patch(review, operations)
        answer = await cluster.create()
        assert answer.status == code, answer.body
    # There is nothing to patch in a delete.
    answer = await cluster.world.call("DELETE", f"{CONFIG_MAPS}/a")
    assert answer.json["message"] == (
        'Internal error occurred: admission webhook "bad.example.com" attempted to modify the object, '
        "which is not supported for this operation"
    )


async def test_a_validating_webhook_may_not_patch(cluster):
    cluster.hooks.handlers["/bad"] = lambda review: patch(review, [{"op": "remove", "path": "/data"}])
    await cluster.register("validating", cluster.hook("bad"))
    assert "validating webhook may not return response.patch" in (await cluster.create()).json["message"]


async def test_v1beta1_reviews_are_understood(cluster):
    def answer(review):
        assert review["apiVersion"] == "admission.k8s.io/v1beta1"
        operations = base64.b64encode(json.dumps([{"op": "add", "path": "/data", "value": {"a": "b"}}]).encode())
        return {"response": {"allowed": True, "patch": operations.decode()}}

    cluster.hooks.handlers["/old"] = answer
    await cluster.register("mutating", cluster.hook("old", admissionReviewVersions=["v2", "v1beta1"]))
    assert (await cluster.create()).json["data"] == {"a": "b"}


async def test_failed_calls_are_bounded_and_follow_the_failure_policy(cluster):
    with hold_port() as held:
        port = held.getsockname()[1]
        closed = {"url": f"https://127.0.0.1:{port}/x", "caBundle": cluster.hooks.ca_bundle}
        fail = cluster.hook("fail", clientConfig=closed, rules=[{**MAPS, "resources": ["secrets"]}])
        ignored = cluster.hook("ignored", clientConfig=closed, failurePolicy="Ignore")
        await cluster.register("validating", fail, ignored)
        await cluster.register("mutating", ignored)
        assert (await cluster.create()).status == 201
        answer = await cluster.create("s", url=f"{DEFAULT}/secrets")
        assert answer.json["message"] == (
            'Internal error occurred: failed calling webhook "fail.example.com": failed to call webhook: '
            f'Post "https://127.0.0.1:{port}/x?timeout=30s": dial tcp 127.0.0.1:{port}: connect: connection refused'
        )
        (cause,) = answer.json["details"]["causes"]
        assert answer.json["message"] == f"Internal error occurred: {cause['message']}"
    metrics = (await cluster.world.call("GET", "/metrics")).body.decode()
    labels = 'name="fail.example.com",operation="CREATE",rejection_code="503",type="validating"'
    assert f'apiserver_admission_webhook_rejection_count{{error_type="calling_webhook_error",{labels}}} 1.0' in metrics
    for kind in ("admit", "validating"):
        counter = "apiserver_admission_webhook_fail_open_count"
        assert f'{counter}{{name="ignored.example.com",type="{kind}"}} 1.0' in metrics


@pytest.mark.slow
async def test_a_webhook_that_hangs_is_left_after_its_timeout(cluster):
    cluster.hooks.handlers["/hang"] = lambda review: None
    await cluster.register("validating", cluster.hook("hang", timeoutSeconds=1))
    answers = await asyncio.gather(cluster.create(), cluster.create("b", query="?dryRun=All"))
    for answer in answers:
        assert answer.status == 500
        assert answer.json["message"].endswith('/hang?timeout=1s": context deadline exceeded')


async def test_other_requests_are_answered_while_a_webhook_hangs(cluster):
    release = asyncio.Event()

    async def hang(review):
        await release.wait()
        return allow(review)

    cluster.hooks.handlers["/hang"] = hang
    await cluster.register("validating", cluster.hook("hang", rules=[{**MAPS, "resources": ["secrets"]}]))
    waiting = asyncio.create_task(cluster.create("s", url=f"{DEFAULT}/secrets"))
    async with asyncio.timeout(60):
        await cluster.hooks.called.wait()
        assert (await cluster.create()).status == 201
        release.set()
        assert (await waiting).status == 201


async def test_an_update_that_loses_a_race_asks_again(cluster):
    await cluster.create(data={"n": "0"})
    begun, release = asyncio.Event(), asyncio.Event()

    async def wait(review):
        if review["request"]["object"]["data"].get("slow") and not release.is_set():
            begun.set()
            await release.wait()
        return allow(review)

    cluster.hooks.handlers["/wait"] = wait
    await cluster.register("validating", cluster.hook("wait"))
    slow = asyncio.create_task(cluster.world.patch(f"{CONFIG_MAPS}/a", {"data": {"slow": "yes"}}))
    async with asyncio.timeout(60):
        await begun.wait()
        assert (await cluster.world.patch(f"{CONFIG_MAPS}/a", {"data": {"n": "1"}})).status == 200
        release.set()
        answer = await slow
    assert answer.json["data"] == {"n": "1", "slow": "yes"}
    assert len(cluster.reviews()) == 3
    assert cluster.reviews()[-1]["oldObject"]["data"] == {"n": "1"}


async def test_a_server_error_of_a_webhook_shows_in_the_answer(cluster):
    cluster.hooks.handlers["/bad"] = lambda review: http(500, b"panic: out of memory")
    await cluster.register("mutating", cluster.hook("bad"))
    assert (await cluster.create()).json["message"] == (
        'Internal error occurred: failed calling webhook "bad.example.com": failed to call webhook: '
        'an error on the server ("panic: out of memory") has prevented the request from succeeding'
    )


async def test_match_conditions_choose_requests(cluster):
    cluster.hooks.handlers["/add"] = lambda review: patch(
        review, [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]
    )
    conditions = [
        {"name": "not-skipped", "expression": "object.metadata.name != 'skip-me'"},
        {"name": "no-nodes", "expression": "!('system:nodes' in request.userInfo.groups)"},
        {"name": "creates", "expression": "request.operation == 'CREATE' && oldObject == null"},
        {"name": "may", "expression": "authorizer.requestResource.check('delete').allowed()"},
        {
            "name": "other",
            "expression": "!authorizer.serviceAccount('default', 'x').path('/healthz').check('put').allowed()",
        },
    ]
    await cluster.register("mutating", cluster.hook("add", matchConditions=conditions))
    assert (await cluster.create("skip-me")).json["metadata"].get("labels") is None
    assert (await cluster.create("other")).json["metadata"]["labels"] == {"seen": "yes"}
    bob = await cluster.world.call(
        "POST", CONFIG_MAPS, {"metadata": {"name": "b"}}, user=User("bob", ("system:masters",))
    )
    assert bob.json["metadata"]["labels"] == {"seen": "yes"}
    assert (await cluster.world.patch(f"{CONFIG_MAPS}/skip-me", {"data": {"a": "b"}})).status == 200
    assert len(cluster.reviews()) == 2


async def test_conditions_that_cannot_be_evaluated_follow_the_failure_policy(cluster):
    cluster.hooks.handlers["/deny"] = deny
    broken = [{"name": "data", "expression": "object.data.missing == 'x'"}]
    excluded = [*broken, {"name": "never", "expression": "request.operation == 'CONNECT'"}]
    for conditions, policy, code in ((broken, "Ignore", 201), (excluded, "Fail", 201), (broken, "Fail", 403)):
        hook = cluster.hook("deny", matchConditions=conditions, failurePolicy=policy)
        await cluster.register("validating", hook)
        answer = await cluster.create(query="?dryRun=All", data={"a": "b"})
        assert answer.status == code, answer.body
        await cluster.world.call("DELETE", f"{KINDS}/validatingwebhookconfigurations/test")
    assert answer.json["message"] == (
        "configmaps \"a\" is forbidden: expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
    )
    assert cluster.hooks.requests == []


async def test_conditions_that_do_not_compile_are_refused(cluster):
    url = f"{KINDS}/validatingwebhookconfigurations"
    for expression, why in (("object.", "compilation failed: ERROR: <input>:1:"), ("1 + 1", "must evaluate to bool")):
        hook = cluster.hook("a", matchConditions=[{"name": "x", "expression": expression}])
        answer = await cluster.world.call("POST", url, {"metadata": {"name": "a"}, "webhooks": [hook]})
        (cause,) = answer.json["details"]["causes"]
        assert (answer.status, cause["field"]) == (422, "webhooks[0].matchConditions[0].expression")
        assert why in cause["message"]


async def test_custom_resources_are_shown_in_the_version_of_the_rule(cluster):
    versions = version("v1beta1", storage=False), version("v1")
    await define(cluster.world, definition(*versions))
    rule = {
        "operations": ["CREATE"],
        "apiGroups": ["stable.example.com"],
        "apiVersions": ["v1"],
        "resources": ["crontabs"],
    }
    change = [{"op": "add", "path": "/spec/image", "value": "changed"}]
    cluster.hooks.handlers |= {"/change": lambda review: patch(review, change), "/see": allow}
    await cluster.register("mutating", cluster.hook("change", rules=[rule]))
    await cluster.register("validating", cluster.hook("see", rules=[rule]))
    answer = await cluster.world.call("POST", crontabs_url("v1beta1"), crontab(version="v1beta1"))
    assert (answer.status, answer.json["spec"]["image"]) == (201, "changed")
    assert answer.json["apiVersion"] == "stable.example.com/v1beta1"
    (request,) = cluster.reviews("/see")
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v1beta1")
    assert request["object"]["apiVersion"] == "stable.example.com/v1"
