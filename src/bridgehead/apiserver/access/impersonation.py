"""Impersonation: `kubectl --as`.

The user must be allowed to impersonate the wanted user, and each group, uid and extra value that the headers name. The
modes of constrained impersonation are tried first: they take the right `impersonate:MODE` for the identity and
`impersonate-on:MODE:VERB` for the request. The last mode is the right `impersonate`, for all requests. A refusal is
that of the first mode that fits the wanted user.
Source: Kubernetes "User impersonation", KEP-5284, apiserver/pkg/endpoints/filters/impersonation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote

from msgspec.structs import replace

from bridgehead.apiserver.errors import ApiStatus, bad_request
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import AUTHENTICATED, NODE_NAME, UNAUTHENTICATED, User
from bridgehead.apiserver.resources.rbac.rules import quoted
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .authorization import MASTERS, Authorizer, refusal

_PREFIX = b"impersonate-"
_EXTRA = b"impersonate-extra-"
_ACCOUNT, _NODE = "system:serviceaccount:", "system:node:"
_NODES = "system:nodes"
_ANONYMOUS = "system:anonymous"
_AUTHENTICATION = "authentication.k8s.io"
# Number of checks of groups or extra values from which on a right for all of them is looked for first.
_MANY = 4
_DOMAIN_PREFIXED = re.compile(r"[^/]+/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


@dataclass(slots=True)
class _Wanted:
    """The user that the headers name. `account` is (namespace, name) of a service account, `node` a node's name."""

    name: str = ""
    uid: str = ""
    groups: list[str] = field(default_factory=list)
    extra: dict[str, list[str]] = field(default_factory=dict)
    account: tuple[str, str] | None = None
    node: str = ""

    @property
    def has_only_name(self) -> bool:
        return not (self.uid or self.groups or self.extra)


# The constrained modes, in the order in which they are tried, and whether they fit a wanted user and a requestor.
_MODES: tuple[tuple[str, Callable[[_Wanted, User], bool]], ...] = (
    (
        "associated-node",
        lambda wanted, user: bool(
            wanted.node
            and wanted.has_only_name
            and _account_of(user.name)
            and user.extra.get(NODE_NAME) == (wanted.node,)
        ),
    ),
    ("arbitrary-node", lambda wanted, user: bool(wanted.node) and wanted.has_only_name),
    ("serviceaccount", lambda wanted, user: wanted.account is not None and wanted.has_only_name),
    ("user-info", lambda wanted, user: not wanted.node and wanted.account is None),
)


def impersonate(user: User, headers: Iterable[tuple[bytes, bytes]], info: RequestInfo, authorizer: Authorizer) -> User:
    """Return the user that the headers of a request ask for, or `user` without such headers. Raises a 400 or a 403."""
    wanted = _parse(headers)
    if wanted is None:
        return user
    first: ApiStatus | None = None
    for mode, fits in _MODES:
        if not fits(wanted, user):
            continue
        try:
            authorizer.check(user, replace(info, verb=f"impersonate-on:{mode}:{info.verb}"))
            _Checks(authorizer, user, f"impersonate:{mode}").check(wanted)
            return _as_user(wanted, is_constrained=True)
        except ApiStatus as status:
            first = first or status
    try:
        _Checks(authorizer, user, "impersonate").check(wanted)
    except ApiStatus as status:
        raise (first or status) from None
    return _as_user(wanted, is_constrained=False)


def _parse(headers: Iterable[tuple[bytes, bytes]]) -> _Wanted | None:
    """Return the user that the headers name, None without such headers. Raises a 400."""
    # Names are UTF-8, as in certificates and bindings.
    found = [(header, raw.decode(errors="replace")) for header, raw in headers if header.startswith(_PREFIX)]
    if not found:
        return None
    wanted = _Wanted()
    for header, value in found:
        if header == b"impersonate-user":
            wanted.name = wanted.name or value
        elif header == b"impersonate-uid":
            wanted.uid = wanted.uid or value
        elif header == b"impersonate-group":
            wanted.groups.append(value)
        elif header.startswith(_EXTRA):
            wanted.extra.setdefault(unquote(header[len(_EXTRA) :].decode("latin-1")), []).append(value)
    if not wanted.name:
        if wanted.has_only_name:
            return None
        raise bad_request(f"requested {_as_go(wanted)} without impersonating a user name")
    wanted.account = _account_of(wanted.name)
    node = wanted.name.removeprefix(_NODE)
    if wanted.name.startswith(_NODE) and not check_dns1123_subdomain(node):
        wanted.node = node
    return wanted


def _account_of(name: str) -> tuple[str, str] | None:
    """Return namespace and name of a service account's user."""
    namespace, colon, account = name.removeprefix(_ACCOUNT).partition(":")
    if not name.startswith(_ACCOUNT) or not colon:
        return None
    if check_dns1123_label(namespace) or check_dns1123_subdomain(account):
        return None
    return namespace, account


