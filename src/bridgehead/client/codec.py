"""JSON of the API to structs and back. Used by `api` only.

A body is decoded directly into a kind's struct. API servers write `null` for empty lists and maps in a few places
(`EndpointSlice.endpoints`), which the structs do not allow: an object that fails is decoded again without nulls. In
lists and watches, an object that fails even then is logged and left out, so that it does not hide the others.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object

from .errors import BadAnswer, error_from_status

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int = 0


class ListResult(msgspec.Struct, Generic[T], frozen=True):
    """The answer to a list, `items` in the API's order. `metadata.continue_` is set when `limit` cut the list."""

    items: list[T] = []
    metadata: ListMeta = ListMeta()

    @property
    def resource_version(self) -> str:
        return self.metadata.resource_version


class _RawList(msgspec.Struct):
    """A list whose objects are not decoded yet."""

    items: list[msgspec.Raw] | None = None
    metadata: Any = None


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """A watch event. `type`: ADDED, MODIFIED, DELETED or, on request, BOOKMARK with only a resourceVersion."""

    type: str
    object: T


class Codec(Generic[T]):
    """Decoders and encoder of one kind."""

    def __init__(self, kind: Kind[T]) -> None:
        self._kind = kind
        self._object = msgspec.json.Decoder(kind.type)
        self._list_type: Any = ListResult[kind.type]  # type: ignore[name-defined]
        self._list = msgspec.json.Decoder(self._list_type)
        self._event_type: Any = WatchEvent[kind.type]  # type: ignore[name-defined]
        self._event = msgspec.json.Decoder(self._event_type)

    def decode_object(self, body: bytes) -> T:
        """Decode an object. Raises BadAnswer."""
        try:
            return self._object.decode(body)
        except msgspec.MsgspecError:
            found: T = self._convert(_decode_any(body), self._kind.type)
            return found

    def decode_list(self, body: bytes) -> ListResult[T]:
        """Decode a list, without its unreadable objects. Raises BadAnswer."""
        try:
            found: ListResult[T] = self._list.decode(body)
        except msgspec.MsgspecError:
            found = self._decode_list_leniently(body)
        return found

    def decode_event(self, line: bytes) -> WatchEvent[T]:
        """Decode a watch event. Raises BadAnswer, or the ApiError of an ERROR event."""
        try:
            found: WatchEvent[T] = self._event.decode(line)
        except msgspec.MsgspecError:
            found = self._decode_event_leniently(_decode_any(line))
        if found.type == "ERROR":
            _raise_error_event(_decode_any(line))
        return found

    def encode(self, obj: T | Mapping[str, Any]) -> bytes:
        """Return the object as JSON with apiVersion and kind, which structs do not have."""
        if not isinstance(obj, msgspec.Struct):
            return msgspec.json.encode({"apiVersion": self._kind.api_version, "kind": self._kind.name, **obj})
        body = msgspec.json.encode(obj)
        head = f'{{"apiVersion":"{self._kind.api_version}","kind":"{self._kind.name}"'.encode()
        return head + (b"}" if body == b"{}" else b"," + body[1:])

    def _decode_list_leniently(self, body: bytes) -> ListResult[T]:
        """Decode a list of which an object has nulls: the other ones, often thousands, are decoded as usual."""
        try:
            listed = msgspec.json.decode(body, type=_RawList)
        except msgspec.MsgspecError as error:
            raise _not_an_object(body) from error
        found: ListResult[T] = self._convert({"metadata": listed.metadata}, self._list_type)
        for one in listed.items or ():
            try:
                obj: T | None = self._object.decode(one)
            except msgspec.MsgspecError:
                obj = self._convert_or_log(msgspec.json.decode(one))
            if obj is not None:
                found.items.append(obj)
        return found

    def _decode_event_leniently(self, event: dict[str, Any]) -> WatchEvent[T]:
        """Decode an event without nulls. An unreadable object becomes a bookmark, so that the watch can continue."""
        _raise_error_event(event)
        change, obj = event.get("type"), event.get("object")
        if not isinstance(change, str) or not isinstance(obj, dict):
            raise BadAnswer(f"{self._kind.plural}: a line of the watch is not an event")
        readable = self._convert_or_log(obj)
        if readable is not None:
            return WatchEvent(change, readable)
        bare = self._convert({"metadata": obj.get("metadata")}, self._kind.type)
        return WatchEvent("DELETED" if change == "DELETED" else "BOOKMARK", bare)

    def _convert_or_log(self, obj: Any) -> T | None:
        try:
            converted: T = self._convert(obj, self._kind.type)
        except BadAnswer as error:
            metadata = obj.get("metadata") if isinstance(obj, dict) else None
            name = metadata.get("name") if isinstance(metadata, dict) else None
            log.warning("%s %s is left out: %s", self._kind.plural, name, error)
            return None
        return converted

    def _convert(self, value: Any, type: Any) -> Any:
        try:
            return msgspec.convert(_without_nulls(value), type)
        except msgspec.MsgspecError as error:
            raise BadAnswer(f"{self._kind.plural}: the API server's answer cannot be decoded: {error}") from error


def decode_json_event(line: bytes) -> dict[str, Any]:
    """Return a watch event as it was sent. Raises BadAnswer, or the ApiError of an ERROR event."""
    event = _decode_any(line)
    _raise_error_event(event)
    return event


def _decode_any(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise _not_an_object(body) from error


def _not_an_object(body: bytes) -> BadAnswer:
    return BadAnswer(f"the API server's answer is not a JSON object: {body[:80]!r}")


def _raise_error_event(event: dict[str, Any]) -> None:
    if event.get("type") == "ERROR":
        raise error_from_status(500, event.get("object"))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


_codecs: dict[Kind[Any], Codec[Any]] = {}


def codec_of(kind: Kind[T]) -> Codec[T]:
    """Return the codec of a kind, built once: building decoders costs more than a request."""
    codec = _codecs.get(kind)
    if codec is None:
        codec = _codecs[kind] = Codec(kind)
    return codec
