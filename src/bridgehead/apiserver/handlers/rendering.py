"""Answers in the form that the Accept header asks for: JSON, YAML or protobuf; whole objects, their metadata, a table.

Source: apiserver/pkg/endpoints/handlers/response.go, responsewriters/writers.go, negotiation/negotiate.go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import msgspec

from bridgehead.apiserver.bodies.collection import json_document, yaml_document
from bridgehead.apiserver.bodies.protobuf.framing import envelope_start, item_start, list_start
from bridgehead.apiserver.bodies.protobuf.objects import ProtobufObjects, is_encodable
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.bodies.serialization import stored_metadata
from bridgehead.apiserver.errors import ApiStatus, unsuitable_form
from bridgehead.apiserver.http.compression import THRESHOLD_BYTES
from bridgehead.apiserver.http.negotiation import choose, wants_indented
from bridgehead.apiserver.http.piecewise import PiecewiseBody
from bridgehead.apiserver.http.request import Request, Response
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.registry import lists
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.registry.watching import EventForm
from bridgehead.apiserver.resource import Column, JsonObject, Resource
from bridgehead.media_types import JSON, PROTOBUF, YAML, MediaType
from bridgehead.storage import Record
from bridgehead.yaml_dumper import dump_yaml

from . import tables
from .event_forms import PartialEvents, ServedEvents, TableEvents
from .protobuf_messages import Messages, ProtobufEvents
from .rendered_forms import MAX_BYTES, Rendered
from .stored_forms import served_value

# Accept headers for JSON, which most clients send.
_ANSWERED_BY_STATUS = ("binding", "eviction")  # a Status has no other form, whatever the client accepts
_PLAIN = ("", "*/*", JSON)

# A smaller list is rendered at once, in a few milliseconds.
_LARGE_LIST = 100
_LARGE_LIST_BYTES = 256 * 1024
# Seconds after which the rendering of a long list lets other requests go on.
_SLICE_SECONDS = 0.005

# The size of an object in protobuf, compared with its JSON, is at most about this.
_PROTOBUF_SHARE = 0.6

_STORED_EVENTS = EventForm()


class Rendering:
    """Renders objects of the table's resources, and other objects of the schema's kinds."""

    def __init__(self, registry: Registry, schema: Schema) -> None:
        self._registry = registry
        self._protobuf = ProtobufObjects(schema)
        self._rendered = Rendered()

    def check_acceptable(self, request: Request, resource: Resource) -> None:
        """Raise a 406 for a media type that is not offered, before the request is carried out."""
        if request.header(b"accept") in _PLAIN:
            return
        verb = request.info.verb
        media, is_list = self._choose(request, resource, watch=verb == "watch"), verb in ("list", "deletecollection")
        if media.form == "PartialObjectMetadata" and is_list:
            raise unsuitable_form(media.form, f"is a list ({_go_type(resource)}List)")
        if media.form == "PartialObjectMetadataList" and not is_list:
            raise unsuitable_form(media.form, f"is not a list ({_go_type(resource)})")

    def _choose(self, request: Request, resource: Resource, *, watch: bool = False) -> MediaType:
        accept = request.header(b"accept")
        if accept in _PLAIN:
            return MediaType(JSON)
        is_offered = PROTOBUF in accept and is_encodable(self._registry.shape(resource))
        return choose(accept, protobuf=is_offered, watch=watch)

    # --- one object

    async def record(self, request: Request, resource: Resource, record: Record, status: int = 200) -> Response:
        """Return a stored object."""
        record = await self._registry.served(resource, record)
        return await self.stored(request, resource, Response(status, record.value))

    async def stored(
        self, request: Request, resource: Resource, response: Response, columns: tuple[Column, ...] = ()
    ) -> Response:
        """Return an answer whose body is an object of the resource, as it is stored, or of another kind.

        `columns` are the table's, if they are not those of the resource.
        """
        accept = request.header(b"accept")
        if response.content_type != JSON:
            return response
        if accept in _PLAIN:
            response.body = served_value(resource, response.body)
            return response
        media, value = self._choose(request, resource), response.body
        if request.info.subresource in _ANSWERED_BY_STATUS:
            media = replace(media, form="")
        if media.form == "Table":
            render = partial(
                tables.render_table,
                replace(resource, columns=columns) if columns else resource,
                (value,),
                {"resourceVersion": stored_metadata(value).resource_version},
                version=media.version,
                include=tables.parse_include(request.query),
                now=self._registry.clock(),
            )
            response.body = await run_long(len(value), render)
        elif media.type == PROTOBUF and media.form:
            response.body = self._protobuf.partial(msgspec.json.decode(value)["metadata"], media.version)
            response.content_type = PROTOBUF
            return response
        elif media.form:
            response.body = tables.render_partial(value, media.version)
        else:
            response.body = served_value(resource, value)
            if media.type == PROTOBUF:
                return await self._in_protobuf(response)
        return await _in_yaml(media, response)

    async def refusal(self, accept: str, response: Response) -> Response:
        """Return a Status, as JSON if the client accepts none of the forms that are offered."""
        try:
            return await self.other(accept, response)
        except ApiStatus:
            return response

    async def other(self, accept: str, response: Response) -> Response:
        """Return an answer whose body is an object of any kind, such as a review. Raises a 406."""
        if accept in _PLAIN or response.content_type != JSON or not response.body:
            return response
        media = choose(accept, tables=False)
        if media.type == PROTOBUF:
            return await self._in_protobuf(response)
        return await _in_yaml(media, response)

    async def status(self, request: Request, resource: Resource, response: Response) -> Response:
        """Return an answer about an object whose body is a Status, which has no other forms."""
        media = self._choose(request, resource)
        if media.type == PROTOBUF:
            return await self._in_protobuf(response)
        return await _in_yaml(media, response)

    async def _in_protobuf(self, response: Response) -> Response:
        """Encode the object in the body; leave one as it is whose kind has no form in protobuf."""
        value = response.body
        encoded = await run_long(len(value), lambda: self._protobuf.body(msgspec.json.decode(value)))
        if encoded is not None:
            response.body, response.content_type = encoded, PROTOBUF
        return response

    # --- lists

    async def page(self, request: Request, resource: Resource, page: lists.Page) -> Response:
        """Return a list."""
        media = self._choose(request, resource)
        meta, records = lists.list_meta(page), page.records
        size = sum(len(record.value) for record in records)
        is_large = len(records) > _LARGE_LIST or size > _LARGE_LIST_BYTES
        if media.type == PROTOBUF:
            response = await self._protobuf_list(resource, media, meta, records, is_large=is_large)
            response.is_large = size > THRESHOLD_BYTES
            return response
        values = (record.value for record in records)
        items: Iterable[bytes]
        if media.form == "Table":
            head, key = tables.table_head(resource, meta, version=media.version), "rows"
            row = partial(
                tables.render_row,
                resource,
                version=media.version,
                include=tables.parse_include(request.query),
                now=self._registry.clock(),
            )
            items = map(row, values)
        elif media.form:
            head, key = tables.partial_list_head(meta, media.version), "items"
            items = (tables.render_partial(value, media.version) for value in values)
        else:
            head, key = list_head(resource, meta), "items"
            items = values if resource.stored_form is None else (served_value(resource, value) for value in values)
            if resource.definition is None:
                items = _without_types(resource, items)
        if media.type == YAML:
            stream = PiecewiseBody(yaml_document(head, key, items), is_slow=True)
            return Response(200, content_type=YAML, stream=stream, drops_slow=True, is_large=size > THRESHOLD_BYTES)
        if not is_large:
            return Response(200, b"".join(json_document(head, key, items)))
        indented = wants_indented(request.query, request.headers)
        parts = json_document(head, key, items, indented=indented)
        stream = PiecewiseBody(parts if indented else chain(parts, (b"\n",)))
        return Response(200, stream=stream, drops_slow=True, is_large=size > THRESHOLD_BYTES)

    async def _protobuf_list(
        self, resource: Resource, media: MediaType, meta: JsonObject, records: Sequence[Record], *, is_large: bool
    ) -> Response:
        """Return a list in protobuf: all items are encoded before the first is sent, because the length comes first."""
        messages = self._messages(resource, media)
        is_kept = _PROTOBUF_SHARE * sum(len(record.value) for record in records) <= MAX_BYTES
        parts = [list_start(self._protobuf.list_metadata(meta))]
        began = time.perf_counter()
        for record in records:
            message = messages.stored(record.value, record.revision if is_kept else 0)
            parts += (item_start(len(message)), message)
            if is_large and time.perf_counter() - began > _SLICE_SECONDS:
                await asyncio.sleep(0)
                began = time.perf_counter()
        parts.insert(0, envelope_start(messages.api_version, f"{messages.kind}List", sum(map(len, parts))))
        if not is_large:
            return Response(200, b"".join(parts), PROTOBUF)
        return Response(200, content_type=PROTOBUF, stream=PiecewiseBody(parts), drops_slow=True)

    def _messages(self, resource: Resource, media: MediaType) -> Messages:
        partial = media.version if media.form else ""
        return Messages(resource, self._registry.shape(resource), self._protobuf, self._rendered, partial)

    # --- watches

    def events(self, request: Request, resource: Resource) -> EventForm:
        """Return the form of a watch's events. Raises a 400 or a 406."""
        media = self._choose(request, resource, watch=True)
        if media.form == "Table":
            include = tables.parse_include(request.query)
            return TableEvents(resource, media.version, include, self._registry.clock)
        if media.type == PROTOBUF:
            return ProtobufEvents(self._messages(resource, media))
        if media.form:
            return PartialEvents(resource, media.version, self._rendered)
        return _STORED_EVENTS if resource.stored_form is None else ServedEvents(resource, self._rendered)


def _go_type(resource: Resource) -> str:
    """Return the Go type of a resource's objects, as Kubernetes' messages have it."""
    if resource.definition is not None:
        return "*unstructured.Unstructured"
    package = "core" if resource.group in ("", "events.k8s.io") else resource.group.partition(".")[0]
    return f"*{package}.{resource.kind}"


def list_head(resource: Resource, meta: JsonObject) -> JsonObject:
    """Return a list without its items."""
    kind = resource.list_kind or f"{resource.kind}List"
    return {"kind": kind, "apiVersion": resource.api_version, "metadata": meta}


def _without_types(resource: Resource, values: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the items of a list without kind and apiVersion: lists of built-in kinds have them once, in Kubernetes."""
    types = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()
    for value in values:
        yield b"{" + value[len(types) :] if value.startswith(types) else value


async def _in_yaml(media: MediaType, response: Response) -> Response:
    if media.type == YAML:
        body = response.body
        response.body = await run_long(len(body), lambda: dump_yaml(msgspec.json.decode(body)))
        response.content_type = YAML
    return response
