"""Rules and selectors: which requests a webhook or a policy is for."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.matching import (
    equivalent_resources,
    find_resource,
    is_exempt,
    matches_namespace,
    matches_object,
    matches_rule,
    parse_selector,
)
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.table import ResourceTable
from bridgehead.storage import Facts, Key, MemoryStore

TABLE = ResourceTable(build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767)))
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "scope": "*"}
EXCEPT = {"matchExpressions": [{"key": "exempt", "operator": "DoesNotExist"}]}


def attributes(resource: str = "pods", **changes: Any) -> Attributes:
    given = {"operation": "CREATE", "subresource": "", "namespace": "default", "name": "a", **changes}
    return Attributes(resource=TABLE.by_id(resource), user=User("me"), **given)


@pytest.mark.parametrize(
    ("rule", "request_", "expected"),
    [
        ({}, {}, True),
        ({"operations": ["*"]}, {"operation": "CONNECT"}, True),
        ({"operations": ["UPDATE", "DELETE"]}, {}, False),
        ({"apiGroups": ["apps"]}, {}, False),
        ({"apiGroups": ["*"]}, {"resource": "deployments.apps"}, False),
        ({"apiGroups": ["*"], "resources": ["*"]}, {"resource": "deployments.apps"}, True),
        ({"apiVersions": ["v2"]}, {}, False),
        ({"apiVersions": ["*"]}, {}, True),
        # A plain resource is not its subresources.
        ({}, {"subresource": "status"}, False),
        ({"resources": ["*"]}, {"subresource": "status"}, False),
        ({"resources": ["pods/*"]}, {"subresource": "status"}, True),
        ({"resources": ["pods/*"]}, {}, True),
        ({"resources": ["*/status"]}, {"subresource": "status"}, True),
        ({"resources": ["*/status"]}, {}, False),
        ({"resources": ["*/*"]}, {"subresource": "exec", "operation": "CREATE"}, True),
        ({"scope": "Namespaced"}, {}, True),
        ({"scope": "Cluster"}, {}, False),
        ({"scope": "Cluster", "resources": ["*"]}, {"resource": "nodes", "namespace": ""}, True),
        ({"scope": "Namespaced", "resources": ["*"]}, {"resource": "nodes", "namespace": ""}, False),
        # A Namespace is cluster-scoped, although its requests have a namespace.
        ({"scope": "Cluster", "resources": ["*"]}, {"resource": "namespaces"}, True),
        ({"scope": "Namespaced", "resources": ["*"]}, {"resource": "namespaces"}, False),
    ],
)
def test_rules(rule, request_, expected):
    asked = attributes(**request_)
    assert matches_rule({**RULE, **rule}, asked, asked.resource) is expected


def test_the_requested_resource_comes_before_its_equivalents():
    newer, core = TABLE.by_id("events.events.k8s.io"), TABLE.by_id("events")
    assert equivalent_resources(newer, TABLE) == [core]
    assert equivalent_resources(TABLE.by_id("pods"), TABLE) == []
    asked = attributes("events.events.k8s.io")
    rules = [{**RULE, "resources": ["events"]}, {**RULE, "apiGroups": ["events.k8s.io"], "resources": ["events"]}]
    assert find_resource(rules, asked, [core]) == newer
    assert find_resource(rules[:1], asked, [core]) == core
    assert find_resource(rules[:1], asked, []) is None


def test_configurations_of_admission_are_exempt():
    assert is_exempt(attributes("mutatingwebhookconfigurations.admissionregistration.k8s.io", namespace=""))
    assert not is_exempt(attributes())


async def test_namespace_selectors():
    store = MemoryStore()
    for name, labels in (("default", {}), ("free", {"exempt": "yes"})):
        await store.create(Key("namespaces", "", name), {"metadata": {"name": name}}, Facts(labels))
    selector = parse_selector(EXCEPT)
    labelled = {"metadata": {"labels": {"exempt": "yes"}}}
    for request, obj, expected in (
        ({}, {}, True),
        ({"namespace": "free"}, {}, False),
        ({"resource": "nodes", "namespace": ""}, labelled, True),
        # A Namespace has its own labels: those of the request when it is written, those of the store otherwise.
        ({"resource": "namespaces", "namespace": "new"}, {"metadata": {}}, True),
        ({"resource": "namespaces", "namespace": "new"}, labelled, False),
        ({"resource": "namespaces", "namespace": "free", "operation": "DELETE"}, {}, False),
        ({"resource": "namespaces", "namespace": "default", "subresource": "finalize"}, labelled, True),
    ):
        assert matches_namespace(selector, attributes(**request), obj, store) is expected, request
    with pytest.raises(ApiStatus, match='namespaces "gone" not found'):
        matches_namespace(selector, attributes(namespace="gone"), {}, store)
    assert matches_namespace(parse_selector(None), attributes(namespace="gone"), {}, store)
    await store.close()


def test_object_selectors():
    selector = parse_selector({"matchLabels": {"a": "b"}})
    yes, no = {"metadata": {"labels": {"a": "b"}}}, {"metadata": {}}
    for obj, old, expected in (
        (yes, {}, True),
        (no, {}, False),
        (no, yes, True),
        ({}, yes, True),
        ({"kind": "X"}, {}, False),
    ):
        assert matches_object(selector, obj, old) is expected
    assert matches_object(parse_selector({}), {"kind": "PodExecOptions"}, {})
