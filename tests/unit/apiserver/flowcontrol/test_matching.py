"""FlowSchemas, seats and conditions: pure decisions."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.flowcontrol.dangling_condition import dangling, with_condition
from bridgehead.apiserver.flowcontrol.limits import Limits, plan_limits
from bridgehead.apiserver.flowcontrol.matching import compile_schema, in_order
from bridgehead.apiserver.http.request_info import parse_request
from bridgehead.apiserver.http.user import ANONYMOUS, User
from bridgehead.apiserver.resource import Resource, errors_of
from bridgehead.apiserver.resources.flowcontrol import (
    FLOW_SCHEMA_SPECS,
    FLOW_SCHEMAS,
    PRIORITY_LEVEL_SPECS,
    PRIORITY_LEVELS,
    SUGGESTED_FLOW_SCHEMA_SPECS,
    SUGGESTED_PRIORITY_LEVEL_SPECS,
)

SCHEMA_SPECS = {**FLOW_SCHEMA_SPECS, **SUGGESTED_FLOW_SCHEMA_SPECS}
LEVEL_SPECS = {**PRIORITY_LEVEL_SPECS, **SUGGESTED_PRIORITY_LEVEL_SPECS}
SCHEMAS = in_order([compile_schema({"metadata": {"name": name}, "spec": spec}) for name, spec in SCHEMA_SPECS.items()])

EVERYBODY = "system:authenticated"
ADMIN = User("admin", ("system:masters", EVERYBODY))
NODE = User("system:node:n1", ("system:nodes", EVERYBODY))
MANAGER = User("system:kube-controller-manager", (EVERYBODY,))
ACCOUNT = User("system:serviceaccount:team:bot", ("system:serviceaccounts", EVERYBODY))
DNS = User("system:serviceaccount:kube-system:coredns", ("system:serviceaccounts", EVERYBODY))
BOB = User("bob", (EVERYBODY,))
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"


@pytest.mark.parametrize(
    ("user", "method", "path", "schema", "flow"),
    [
        (ADMIN, "POST", "/api/v1/namespaces/d/pods", "exempt", ""),
        (ANONYMOUS, "GET", "/healthz", "probes", ""),
        (ANONYMOUS, "GET", "/healthz/ping", "global-default", "system:anonymous"),
        (ANONYMOUS, "GET", "/api/v1/nodes", "global-default", "system:anonymous"),
        (MANAGER, "PUT", LEASE, "system-leader-election", "system:kube-controller-manager"),
        (MANAGER, "DELETE", LEASE, "kube-controller-manager", "kube-system"),
        (MANAGER, "PUT", "/api/v1/namespaces/d/endpoints/web", "endpoint-controller", "system:kube-controller-manager"),
        (DNS, "GET", LEASE, "system-leader-election", DNS.name),
        (DNS, "GET", "/api/v1/services", "kube-system-service-accounts", ""),
        (NODE, "PATCH", "/api/v1/nodes/n1/status", "system-node-high", NODE.name),
        (NODE, "PATCH", "/api/v1/namespaces/d/pods/p/status", "system-nodes", NODE.name),
        (ACCOUNT, "GET", "/api/v1/namespaces/team/pods", "service-accounts", ACCOUNT.name),
        (BOB, "GET", "/version", "global-default", "bob"),
    ],
)
def test_requests_are_classified(user, method, path, schema, flow):
    info = parse_request(method, path, {})
    found = next(one for one in SCHEMAS if one.matches(user, info))
    assert (found.name, found.flow(user, info)) == (schema, flow)


def spec(**rule: object) -> dict[str, object]:
    return {"priorityLevelConfiguration": {"name": "l"}, "matchingPrecedence": 5, "rules": [rule]}


def urls(verb: str, url: str) -> dict[str, list[str]]:
    return {"verbs": [verb], "nonResourceURLs": [url]}


PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "pods/log"], "namespaces": ["a"]}
ALL_USERS = [{"kind": "User", "user": {"name": "*"}}]


@pytest.mark.parametrize(
    ("rule", "path", "expected"),
    [
        pytest.param({"resourceRules": [PODS]}, "/api/v1/namespaces/a/pods/p", True, id="resource"),
        pytest.param({"resourceRules": [PODS]}, "/api/v1/namespaces/a/pods/p/log", True, id="subresource"),
        pytest.param({"resourceRules": [PODS]}, "/api/v1/namespaces/a/pods/p/status", False, id="other subresource"),
        pytest.param({"resourceRules": [PODS]}, "/api/v1/namespaces/b/pods/p", False, id="other namespace"),
        pytest.param({"resourceRules": [PODS]}, "/apis/apps/v1/namespaces/a/pods/p", False, id="other group"),
        pytest.param({"resourceRules": [PODS]}, "/api/v1/pods/p", False, id="no namespace"),
        pytest.param({"resourceRules": [{**PODS, "clusterScope": True}]}, "/api/v1/pods/p", True, id="cluster scope"),
        pytest.param({"nonResourceRules": [urls("get", "/a/*")]}, "/a/b", True, id="prefix"),
        pytest.param({"nonResourceRules": [urls("get", "/a")]}, "/a/b", False, id="path"),
        pytest.param({"nonResourceRules": [urls("put", "*")]}, "/a", False, id="verb"),
        pytest.param({"nonResourceRules": [urls("*", "*")]}, "/api/v1/pods/p", False, id="no path"),
    ],
)
def test_rules(rule, path, expected):
    schema = compile_schema({"metadata": {"name": "s"}, "spec": spec(subjects=ALL_USERS, **rule)})
    assert schema.matches(BOB, parse_request("GET", path, {})) is expected


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ({"kind": "User", "user": {"name": "bob"}}, {"bob"}),
        ({"kind": "Group", "group": {"name": "*"}}, {"bob", ACCOUNT.name}),
        ({"kind": "Group", "group": {"name": "system:serviceaccounts"}}, {ACCOUNT.name}),
        ({"kind": "ServiceAccount", "serviceAccount": {"name": "bot", "namespace": "team"}}, {ACCOUNT.name}),
        ({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "team"}}, {ACCOUNT.name}),
        ({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "tea"}}, set()),
    ],
)
def test_subjects(subject, expected):
    rules = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    schema = compile_schema({"metadata": {"name": "s"}, "spec": spec(subjects=[subject], nonResourceRules=rules)})
    info = parse_request("GET", "/version", {})
    assert {user.name for user in (BOB, ACCOUNT) if schema.matches(user, info)} == expected


@pytest.mark.parametrize(
    ("resource", "specs"),
    [(FLOW_SCHEMAS, SCHEMA_SPECS), (PRIORITY_LEVELS, LEVEL_SPECS)],
    ids=["FlowSchema", "PriorityLevelConfiguration"],
)
def test_the_objects_of_a_new_cluster_are_valid_and_have_all_defaults(resource: Resource, specs):
    for name, one in specs.items():
        obj = {"metadata": {"name": name}, "spec": one}
        resource.strategy.default(obj)
        assert errors_of(resource.strategy.validate, obj) == []
        assert obj["spec"] == specs[name]


def test_seats_follow_shares():
    limits = plan_limits(LEVEL_SPECS, 600)
    assert limits["exempt"] == Limits(None)
    assert limits["catch-all"] == Limits(13, borrowable=587)
    assert limits["global-default"] == Limits(49, 128 * 50, 6 * 50, lendable=25, borrowable=551)
    assert limits["workload-low"].seats == 245
    assert plan_limits(PRIORITY_LEVEL_SPECS, 600)["catch-all"].seats == 600
    none = {"l": {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "limitResponse": {"type": "Reject"}}}}
    assert plan_limits(none)["l"].seats == 0
    limited = {"nominalConcurrencyShares": 1, "lendablePercent": 25, "borrowingLimitPercent": 50}
    (of_level,) = plan_limits({"l": {"type": "Limited", "limited": limited}}, 10).values()
    assert (of_level.lower, of_level.upper) == (7, 10)
    half = plan_limits({name: {"type": "Limited", "limited": limited} for name in "ab"}, 10)["a"]
    assert (half.lower, half.seats, half.upper) == (4, 5, 8)


def test_the_condition_of_a_schema():
    schema = {"metadata": {"name": "s"}, "spec": {}}
    found = with_condition(schema, dangling("l", exists=False), "T1")
    assert found is not None
    (condition,) = found["status"]["conditions"]
    assert (condition["status"], condition["reason"], condition["lastTransitionTime"]) == ("True", "NotFound", "T1")
    assert 'references the PriorityLevelConfiguration object named "l" but there is no such' in condition["message"]
    assert with_condition(found, dangling("l", exists=False), "T2") is None
    renamed = with_condition(found, dangling("m", exists=False), "T2")
    assert renamed is not None
    assert renamed["status"]["conditions"][0]["lastTransitionTime"] == "T1"
    changed = with_condition(found, dangling("l", exists=True), "T3")
    assert changed is not None
    assert changed["status"]["conditions"][0]["lastTransitionTime"] == "T3"
    assert changed["status"]["conditions"][0]["message"].endswith('named "l" and it exists')
