"""Rules for the data of ConfigMaps and Secrets.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateSecret`, `ValidateConfigMap` and their updates.
"""

from __future__ import annotations

import base64

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject

MAX_DATA_BYTES = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"


def validate_frozen(obj: Field, old: JsonObject, fields: tuple[str, ...]) -> None:
    """Refuse changes of an object that is marked as `immutable`."""
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        obj.at("immutable").forbidden(_IMMUTABLE)
    for name in fields:
        if obj.get(name, {}) != old.get(name, {}):
            obj.at(name).forbidden(_IMMUTABLE)


def decoded(text: str) -> bytes:
    """Decode a base64 value; b"" for a malformed one, which the schema check has refused before."""
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""


def decoded_size(text: str) -> int:
    return len(decoded(text))
