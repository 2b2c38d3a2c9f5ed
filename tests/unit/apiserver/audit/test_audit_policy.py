"""Audit policies: which rule counts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.audit.audit_policy import AuditPolicy, InvalidPolicy, Level
from bridgehead.apiserver.http.request_info import parse_request
from bridgehead.apiserver.http.user import User

BOB = User("bob", ("dev", "system:authenticated"))


def policy(*rules: dict[str, Any], **more: Any) -> AuditPolicy:
    return AuditPolicy({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **more})


def level(rule: dict[str, Any], path: str, method: str = "GET", user: User | None = BOB) -> Level:
    info = parse_request(method, path, {})
    return policy({"level": "Metadata", **rule}).evaluate(info, user).level


PODS, POD = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/pods/p"
NODES, DEPLOYMENTS = "/api/v1/nodes", "/apis/apps/v1/namespaces/default/deployments"


def core(*resources: str, **more: Any) -> dict[str, Any]:
    return {"resources": [{"group": "", "resources": list(resources), **more}]}


MATCHES: list[tuple[dict[str, Any], str, bool]] = [
    ({}, PODS, True),
    ({}, "/healthz", True),
    ({"users": ["bob"]}, PODS, True),
    ({"users": ["eve"]}, PODS, False),
    ({"userGroups": ["ops", "dev"]}, PODS, True),
    ({"userGroups": ["ops"]}, PODS, False),
    ({"verbs": ["list"]}, PODS, True),
    ({"verbs": ["get"]}, PODS, False),
    ({"verbs": ["get"]}, "/healthz", True),
    ({"namespaces": ["default"]}, PODS, True),
    ({"namespaces": ["other"]}, PODS, False),
    ({"namespaces": [""]}, NODES, True),
    ({"namespaces": [""]}, PODS, False),
    ({"namespaces": ["default"]}, "/healthz", False),
    (core("pods"), PODS, True),
    (core("pods"), f"{POD}/log", False),
    (core("pods/log"), f"{POD}/log", True),
    (core("pods/log"), POD, False),
    (core("pods/*"), f"{POD}/log", True),
    (core("pods/*"), POD, True),
    (core("*/log"), f"{POD}/log", True),
    (core("*/log"), POD, False),
    (core("*"), f"{POD}/log", True),
    (core(), NODES, True),
    (core("*"), DEPLOYMENTS, False),
    ({"resources": [{"group": "apps"}]}, DEPLOYMENTS, True),
    (core("pods", resourceNames=["p"]), POD, True),
    (core("pods", resourceNames=["q"]), POD, False),
    (core("pods", resourceNames=["p"]), PODS, False),
    (core("nodes") | {"namespaces": ["default"]}, PODS, False),
    (core("pods"), "/healthz", False),
    ({"nonResourceURLs": ["/healthz"]}, "/healthz", True),
    ({"nonResourceURLs": ["/healthz"]}, "/healthz/ping", False),
    ({"nonResourceURLs": ["/healthz*"]}, "/healthz/ping", True),
    ({"nonResourceURLs": ["*"]}, "/version", True),
    ({"nonResourceURLs": ["*"]}, PODS, False),
]


@pytest.mark.parametrize(("rule", "path", "matches"), MATCHES)
def test_what_a_rule_matches(rule: dict[str, Any], path: str, matches: bool) -> None:
    assert level(rule, path) is (Level.METADATA if matches else Level.NONE)


def test_a_request_without_user_matches_only_rules_without_users() -> None:
    for rule in ({"users": ["bob"]}, {"userGroups": ["dev"]}):
        assert level(rule, PODS, user=None) is Level.NONE
    assert level({}, PODS, user=None) is Level.METADATA


def test_the_first_rule_that_matches_counts() -> None:
    rules = policy({"level": "None", "users": ["bob"]}, {"level": "RequestResponse", **core("pods")})
    info = parse_request("GET", PODS, {})
    assert rules.evaluate(info, BOB).level is Level.NONE
    assert rules.evaluate(info, User("eve")).level is Level.REQUEST_RESPONSE
    assert rules.evaluate(parse_request("GET", NODES, {}), User("eve")).level is Level.NONE


def test_stages_are_omitted_by_the_policy_and_by_the_rule() -> None:
    rules = policy({"level": "Request", "omitStages": ["Panic"]}, omitStages=["RequestReceived"])
    assert rules.evaluate(parse_request("GET", PODS, {}), BOB).omit_stages == {"Panic", "RequestReceived"}


@pytest.mark.parametrize(
    ("of_policy", "of_rule", "omits"),
    [(False, None, False), (True, None, True), (True, False, False), (False, True, True)],
)
def test_a_rule_decides_about_managed_fields_before_the_policy(
    of_policy: bool, of_rule: bool | None, omits: bool
) -> None:
    rules = policy({"level": "Request", "omitManagedFields": of_rule}, omitManagedFields=of_policy)
    assert rules.evaluate(parse_request("GET", PODS, {}), BOB).omit_managed_fields is omits


REFUSED: list[tuple[Any, str]] = [
    ({"rules": []}, 'must be of kind Policy and apiVersion audit.k8s.io/v1, not "" and ""'),
    ([{}], "rules[0].level: Required value"),
    ([], "loaded illegal policy with 0 rules"),
    (
        [{"level": "All"}],
        'rules[0].level: Unsupported value: "All": supported values: "None", "Metadata", "Request", "RequestResponse"',
    ),
    ([{"level": "None", "nonResourceURLs": ["x"]}], "non-resource URL rules must begin with a '/' character"),
    ([{"level": "None", "nonResourceURLs": ["/a*b"]}], "wildcards '*' must be the final character of the rule"),
    (
        [{"level": "None", "nonResourceURLs": ["/a"], "namespaces": ["x"]}],
        "rules cannot apply to both regular resources and non-resource URLs",
    ),
    (
        [{"level": "None", "resources": [{"group": "apps/v1"}]}],
        'resources.group: Invalid value: "apps/v1": a lowercase',
    ),
    (
        [{"level": "None", "resources": [{"resourceNames": ["x"]}]}],
        'rules[0].resources.resourceNames: Invalid value: ["x"]: using resourceNames requires at least one resource',
    ),
    (
        [{"level": "None", "omitStages": ["Begin"]}],
        'rules[0].omitStages[0]: Invalid value: "Begin": allowed stages are RequestReceived,ResponseStarted,',
    ),
    ([{"level": "None", "namespace": ["x"]}], "Object contains unknown field `namespace`"),
    ([{"level": "x"}, {"level": "y"}], "[rules[0].level: Unsupported"),
]


@pytest.mark.parametrize(("given", "text"), REFUSED)
def test_bad_policies_are_refused(given: Any, text: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        policy(*given) if isinstance(given, list) else AuditPolicy(given)
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_policy_is_an_object() -> None:
    with pytest.raises(InvalidPolicy, match="failed decoding"):
        AuditPolicy([])
