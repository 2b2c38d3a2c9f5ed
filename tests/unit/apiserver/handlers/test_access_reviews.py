"""Access reviews and rules reviews."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bridgehead.apiserver.http.user import User
from tests.unit.apiserver.world import World, open_world

RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
BOB = User("bob", ("system:authenticated",))
NODE1 = User("system:node:node1", ("system:nodes", "system:authenticated"))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


async def bind(world, role, *subjects, namespace="", kind="ClusterRole", name="b"):
    url = f"{RBAC}/namespaces/{namespace}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
    await world.create(
        url, {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role}, "subjects": list(subjects)}
    )


def user(name):
    return {"kind": "User", "name": name}


async def review(world, plural, spec, *, who=None, namespace=""):
    url = f"{AUTHORIZATION}/namespaces/{namespace}/{plural}" if namespace else f"{AUTHORIZATION}/{plural}"
    return (await world.call("POST", url, {"spec": spec}, **({"user": who} if who else {}))).json


async def test_access_reviews_give_decision_and_reason(world):
    await bind(world, "view", user("eve"), namespace="default")
    pods = {"verb": "get", "resource": "pods", "subresource": "log", "namespace": "default"}
    spec = {"resourceAttributes": pods, "user": "eve"}
    assert (await review(world, "subjectaccessreviews", spec))["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "b/default" of ClusterRole "view" to User "eve"',
    }
    elsewhere = spec | {"resourceAttributes": pods | {"namespace": "other"}}
    assert (await review(world, "subjectaccessreviews", elsewhere))["status"] == {"allowed": False}
    by_group = {"nonResourceAttributes": {"path": "/apis", "verb": "get"}, "groups": ["system:authenticated"]}
    assert (await review(world, "subjectaccessreviews", by_group))["status"]["allowed"]
    answer = await review(world, "localsubjectaccessreviews", spec, namespace="default")
    assert (answer["metadata"], answer["status"]["allowed"]) == ({"namespace": "default"}, True)
    own = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    assert (await review(world, "selfsubjectaccessreviews", own, who=BOB))["status"] == {"allowed": False}
    # Administrators and anonymous users.
    assert (await review(world, "selfsubjectaccessreviews", own))["status"] == {"allowed": True}
    assert (
        await world.call("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": own}, user=None)
    ).status == 403
    assert (await review(world, "subjectaccessreviews", spec, who=BOB))["code"] == 403


PODS = {"verb": "get", "resource": "pods"}
PATH = {"verb": "get", "path": "/x"}


@pytest.mark.parametrize(
    ("plural", "spec", "errors"),
    [
        ("selfsubjectaccessreviews", {}, [
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes "
            "must be specified"]),
        ("selfsubjectaccessreviews", {"resourceAttributes": PODS, "nonResourceAttributes": PATH}, [
            'spec.nonResourceAttributes: Invalid value: {"verb":"get","path":"/x"}: cannot be specified in combination '
            "with resourceAttributes"]),
        ("subjectaccessreviews", {"resourceAttributes": PODS}, [
            'spec.user: Invalid value: "": at least one of user or group must be specified']),
        ("localsubjectaccessreviews", {"resourceAttributes": PODS | {"namespace": "a"}, "user": "u"}, [
            'spec.resourceAttributes.namespace: Invalid value: "a": must match metadata.namespace']),
        ("localsubjectaccessreviews", {"nonResourceAttributes": PATH, "user": "u"}, [
            'spec.nonResourceAttributes: Invalid value: {"verb":"get","path":"/x"}: disallowed on this kind of '
            "request"]),
        ("selfsubjectaccessreviews", {"resourceAttributes": PODS | {"labelSelector": {}}}, [
            "spec.resourceAttributes.labelSelector.requirements: Required value: when "
            "spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required"]),
        ("selfsubjectaccessreviews", {"resourceAttributes": PODS | {"fieldSelector": {
            "rawSelector": "a=b", "requirements": [{"key": "a", "operator": "Exists"}]}}}, [
            'spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: "a=b": may not specified at the same '
            "time as requirements"]),
    ],
)  # fmt: skip
async def test_invalid_reviews_are_refused(world, plural, spec, errors):
    answer = await review(world, plural, spec, namespace="default" if plural.startswith("local") else "")
    assert answer["code"] == 422, answer
    assert answer["message"].startswith('.authorization.k8s.io "" is invalid: ')
    assert "kind" not in answer["details"]
    assert [f"{cause['field']}: {cause['message']}" for cause in answer["details"]["causes"]] == errors


@pytest.mark.parametrize(
    ("plural", "why"),
    [("subjectaccessreviews", "must be empty"), ("localsubjectaccessreviews", "must be empty except for namespace")],
)
async def test_a_review_has_no_metadata(world, plural, why):
    namespace = "/namespaces/default" if plural.startswith("local") else ""
    body = {"metadata": {"name": "x"}, "spec": {"user": "u", "resourceAttributes": PODS | {"namespace": "default"}}}
    answer = await world.call("POST", f"/apis/authorization.k8s.io/v1{namespace}/{plural}", body)
    assert answer.status == 422
    [cause] = answer.json["details"]["causes"]
    assert cause == {
        "field": "metadata",
        "message": f'Invalid value: {{"name":"x"}}: {why}',
        "reason": "FieldValueInvalid",
    }


async def test_rules_reviews_list_the_rules_of_a_namespace(world):
    await bind(world, "system:kube-dns", user("bob"), namespace="default")
    status = (await review(world, "selfsubjectrulesreviews", {"namespace": "default"}, who=BOB))["status"]
    services = {"verbs": ["list", "watch"], "apiGroups": [""], "resources": ["endpoints", "services"]}
    assert services in status["resourceRules"]
    assert any("/apis/*" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
    assert status["incomplete"] is False
    status = (await review(world, "selfsubjectrulesreviews", {"namespace": "other"}, who=BOB))["status"]
    assert services not in status["resourceRules"]
    assert (await review(world, "selfsubjectrulesreviews", {}))["message"] == "no namespace on request"
    await bind(world, "absent", user("system:node:node1"), user("bob"), namespace="default", kind="Role", name="c")
    status = (await review(world, "selfsubjectrulesreviews", {"namespace": "default"}, who=BOB))["status"]
    assert (status["incomplete"], status["evaluationError"]) == (
        False,
        'role.rbac.authorization.k8s.io "absent" not found',
    )
    status = (await review(world, "selfsubjectrulesreviews", {"namespace": "default"}, who=NODE1))["status"]
    assert (status["incomplete"], status["evaluationError"]) == (
        True,
        '[node authorizer does not support user rule resolution, role.rbac.authorization.k8s.io "absent" not found]',
    )
