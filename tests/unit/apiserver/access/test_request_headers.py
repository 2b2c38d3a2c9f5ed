"""Users that a front proxy names in headers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bridgehead.apiserver.access.request_headers import RequestHeaders
from bridgehead.apiserver.http.user import User

HEADERS = RequestHeaders(Path("front-proxy-ca.crt"), ("front-proxy-client",))
ALICE = (b"x-remote-user", b"alice")


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ([ALICE], User("alice", ("system:authenticated",))),
        ([(b"x-remote-user", "zoë".encode())], User("zoë", ("system:authenticated",))),
        ([ALICE, (b"x-remote-user", b"bob")], User("alice", ("system:authenticated",))),
        ([ALICE, (b"x-remote-uid", b"42")], User("alice", ("system:authenticated",), "42")),
        (
            [(b"x-remote-group", b"dev"), ALICE, (b"x-remote-group", b""), (b"x-remote-group", b"ops")],
            User("alice", ("dev", "ops", "system:authenticated")),
        ),
        (
            [ALICE, (b"x-remote-group", b"system:unauthenticated")],
            User("alice", ("system:unauthenticated",)),
        ),
        ([(b"x-remote-user", b"system:anonymous")], User("system:anonymous")),
        (
            [
                ALICE,
                (b"x-remote-extra-scopes", b"a"),
                (b"x-remote-extra-a%2fb", b"c"),
                (b"x-remote-extra-scopes", b"d"),
            ],
            User("alice", ("system:authenticated",), "", {"scopes": ("a", "d"), "a/b": ("c",)}),
        ),
        ([(b"x-remote-user", b"")], None),
        ([(b"x-remote-group", b"system:masters")], None),
    ],
)
def test_headers_name_a_user(headers, user):
    assert HEADERS.user("front-proxy-client", headers) == user


def test_only_allowed_proxies_are_believed():
    assert HEADERS.user("other", [ALICE]) is None
    assert replace(HEADERS, allowed_names=()).user("other", [ALICE]) is not None


def test_headers_that_name_users_are_not_passed_on():
    headers = replace(HEADERS, groups=("X-Remote-Group", "X-Team"), uids=("X-Id",), extra_prefixes=("X-More-",))
    kept = [(b"host", b"api"), (b"x-teams", b"a"), (b"x-remote-uid", b"42")]
    named = [ALICE, (b"x-team", b"ops"), (b"x-id", b"1"), (b"x-more-scopes", b"a")]
    assert headers.without([*named, *kept]) == kept
    assert replace(headers, extra_prefixes=()).without([*named, *kept]) == [named[-1], *kept]


def test_headers_have_the_configured_names():
    headers = replace(HEADERS, user_names=("X-Name", "X-Email"), groups=("X-Team", "X-Role"))
    given = [(b"x-role", b"r"), (b"x-email", b"a@example.com"), (b"x-team", b"t"), (b"x-name", b"")]
    assert headers.user("front-proxy-client", given) == User("a@example.com", ("t", "r", "system:authenticated"))
