"""Rules for the data of ConfigMaps and Secrets.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateSecret`, `ValidateConfigMap` and their updates.
"""

from __future__ import annotations

import base64

from bridgehead.apiserver.resource import FieldError, JsonObject

from . import field

MAX_DATA_BYTES = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"


def validate_frozen(obj: JsonObject, old: JsonObject, fields: tuple[str, ...]) -> list[FieldError]:
    """Refuse changes of an object that is marked as `immutable`."""
    if not old.get("immutable"):
        return []
    errors = []
    if not obj.get("immutable"):
        errors.append(field.forbidden("immutable", _IMMUTABLE))
    errors.extend(field.forbidden(name, _IMMUTABLE) for name in fields if obj.get(name, {}) != old.get(name, {}))
    return errors


def decoded(text: str) -> bytes:
    """Decode a base64 value; b"" for a malformed one, which the schema check has refused before."""
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""


def decoded_size(text: str) -> int:
    return len(decoded(text))
