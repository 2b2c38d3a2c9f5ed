"""Audit events of requests to an API server in this process."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bridgehead.apiserver.audit.audit_events import EventTooLarge, encode_line
from bridgehead.apiserver.audit.audit_policy import AuditPolicy
from bridgehead.apiserver.audit.auditor import Auditor
from bridgehead.apiserver.http.request import Response
from bridgehead.apiserver.http.request_info import parse_request
from bridgehead.apiserver.http.user import User
from tests.unit.apiserver.world import ADMIN, TABLE, World, open_world, signing_key

MAPS = "/api/v1/namespaces/default/configmaps"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
DEV = User("dev", ("system:authenticated",), "u1", {"scopes": ("a",)})
PROTOBUF = "application/vnd.kubernetes.protobuf"
TIME = "2026-11-21T03:48:41.000000Z"


class Lines:
    """A sink that keeps the events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def put(self, render: Callable[[], bytes]) -> None:
        line = render()
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        self.events.append(json.loads(line))

    def close(self) -> None: ...

    def take(self) -> list[dict[str, Any]]:
        taken, self.events = self.events, []
        return taken

    def one(self) -> dict[str, Any]:
        """The only event of stage ResponseComplete since the last call."""
        (event,) = [event for event in self.take() if event["stage"] == "ResponseComplete"]
        return event


@asynccontextmanager
async def audited(*rules: dict[str, Any], **more: Any) -> AsyncIterator[tuple[World, Lines]]:
    lines = Lines()
    policy = AuditPolicy({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **more})
    auditor = Auditor(policy, lines, clock=lambda: 1_795_232_921.0)  # type: ignore[arg-type]
    async with open_world(auditor=auditor) as world:
        yield world, lines


@pytest.fixture(scope="module")
def config_map() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"k": "v"}}


