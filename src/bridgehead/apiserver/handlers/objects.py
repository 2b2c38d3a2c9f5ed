"""The verbs of the resources in the table: decode, call the registry, render in the requested form.

`dispatch` calls them. `subresources` handles those subresources that are not views of the object.
"""

from __future__ import annotations

import asyncio
from functools import partial

from msgspec.structs import replace as with_fields

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.bodies.apply_requests import parse_configuration
from bridgehead.apiserver.bodies.decoding import decode_object
from bridgehead.apiserver.bodies.patch import APPLY_PATCH, CUSTOM_PATCH_TYPES, PATCH_TYPES
from bridgehead.apiserver.bodies.patch_requests import patch_change, patch_type
from bridgehead.apiserver.bodies.serialization import stored_metadata
from bridgehead.apiserver.errors import (
    ApiStatus,
    bad_request,
    conflict,
    failed_precondition,
    success,
)
from bridgehead.apiserver.fieldmanagement.managers import APPLY, Writer
from bridgehead.apiserver.http.request import Request, Response, respond
from bridgehead.apiserver.http.request_info import Query, named_by_selector
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.registry import lists
from bridgehead.apiserver.registry.deletion import DeleteOptions
from bridgehead.apiserver.registry.freshness import wait_until_fresh
from bridgehead.apiserver.registry.list_options import parse_resource_version
from bridgehead.apiserver.registry.owner_references import with_unique_owners
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.registry.request_checks import check_url, replacement, with_same_uid
from bridgehead.apiserver.registry.watching import OpenWatches, WatchStream, parse_watch_options
from bridgehead.apiserver.registry.write import Write
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.storage import Store

from .apply import Applier
from .rendering import Rendering
from .stored_forms import stored_change, stored_object
from .write_options import parse_delete_options, parse_writer
from .writes import create_of, delete_of, update_of


