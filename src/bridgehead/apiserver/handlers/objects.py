"""Requests for the resources in the table: decode, call the registry, render in the requested form.

`app` calls `handle` for an authorized request. `subresources` handles those subresources that are not views of the
object.
"""

from __future__ import annotations

import asyncio
from functools import partial

from msgspec.structs import replace

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.admission.attributes import CREATE, UPDATE
from bridgehead.apiserver.bodies.apply_requests import parse_configuration
from bridgehead.apiserver.bodies.decoding import decode_object
from bridgehead.apiserver.bodies.patch import APPLY_PATCH, CUSTOM_PATCH_TYPES, PATCH_TYPES
from bridgehead.apiserver.bodies.patch_requests import patch_change, patch_type
from bridgehead.apiserver.bodies.serialization import stored_metadata
from bridgehead.apiserver.errors import (
    ApiStatus,
    PageNotFound,
    bad_request,
    conflict,
    failed_precondition,
    method_not_allowed,
    not_found,
    not_found_path,
    success,
)
from bridgehead.apiserver.fieldmanagement.managers import APPLY, Writer
from bridgehead.apiserver.http.paths import Query, RequestInfo, named_by_selector
from bridgehead.apiserver.http.request import Request, Response, respond
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.registry import lists
from bridgehead.apiserver.registry.attempts import STATUS_VIEWS
from bridgehead.apiserver.registry.deletion import DeleteOptions
from bridgehead.apiserver.registry.freshness import wait_until_fresh
from bridgehead.apiserver.registry.list_options import parse_resource_version
from bridgehead.apiserver.registry.owner_references import with_unique_owners
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.registry.request_checks import check_url, replacement, with_same_uid
from bridgehead.apiserver.registry.watching import OpenWatches, WatchStream, parse_watch_options
from bridgehead.apiserver.resource import Change, JsonObject, Resource
from bridgehead.storage import Record, Store

from .apply import Applier
from .discovery import BINDINGS, has_own_group
from .options import attributes_of, delete_attributes, is_dry_run, parse_delete_options, parse_writer
from .rendering import Rendering
from .scale_views import SCALE_COLUMNS
from .stored_forms import stored_change, stored_object
from .subresources import Handler, Subresources

# Subresources that are written as the object itself, and change a part of it.
_OWN_FORM = (*STATUS_VIEWS, "ephemeralcontainers", "resize")
_WRITES = frozenset({"create", "update", "patch"})


