"""Refusal of roles and bindings that give more than their writer has."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bridgehead.apiserver.http.user import User
from tests.unit.apiserver.world import ADMIN, World, open_world

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/namespaces/default/roles", f"{RBAC}/namespaces/default/rolebindings"
CLUSTER_ROLES, CLUSTER_BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
BOB = User("bob", ("system:authenticated",))
PREFIX = 'user "bob" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Bob may administer the namespace `default`, but not more."""
    async with open_world() as world:
        await grant(world, BINDINGS, "admin", "bob-is-admin")
        yield world


async def grant(world, url, role, name):
    kind = "ClusterRole"
    subjects = [{"kind": "User", "name": "bob"}]
    await world.create(url, {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role}, "subjects": subjects})


def role(*rules, name="r", **fields):
    return {"metadata": {"name": name}, "rules": list(rules), **fields}


def allow(verbs, resources, groups=("",), names=()):
    rule = {"verbs": verbs.split(), "apiGroups": list(groups), "resources": resources.split()}
    return rule | ({"resourceNames": list(names)} if names else {})


def binding(kind, name):
    subjects = [{"kind": "User", "name": "eve"}]
    return {"metadata": {"name": "b"}, "roleRef": {"kind": kind, "name": name}, "subjects": subjects}


async def refusal(world, method, url, obj, user=BOB):
    answer = await world.call(method, url, obj, user=user)
    return "" if answer.status < 300 else (answer.status, answer.json["message"])


async def test_a_role_may_have_what_its_writer_has(world):
    assert await refusal(world, "POST", ROLES, role(allow("get list", "pods configmaps"))) == ""
    assert await refusal(world, "POST", ROLES, role(allow("get", "pods nodes"), allow("x", "nodes"), name="s")) == (
        403,
        'roles.rbac.authorization.k8s.io "s" is forbidden: '
        + PREFIX
        + '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "x"]}',
    )
    more = role(allow("get list", "pods"), allow("get", "*", ("apps",)))
    assert await refusal(world, "PUT", f"{ROLES}/r", more) == (
        403,
        'roles.rbac.authorization.k8s.io "r" is forbidden: '
        + PREFIX
        + '{APIGroups:["apps"], Resources:["*"], Verbs:["get"]}',
    )
    # An administrator of everything is not asked.
    assert await refusal(world, "PUT", f"{ROLES}/r", more, ADMIN) == ""
    # Bob lacks a right of this role, and may change only what the garbage collector changes, too.
    assert (
        await refusal(world, "PUT", f"{ROLES}/r", role(*more["rules"], metadata={"name": "r", "labels": {"a": "b"}}))
    )[0] == 403
    finalized = role(*more["rules"], metadata={"name": "r", "finalizers": ["example.com/a"]})
    assert await refusal(world, "PUT", f"{ROLES}/r", finalized) == ""
    # A 403 comes before the object is stored: the role is unchanged.
    assert (await world.get(f"{ROLES}/r"))["rules"] == more["rules"]


async def test_the_verb_escalate_allows_any_role(world):
    url = f"{ROLES}/r"
    assert await refusal(world, "POST", ROLES, role(), ADMIN) == ""
    wanted = role(allow("get", "nodes"))
    assert (await refusal(world, "PUT", url, wanted))[0] == 403
    group = ("rbac.authorization.k8s.io",)
    await world.create(ROLES, role(allow("escalate", "roles", group, names=["r"]), name="escalate"))
    subjects = [{"kind": "User", "name": "bob"}]
    await world.create(
        BINDINGS,
        {"metadata": {"name": "e"}, "roleRef": {"kind": "Role", "name": "escalate"}, "subjects": subjects},
    )
    assert await refusal(world, "PUT", url, wanted) == ""
    # The name of a new object is not in the request.
    assert (await refusal(world, "POST", ROLES, role(allow("get", "nodes"), name="t")))[0] == 403


