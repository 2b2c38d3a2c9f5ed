"""Annotations of pods with a meaning, and rules for pods that templates need not follow."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.resources.pods.annotation_validation import set_app_armor_fields
from tests.unit.apiserver.resources.steps import Steps, from_yaml, table, texts

from .checks import new_steps, pod_with, refusal_of

M = "metadata.annotations"
COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR = "kubernetes.io/config.mirror"
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_A = "container.seccomp.security.alpha.kubernetes.io/a"
ARMOR = "container.apparmor.security.beta.kubernetes.io/"


@pytest.fixture
def pods() -> Steps:
    return new_steps()


def noted(key: str, value: str, more: str = "") -> str:
    return f"{{metadata: {{annotations: {{{key}: '{value}'}}}}, {more}}}"


CASES = [
    (noted(COST, "-12"), []),
    *((noted(COST, cost), [f'{M}[{COST}]: Invalid value: "{cost}": must be a 32bit integer'])
      for cost in ("", "x", "+1", "01", "2147483648", "9" * 5000)),
    (noted(MIRROR, "x"), [
        f'{M}[{MIRROR}]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set']),
    (noted(MIRROR, "x", "nodeName: n"), []),
    (noted(SECCOMP, "docker/default"), []),
    (noted(SECCOMP_A, "localhost/a/b"), []),
    (noted(SECCOMP, "x"), [f'{M}.{SECCOMP}: Invalid value: "x": must be a valid seccomp profile']),
    (noted(SECCOMP, "localhost//x"), [f'{M}.{SECCOMP}: Invalid value: "/x": must be a relative path']),
    (noted(SECCOMP, "runtime/default", "securityContext: {seccompProfile: {type: Unconfined}}"), [
        "spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"]),
    (noted(SECCOMP_A, "localhost/x", "containers: [{name: a, image: b, securityContext: {seccompProfile: "
           "{type: Localhost, localhostProfile: y}}}]"), [
        "spec.containers[0].securityContext.seccompProfile.localhostProfile: Forbidden: seccomp profile in annotation "
        "and field must match"]),
    (noted(SECCOMP_A, "localhost/y", "containers: [{name: a, image: b, securityContext: {seccompProfile: "
           "{type: Localhost, localhostProfile: y}}}]"), []),
    (noted(f"{ARMOR}x", "unconfined"), [f'{M}[{ARMOR}x]: Invalid value: "x": container not found']),
    (noted(f"{ARMOR}a", "else"), [
        f'{M}[{ARMOR}a]: Invalid value: "else": invalid AppArmor profile name: "else"']),
    (noted(f"{ARMOR}a", "unconfined", "containers: [{name: a, image: b, securityContext: {appArmorProfile: "
           "{type: RuntimeDefault}}}]"), [
        "spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field "
        "must match"]),
    (noted(f"{ARMOR}a", "unconfined", "os: {name: windows}"), []),
    ("{schedulingGates: [{name: a}], nodeName: n}", [
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"]),
    ("{containers: [{name: a, image: ' b'}]}", [
        'spec.containers[0].image: Invalid value: " b": must not have leading or trailing whitespace']),
    ("{volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}", [
        "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when "
        "serviceAccountName is not set"]),
    ("{runtimeClassName: A}", [
        'spec.runtimeClassName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case '
        "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
        "'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*"
        "[a-z0-9])?)*')"]),
    ("{preemptionPolicy: Often}", [
        'spec.preemptionPolicy: Unsupported value: "Often": supported values: "PreemptLowerPriority", "Never"']),
    ("{containers: [{name: a, image: b, env: [{name: X, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]}]}",
     ['spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: "v"']),
    ("{volumes: [{name: v, hostPath: {path: /x}}], containers: [{name: a, image: b, env: [{name: X, valueFrom: "
     "{fileKeyRef: {volumeName: v, path: p, key: k}}}]}]}", [
        'spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "v": referenced volume must be of '
        "type emptyDir"]),
    ("{initContainers: [{name: i, image: b}, {name: j, image: b, ports: [{containerPort: 1, hostPort: 2}, "
     "{containerPort: 3, hostPort: 2}]}]}", [
        'spec.initContainers[0].ports[1].hostPort: Duplicate value: "TCP//2"']),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), CASES)
def test_refusals(fields: str, expected: list[str]) -> None:
    assert refusal_of(fields) == expected


def test_claims_of_volumes(pods: Steps) -> None:
    claim = "{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
    volume = f"{{name: v, ephemeral: {{volumeClaimTemplate: {{metadata: {{name: n, uid: u}}, spec: {claim}}}}}}}"
    path = "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata"
    fields = f"{{volumes: [{volume}]}}"
    assert refusal_of(fields) == [f"{path}.name: Forbidden: cannot be set", f"{path}.uID: Forbidden: cannot be set"]
    pod = pod_with(from_yaml(fields.replace("name: n, uid: u", "")))
    assert pods.refusal(pod) == []
    pod["metadata"]["name"] = "x" * 252
    (error,) = pods.refusal(pod)
    assert error == (
        f'spec.volumes[0].name: Invalid value: "v": PVC name "{"x" * 252}-v": must be no more than 253 bytes'
    )


def test_templates_follow_the_rules_of_annotations_too() -> None:
    template = {"metadata": {"annotations": {COST: "x"}}, "spec": {"containers": [{"name": "a", "image": " b"}]}}
    refused = Steps(table()["podtemplates"]).refusal({"metadata": {"name": "t"}, "template": template})
    assert refused == [f'template.annotations[{COST}]: Invalid value: "x": must be a 32bit integer']


def test_app_armor_annotations_become_fields() -> None:
    def profiles(value: str, **context: Any) -> tuple[Any, list[str]]:
        spec: dict[str, Any] = {"containers": [{"name": "a"}], "securityContext": context}
        warnings = texts(set_app_armor_fields({f"{ARMOR}a": value}, spec))
        return spec["containers"][0].get("securityContext", {}).get("appArmorProfile"), warnings

    warning = [f'{M}[{ARMOR}a]: deprecated since v1.30; use the "appArmorProfile" field instead']
    assert profiles("unconfined") == ({"type": "Unconfined"}, warning)
    assert profiles("localhost/x") == ({"type": "Localhost", "localhostProfile": "x"}, warning)
    assert profiles("localhost/") == (None, warning)
    assert profiles("else") == (None, warning)
    assert profiles("unconfined", appArmorProfile={"type": "Unconfined"}) == (None, [])
    assert set_app_armor_fields({"a": "b"}, {"containers": []}) == []
    assert set_app_armor_fields({f"{ARMOR}x": "unconfined"}, {"containers": [{"name": "a"}]}) == []


def test_a_new_pod_gets_the_fields(pods: Steps) -> None:
    made = pods.create(pod_with(from_yaml(f"{{metadata: {{annotations: {{{ARMOR}a: unconfined}}}}}}")))
    assert made["spec"]["containers"][0]["securityContext"] == {"appArmorProfile": {"type": "Unconfined"}}


def test_stop_signals_and_groups_of_pods_are_dropped(pods: Steps) -> None:
    hooks = "containers: [{name: a, image: b, lifecycle: {stopSignal: SIGTERM}}, "
    hooks += "{name: c, image: d, lifecycle: {stopSignal: X, preStop: {sleep: {seconds: 1}}}}]"
    spec = pods.create(pod_with(from_yaml(f"{{schedulingGroup: {{podGroupName: g}}, {hooks}}}")))["spec"]
    assert "schedulingGroup" not in spec
    assert [one.get("lifecycle") for one in spec["containers"]] == [None, {"preStop": {"sleep": {"seconds": 1}}}]


def test_a_stored_pod_keeps_such_fields_and_what_breaks_newer_rules(pods: Steps) -> None:
    stored = pods.create(pod_with({}))
    container = stored["spec"]["containers"][0]
    container["lifecycle"] = {"stopSignal": "SIGTERM"}
    container["resources"] = {"requests": {"example.com/gpu": "1"}}  # needs a limit
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}
    assert pods.update(stored, labelled)["spec"] == stored["spec"]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ({}, {f"{ARMOR}a": "unconfined"}, f"{M}[{ARMOR}a]: Forbidden: may not add AppArmor annotations"),
        ({f"{ARMOR}a": "unconfined"}, {}, f"{M}[{ARMOR}a]: Forbidden: may not remove or update AppArmor annotations"),
        ({MIRROR: "x"}, {MIRROR: "y"}, f"{M}[{MIRROR}]: Forbidden: may not remove or update mirror pod annotation"),
        ({}, {MIRROR: "y"}, f"{M}[{MIRROR}]: Forbidden: may not add mirror pod annotation"),
        ({"a": "b"}, {"c": "d"}, ""),
    ],
)
def test_changes(pods: Steps, old: dict[str, str], new: dict[str, str], text: str) -> None:
    stored = pods.create(pod_with({"nodeName": "n", "metadata": {"annotations": old}}))
    changed = {**stored, "metadata": {**stored["metadata"], "annotations": new}}
    assert pods.update_refusal(stored, changed) == ([text] if text else [])


GATED = (
    "{schedulingGates: [{name: g}], nodeSelector: {a: b}, affinity: {nodeAffinity: {%s: {nodeSelectorTerms: [%s]}}}}"
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ONE, TWO = "{key: a, operator: Exists}", "{key: b, operator: In, values: [c]}"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
ADDITIONS = "only additions are allowed (no mutations or deletions)"


@pytest.mark.parametrize(
    ("selector", "terms", "expected"),
    [
        ({"a": "b", "c": "d"}, f"{{matchExpressions: [{ONE}, {TWO}]}}", []),
        ({"a": "c"}, f"{{matchExpressions: [{ONE}]}}", [
            'spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed (no '
            "mutations or deletions)"]),
        ({"a": "b"}, f"{{matchExpressions: [{TWO}]}}", [
            f'{TERMS}[0]: Invalid value: {{"MatchExpressions":[{{"Key":"b","Operator":"In","Values":["c"]}}],'
            f'"MatchFields":null}}: {ADDITIONS}']),
        ({"a": "b"}, f"{{matchExpressions: [{ONE}]}}, {{}}", [
            f'{TERMS}: Invalid value: [{{"MatchExpressions":[{{"Key":"a","Operator":"Exists","Values":null}}],'
            '"MatchFields":null},{"MatchExpressions":null,"MatchFields":null}]: no additions/deletions to non-empty '
            "NodeSelectorTerms list are allowed"]),
    ],
)  # fmt: skip
def test_a_gated_pod_may_be_limited_to_fewer_nodes(
    pods: Steps, selector: dict[str, str], terms: str, expected: list[str]
) -> None:
    old = pods.create(pod_with(from_yaml(GATED % (REQUIRED, f"{{matchExpressions: [{ONE}]}}"))))
    new = pods.create(pod_with(from_yaml(GATED % (REQUIRED, terms))))
    new["spec"]["nodeSelector"] = selector
    assert pods.update_refusal(old, new) == expected


def test_a_gated_pod_may_get_its_first_limits(pods: Steps) -> None:
    old = pods.create(pod_with({"schedulingGates": [{"name": "g"}]}))
    new = pods.create(pod_with(from_yaml(GATED % (REQUIRED, f"{{matchExpressions: [{ONE}]}}"))))
    assert pods.update_refusal(old, new) == []
    ungated = {**old, "spec": {key: value for key, value in old["spec"].items() if key != "schedulingGates"}}
    (error,) = pods.update_refusal(ungated, {**new, "spec": {**new["spec"], "schedulingGates": []}})
    assert error.startswith("spec: Forbidden: pod updates may not change fields other than")


def test_a_term_without_requirements_stays_so(pods: Steps) -> None:
    old = pods.create(pod_with(from_yaml(GATED % (REQUIRED, "{}"))))
    new = pods.create(pod_with(from_yaml(GATED % (REQUIRED, f"{{matchExpressions: [{ONE}]}}"))))
    (error,) = pods.update_refusal(old, new)
    assert error.endswith(ADDITIONS)
    assert pods.update_refusal(old, {**old, "metadata": {**old["metadata"], "labels": {"x": "y"}}}) == []