class Objects:
    """The verbs of objects and collections. `authorizer` decides whether who may update an object may create it."""

    def __init__(
        self,
        registry: Registry,
        applier: Applier,
        authorizer: Authorizer,
        watches: OpenWatches,
        rendering: Rendering,
    ) -> None:
        self._registry = registry
        self._applier = applier
        self._authorizer = authorizer
        self._watches = watches
        self._rendering = rendering

    # --- reading

    async def get(self, request: Request, resource: Resource) -> Response:
        await wait_until_fresh(self._registry.store, parse_resource_version(request.query) or 0)
        record = self._registry.get(resource, request.info.namespace, request.info.name)
        return await self._rendering.record(request, resource, record)

    async def list(self, request: Request, resource: Resource) -> Response:
        page = await self._page(request, resource, request.query)
        return await self._rendering.page(request, resource, page)

    async def watch(self, request: Request, resource: Resource) -> Response:
        form = self._rendering.events(request, resource)
        options = parse_watch_options(resource, _watch_query(request))
        refusal = None
        if options.initial and options.since:
            try:
                await wait_until_fresh(self._registry.store, options.since)
            except ApiStatus as status:
                refusal = status  # which is an event, as all errors of a watch with valid options
        store = await self._store_of(request, resource, with_records=options.initial)
        stream = WatchStream(store, resource, request.info, options, self._watches, form, refusal)
        content_type = form.content_type
        return Response(200, content_type=content_type, stream=stream, drops_slow=True, is_long_running=True)

    # --- writing

    async def create(self, request: Request, resource: Resource) -> Response:
        writer = parse_writer(request)
        obj = stored_object(resource, await self._decode(request, resource))
        name = obj.get("metadata", {}).get("name", "")
        record = await self._registry.create(create_of(request, resource, name, writer), obj)
        return await self._rendering.record(request, resource, record, 201)

    async def update(self, request: Request, resource: Resource) -> Response:
        info, writer = request.info, parse_writer(request)
        obj = await self._decode(request, resource)
        write = update_of(request, resource, writer)
        meta = obj.setdefault("metadata", {})
        check_url(write, meta)
        if self._registry.store.get(self._registry.key(resource, info.namespace, info.name)) is None:
            if uid := meta.get("uid"):
                raise failed_precondition(resource, info.namespace, info.name, uid, "")
            if resource.is_created_by_update and not info.subresource:
                return await self._create_by_update(request, resource, obj, writer)
        change = stored_change(resource, partial(replacement, write, obj), info.subresource)
        record = await self._registry.update(write, change)
        return await self._rendering.record(request, resource, record)

    async def _create_by_update(
        self, request: Request, resource: Resource, obj: JsonObject, writer: Writer
    ) -> Response:
        """Create the object of an update. Raises a 403 if the user may not."""
        info = request.info
        if obj["metadata"].get("resourceVersion"):
            raise conflict(resource, info.name)
        self._authorizer.check(request.user, with_fields(info, verb="create"))
        write = create_of(request, resource, info.name, writer)
        record = await self._registry.create(write, stored_object(resource, obj))
        return await self._rendering.record(request, resource, record, 201)

    async def patch(self, request: Request, resource: Resource) -> Response:
        types = PATCH_TYPES if resource.definition is None else CUSTOM_PATCH_TYPES
        if patch_type(request, types) == APPLY_PATCH:
            return await self._apply(request, resource)
        writer = parse_writer(request)
        body = await request.body()
        change = await patch_change(request, body, resource.kind, self._registry.shape(resource))
        change = stored_change(resource, with_same_uid(resource.kind, change), request.info.subresource)
        record = await self._registry.update(update_of(request, resource, writer), change)
        return await self._rendering.record(request, resource, record)

    async def _apply(self, request: Request, resource: Resource) -> Response:
        writer = parse_writer(request, operation=APPLY)
        configuration = await parse_configuration(request, resource.api_version, resource.kind)
        record, is_new = await self._applier.apply(request, resource, configuration, writer)
        return await self._rendering.record(request, resource, record, 201 if is_new else 200)

    async def delete(self, request: Request, resource: Resource) -> Response:
        info = request.info
        write, options = await self._deletion(request, resource)
        deleted = await self._registry.delete(write, options)
        if not deleted.gone or resource.returns_deleted:
            status = 202 if options.is_accepted and not deleted.gone else 200
            return await self._rendering.record(request, resource, deleted.record, status)
        details = {"name": info.name, "kind": resource.plural, "uid": stored_metadata(deleted.record.value).uid}
        if resource.group:
            details["group"] = resource.group
        return await self._rendering.status(request, resource, respond(success(details)))

    async def delete_collection(self, request: Request, resource: Resource) -> Response:
        write, options = await self._deletion(request, resource)
        # Objects that the list of the query would show are deleted, also if it is a page.
        page = await self._page(request, resource, request.query)
        for record in page.records:
            key = record.key
            try:
                await self._registry.delete(with_fields(write, namespace=key.namespace, name=key.name), options)
            except ApiStatus as error:
                if error.code != 404:
                    raise
            await asyncio.sleep(0)
        return await self._rendering.page(request, resource, page)

    async def _deletion(self, request: Request, resource: Resource) -> tuple[Write, DeleteOptions]:
        """Return the write of a delete and its options. Raises a 400 or a 422."""
        body = await request.body()
        parse = partial(parse_delete_options, body, request, self._registry.delete_options)
        options, dry_run = await run_long(len(body), parse)
        if resource.deletion_warning and not options.policy:
            request.warnings.append(resource.deletion_warning)
        return delete_of(request, resource, options, dry_run=dry_run), options

    # --- helpers

    async def _page(self, request: Request, resource: Resource, query: Query) -> lists.Page:
        await wait_until_fresh(self._registry.store, lists.required_revision(resource, query))
        store = await self._store_of(request, resource)
        return lists.list_page(store, resource, request.info, query, self._registry.clock())

    async def _store_of(self, request: Request, resource: Resource, *, with_records: bool = True) -> Store:
        """Return the store with the resource's objects as they are served, for the list or watch of a request."""
        store = self._registry.store
        if resource.converter is None:
            return store
        namespace = request.info.namespace if resource.namespaced and request.info.namespace else None
        return await resource.converter.view(store, namespace, with_records=with_records)

    async def _decode(self, request: Request, resource: Resource) -> JsonObject:
        obj = await decode_object(request, resource, self._registry.shape(resource))
        return with_unique_owners(obj, request.warnings)


def _watch_query(request: Request) -> Query:
    """Return the query of a watch, with the name in a path such as `/api/v1/watch/nodes/NAME`. Raises a 400."""
    name, query = request.info.name, request.query
    fields = query.get("fieldSelector", "")
    if name and not fields:
        return {**query, "fieldSelector": f"metadata.name={name}"}
    if name and named_by_selector(fields) != name:
        raise bad_request("fieldSelector metadata.name doesn't match requested name")
    return query