async def test_a_binding_may_refer_to_a_role_whose_rights_its_writer_has(world):
    await world.create(ROLES, role(allow("get", "nodes")))
    await world.create(ROLES, role(allow("get", "pods"), name="s"))
    assert await refusal(world, "POST", BINDINGS, binding("Role", "r")) == (
        403,
        'rolebindings.rbac.authorization.k8s.io "b" is forbidden: '
        + PREFIX
        + '{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}',
    )
    assert await refusal(world, "POST", BINDINGS, binding("Role", "absent")) == (
        404,
        'roles.rbac.authorization.k8s.io "absent" not found',
    )
    assert await refusal(world, "POST", BINDINGS, binding("Role", "s")) == ""
    assert await refusal(world, "DELETE", f"{BINDINGS}/b", None) == ""
    await world.create(ROLES, role(allow("bind", "roles", ("rbac.authorization.k8s.io",), names=["r"]), name="bind"))
    await world.create(
        BINDINGS,
        {
            "metadata": {"name": "c"},
            "roleRef": {"kind": "Role", "name": "bind"},
            "subjects": [{"kind": "User", "name": "bob"}],
        },
    )
    assert await refusal(world, "POST", BINDINGS, binding("Role", "r")) == ""
    # The rights in one namespace are none in the whole cluster.
    answer = await world.call("POST", CLUSTER_BINDINGS, binding("ClusterRole", "view"), user=BOB)
    assert answer.json["message"].startswith("clusterrolebindings.rbac.authorization.k8s.io is forbidden: User")


async def test_aggregated_roles_are_for_those_who_have_all_rights(world):
    await world.create(CLUSTER_ROLES, role(allow("create update", "clusterroles", ("rbac.authorization.k8s.io",))))
    await grant(world, CLUSTER_BINDINGS, "r", "roles")
    gathering = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    why = "must have cluster-admin privileges to use the aggregationRule"
    assert await refusal(world, "POST", CLUSTER_ROLES, role(name="g")) == ""
    for method, url in (("POST", CLUSTER_ROLES), ("PUT", f"{CLUSTER_ROLES}/g")):
        obj = role(name="h" if method == "POST" else "g", aggregationRule=gathering)
        status, message = await refusal(world, method, url, obj)
        assert (status, message.partition(": ")[2]) == (403, why)
    assert await refusal(world, "PUT", f"{CLUSTER_ROLES}/g", role(name="g", aggregationRule=gathering), ADMIN) == ""
    # Without its rule the role would keep what it has gathered.
    assert (await refusal(world, "PUT", f"{CLUSTER_ROLES}/g", role(name="g")))[0] == 403
    await grant(world, CLUSTER_BINDINGS, "cluster-admin", "all")
    assert await refusal(world, "PUT", f"{CLUSTER_ROLES}/g", role(name="g")) == ""


async def test_bindings_to_absent_roles_are_named_in_refusals(world):
    await world.create(BINDINGS, binding("Role", "absent") | {"subjects": [{"kind": "User", "name": "bob"}]})
    _, message = await refusal(world, "POST", ROLES, role(allow("get", "nodes")))
    assert message.endswith('; resolution errors: [role.rbac.authorization.k8s.io "absent" not found]')


async def test_apply_and_patch_are_checked(world):
    await world.create(ROLES, role(allow("get", "pods")))
    patch = {"rules": [allow("get", "nodes")]}
    headers = {"content-type": "application/merge-patch+json"}
    assert (await world.call("PATCH", f"{ROLES}/r", patch, user=BOB, headers=headers)).status == 403
    applied = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"} | role(allow("get", "nodes"), name="new")
    headers = {"content-type": "application/apply-patch+yaml"}
    answer = await world.call("PATCH", f"{ROLES}/new?fieldManager=a", applied, user=BOB, headers=headers)
    assert answer.status == 403
    assert (await world.call("GET", f"{ROLES}/new")).status == 404
