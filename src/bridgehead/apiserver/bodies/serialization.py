"""Decoding of JSON and YAML bodies, and of the identity of stored objects.

A small YAML document can expand to a very large value, so its size is checked before it is built.
Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from bridgehead.apiserver.errors import ApiStatus, bad_request, unsupported_media_type
from bridgehead.apiserver.http.negotiation import JSON, YAML, media_type_of

# Bounds the size of a document whose aliases are expanded many times.
_MAX_YAML_NODES = 1_000_000
_MAX_YAML_EVENTS = 150_000  # about two seconds of work; no real object comes near
_MAX_YAML_DEPTH = 200


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
        raise unreadable(body, kind, f"couldn't get version/kind; json parse error: {error}") from None


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
    import yaml  # loaded on demand: the lab's own clients send JSON

    try:
        _check_yaml_shape(yaml.parse(body, Loader=_yaml_loader()))
        document = yaml.load(body, Loader=_yaml_loader())
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise bad_request(f"error converting YAML to JSON: {' '.join(str(error).split())}") from None
    _count_nodes(document, {}, set())
    return document


def _check_yaml_shape(events: Iterable[Any]) -> None:
    """Raise a 400 for documents that are nested too deeply (libyaml would exhaust the stack) or too large."""
    from yaml import CollectionEndEvent, CollectionStartEvent

    depth = 0
    for count, event in enumerate(events):
        if isinstance(event, CollectionStartEvent):
            depth += 1
            if depth > _MAX_YAML_DEPTH:
                raise bad_request(f"error converting YAML to JSON: yaml: exceeded max depth of {_MAX_YAML_DEPTH}")
        elif isinstance(event, CollectionEndEvent):
            depth -= 1
        if count > _MAX_YAML_EVENTS:
            raise bad_request("error converting YAML to JSON: yaml: the document has too many nodes; send it as JSON")


@lru_cache(maxsize=1)
def _yaml_loader() -> Any:
    """Return a safe loader that keeps timestamps as text: JSON has no timestamps."""
    from bridgehead.yaml_loader import Loader

    class JsonLoader(Loader):
        pass

    JsonLoader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in Loader.yaml_implicit_resolvers.items()
    }
    return JsonLoader


def _count_nodes(node: Any, sizes: dict[int, int], open_nodes: set[int]) -> int:
    """Return the number of nodes with aliases expanded. Raises a 400 when there are too many or infinitely many."""
    if not isinstance(node, dict | list):
        return 1
    identity = id(node)
    if identity in sizes:
        return sizes[identity]
    if identity in open_nodes:
        raise bad_request("error converting YAML to JSON: an anchor contains itself")
    open_nodes.add(identity)
    if isinstance(node, dict) and not all(isinstance(key, str) for key in node):
        raise bad_request("error converting YAML to JSON: a key is not a string")
    children = node.values() if isinstance(node, dict) else node
    size = 1 + sum(_count_nodes(child, sizes, open_nodes) for child in children)
    if size > _MAX_YAML_NODES:
        raise bad_request("error converting YAML to JSON: yaml: document contains excessive aliasing")
    open_nodes.discard(identity)
    sizes[identity] = size
    return size


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
