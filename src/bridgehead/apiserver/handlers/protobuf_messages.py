"""Stored objects as messages in protobuf, which lists and watches share."""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.apiserver.bodies.protobuf.framing import event_start, metadata_only, type_head
from bridgehead.apiserver.bodies.protobuf.objects import ProtobufObjects
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.registry.watching import EventForm
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.shapes import Shape
from bridgehead.media_types import PROTOBUF

from .rendered_forms import Rendered
from .stored_forms import served_value


class Messages:
    """The messages of one resource's objects: whole, or with `partial`, a version of meta.k8s.io, only their metadata.

    `api_version` and `kind` are those of one object.
    """

    def __init__(
        self, resource: Resource, shape: Shape, protobuf: ProtobufObjects, rendered: Rendered, partial: str = ""
    ) -> None:
        self.protobuf = protobuf
        self.api_version = f"meta.k8s.io/{partial}" if partial else resource.api_version
        self.kind = "PartialObjectMetadata" if partial else resource.kind
        self._resource = resource
        self._shape = shape
        self._rendered = rendered
        self._is_partial = bool(partial)
        self._form = "protobuf partial" if partial else f"protobuf {resource.api_version} {resource.id}"

    def stored(self, value: bytes, revision: int) -> bytes:
        """Return the message of a stored object. `revision` as in `EventForm.stored`."""
        if not revision:
            return self._encode(value)
        return self._rendered.get(self._form, revision, lambda: self._encode(value))

    def made(self, obj: JsonObject) -> bytes:
        """Return the message of an object in the resource's own form."""
        if self._is_partial:
            return metadata_only(self.protobuf.metadata(obj["metadata"]))
        return self.protobuf.message(obj, self._shape)

    def _encode(self, value: bytes) -> bytes:
        obj: Any = msgspec.json.decode(value if self._is_partial else served_value(self._resource, value))
        return self.made(obj)


class ProtobufEvents(EventForm):
    """Frames with objects in protobuf; see `registry.watching.EventForm`."""

    content_type = f"{PROTOBUF};stream=watch"
    end = b""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._head = type_head(messages.api_version, messages.kind)

    def start(self, type: str, size: int) -> bytes:
        return event_start(type, _STATUS if type == "ERROR" else self._head, size)

    def stored(self, value: bytes, revision: int) -> bytes:
        return self._messages.stored(value, revision)

    def bookmark(self, obj: JsonObject) -> bytes:
        return self._messages.made(obj)

    def status(self, status: ApiStatus) -> bytes:
        return self._messages.protobuf.status(status.to_object())


_STATUS = type_head("v1", "Status")
