"""Writes of status by controllers: what is refused, and what is dropped of objects whose features are off."""

import pytest

from tests.unit.apiserver.resources.steps import Steps, from_yaml, table

TABLE = table()
SELECTOR = "selector: {matchLabels: {a: b}}"
TEMPLATE = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}"
NEGATIVE = "Invalid value: -1: must be greater than or equal to 0"
MORE = "Invalid value: 2: cannot be greater than"


def test_conditions_of_a_budget_are_validated():
    steps = Steps(TABLE["poddisruptionbudgets.policy"])
    old = steps.create({"metadata": {"name": "x"}})
    status = from_yaml(
        "{currentHealthy: -1, conditions: [{type: 'a b', status: 'True', reason: A, "
        "lastTransitionTime: '2027-01-15T07:50:00Z'}, {type: A, status: 'True', reason: A}]}"
    )
    errors = steps.update_refusal(old, {**old, "status": status}, "status")
    assert [error.partition(": ")[0] for error in errors] == [
        "status.conditions[0].type",
        "status.conditions[1].lastTransitionTime",
        "status.currentHealthy",
    ]


def test_leases_lose_the_fields_of_coordinated_elections():
    steps = Steps(TABLE["leases.coordination.k8s.io"])
    elected = {"metadata": {"name": "x"}, "spec": {"holderIdentity": "a", "strategy": "s", "preferredHolder": "b"}}
    made = steps.create(elected)
    assert made["spec"] == {"holderIdentity": "a"}
    assert steps.update(made, elected)["spec"] == {"holderIdentity": "a"}
    assert steps.update(elected, elected)["spec"] == elected["spec"]


def test_service_accounts_keep_only_names_of_secrets():
    steps = Steps(TABLE["serviceaccounts"])
    account = {"metadata": {"name": "x"}, "secrets": [{"name": "a", "namespace": "b", "kind": "Secret"}, {"uid": "c"}]}
    made = steps.create(account)
    assert made["secrets"] == steps.update(made, account)["secrets"] == [{"name": "a"}, {}]


@pytest.mark.parametrize(
    ("kind", "selector", "before", "after", "expected"),
    [
        (
            "deployments.apps",
            SELECTOR,
            "collisionCount: 1",
            "replicas: 1, updatedReplicas: 2, readyReplicas: 1, availableReplicas: 2, terminatingReplicas: -1",
            [
                f"status.terminatingReplicas: {NEGATIVE}",
                f"status.updatedReplicas: {MORE} status.replicas",
                f"status.availableReplicas: {MORE} status.replicas",
                f"status.availableReplicas: {MORE} readyReplicas",
                "status.collisionCount: Invalid value: 0: cannot be decremented",
            ],
        ),
        (
            "replicasets.apps",
            SELECTOR,
            "",
            "replicas: 1, fullyLabeledReplicas: 2, terminatingReplicas: -1, observedGeneration: -1",
            [
                f"status.terminatingReplicas: {NEGATIVE}",
                f"status.observedGeneration: {NEGATIVE}",
                f"status.fullyLabeledReplicas: {MORE} status.replicas",
            ],
        ),
        ("replicationcontrollers", "selector: {a: b}", "", "readyReplicas: 2", [
            f"status.readyReplicas: {MORE} status.replicas"]),
        ("statefulsets.apps", SELECTOR, "collisionCount: 3", "replicas: 2, readyReplicas: 1, availableReplicas: 2", [
            "status.availableReplicas: Invalid value: 2: cannot be greater than status.readyReplicas",
            "status.collisionCount: Invalid value: 0: cannot be decremented"]),
        ("daemonsets.apps", SELECTOR, "", "numberReady: -1, collisionCount: -1", [
            f"status.numberReady: {NEGATIVE}",
            f"status.collisionCount: {NEGATIVE}",
            "status.collisionCount: Invalid value: -1: cannot be decremented"]),
    ],
)  # fmt: skip
def test_the_status_of_workloads_is_validated(kind, selector, before, after, expected):
    steps = Steps(TABLE[kind])
    made = steps.create(from_yaml(f"{{metadata: {{name: x}}, spec: {{{selector}, {TEMPLATE}}}}}"))
    old = {**made, "status": {**made["status"], **from_yaml(f"{{{before}}}")}}
    assert steps.update_refusal(old, {**old, "status": from_yaml(f"{{{after}}}")}, "status") == expected


def test_a_stateful_set_always_shows_the_numbers_that_go_does_not_omit():
    steps = Steps(TABLE["statefulsets.apps"])
    made = steps.create(from_yaml(f"{{metadata: {{name: x}}, spec: {{{SELECTOR}, {TEMPLATE}, ordinals: {{}}}}}}"))
    assert made["spec"]["ordinals"] == {"start": 0}
    written = steps.update(made, {**made, "status": {"replicas": 1}}, "status")
    assert written["status"] == {"replicas": 1, "availableReplicas": 0}
    assert steps.update(made, {**made, "status": {}}, "")["status"] == made["status"]


def test_the_status_of_a_policy_is_validated():
    steps = Steps(TABLE["validatingadmissionpolicies.admissionregistration.k8s.io"])
    stored = {"metadata": {"name": "x"}, "spec": {}}
    status = from_yaml(
        "{typeChecking: {expressionWarnings: [{fieldRef: ' '}]}, conditions: [{type: A, status: X, reason: A, "
        "lastTransitionTime: '2027-01-15T07:50:00Z'}]}"
    )
    assert steps.update_refusal(stored, {**stored, "status": status}, "status") == [
        "status.typeChecking.expressionWarnings[0].warning: Required value",
        "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
        'status.conditions[0].status: Unsupported value: "X": supported values: "False", "True", "Unknown"',
    ]
