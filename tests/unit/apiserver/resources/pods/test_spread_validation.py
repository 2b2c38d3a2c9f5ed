"""Spread constraints and label keys, and other fields about where pods run."""

from __future__ import annotations

import pytest

from tests.unit.apiserver.resources.steps import from_yaml

from .checks import new_steps, pod_with, refusal_of

SPREAD = "maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule"
S = "spec.topologySpreadConstraints"
TERM = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
IS_BOTH = "exists in both matchLabelKeys and labelSelector"


def spread(*constraints: str) -> str:
    return f"{{topologySpreadConstraints: [{', '.join(constraints)}]}}"


def affinity(term: str) -> str:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return f"{{affinity: {{podAffinity: {{{required}: [{{topologyKey: zone, {term}}}]}}}}}}"


CASES = [
    (spread(f"{{{SPREAD}, minDomains: 2, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor}}"), []),
    (spread(f"{{{SPREAD}}}", f"{{{SPREAD}}}"), [
        f'{S}[0].{{topologyKey, whenUnsatisfiable}}: Duplicate value: "{{zone, DoNotSchedule}}"']),
    (spread(f"{{{SPREAD}, minDomains: 0, nodeAffinityPolicy: X, nodeTaintsPolicy: Y}}"), [
        f"{S}[0].minDomains: Invalid value: 0: must be greater than zero",
        f'{S}[0].nodeAffinityPolicy: Unsupported value: "X": supported values: "Honor", "Ignore"',
        f'{S}[0].nodeTaintsPolicy: Unsupported value: "Y": supported values: "Honor", "Ignore"']),
    (spread("{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}"), [
        f"{S}[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "
        "ScheduleAnyway"]),
    (spread(f"{{{SPREAD}, matchLabelKeys: [app]}}"), [
        f"{S}[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"]),
    (spread(f"{{{SPREAD}, matchLabelKeys: [app], labelSelector: {{matchLabels: {{app: x}}}}}}"), [
        f'{S}[0][0]: Invalid value: "app": {IS_BOTH}']),
    (spread(f"{{{SPREAD}, matchLabelKeys: [app], labelSelector: {{matchLabels: {{tier: x}}}}}}"), []),
    (affinity("matchLabelKeys: [app], mismatchLabelKeys: [tier], labelSelector: {}"), []),
    (affinity("mismatchLabelKeys: [app]"), [
        f"{TERM}.mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set"]),
    (affinity("matchLabelKeys: [app], mismatchLabelKeys: [app], labelSelector: {}"), [
        f'{TERM}[0]: Invalid value: "app": {IS_BOTH}',
        f'{TERM}.matchLabelKeys[0]: Invalid value: "app": exists in both matchLabelKeys and mismatchLabelKeys']),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), CASES)
def test_refusals(fields: str, expected: list[str]) -> None:
    fields = f"{{metadata: {{labels: {{app: x}}}}, {fields[1:]}"
    assert refusal_of(fields) == expected


def test_invalid_keys() -> None:
    (error,) = refusal_of(affinity("matchLabelKeys: ['a b'], labelSelector: {}"))
    assert error.startswith(f'{TERM}.matchLabelKeys[0]: Invalid value: "a b": name part must consist of')


def test_a_pod_selects_by_its_own_labels() -> None:
    pods = new_steps()
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    fields = f"""
        metadata: {{labels: {{app: x, tier: y}}}}
        affinity:
          podAffinity:
            {required}: [{{topologyKey: zone, matchLabelKeys: [app, none], labelSelector: {{}}}}]
          podAntiAffinity:
            {preferred}:
            - weight: 1
              podAffinityTerm: {{topologyKey: zone, mismatchLabelKeys: [tier], labelSelector: {{}}}}
        topologySpreadConstraints:
        - {{{SPREAD}, matchLabelKeys: [tier], labelSelector: {{matchLabels: {{a: b}}}}}}
    """
    spec = pods.create(pod_with(from_yaml(fields)))["spec"]
    app = {"key": "app", "operator": "In", "values": ["x"]}
    tier = {"key": "tier", "operator": "NotIn", "values": ["y"]}
    (term,) = spec["affinity"]["podAffinity"][required]
    assert term["labelSelector"] == {"matchExpressions": [app]}
    (weighted,) = spec["affinity"]["podAntiAffinity"][preferred]
    assert weighted["podAffinityTerm"]["labelSelector"] == {"matchExpressions": [tier]}
    (constraint,) = spec["topologySpreadConstraints"]
    tier["operator"] = "In"
    assert constraint["labelSelector"] == {"matchLabels": {"a": "b"}, "matchExpressions": [tier]}


def test_preferences_may_have_values_that_no_node_has() -> None:
    kinds = {
        "requiredDuringSchedulingIgnoredDuringExecution": "{nodeSelectorTerms: [{matchExpressions: [%s]}]}",
        "preferredDuringSchedulingIgnoredDuringExecution": "[{weight: 1, preference: {matchExpressions: [%s]}}]",
    }
    one = "{key: a, operator: In, values: ['x y']}"
    found = [refusal_of(f"{{affinity: {{nodeAffinity: {{{kind}: {text % one}}}}}}}") for kind, text in kinds.items()]
    assert [len(errors) for errors in found] == [1, 0]