async def test_an_event_at_the_level_metadata(config_map):
    async with audited({"level": "Metadata"}) as (world, lines):
        headers = {
            "user-agent": "kubectl/v1.36",
            "x-forwarded-for": "192.0.2.1, junk",
            "content-type": "application/json",
        }
        answer = await world.call("POST", f"{MAPS}?fieldManager=x", config_map, headers=headers)
        received, complete = lines.take()
        (audit_id,) = answer.header("audit-id")
        common = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": audit_id,
            "requestURI": f"{MAPS}?fieldManager=x",
            "verb": "create",
            "user": {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]},
            "sourceIPs": ["192.0.2.1"],
            "userAgent": "kubectl/v1.36",
            "requestReceivedTimestamp": TIME,
            "stageTimestamp": TIME,
        }
        reference = {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"}
        assert received == common | {"stage": "RequestReceived", "objectRef": reference}
        assert complete == common | {
            "stage": "ResponseComplete",
            "objectRef": reference | {"name": "one"},
            "responseStatus": {"metadata": {}, "code": 201},
            "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
        }


async def test_bodies_by_level(config_map):
    rules = [
        {"level": "Request", "verbs": ["create"]},
        {"level": "RequestResponse", "verbs": ["update", "patch", "delete", "get", "list"]},
    ]
    async with audited(*rules, omitStages=["RequestReceived"]) as (world, lines):
        await world.call("POST", MAPS, config_map)
        event = lines.one()
        assert event["requestObject"] == config_map, "as sent, without defaults"
        assert "responseObject" not in event
        sent = {**config_map, "metadata": {"name": "one", "labels": {"a": "b"}}}
        updated = await world.call(
            "PUT", f"{MAPS}/one", json.dumps(sent).encode(), headers={"content-type": "application/yaml"}
        )
        event = lines.one()
        assert event["requestObject"] == sent
        assert event["responseObject"] == updated.json
        await world.patch(f"{MAPS}/one", {"data": {"k": "w"}})
        assert lines.one()["requestObject"] == {"data": {"k": "w"}}
        for headers in ({}, {"accept": PROTOBUF}, {"accept-encoding": "gzip"}):
            await world.call("GET", f"{MAPS}/one", headers=headers)
            assert lines.one()["responseObject"]["data"] == {"k": "w"}, headers
        await world.call("GET", MAPS, headers={"accept": TABLE})
        assert lines.one()["responseObject"]["kind"] == "Table"
        await world.call("DELETE", f"{MAPS}/one", {"propagationPolicy": "Background"})
        event = lines.one()
        assert event["requestObject"] == {"propagationPolicy": "Background"}
        assert event["responseStatus"] == {
            "metadata": {},
            "status": "Success",
            "details": event["responseObject"]["details"],
            "code": 200,
        }
        await world.call("GET", "/version")
        assert "responseObject" not in lines.one(), "only of resources"


async def test_a_body_in_protobuf(config_map):
    async with audited({"level": "RequestResponse"}) as (world, lines):
        await world.call("POST", MAPS, config_map)
        got = await world.call("GET", f"{MAPS}/one", headers={"accept": PROTOBUF})
        lines.take()
        assert (await world.call("PUT", f"{MAPS}/one", got.body, headers={"content-type": PROTOBUF})).status == 200
        event = lines.one()
        assert event["requestObject"]["data"] == {"k": "v"}
        assert event["objectRef"]["uid"] == event["requestObject"]["metadata"]["uid"]


@pytest.mark.parametrize("accept", ["application/json", TABLE])
async def test_managed_fields_are_left_out_if_wanted(accept, config_map):
    async with audited({"level": "RequestResponse", "omitManagedFields": True}) as (world, lines):
        await world.call("POST", MAPS, config_map)
        for url in (f"{MAPS}/one", MAPS):
            answer = await world.call("GET", f"{url}?includeObject=Object", headers={"accept": accept})
            assert b"managedFields" in answer.body
        assert "managedFields" not in json.dumps(lines.take())


async def test_a_refusal_shows_its_status(config_map):
    async with audited({"level": "Metadata"}) as (world, lines):
        for headers in ({}, {"accept": PROTOBUF}):
            await world.call("GET", f"{MAPS}/none", headers=headers)
            assert lines.one()["responseStatus"] == {
                "metadata": {},
                "status": "Failure",
                "message": 'configmaps "none" not found',
                "reason": "NotFound",
                "details": {"name": "none", "kind": "configmaps"},
                "code": 404,
            }
        await world.call("GET", f"{MAPS}/one", user=DEV)
        event = lines.one()
        assert event["user"] == {
            "username": "dev",
            "uid": "u1",
            "groups": ["system:authenticated"],
            "extra": {"scopes": ["a"]},
        }
        assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"
        assert event["responseStatus"]["code"] == 403


async def test_a_role_is_the_reason_of_a_decision():
    async with audited({"level": "Metadata"}) as (world, lines):
        await world.call("GET", "/version", user=DEV)
        assert lines.one()["annotations"]["authorization.k8s.io/reason"].startswith(
            "RBAC: allowed by ClusterRoleBinding"
        )


async def test_impersonation_shows_both_users():
    async with audited({"level": "Metadata"}) as (world, lines):
        await world.call("GET", "/version", headers={"impersonate-user": "eve", "impersonate-group": "ops"})
        event = lines.one()
        assert event["user"]["username"] == ADMIN.name
        assert event["impersonatedUser"] == {"username": "eve", "groups": ["ops", "system:authenticated"]}


async def test_a_request_that_is_not_authenticated():
    async with audited({"level": "Metadata"}) as (world, lines):
        await world.call("GET", MAPS, user=None, headers={"authorization": "Bearer wrong"})
        (event,) = lines.take()
        assert (event["stage"], event["user"]) == ("ResponseStarted", {})
        assert event["responseStatus"]["code"] == 401
        assert event["responseStatus"]["reason"] == "Unauthorized"


async def test_a_watch_has_three_stages():
    async with audited({"level": "Metadata"}) as (world, lines):
        watching = await world.watch(MAPS)
        assert [event["stage"] for event in lines.events] == ["RequestReceived", "ResponseStarted"]
        await watching.leave()
        received, started, complete = lines.take()
        assert (received["verb"], complete["stage"]) == ("watch", "ResponseComplete")
        assert started["responseStatus"] == complete["responseStatus"] == {"metadata": {}, "code": 200}


async def test_an_upgraded_connection_starts_once():
    """A proxy reports the start when it takes the connection, the application when the connection has ended."""
    lines = Lines()
    policy = AuditPolicy({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]})
    auditor = Auditor(policy, lines)  # type: ignore[arg-type]
    path = "/api/v1/namespaces/default/services/web/proxy/chat"
    scope = {"path": path, "query_string": b""}
    trail = auditor.begin(parse_request("GET", path, {}), ADMIN, scope, {}, b"id", {})
    trail.start(101)
    assert [event["stage"] for event in lines.take()] == ["RequestReceived", "ResponseStarted"]
    trail.answer(Response(101, is_long_running=True), {})
    trail.start(101)
    trail.complete()
    (complete,) = lines.take()
    assert (complete["stage"], complete["responseStatus"]["code"]) == ("ResponseComplete", 101)


