"""Decoding of JSON and YAML bodies, and of the identity of stored objects.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bridgehead.apiserver.errors import ApiStatus, bad_request, unsupported_media_type
from bridgehead.apiserver.http.negotiation import media_type_of
from bridgehead.media_types import JSON, YAML

from .json_errors import json_error


def decode_body(body: bytes, content_type: str, accepted: Sequence[str] = (JSON, YAML), kind: str = "") -> Any:
    """Decode a body of `kind`. Raises a 415 for other media types and a 400 for a syntax error."""
    given = media_type_of(content_type) or JSON
    if given not in accepted:
        raise unsupported_media_type(content_type, accepted)
    return decode_yaml(body) if given == YAML else decode_json(body, kind)


def decode_json(body: bytes, kind: str = "") -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        why = json_error(body) or str(error)
        raise unreadable(body, kind, f"couldn't get version/kind; json parse error: {why}") from None


def unreadable(body: bytes, kind: str, why: str) -> ApiStatus:
    wanted = f" (must be of type {kind})" if kind else ""
    return bad_request(f"the object provided is unrecognized{wanted}: {why} ({_summary(body)})")


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > 30 else ""
    head = body[:30]
    return (head.decode("utf-8", "replace") if head.startswith(b"{") else head.hex()) + more


def decode_yaml(body: bytes) -> Any:
    from bridgehead import yaml_loader  # loaded on demand: the lab's own clients send JSON

    try:
        return yaml_loader.load_object(body)
    except yaml_loader.UnusableYaml as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from None


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