def _as_user(wanted: _Wanted, *, is_constrained: bool) -> User:
    groups = wanted.groups
    if wanted.node and is_constrained:
        groups = [_NODES]
    elif wanted.account is not None and not groups:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{wanted.account[0]}"]
    if wanted.name == _ANONYMOUS:
        groups = [*groups, *({UNAUTHENTICATED} - set(groups))]
    elif UNAUTHENTICATED not in groups and AUTHENTICATED not in groups:
        groups = [*groups, AUTHENTICATED]
    return User(wanted.name, tuple(groups), wanted.uid, {key: tuple(values) for key, values in wanted.extra.items()})


class _Checks:
    """The checks of one mode for all parts of a wanted user."""

    def __init__(self, authorizer: Authorizer, user: User, verb: str) -> None:
        self._authorizer = authorizer
        self._user = user
        self._verb = verb
        self._is_constrained = verb != "impersonate"

    def check(self, wanted: _Wanted) -> None:
        """Raise a 403 unless the user may impersonate all parts."""
        self._check_name(wanted)
        if wanted.uid:
            self._authorizer.check(self._user, self._request("uids", wanted.uid, group=_AUTHENTICATION))
        if wanted.groups:
            self._check_groups(wanted.groups)
        if wanted.extra:
            self._check_extra(wanted.extra)

    def _check_name(self, wanted: _Wanted) -> None:
        request = self._request("users", wanted.name)
        if wanted.node and self._is_constrained:
            # A right for the own node does not name the node, which differs from pod to pod.
            is_own = self._verb == "impersonate:associated-node"
            request = self._request("nodes", "*" if is_own else wanted.node)
        elif wanted.account is not None:
            namespace, name = wanted.account
            request = replace(self._request("serviceaccounts", name), namespace=namespace)
        self._authorizer.check(self._user, request)

    def _check_groups(self, groups: list[str]) -> None:
        if self._is_constrained:
            if "" in groups:
                raise self._refused(self._request("groups", ""), "impersonating the empty string group is not allowed")
            if MASTERS in groups:
                why = f"impersonating the {MASTERS} group is not allowed"
                raise self._refused(self._request("groups", MASTERS), why)
            if len(groups) >= _MANY and self._may(self._request("groups", "*")):
                return
        for group in groups:
            self._authorizer.check(self._user, self._request("groups", group))

    def _check_extra(self, extra: dict[str, list[str]]) -> None:
        request = self._request("userextras", "", group=_AUTHENTICATION)
        if self._is_constrained:
            if why := _find_invalid(extra):
                raise self._refused(request, why)
            is_large = sum(map(len, extra.values())) >= _MANY
            if is_large and self._may(replace(request, subresource="*", name="*")):
                return
        for key, values in extra.items():
            for value in values:
                self._authorizer.check(self._user, replace(request, subresource=key, name=value))

    def _request(self, resource: str, name: str, *, group: str = "") -> RequestInfo:
        group = _AUTHENTICATION if self._is_constrained else group
        return RequestInfo("", self._verb, True, group, "v1", "", resource, name)

    def _may(self, request: RequestInfo) -> bool:
        return self._authorizer.decide(self._user, request).allowed

    def _refused(self, request: RequestInfo, why: str) -> ApiStatus:
        return refusal(self._user, request, why)


def _find_invalid(extra: dict[str, list[str]]) -> str:
    """Return why extra values may not be impersonated in a constrained mode, or ""."""
    for key, values in extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        if not _DOMAIN_PREFIXED.fullmatch(key) or check_dns1123_subdomain(key.partition("/")[0]):
            why = Field(key, "extra.key").invalid('must be a domain-prefixed path (such as "acme.io/foo")')
            return f"impersonating an invalid key in extra is not allowed: {why.field}: {why.message}"
        if key != key.lower():
            return f"impersonating a non-lowercase key in extra is not allowed: {json.dumps(key)}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""


def _as_go(wanted: _Wanted) -> str:
    """Render the fields as Go's `%#v` does, which Kubernetes' message shows."""

    def texts(values: list[str]) -> str:
        return "[]string{" + quoted(values)[1:-1].replace('" "', '", "') + "}"

    groups = texts(wanted.groups) if wanted.groups else "[]string(nil)"
    extra = "map[string][]string(nil)"
    if wanted.extra:
        items = (f"{json.dumps(key)}:{texts(values)}" for key, values in sorted(wanted.extra.items()))
        extra = f"map[string][]string{{{', '.join(items)}}}"
    return f'&user.DefaultInfo{{Name:"", UID:{json.dumps(wanted.uid)}, Groups:{groups}, Extra:{extra}}}'
