"""Decoding of JSON and YAML bodies, and of the identity of stored objects.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bridgehead.apiserver import go_json
from bridgehead.apiserver.errors import ApiStatus, bad_request, unsupported_media_type
from bridgehead.apiserver.go_values import json_kind
from bridgehead.apiserver.http.negotiation import media_type_of
from bridgehead.media_types import JSON, YAML

DELETE_OPTIONS = "DeleteOptions"
_NO_KIND = "couldn't get version/kind; json parse error: "
# The type of Go that the decoder of Kubernetes reads kind and version into.
_TYPE = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'


def decode_body(body: bytes, content_type: str, accepted: Sequence[str] = (JSON, YAML), kind: str = "") -> Any:
    """Decode a body of `kind`. Raises a 415 for other media types and a 400 for a syntax error."""
    given = media_type_of(content_type) or JSON
    if given not in accepted:
        raise unsupported_media_type(content_type, accepted)
    return _decode_yaml(body, kind) if given == YAML else _decode_json(body, kind)


def _decode_json(body: bytes, kind: str) -> Any:
    try:
        return go_json.decode(body)
    except go_json.GoSyntaxError as error:
        raise unreadable(body, kind, f"{_NO_KIND}{error}") from None


def kind_and_version(value: Any, body: bytes, kind: str) -> tuple[str, str]:
    """Return the kind and the apiVersion of a decoded body, "" for what is absent. Raises a 400."""
    if not isinstance(value, dict):
        raise unreadable(
            body, kind, f"{_NO_KIND}json: cannot unmarshal {json_kind(value)} into Go value of type {_TYPE}"
        )
    found = []
    for name in ("kind", "apiVersion"):
        text = value.get(name)
        if not isinstance(text, str | None):
            why = f"json: cannot unmarshal {json_kind(text)} into Go struct field .{name} of type string"
            raise unreadable(body, kind, f"{_NO_KIND}{why}")
        found.append(text or "")
    if found[1].count("/") > 1:
        raise unreadable(body, kind, f"unexpected GroupVersion string: {found[1]}")
    return found[0], found[1]


def unreadable(body: bytes, kind: str, why: str) -> ApiStatus:
    """Return the error for a body of which not even the kind can be read. A delete's options are named by no kind."""
    if kind == DELETE_OPTIONS:
        return bad_request(why)
    wanted = f" (must be of type {kind})" if kind else ""
    return bad_request(f"the object provided is unrecognized{wanted}: {why} ({_summary(body)})")


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > 30 else ""
    head = body[:30]
    return (head.decode("utf-8", "replace") if head.startswith(b"{") else head.hex()) + more


def _decode_yaml(body: bytes, kind: str) -> Any:
    try:
        return load_yaml(body)
    except ValueError as error:
        raise unreadable(body, kind, str(error)) from None


def load_yaml(body: bytes) -> Any:
    """Decode the first document of YAML. Raises `ValueError` with the text of Go's library."""
    from bridgehead import yaml_loader  # loaded on demand: the lab's own clients send JSON

    return yaml_loader.load_object(body)


class StoredMetadata(msgspec.Struct, rename="camel"):
    """The identity, version and deletion timestamp of a stored object."""

    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str = ""


class _Stored(msgspec.Struct):
    metadata: StoredMetadata


_decode_stored = msgspec.json.Decoder(_Stored).decode


def stored_metadata(value: bytes) -> StoredMetadata:
    """Decode the metadata of a stored object, and nothing else of it."""
    return _decode_stored(value).metadata
