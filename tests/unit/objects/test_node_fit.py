"""Taints, tolerations and node affinity, term by term."""

from typing import Any

import pytest

from bridgehead.objects.core import Node, PodSpec, Taint, Toleration
from bridgehead.objects.meta import ObjectMeta
from bridgehead.objects.node_fit import (
    matches_node_affinity,
    preference,
    required_node_names,
    tolerates,
    untolerated,
)
from bridgehead.objects.node_selectors import matches_term

NODE = Node(metadata=ObjectMeta(name="node1", labels={"zone": "a", "cores": "8", "gpu": ""}))
TAINT = Taint(key="dedicated", value="db", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoSchedule"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(key="dedicated", operator="Exists"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="dedicated", value="db"), True),
        (Toleration(key="dedicated", value="web"), False),
        (Toleration(key="dedicated", operator="", value="db"), True),
        (Toleration(value="db"), False),
    ],
)
def test_tolerations_match_taints(toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, TAINT) is expected


def test_only_the_requested_effects_are_checked() -> None:
    taints = [TAINT, Taint(key="x", effect="NoExecute"), Taint(key="y", effect="PreferNoSchedule")]
    assert untolerated(taints, (), ("NoExecute",)) == [taints[1]]
    assert untolerated(taints, (Toleration(operator="Exists"),), ("NoSchedule", "NoExecute")) == []


def expression(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ({}, False),
        ({"matchExpressions": [expression("zone", "In", "a", "b")]}, True),
        ({"matchExpressions": [expression("zone", "NotIn", "a")]}, False),
        ({"matchExpressions": [expression("rack", "NotIn", "a")]}, True),
        ({"matchExpressions": [expression("gpu", "Exists")]}, True),
        ({"matchExpressions": [expression("gpu", "DoesNotExist")]}, False),
        ({"matchExpressions": [expression("cores", "Gt", "4")]}, True),
        ({"matchExpressions": [expression("cores", "Lt", "4")]}, False),
        ({"matchExpressions": [expression("cores", "Gt", "many")]}, False),
        ({"matchExpressions": [expression("zone", "Like", "a")]}, False),
        ({"matchFields": [expression("metadata.name", "In", "node1")]}, True),
        ({"matchFields": [expression("metadata.name", "In", "node2")]}, False),
        (
            {
                "matchExpressions": [expression("zone", "In", "a")],
                "matchFields": [expression("metadata.name", "In", "node2")],
            },
            False,
        ),
    ],
)
def test_node_selector_terms_match_nodes(term: dict[str, object], expected: bool) -> None:
    assert matches_term(term, NODE) is expected


def affinity(*terms: dict[str, Any]) -> PodSpec:
    required = {"nodeSelectorTerms": list(terms)}
    return PodSpec(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


def test_terms_are_alternatives_and_combine_with_the_node_selector() -> None:
    zone_b = {"matchExpressions": [expression("zone", "In", "b")]}
    named = {"matchFields": [expression("metadata.name", "In", "node1")]}
    assert matches_node_affinity(affinity(zone_b, named), NODE)
    assert not matches_node_affinity(affinity(zone_b), NODE)
    assert not matches_node_affinity(affinity(), NODE)
    assert matches_node_affinity(PodSpec(node_selector={"zone": "a"}), NODE)
    assert not matches_node_affinity(PodSpec(node_selector={"zone": "a", "rack": "1"}), NODE)


def test_required_node_names_are_found() -> None:
    one = {"matchFields": [expression("metadata.name", "In", "node1")]}
    two = {"matchFields": [expression("metadata.name", "In", "node2")]}
    labels = {"matchExpressions": [expression("zone", "In", "b")]}
    assert required_node_names(PodSpec()) is None
    assert required_node_names(affinity(one, two)) == {"node1", "node2"}
    assert required_node_names(affinity(one, labels)) is None


def test_preferred_terms_add_their_weights() -> None:
    preferred = [
        {"weight": 10, "preference": {"matchExpressions": [expression("zone", "In", "a")]}},
        {"weight": 5, "preference": {"matchExpressions": [expression("gpu", "Exists")]}},
        {"weight": 90, "preference": {"matchExpressions": [expression("zone", "In", "b")]}},
    ]
    spec = PodSpec(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})
    assert preference(spec, NODE) == 15
