"""The `continue` tokens of lists: where the next page begins, and at which revision.

A token is Kubernetes' own: base64 of JSON, with the time of the first page in addition. Pure: no I/O, no clock, no
randomness. Source: apiserver/pkg/storage/continue.go.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

import msgspec

from bridgehead.apiserver.errors import bad_request

_VERSION = "meta.k8s.io/v1"
# The revision of a token that continues with the objects as they are now.
INCONSISTENT = -1


class Position(NamedTuple):
    """Start of a page: after the object `after` (namespace and name), at `revision`.

    `since` is the time of the list's first page, in seconds since the epoch.
    """

    revision: int
    after: tuple[str, str]
    since: int = 0


class _Token(msgspec.Struct, omit_defaults=True):
    v: str = ""
    rv: int = 0
    start: str = ""
    since: int = 0


def write_token(position: Position) -> str:
    namespace, name = position.after
    start = f"{namespace}/{name}\0" if namespace else f"{name}\0"
    token = msgspec.json.encode(_Token(_VERSION, position.revision, start, position.since))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def read_token(text: str) -> Position:
    """Parse a token. Raises a 400."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except (ValueError, msgspec.DecodeError):
        raise _refused("encountered invalid data") from None
    if token.v != _VERSION:
        raise _refused(f"server does not recognize this encoded version {token.v}")
    if token.rv == 0:
        raise _refused(f"incorrect encoded start resourceVersion (version {_VERSION})")
    if not token.start:
        raise _refused(f"encoded start key empty (version {_VERSION})")
    namespace, _, name = token.start.removesuffix("\0").rpartition("/")
    return Position(token.rv, (namespace, name), token.since)


def _refused(why: str) -> Exception:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
