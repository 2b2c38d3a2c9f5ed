"""Default roles and bindings, and their reconciliation."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.resource import copied, errors_of
from bridgehead.apiserver.resources import rbac
from bridgehead.apiserver.resources.rbac.defaults import default_objects
from bridgehead.apiserver.resources.rbac.reconciliation import is_protected, needs_recreation, reconciled
from bridgehead.apiserver.resources.shared.metadata_validation import validate_metadata

DEFAULTS = {
    (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in default_objects()
}
RESOURCES = {one.kind: one for one in (rbac.ROLES, rbac.CLUSTER_ROLES, rbac.ROLE_BINDINGS, rbac.CLUSTER_ROLE_BINDINGS)}
EDIT = DEFAULTS["ClusterRole", "", "system:aggregate-to-edit"]
DISCOVERY = DEFAULTS["ClusterRoleBinding", "", "system:discovery"]


def test_names_are_unique():
    assert len(DEFAULTS) == len(default_objects())


@pytest.mark.parametrize("key", DEFAULTS, ids="/".join)
def test_default_objects_are_valid_and_complete(key):
    obj = copied(DEFAULTS[key])
    strategy = RESOURCES[key[0]].strategy
    strategy.default(obj)
    # They are stored as they are here, without defaults and validation.
    assert obj == DEFAULTS[key]
    assert errors_of(strategy.validate, obj) + errors_of(validate_metadata, obj, RESOURCES[key[0]]) == []
    for rule in obj.get("rules", ()):
        assert all(values == sorted(set(values)) for values in rule.values())


@pytest.mark.parametrize("key", [key for key in DEFAULTS if key[0].endswith("Binding")], ids="/".join)
def test_default_bindings_refer_to_default_roles(key):
    reference = DEFAULTS[key]["roleRef"]
    namespace = key[1] if reference["kind"] == "Role" else ""
    assert (reference["kind"], namespace, reference["name"]) in DEFAULTS


def test_objects_of_this_project_are_marked():
    for kind, _, name in DEFAULTS:
        labels = DEFAULTS[kind, _, name]["metadata"]["labels"]
        if name.startswith("bridgehead:") or name == "system:coredns":
            assert labels == {"app.kubernetes.io/part-of": "bridgehead"}
        else:
            assert labels["kubernetes.io/bootstrapping"] == "rbac-defaults"


def test_a_complete_object_stays_as_it_is():
    for obj in DEFAULTS.values():
        assert reconciled(obj, obj) == obj
        more = copied(obj)
        more["metadata"]["labels"]["a"] = "b"
        more.setdefault("rules", []).append({"verbs": ["x"], "apiGroups": ["y"], "resources": ["z"]})
        assert reconciled(more, obj) == more


def test_missing_permissions_and_labels_are_added():
    old = copied(EDIT)
    old["metadata"] |= {"labels": {"mine": "a"}, "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "x"}}
    own = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}
    old["rules"] = [own, *old["rules"][2:]]
    new = reconciled(old, EDIT)
    assert new["metadata"]["labels"] == EDIT["metadata"]["labels"] | {"mine": "a"}
    # A value that a user has set stays.
    assert new["metadata"]["annotations"] == old["metadata"]["annotations"]
    assert new["rules"][: len(old["rules"])] == old["rules"]
    added = new["rules"][len(old["rules"]) :]
    assert {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]} in added
    # The first rule lacked `get pods/exec` and 17 others.
    assert len(added) == 1 + 18
    assert reconciled(new, EDIT) == new


def test_missing_subjects_are_added():
    user = {"apiGroup": rbac.GROUP, "kind": "User", "name": "bob"}
    old = copied(DISCOVERY) | {"subjects": [user]}
    assert reconciled(old, DISCOVERY)["subjects"] == [user, *DISCOVERY["subjects"]]
    del old["subjects"]
    assert reconciled(old, DISCOVERY)["subjects"] == DISCOVERY["subjects"]


def test_bindings_of_another_role_and_protected_objects_are_recognized():
    other = copied(DISCOVERY)
    assert not needs_recreation(other, DISCOVERY)
    other["roleRef"]["name"] = "x"
    assert needs_recreation(other, DISCOVERY)
    assert not is_protected(other)
    other["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = "false"
    assert is_protected(other)
