"""Parts that could not be looked at, as a user reads them."""

from __future__ import annotations

from bridgehead.insight.findings import Unseen, grouped


def forbidden(kind: str, scope: str = "at the cluster scope") -> Unseen:
    return Unseen(kind, f'{kind}.x is forbidden: User "bob" cannot list resource "{kind}" in API group "x" {scope}')


def test_missing_rights_are_one_reason_for_each_scope() -> None:
    own = 'in the namespace "shop"'
    parts = [forbidden("pods"), Unseen("nodes", "HTTP 500"), forbidden("events"), forbidden("leases", own)]
    assert list(map(str, grouped(parts))) == [
        'events, pods: User "bob" may not list them at the cluster scope',
        "nodes: HTTP 500",
        'leases: User "bob" may not list them in the namespace "shop"',
    ]


def test_parts_with_the_same_reason_are_one_and_others_are_left_alone() -> None:
    parts = [Unseen("a", "x"), Unseen("b", "y"), Unseen("c", "x"), Unseen("a", "x")]
    assert grouped(parts) == [Unseen("a, c", "x"), Unseen("b", "y")]
    assert grouped([]) == []
