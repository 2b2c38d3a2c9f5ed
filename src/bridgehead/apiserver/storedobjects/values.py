"""Parts of stored values that do not depend on their kind: JSON, names, what is never stored.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.apiserver.go_json import check_depth
from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage.etcd import Undecodable

# Far above what an API server writes: Kubernetes bounds bodies of requests to 3 MiB, and etcd requests to 1.5 MiB if
# its operator does not raise that.
MAX_BYTES = 8 * 1024 * 1024
_NEVER_STORED = ("resourceVersion", "selfLink")

_decode = msgspec.json.Decoder().decode


def decode_json(stored: bytes) -> JsonObject:
    """Decode a JSON object of bounded size. Raises `Undecodable`."""
    if not stored.lstrip()[:1] == b"{":
        raise Undecodable("neither JSON nor protobuf" if stored else "an empty value")
    try:
        check_depth(stored)
        value: JsonObject = _decode(stored)
    except RecursionError as error:
        raise Undecodable("JSON that is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Undecodable(f"not JSON: {error}") from error
    return value


def without_version(obj: JsonObject) -> JsonObject:
    """Return an object without what is never stored: resourceVersion and selfLink."""
    metadata = obj["metadata"]
    if any(name in metadata for name in _NEVER_STORED):
        obj = {**obj, "metadata": {name: value for name, value in metadata.items() if name not in _NEVER_STORED}}
    return obj


def named(obj: JsonObject, *, namespaced: bool) -> None:
    """Drop what is never stored from an object. Raises `Undecodable` for one without a name or a namespace.

    The store compares them with those of the key.
    """
    metadata = obj.setdefault("metadata", {})
    for name in _NEVER_STORED:
        metadata.pop(name, None)
    if not metadata.get("name"):
        raise Undecodable("metadata.name is missing")
    if namespaced and not metadata.get("namespace"):
        raise Undecodable("metadata.namespace is missing")


def differ_by_zeros(less: Any, more: Any) -> bool:
    """Whether two values are equal but for fields of `more` with a zero value: 0, false, "", an empty list or map."""
    if type(less) is dict and type(more) is dict:
        return less.keys() <= more.keys() and all(
            differ_by_zeros(less[name], value) if name in less else not value and value is not None
            for name, value in more.items()
        )
    if type(less) is list and type(more) is list:
        return len(less) == len(more) and all(map(differ_by_zeros, less, more))
    return type(less) is type(more) and bool(less == more)
