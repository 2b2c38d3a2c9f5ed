"""Writes of status by controllers: what is refused, and what is dropped of objects whose features are off."""

from tests.unit.apiserver.resources.steps import Steps, from_yaml, table

TABLE = table()


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
