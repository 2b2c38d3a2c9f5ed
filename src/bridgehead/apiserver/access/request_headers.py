"""Users that a front proxy names in the headers of its requests.

The servers of aggregated APIs and authenticating proxies pass on the requests of their users. The proxy proves itself
by a client certificate of a CA of its own; its headers `X-Remote-*` are believed then, and ignored otherwise.
Pure: no I/O, no clock, no randomness.
Source: Kubernetes "Authenticating Proxy"; apiserver/pkg/authentication/request/headerrequest, group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from bridgehead.apiserver.http.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The CA of front proxies, the names in their certificates (none: any name), and the headers that name users.

    The first header with a value counts for the name and the uid, all of them for groups and extra values.
    """

    authority: Path
    allowed_names: tuple[str, ...] = ()
    user_names: tuple[str, ...] = ("X-Remote-User",)
    uids: tuple[str, ...] = ("X-Remote-Uid",)
    groups: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)

    def user(self, proxy: str, headers: Iterable[tuple[bytes, bytes]]) -> User | None:
        """Return the user whom a front proxy's request names, None without one or if `proxy` is not allowed to.

        `proxy` is the common name of its certificate; the names of `headers` are in lower case.
        """
        if self.allowed_names and proxy not in self.allowed_names:
            return None
        texts = [(name.decode("latin-1"), value.decode(errors="replace")) for name, value in headers]
        name = _first(texts, self.user_names)
        if not name:
            return None
        groups = tuple(value for header in self.groups for value in _values(texts, header) if value)
        # A proxy that names one of these groups has decided itself.
        if name != ANONYMOUS.name and not {AUTHENTICATED, UNAUTHENTICATED} & set(groups):
            groups = (*groups, AUTHENTICATED)
        return User(name, groups, _first(texts, self.uids), self._extra(texts))

    def without(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return headers without those that name users. The names of `headers` are in lower case.

        The server of an aggregated API believes the same headers, of this server.
        """
        names = {name.lower().encode() for name in (*self.user_names, *self.uids, *self.groups)}
        prefixes = tuple(prefix.lower().encode() for prefix in self.extra_prefixes)
        return [pair for pair in headers if pair[0] not in names and not pair[0].startswith(prefixes)]

    def _extra(self, headers: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
        extra: dict[str, tuple[str, ...]] = {}
        for prefix in map(str.lower, self.extra_prefixes):
            for header, value in headers:
                if header.startswith(prefix):
                    key = unquote(header[len(prefix) :])
                    extra[key] = (*extra.get(key, ()), value)
        return extra


def _values(headers: Sequence[tuple[str, str]], name: str) -> list[str]:
    return [value for header, value in headers if header == name.lower()]


def _first(headers: Sequence[tuple[str, str]], names: Iterable[str]) -> str:
    """Return the value of the first header that has one; of several headers with one name, the first counts."""
    return next((values[0] for name in names if (values := _values(headers, name)) and values[0]), "")