class Handlers:
    def __init__(
        self,
        registry: Registry,
        subresources: Subresources,
        applier: Applier,
        authorizer: Authorizer,
        watches: OpenWatches,
        rendering: Rendering,
    ) -> None:
        self._registry = registry
        self._rendering = rendering
        self._applier = applier
        self._authorizer = authorizer
        self._watches = watches
        self._subresources = subresources
        self._verbs: dict[str, Handler] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def handle(self, request: Request) -> Response:
        info = request.info
        if (info.group, info.version, info.resource) == BINDINGS[:3]:
            return await self._bind(request)
        resource = self._registry.find(info.group, info.version, info.resource)
        if resource is None:
            raise self._not_served(info)
        if info.subresource and info.subresource not in resource.subresources:
            raise not_found_path() if resource.definition is None else not_found(resource, info.name)
        if info.namespace and not resource.namespaced and resource.plural != "namespaces":
            raise self._not_served(info)
        if request.method == "HEAD" and resource.definition is None:
            raise method_not_allowed()  # the handler of custom resources looks at the verb only, which is that of a GET
        if resource.warning:
            request.warnings.append(resource.warning)
            request.annotations["k8s.io/deprecated"] = "true"
        if resource.is_read_only and info.verb not in ("get", "list"):
            raise method_not_allowed()
        if resource.definition is not None and info.verb in _WRITES:
            await self._registry.compile_schema(resource)
        if info.subresource and info.subresource not in _OWN_FORM:
            handle = self._subresources.find(info)
            self._rendering.check_acceptable(request, resource)
            response = await handle(request, resource)
            columns = SCALE_COLUMNS if info.subresource == "scale" else ()
            return await self._rendering.stored(request, resource, response, columns)
        handler = self._verbs.get(info.verb)
        if handler is None or (info.subresource and info.verb not in ("get", "update", "patch")):
            raise method_not_allowed()
        if info.verb == "create" and (info.name or (resource.namespaced and not info.namespace)):
            raise method_not_allowed()
        if info.verb in ("update", "patch") and not info.name:
            raise method_not_allowed()
        if info.verb == "deletecollection" and not _may_delete_collection(resource, info.namespace):
            raise method_not_allowed()
        if resource.namespaced and not info.namespace and info.verb not in ("list", "watch"):
            raise self._not_served(info)
        self._rendering.check_acceptable(request, resource)
        return await handler(request, resource)

    async def _bind(self, request: Request) -> Response:
        """Create a Binding in its older form. Raises a 404 or a 405."""
        info = request.info
        pods = self._registry.find("", "v1", "pods")
        if info.verb != "create" or info.name or not info.namespace:
            raise method_not_allowed()
        if pods is None:
            raise not_found_path()
        return await self._rendering.other(request.header(b"accept"), await self._subresources.bind(request, pods))

    def _not_served(self, info: RequestInfo) -> ApiStatus:
        """Return the error for a path without a resource: a `Status` if it is in a group of Kubernetes' own."""
        return not_found_path() if has_own_group(self._registry.table, info.group) else PageNotFound()

    # --- reading

    async def _get(self, request: Request, resource: Resource) -> Response:
        await wait_until_fresh(self._registry.store, parse_resource_version(request.query) or 0)
        record = self._registry.get(resource, request.info.namespace, request.info.name)
        return await self._rendering.record(request, resource, record)

    async def _list(self, request: Request, resource: Resource) -> Response:
        page = await self._page(request, resource, request.query)
        return await self._rendering.page(request, resource, page)

    async def _watch(self, request: Request, resource: Resource) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
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

    async def _create(self, request: Request, resource: Resource) -> Response:
        writer = parse_writer(request)
        obj = stored_object(resource, await self._decode(request, resource))
        record = await self._store_new(request, resource, obj, writer)
        return await self._rendering.record(request, resource, record, 201)

    async def _store_new(self, request: Request, resource: Resource, obj: JsonObject, writer: Writer) -> Record:
        dry_run = is_dry_run(request)
        name = obj.get("metadata", {}).get("name", "")
        attributes = attributes_of(request, resource, CREATE, name=name)
        return await self._registry.create(
            resource,
            request.info.namespace,
            obj,
            attributes=attributes,
            writer=writer,
            dry_run=dry_run,
            size=request.body_size,
        )

    async def _update(self, request: Request, resource: Resource) -> Response:
        info = request.info
        writer = parse_writer(request, subresource=info.subresource)
        obj = await self._decode(request, resource)
        check_url(resource, info.namespace, info.name, obj.setdefault("metadata", {}))
        status = 200
        key = self._registry.key(resource, info.namespace, info.name)
        missing = self._registry.store.get(key) is None
        if missing and (uid := obj["metadata"].get("uid")):
            raise failed_precondition(resource, info.namespace, info.name, uid, "")
        if missing and resource.is_created_by_update and not info.subresource:
            if obj.get("metadata", {}).get("resourceVersion"):
                raise conflict(resource, info.name)
            self._authorizer.check(request.user, replace(info, verb="create"))
            obj = stored_object(resource, obj)
            record = await self._store_new(request, resource, obj, writer)
            status = 201
        else:
            change = partial(replacement, resource, info.namespace, info.name, obj)
            record = await self._change(request, resource, change, writer)
        return await self._rendering.record(request, resource, record, status)

    async def _patch(self, request: Request, resource: Resource) -> Response:
        types = PATCH_TYPES if resource.definition is None else CUSTOM_PATCH_TYPES
        if patch_type(request, types) == APPLY_PATCH:
            return await self._apply(request, resource)
        writer = parse_writer(request, subresource=request.info.subresource)
        body = await request.body()
        change = await patch_change(request, body, resource.kind, self._registry.shape(resource))
        change = with_same_uid(resource.kind, change)
        record = await self._change(request, resource, change, writer)
        return await self._rendering.record(request, resource, record)

    async def _apply(self, request: Request, resource: Resource) -> Response:
        writer = parse_writer(request, operation=APPLY, subresource=request.info.subresource)
        configuration = await parse_configuration(request, resource.api_version, resource.kind)
        record, is_new = await self._applier.apply(request, resource, configuration, writer)
        return await self._rendering.record(request, resource, record, 201 if is_new else 200)

    async def _change(self, request: Request, resource: Resource, change: Change, writer: Writer) -> Record:
        info = request.info
        change = stored_change(resource, change, info.subresource)
        return await self._registry.update(
            resource,
            info.namespace,
            info.name,
            change,
            attributes=attributes_of(request, resource, UPDATE),
            writer=writer,
            subresource=info.subresource,
            dry_run=is_dry_run(request),
            size=request.body_size,
        )

    async def _delete(self, request: Request, resource: Resource) -> Response:
        info = request.info
        body = await request.body()
        parse = partial(parse_delete_options, body, request, self._registry.delete_options)
        options = await run_long(len(body), parse)
        _warn_of_deletion(request, resource, options)
        attributes = delete_attributes(request, resource, options)
        deleted = await self._registry.delete(resource, info.namespace, info.name, options, attributes=attributes)
        if not deleted.gone or resource.returns_deleted:
            status = 202 if options.is_accepted and not deleted.gone else 200
            return await self._rendering.record(request, resource, deleted.record, status)
        details = {"name": info.name, "kind": resource.plural, "uid": stored_metadata(deleted.record.value).uid}
        if resource.group:
            details["group"] = resource.group
        return await self._rendering.status(request, resource, respond(success(details)))

    async def _delete_collection(self, request: Request, resource: Resource) -> Response:
        body = await request.body()
        parse = partial(parse_delete_options, body, request, self._registry.delete_options)
        options = await run_long(len(body), parse)
        _warn_of_deletion(request, resource, options)
        # Only what the list of the query would show is deleted, also if it is a page.
        page = await self._page(request, resource, request.query)
        attributes = delete_attributes(request, resource, options)
        for record in page.records:
            key = record.key
            try:
                await self._registry.delete(resource, key.namespace, key.name, options, attributes=attributes)
            except ApiStatus as error:
                if error.code != 404:
                    raise
            await asyncio.sleep(0)
        return await self._rendering.page(request, resource, page)

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


def _warn_of_deletion(request: Request, resource: Resource, options: DeleteOptions) -> None:
    if resource.deletion_warning and not options.policy:
        request.warnings.append(resource.deletion_warning)


def _watch_query(request: Request) -> Query:
    """Return the query of a watch, with the name in a path such as `/api/v1/watch/nodes/NAME`. Raises a 400."""
    name, query = request.info.name, request.query
    fields = query.get("fieldSelector", "")
    if name and not fields:
        return {**query, "fieldSelector": f"metadata.name={name}"}
    if name and named_by_selector(fields) != name:
        raise bad_request("fieldSelector metadata.name doesn't match requested name")
    return query


def _may_delete_collection(resource: Resource, namespace: str) -> bool:
    """Whether a collection may be deleted: not across namespaces."""
    return resource.deletes_collections and bool(namespace or not resource.namespaced)
