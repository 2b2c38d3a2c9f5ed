"""Impersonation: `kubectl --as`.

The user must be allowed to `impersonate` the user, and each group, uid and extra value that the headers name.
Source: Kubernetes "User impersonation".
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from bridgehead.apiserver.errors import bad_request
from bridgehead.apiserver.http.paths import RequestInfo
from bridgehead.apiserver.http.user import AUTHENTICATED, UNAUTHENTICATED, User

from .authorization import Authorizer
from .tokens import PREFIX

_EXTRA = b"impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"


def impersonate(user: User, headers: Iterable[tuple[bytes, bytes]], authorizer: Authorizer) -> User:
    """Return the user that the headers ask for, or `user` without such headers. Raises a 400 or a 403."""
    name, uid, groups = "", "", []
    extra: dict[str, list[str]] = {}
    for header, raw in headers:
        if not header.startswith(b"impersonate-"):
            continue
        value = raw.decode("latin-1")
        if header == b"impersonate-user":
            name = value
        elif header == b"impersonate-uid":
            uid = value
        elif header == b"impersonate-group":
            groups.append(value)
        elif header.startswith(_EXTRA):
            extra.setdefault(unquote(header[len(_EXTRA) :].decode("latin-1")), []).append(value)
    if not name:
        if groups or uid or extra:
            raise bad_request("requested uid, groups or extra without impersonating a user")
        return user
    namespace, account = _service_account(name)
    _check(authorizer, user, "serviceaccounts" if account else "users", namespace, account or name)
    for group in groups:
        _check(authorizer, user, "groups", "", group)
    if uid:
        _check(authorizer, user, "uids", "", uid, group=_AUTHENTICATION)
    for key, values in extra.items():
        for value in values:
            _check(authorizer, user, "userextras", "", value, group=_AUTHENTICATION, subresource=key)
    if account and not groups:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if UNAUTHENTICATED not in groups and AUTHENTICATED not in groups:
        groups.append(UNAUTHENTICATED if name == "system:anonymous" else AUTHENTICATED)
    return User(name, tuple(groups), uid, {key: tuple(values) for key, values in extra.items()})


def _service_account(name: str) -> tuple[str, str]:
    namespace, colon, account = name.removeprefix(PREFIX).partition(":")
    return (namespace, account) if name.startswith(PREFIX) and colon else ("", "")


def _check(
    authorizer: Authorizer,
    user: User,
    resource: str,
    namespace: str,
    name: str,
    *,
    group: str = "",
    subresource: str = "",
) -> None:
    authorizer.check(
        user, RequestInfo("", "impersonate", True, group, "v1", namespace, resource, name, subresource=subresource)
    )
