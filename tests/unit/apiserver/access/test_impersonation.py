"""Impersonation: the rights that it takes, and the user that results."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.access.authorization import refusal
from bridgehead.apiserver.access.impersonation import impersonate
from bridgehead.apiserver.access.rbac.rbac_authorizer import Decision
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http.request_info import RequestInfo, parse_request
from bridgehead.apiserver.http.user import User

BOB = User("bob", ("system:authenticated",))
AGENT = User(
    "system:serviceaccount:kube-system:agent",
    ("system:serviceaccounts",),
    extra={"authentication.kubernetes.io/node-name": ("node1",), "other": ("x",)},
)
PODS = parse_request("GET", "/api/v1/namespaces/n/pods", {})
AUTHENTICATION = "authentication.k8s.io"


class Rights:
    """An authorizer that allows (verb, group, resource, namespace, name), and notes what it was asked for."""

    def __init__(self, *allowed: tuple[str, ...]) -> None:
        self._allowed = allowed
        self.asked: list[tuple[str, ...]] = []

    def decide(self, user: User, request: RequestInfo) -> Decision:
        asked = (request.verb, request.group, request.rule_resource, request.namespace, request.name)
        self.asked.append(asked)
        return Decision(asked in self._allowed or ("*",) in self._allowed)

    def check(self, user: User, request: RequestInfo) -> None:
        if not self.decide(user, request).allowed:
            raise refusal(user, request)


def ask(user: User, headers: list[tuple[bytes, bytes]], info: RequestInfo, rights: Any) -> User:
    return impersonate(user, headers, info, rights)


def headers(user="", *, uid="", groups=(), **extra):
    found = [(b"accept", b"*/*"), (b"impersonate-user", user.encode())] if user else []
    found += [(b"impersonate-uid", uid.encode())] if uid else []
    found += [(b"impersonate-group", group.encode()) for group in groups]
    return found + [(f"impersonate-extra-{key}".encode(), value.encode()) for key, value in extra.items()]


def legacy(resource, name, *, group="", namespace=""):
    return ("impersonate", group, resource, namespace, name)


def on_pods(mode):
    return (f"impersonate-on:{mode}:list", "", "pods", "n", "")


def of(mode, resource, name, namespace=""):
    return (f"impersonate:{mode}", AUTHENTICATION, resource, namespace, name)


@pytest.mark.parametrize(
    ("wanted", "rights", "user"),
    [
        # Unconstrained: the right `impersonate`.
        (headers("eve"), [legacy("users", "eve")], User("eve", ("system:authenticated",))),
        (
            headers("eve", uid="7", groups=["dev"], scopes="a"),
            [
                legacy("users", "eve"),
                legacy("groups", "dev"),
                legacy("uids", "7", group=AUTHENTICATION),
                legacy("userextras/scopes", "a", group=AUTHENTICATION),
            ],
            User("eve", ("dev", "system:authenticated"), "7", {"scopes": ("a",)}),
        ),
        (
            headers("eve", groups=["system:masters"]),
            [legacy("users", "eve"), legacy("groups", "system:masters")],
            User("eve", ("system:masters", "system:authenticated")),
        ),
        (
            headers("system:serviceaccount:m:robot"),
            [legacy("serviceaccounts", "robot", namespace="m")],
            User(
                "system:serviceaccount:m:robot",
                ("system:serviceaccounts", "system:serviceaccounts:m", "system:authenticated"),
            ),
        ),
        (
            headers("system:node:node1"),
            [legacy("users", "system:node:node1")],
            User("system:node:node1", ("system:authenticated",)),
        ),
        (
            headers("system:anonymous"),
            [legacy("users", "system:anonymous")],
            User("system:anonymous", ("system:unauthenticated",)),
        ),
        (
            headers("eve", groups=["system:unauthenticated"]),
            [legacy("users", "eve"), legacy("groups", "system:unauthenticated")],
            User("eve", ("system:unauthenticated",)),
        ),
        # Constrained: a right for the identity, and one for the request.
        (
            headers("eve"),
            [on_pods("user-info"), of("user-info", "users", "eve")],
            User("eve", ("system:authenticated",)),
        ),
        (
            headers("eve", uid="7", groups=["a"], **{"a.io%2fb": "c"}),
            [
                on_pods("user-info"),
                of("user-info", "users", "eve"),
                of("user-info", "uids", "7"),
                of("user-info", "groups", "a"),
                of("user-info", "userextras/a.io/b", "c"),
            ],
            User("eve", ("a", "system:authenticated"), "7", {"a.io/b": ("c",)}),
        ),
        (
            headers("eve", groups=["a", "b", "c", "d"]),
            [on_pods("user-info"), of("user-info", "users", "eve"), of("user-info", "groups", "*")],
            User("eve", ("a", "b", "c", "d", "system:authenticated")),
        ),
        (
            headers("eve", **{"a.io%2fa": "1", "a.io%2fb": "1", "a.io%2fc": "1", "a.io%2fd": "1"}),
            [on_pods("user-info"), of("user-info", "users", "eve"), of("user-info", "userextras/*", "*")],
            User("eve", ("system:authenticated",), extra={f"a.io/{key}": ("1",) for key in "abcd"}),
        ),
        (
            headers("system:serviceaccount:m:robot"),
            [on_pods("serviceaccount"), of("serviceaccount", "serviceaccounts", "robot", "m")],
            User(
                "system:serviceaccount:m:robot",
                ("system:serviceaccounts", "system:serviceaccounts:m", "system:authenticated"),
            ),
        ),
        # A node gets its group.
        (
            headers("system:node:node2"),
            [on_pods("arbitrary-node"), of("arbitrary-node", "nodes", "node2")],
            User("system:node:node2", ("system:nodes", "system:authenticated")),
        ),
        (
            headers("system:node:node1"),
            [on_pods("associated-node"), of("associated-node", "nodes", "*")],
            User("system:node:node1", ("system:nodes", "system:authenticated")),
        ),
    ],
)
def test_each_part_takes_a_right(wanted, rights, user):
    assert ask(AGENT, wanted, PODS, Rights(*rights)) == user
    # All of the rights are needed.
    for missing in rights:
        with pytest.raises(ApiStatus) as refused:
            ask(AGENT, wanted, PODS, Rights(*(right for right in rights if right != missing)))
        assert refused.value.code == 403


def test_requests_without_headers_and_by_administrators():
    assert ask(BOB, [(b"accept", b"x")], PODS, Rights()) is BOB
    assert ask(BOB, [(b"impersonate-user", b"")], PODS, Rights()) is BOB
    for user in ("eve", "system:node:node1", "system:serviceaccount:a:b", "system:serviceaccount:a:B", "system:node:"):
        rights = Rights(("*",))
        assert ask(BOB, headers(user), PODS, rights).name == user
        assert rights.asked[0][0].startswith("impersonate-on:")


@pytest.mark.parametrize(
    ("wanted", "request_", "rights", "message"),
    [
        (headers("eve"), PODS, [],
         'pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods" in API group "" in the '
         'namespace "n"'),
        (headers("eve"), parse_request("GET", "/metrics", {}), [],
         'forbidden: User "bob" cannot impersonate-on:user-info:get path "/metrics"'),
        (headers("eve"), PODS, [on_pods("user-info")],
         'users.authentication.k8s.io "eve" is forbidden: User "bob" cannot impersonate:user-info resource "users" in '
         'API group "authentication.k8s.io" at the cluster scope'),
        (headers("system:node:node1"), PODS, [],
         'pods is forbidden: User "bob" cannot impersonate-on:arbitrary-node:list resource "pods" in API group "" in '
         'the namespace "n"'),
        # Only the unconstrained mode takes groups of nodes.
        (headers("system:node:node1", groups=["system:nodes"]), PODS, [],
         'users "system:node:node1" is forbidden: User "bob" cannot impersonate resource "users" in API group "" at '
         "the cluster scope"),
        (headers("eve", groups=["system:masters"]), PODS, [on_pods("user-info"), of("user-info", "users", "eve")],
         'groups.authentication.k8s.io "system:masters" is forbidden: User "bob" cannot impersonate:user-info resource '
         '"groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group '
         "is not allowed"),
        (headers("eve", groups=["a", ""]), PODS, [on_pods("user-info"), of("user-info", "users", "eve")],
         'groups.authentication.k8s.io is forbidden: User "bob" cannot impersonate:user-info resource "groups" in API '
         'group "authentication.k8s.io" at the cluster scope: impersonating the empty string group is not allowed'),
        *(
            (headers("eve", **{key: value}), PODS, [on_pods("user-info"), of("user-info", "users", "eve")],
             'userextras.authentication.k8s.io is forbidden: User "bob" cannot impersonate:user-info resource '
             f'"userextras" in API group "authentication.k8s.io" at the cluster scope: impersonating {why}')
            for key, value, why in (
                ("scopes", "a", 'an invalid key in extra is not allowed: extra.key: Invalid value: "scopes": must be a '
                 'domain-prefixed path (such as "acme.io/foo")'),
                ("", "a", "the empty string key in extra is not allowed"),
                ("a.io%2fB", "a", 'a non-lowercase key in extra is not allowed: "a.io/B"'),
                ("a.io%2fb", "", "the empty string value in extra is not allowed"),
            )
        ),
    ],
)  # fmt: skip
def test_refusals_are_those_of_the_first_mode(wanted, request_, rights, message):
    with pytest.raises(ApiStatus) as refused:
        ask(BOB, wanted, request_, Rights(*rights))
    assert (refused.value.code, refused.value.message) == (403, message)


def test_names_are_utf_8():
    wanted = ask(BOB, headers("josé", groups=("größe",)), PODS, Rights(("*",)))
    assert (wanted.name, wanted.groups) == ("josé", ("größe", "system:authenticated"))
    assert ask(BOB, [(b"impersonate-user", b"\xff")], PODS, Rights(("*",))).name == "\ufffd"


def test_parts_without_a_user_are_refused():
    with pytest.raises(ApiStatus) as refused:
        ask(BOB, headers(uid="7", groups=["a", "b"], k="v"), PODS, Rights(("*",)))
    assert (refused.value.code, refused.value.message) == (
        400,
        'requested &user.DefaultInfo{Name:"", UID:"7", Groups:[]string{"a", "b"}, '
        'Extra:map[string][]string{"k":[]string{"v"}}} without impersonating a user name',
    )
    with pytest.raises(ApiStatus, match=r"Groups:\[\]string\(nil\), Extra:map\[string\]\[\]string\(nil\)"):
        ask(BOB, headers(uid="7"), PODS, Rights())
