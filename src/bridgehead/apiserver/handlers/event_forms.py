"""The forms in which a client can ask for the events of a watch. `registry.watching.EventForm` describes the methods.

Source: apiserver/pkg/endpoints/handlers/response.go (watchEmbeddedEncoder), watch.go.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridgehead.apiserver.bodies.protobuf.framing import envelope, event_start
from bridgehead.apiserver.bodies.protobuf.objects import ProtobufObjects
from bridgehead.apiserver.bodies.schema import Shape
from bridgehead.apiserver.bodies.serialization import stored_metadata
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http.negotiation import PROTOBUF
from bridgehead.apiserver.registry.watching import EventForm
from bridgehead.apiserver.resource import JsonObject, Resource

from . import tables
from .rendered import Rendered
from .stored_forms import served_value


class ServedEvents(EventForm):
    """JSON of a resource that is stored in the form of another one."""

    def __init__(self, resource: Resource, rendered: Rendered) -> None:
        self._resource = resource
        self._rendered = rendered

    def stored(self, value: bytes, revision: int) -> bytes:
        if not revision:
            return served_value(self._resource, value)
        return self._rendered.get(f"json {self._resource.id}", revision, lambda: served_value(self._resource, value))


class TableEvents(EventForm):
    """A table with one row for each event. Only the first one has the columns."""

    def __init__(self, resource: Resource, version: str, include: str, clock: Callable[[], float]) -> None:
        self._resource = resource
        self._version = version
        self._include = include
        self._clock = clock
        self._is_first = True

    def stored(self, value: bytes, revision: int) -> bytes:
        with_columns, self._is_first = self._is_first, False
        return tables.render_table(
            self._resource,
            (value,),
            {"resourceVersion": stored_metadata(value).resource_version},
            version=self._version,
            include=self._include,
            now=self._clock(),
            with_columns=with_columns,
        )

    def bookmark(self, obj: JsonObject) -> bytes:
        # It is a row of an object without a name, as in Kubernetes.
        return self.stored(msgspec.json.encode({**obj, "metadata": {"name": "", **obj["metadata"]}}), 0)


class PartialEvents(EventForm):
    """JSON of the objects' metadata."""

    def __init__(self, version: str, rendered: Rendered) -> None:
        self._version = version
        self._rendered = rendered

    def stored(self, value: bytes, revision: int) -> bytes:
        if not revision:
            return tables.render_partial(value, self._version)
        form = f"partial {self._version}"
        return self._rendered.get(form, revision, lambda: tables.render_partial(value, self._version))

    def bookmark(self, obj: JsonObject) -> bytes:
        return msgspec.json.encode(tables.partial(obj, self._version))


class ProtobufEvents(EventForm):
    """Frames with objects in protobuf; `partial` is the version of meta.k8s.io if only metadata are wanted, else ""."""

    content_type = f"{PROTOBUF};stream=watch"
    end = b""

    def __init__(
        self, resource: Resource, shape: Shape, protobuf: ProtobufObjects, rendered: Rendered, partial: str = ""
    ) -> None:
        self._resource = resource
        self._shape = shape
        self._protobuf = protobuf
        self._rendered = rendered
        self._partial = partial
        self._form = f"protobuf partial {partial}" if partial else f"protobuf {resource.id}"

    def start(self, type: str, size: int) -> bytes:
        return event_start(type, size)

    def stored(self, value: bytes, revision: int) -> bytes:
        if not revision:
            return self._encode_stored(value)
        return self._rendered.get(self._form, revision, lambda: self._encode_stored(value))

    def bookmark(self, obj: JsonObject) -> bytes:
        return self._encode(obj)

    def status(self, status: ApiStatus) -> bytes:
        return self._protobuf.body(status.to_object()) or b""

    def _encode_stored(self, value: bytes) -> bytes:
        return self._encode(msgspec.json.decode(value if self._partial else served_value(self._resource, value)))

    def _encode(self, obj: JsonObject) -> bytes:
        if self._partial:
            return self._protobuf.partial(obj["metadata"], self._partial)
        message = self._protobuf.message(obj, self._shape)
        return envelope(self._resource.api_version, self._resource.kind, message)
