"""The forms of JSON in which a client can ask for the events of a watch; see `registry.watching.EventForm`.

Source: apiserver/pkg/endpoints/handlers/response.go (watchEmbeddedEncoder), watch.go.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridgehead.apiserver.bodies.serialization import stored_metadata
from bridgehead.apiserver.registry.watching import EventForm
from bridgehead.apiserver.resource import JsonObject, Resource

from . import tables
from .rendered_forms import Rendered
from .stored_forms import served_value


class ServedEvents(EventForm):
    """JSON of a resource that is stored in the form of another one."""

    def __init__(self, resource: Resource, rendered: Rendered) -> None:
        self._resource = resource
        self._rendered = rendered

    def stored(self, value: bytes, revision: int) -> bytes:
        # The form of a custom resource may change while its objects stay.
        if not revision or self._resource.definition is not None:
            return served_value(self._resource, value)
        return self._rendered.get(
            f"json {self._resource.api_version} {self._resource.id}",
            revision,
            lambda: served_value(self._resource, value),
        )


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
        # A bookmark is the row of an object without a name, as in Kubernetes.
        return self.stored(msgspec.json.encode({**obj, "metadata": {"name": "", **obj["metadata"]}}), 0)


class PartialEvents(EventForm):
    """JSON of the objects' metadata. A conversion may change them, so that each version has its own."""

    def __init__(self, resource: Resource, version: str, rendered: Rendered) -> None:
        self._version = version
        self._rendered = rendered
        self._form = f"partial {version}" if resource.converter is None else f"partial {version} {resource.version}"

    def stored(self, value: bytes, revision: int) -> bytes:
        if not revision:
            return tables.render_partial(value, self._version)
        return self._rendered.get(self._form, revision, lambda: tables.render_partial(value, self._version))

    def bookmark(self, obj: JsonObject) -> bytes:
        return msgspec.json.encode(tables.partial(obj, self._version))