async def test_an_error_of_the_server_is_a_panic(monkeypatch):
    async with audited({"level": "Metadata"}) as (world, lines):

        def fail(*_: object) -> None:
            raise LookupError("oh")

        monkeypatch.setattr(world.parts.registry, "get", fail)
        assert (await world.call("GET", f"{MAPS}/one")).status == 500
        event = lines.take()[-1]
        assert event["stage"] == "Panic"
        assert event["responseStatus"]["message"] == "APIServer panic'd: oh"


async def test_the_clients_audit_id_is_kept():
    async with audited({"level": "Metadata"}) as (world, lines):
        answer = await world.call("GET", "/version", headers={"audit-id": "mine"})
        assert answer.header("audit-id") == ["mine"]
        assert lines.one()["auditID"] == "mine"


async def test_annotations_of_admission():
    async with audited({"level": "Metadata", "verbs": ["create"]}) as (world, lines):
        labels = {"pod-security.kubernetes.io/enforce": "baseline"}
        await world.create("/api/v1/namespaces", {"metadata": {"name": "strict", "labels": labels}})
        await world.call("POST", "/api/v1/namespaces/strict/serviceaccounts", {"metadata": {"name": "default"}})
        lines.take()
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        await world.call("POST", "/api/v1/namespaces/strict/pods", pod)
        assert lines.one()["annotations"]["pod-security.kubernetes.io/enforce-policy"] == "baseline:latest"


