"""Decisions that follow from roles and bindings."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.access.rbac.policy_cache import StoredPolicy
from bridgehead.apiserver.access.rbac.rbac_authorizer import Policy
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.storage import Facts, Key, MemoryStore

GROUP = "rbac.authorization.k8s.io"
BOB = User("bob", ("dev", "system:authenticated"))
ROBOT = User("system:serviceaccount:n:robot", ("system:serviceaccounts",))


def role(*rules):
    return json.dumps({"metadata": {"name": "x"}, "rules": list(rules)}).encode()


def allow(verbs, resources="", groups="core", names="", urls=""):
    rule = {"verbs": verbs.split()}
    if resources:
        rule |= {"resources": resources.split(), "apiGroups": ["" if g == "core" else g for g in groups.split()]}
    if names:
        rule["resourceNames"] = names.split()
    if urls:
        rule["nonResourceURLs"] = urls.split()
    return rule


def binding(kind, name, *subjects):
    return json.dumps({"roleRef": {"kind": kind, "name": name}, "subjects": list(subjects)}).encode()


def user(name):
    return {"kind": "User", "name": name}


def group(name):
    return {"kind": "Group", "name": name}


def account(name, namespace=""):
    return {"kind": "ServiceAccount", "name": name} | ({"namespace": namespace} if namespace else {})


def ask(verb, resource, namespace="", *, group="", name=""):
    resource, _, subresource = resource.partition("/")
    return RequestInfo("", verb, True, group, "v1", namespace, resource, name, subresource)


def allowed(policy, who, request):
    return policy.decide(who, request).allowed


@pytest.mark.parametrize(
    ("rule", "request_", "expected"),
    [
        (allow("get", "pods"), ask("get", "pods", "n"), True),
        (allow("get", "pods"), ask("list", "pods", "n"), False),
        (allow("*", "pods"), ask("impersonate", "pods"), True),
        (allow("get", "pods"), ask("get", "pods/log", "n"), False),
        (allow("get", "pods/log"), ask("get", "pods/log", "n"), True),
        (allow("get", "*/log"), ask("get", "pods/log", "n"), True),
        (allow("get", "*/log"), ask("get", "pods", "n"), False),
        (allow("get", "*/log"), ask("get", "pods/xlog", "n"), False),
        (allow("get", "*"), ask("get", "pods/log", "n"), True),
        (allow("get", "pods"), ask("get", "pods", group="metrics.k8s.io"), False),
        (allow("get", "pods", "*"), ask("get", "pods", group="metrics.k8s.io"), True),
        (allow("get", "pods", "core apps"), ask("get", "pods", group="apps"), True),
        (allow("get", "pods", names="a"), ask("get", "pods", "n", name="a"), True),
        (allow("get", "pods", names="a"), ask("get", "pods", "n", name="b"), False),
        (allow("list", "pods", names="a"), ask("list", "pods", "n"), False),
        (allow("get", urls="/metrics"), ask("get", "metrics"), False),
        (allow("get", urls="/metrics"), RequestInfo("/metrics", "get"), True),
        (allow("get", urls="/metrics"), RequestInfo("/metrics/slis", "get"), False),
        (allow("get", urls="/metrics/*"), RequestInfo("/metrics/slis", "get"), True),
        (allow("get", urls="/metrics/*"), RequestInfo("/metrics", "get"), False),
        (allow("get", urls="*"), RequestInfo("/metrics", "get"), True),
        (allow("get", urls="*"), RequestInfo("/metrics", "head"), False),
        (allow("*", "*", "*"), RequestInfo("/metrics", "get"), False),
    ],
)
def test_a_rule_allows_what_kubernetes_allows(rule, request_, expected):
    policy = Policy()
    policy.put_role("", "r", role(rule))
    policy.put_binding("", "b", binding("ClusterRole", "r", user("bob")))
    assert allowed(policy, BOB, request_) is expected


def test_bindings_apply_to_their_subjects_and_namespaces():
    policy = Policy()
    policy.put_role("", "reader", role(allow("get", "pods")))
    policy.put_role("n", "local", role(allow("get", "secrets")))
    policy.put_binding("n", "a", binding("ClusterRole", "reader", group("dev")))
    policy.put_binding("n", "b", binding("Role", "local", account("robot")))
    policy.put_binding("m", "c", binding("ClusterRole", "reader", account("robot", "n"), {"kind": "Node", "name": "x"}))
    assert allowed(policy, BOB, ask("get", "pods", "n"))
    assert not allowed(policy, BOB, ask("get", "pods", "m"))
    assert not allowed(policy, BOB, ask("get", "pods"))
    assert not allowed(policy, User("dev"), ask("get", "pods", "n"))
    assert allowed(policy, ROBOT, ask("get", "secrets", "n"))
    assert allowed(policy, ROBOT, ask("get", "pods", "m"))
    assert not allowed(policy, User("system:serviceaccount:m:robot"), ask("get", "pods", "m"))
    assert policy.decide(ROBOT, ask("get", "secrets", "n")).reason == (
        'RBAC: allowed by RoleBinding "b/n" of Role "local" to ServiceAccount "robot/n"'
    )
    # A service account of a ClusterRoleBinding has to name its namespace.
    policy.put_binding("", "d", binding("ClusterRole", "reader", account("robot")))
    assert not allowed(policy, ROBOT, ask("get", "pods", "n"))
    policy.remove_binding("m", "c")
    assert not allowed(policy, ROBOT, ask("get", "pods", "m"))


def test_bindings_to_absent_roles_are_reported_and_come_into_force_later():
    policy = Policy()
    policy.put_binding("", "a", binding("ClusterRole", "x", user("bob")))
    assert policy.decide(BOB, ask("get", "pods")) == (False, f'RBAC: clusterrole.{GROUP} "x" not found')
    policy.put_binding("n", "b", binding("Role", "y", user("bob"), user("bob")))
    policy.put_binding("n", "c", binding("Role", "y", group("dev")))
    assert policy.decide(BOB, ask("get", "pods", "n")).reason == (
        f'RBAC: [clusterrole.{GROUP} "x" not found, role.{GROUP} "y" not found]'
    )
    assert policy.rules_of(BOB, "n") == (
        [],
        [f'clusterrole.{GROUP} "x" not found', *[f'role.{GROUP} "y" not found'] * 2],
    )
    policy.put_role("n", "y", role(allow("get", "pods")))
    assert allowed(policy, BOB, ask("get", "pods", "n"))
    policy.remove_role("n", "y")
    assert not allowed(policy, BOB, ask("get", "pods", "n"))
    for index in range(10_000):
        policy.put_binding("", f"b{index}", binding("ClusterRole", f"r{index}", user("eve")))
    reason = policy.decide(User("eve"), ask("get", "pods")).reason
    assert reason.endswith("and 9990 more]")
    assert len(reason) < 1000


def test_the_rules_of_a_role_are_found_for_a_binding():
    policy = Policy()
    policy.put_role("", "a", role(allow("get", "pods")))
    policy.put_role("n", "a", json.dumps({"metadata": {}}).encode())
    policy.put_binding("n", "b", binding("Role", "a", user("bob")))
    assert not allowed(policy, BOB, ask("get", "pods", "n"))
    assert [rule.verbs for rule in policy.rules_of_role("ClusterRole", "n", "a")] == [("get",)]
    assert policy.rules_of_role("Role", "n", "a") == ()
    with pytest.raises(ApiStatus) as refused:
        policy.rules_of_role("Role", "m", "a")
    assert (refused.value.code, refused.value.message) == (404, f'roles.{GROUP} "a" not found')


names = st.sampled_from(["a", "b"])
subjects = st.builds(user, names) | st.builds(group, names) | st.builds(account, names, st.sampled_from(["", "m", "n"]))
paths = st.tuples(st.sampled_from(["", "m", "n"]), names)
changes = st.lists(
    st.tuples(st.just("role"), paths, st.none() | names)
    | st.tuples(
        st.just("binding"),
        paths,
        st.none() | st.tuples(st.sampled_from(["Role", "ClusterRole"]), names, st.lists(subjects, max_size=3)),
    ),
    max_size=12,
)
USERS = [
    User(name, groups)
    for name in ("a", "b", "system:serviceaccount:n:a", "system:serviceaccount:m:b")
    for groups in ((), ("a",), ("a", "b"))
]


@given(changes)
def test_decisions_are_those_of_a_search_through_all_objects(history):
    """The index gives the decisions of the definition, after any history of changes."""
    policy, roles, bindings = Policy(), {}, {}
    for kind, (namespace, name), value in history:
        stored = roles if kind == "role" else bindings
        if value is None:
            stored.pop((namespace, name), None)
            (policy.remove_role if kind == "role" else policy.remove_binding)(namespace, name)
        elif kind == "role":
            stored[namespace, name] = value
            policy.put_role(namespace, name, role(allow("get", value)))
        else:
            stored[namespace, name] = value
            policy.put_binding(namespace, name, binding(value[0], value[1], *value[2]))
    for who in USERS:
        for namespace in ("", "m", "n"):
            for resource in ("a", "b"):
                expected = any(
                    roles.get((where if kind == "Role" else "", target)) == resource
                    for (where, _), (kind, target, those) in bindings.items()
                    if where in ("", namespace)
                    for one in those
                    if matches(one, who, where)
                )
                assert allowed(policy, who, ask("get", resource, namespace)) is expected


def matches(subject, who, namespace):
    match subject["kind"]:
        case "User":
            return who.name == subject["name"]
        case "Group":
            return subject["name"] in who.groups
    return who.name == f"system:serviceaccount:{subject.get('namespace') or namespace}:{subject['name']}"


async def test_the_policy_of_a_store_follows_its_writes():
    store = MemoryStore(history_changes=20)
    stored = StoredPolicy(store)
    assert not allowed(stored.current(), BOB, ask("get", "pods"))
    await put(store, "clusterroles", "r", {"rules": [allow("get", "pods")]})
    await put(store, "clusterrolebindings", "b", json.loads(binding("ClusterRole", "r", user("bob"))))
    assert allowed(stored.current(), BOB, ask("get", "pods"))
    await store.delete(Key(f"clusterrolebindings.{GROUP}", "", "b"))
    assert not allowed(stored.current(), BOB, ask("get", "pods"))
    # More changes than the store keeps: the policy begins again.
    for index in range(30):
        await put(store, "clusterrolebindings", f"b{index}", json.loads(binding("ClusterRole", "r", user(f"u{index}"))))
    assert all(allowed(stored.current(), User(f"u{index}"), ask("get", "pods")) for index in range(30))
    assert allowed(StoredPolicy(store).current(), User("u3"), ask("get", "pods"))
    await store.close()


async def put(store, plural, name, obj):
    await store.create(Key(f"{plural}.{GROUP}", "", name), {"metadata": {"name": name}, **obj}, Facts())