async def test_a_connection_has_the_annotations_of_admission():
    """The handshake of exec is refused, because the pod has no node; its policy has annotated the event before."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"], "operations": ["CONNECT"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "auditAnnotations": [{"key": "command", "valueExpression": "object.command.join(' ')"}],
    }
    async with audited({"level": "Metadata", "resources": [{"group": "", "resources": ["pods/exec"]}]}) as (
        world,
        lines,
    ):
        await world.create(POLICIES, {"metadata": {"name": "shells"}, "spec": spec})
        binding = {"policyName": "shells", "validationActions": ["Audit"]}
        await world.create(BINDINGS, {"metadata": {"name": "shells"}, "spec": binding})
        await world.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        await world.create("/api/v1/namespaces/default/pods", pod)
        url = "/api/v1/namespaces/default/pods/p/exec?command=ls&command=-l"
        assert (await world.call("GET", url)).status == 400
        received, started, complete = lines.take()
        assert [event["stage"] for event in (received, started, complete)] == [
            "RequestReceived",
            "ResponseStarted",
            "ResponseComplete",
        ]
        assert complete["annotations"]["shells/command"] == "ls -l"
        assert complete["responseStatus"]["code"] == 400
        assert complete["responseStatus"]["message"] == "pod p does not have a host assigned"


async def test_large_events_lose_their_bodies(config_map):
    lines = Lines()
    rules = [{"level": "Request", "verbs": ["create"]}]
    policy = AuditPolicy({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules})
    auditor = Auditor(policy, lines, max_event_bytes=2000)  # type: ignore[arg-type]
    async with open_world(auditor=auditor) as world:
        lines.take()
        await world.create(MAPS, config_map)
        assert lines.one()["requestObject"]["data"] == {"k": "v"}
        await world.create(MAPS, {**config_map, "metadata": {"name": "two"}, "data": {"k": "x" * 3000}})
        event = lines.one()
        assert "requestObject" not in event
        assert event["annotations"]["audit.k8s.io/truncated"] == "true"
        assert event["objectRef"]["name"] == "two"
    with pytest.raises(EventTooLarge, match="bytes without its bodies"):
        encode_line({"auditID": "a", "requestURI": "x" * 100}, 100)


async def test_nothing_is_written_at_the_level_none(config_map):
    async with audited({"level": "None", "users": [ADMIN.name]}, {"level": "Metadata"}) as (world, lines):
        answer = await world.call("POST", MAPS, config_map)
        assert answer.header("audit-id")
        assert lines.take() == []


async def test_a_large_list_is_shown(config_map):
    async with audited({"level": "RequestResponse", "verbs": ["list"]}) as (world, lines):
        for number in range(30):
            big = {**config_map, "metadata": {"name": f"m{number}"}, "data": {"k": "x" * 20_000}}
            await world.create(MAPS, big)
        for headers in ({}, {"accept-encoding": "gzip"}):
            await world.call("GET", MAPS, headers=headers)
            assert len(lines.one()["responseObject"]["items"]) == 30


async def test_without_a_policy_each_answer_has_an_id():
    async with open_world() as world:
        first, second = [(await world.call("GET", "/version")).header("audit-id") for _ in range(2)]
        assert all(uuid.UUID(one[0]).version == 4 for one in (first, second))
        assert first != second


ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
NOTES = "authentication.k8s.io/"


def noted(event: dict[str, Any]) -> dict[str, str]:
    """Return the annotations about the credential."""
    return {key: value for key, value in event["annotations"].items() if key.startswith("authentication.")}


async def test_events_have_annotations_about_credentials():
    async with audited({"level": "Metadata"}) as (world, lines):
        account = await world.create(ACCOUNTS, {"metadata": {"name": "default"}})
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await world.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
        lines.take()
        bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
        asked = {"spec": {"expirationSeconds": 3607, "boundObjectRef": bound}}
        token = (await world.create(f"{ACCOUNTS}/default/token", asked))["status"]["token"]
        issued = noted(lines.one())["authentication.kubernetes.io/issued-credential-id"]

        async def use(token: str) -> tuple[dict[str, Any], list[str]]:
            headers = {"authorization": f"Bearer {token}"}
            answer = await world.call("GET", "/api", user=None, headers=headers)
            return lines.one(), answer.header("warning")

        event, _ = await use(token)
        assert event["user"]["extra"]["authentication.kubernetes.io/credential-id"] == [issued]
        assert noted(event) == {}
        world.clock.now += 3700
        event, _ = await use(token)
        stale = "subject: system:serviceaccount:default:default, seconds after warning threshold: 93"
        assert noted(event) == {f"{NOTES}stale-token": stale}

        claims = {
            "iss": "kubernetes/serviceaccount",
            "kubernetes.io/serviceaccount/namespace": "default",
            "kubernetes.io/serviceaccount/secret.name": "legacy",
            "kubernetes.io/serviceaccount/service-account.name": "default",
            "kubernetes.io/serviceaccount/service-account.uid": account["metadata"]["uid"],
            "sub": "system:serviceaccount:default:default",
        }
        token = signing_key().sign(claims)
        metadata = {"name": "legacy", "annotations": {"kubernetes.io/service-account.name": "default"}}
        data = {"token": base64.b64encode(token.encode()).decode()}
        secret = {"metadata": metadata, "type": "kubernetes.io/service-account-token", "data": data}
        await world.create("/api/v1/namespaces/default/secrets", secret)
        lines.take()
        event, warnings = await use(token)
        assert (noted(event), warnings) == ({f"{NOTES}legacy-token-manual-secret": "legacy"}, [])
        await world.patch(f"{ACCOUNTS}/default", {"secrets": [{"name": "legacy"}]})
        lines.take()
        event, warnings = await use(token)
        assert noted(event) == {f"{NOTES}legacy-token-autogenerated-secret": "legacy"}
        assert warnings[0].startswith('299 - "Use tokens from the TokenRequest API or manually created')
        refused = await world.call("GET", MAPS, user=None, headers={"authorization": f"Bearer {token}"})
        assert (refused.status, refused.header("warning")) == (403, warnings)
        labels = {"kubernetes.io/legacy-token-invalid-since": "2026-11-21"}
        await world.patch("/api/v1/namespaces/default/secrets/legacy", {"metadata": {"labels": labels}})
        lines.take()
        await world.call("GET", "/api", user=None, headers={"authorization": f"Bearer {token}"})
        (event,) = lines.take()
        assert noted(event) == {f"{NOTES}legacy-token-invalidated": "legacy/default"}


async def test_events_mark_requests_of_deprecated_versions():
    async with audited({"level": "Metadata"}) as (world, lines):
        await world.call("GET", "/api/v1/namespaces/default/endpoints")
        assert lines.one()["annotations"]["k8s.io/deprecated"] == "true"
        await world.call("GET", MAPS)
        assert "k8s.io/deprecated" not in lines.one()["annotations"]
