"""Choice of the handler of a request for a resource: by the path, then by the verb. A verb without handler gets a 405.

`app` calls `handle` for an authorized request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from bridgehead.apiserver.errors import ApiStatus, PageNotFound, method_not_allowed, not_found, not_found_path
from bridgehead.apiserver.http.request import Request, Response
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.registry.write_steps import STATUS_VIEWS
from bridgehead.apiserver.resource import Resource

from .discovery import BINDINGS, has_own_group
from .objects import Objects
from .rendering import Rendering
from .scale_views import SCALE_COLUMNS
from .subresources import Subresources

Handler = Callable[[Request, Resource], Awaitable[Response]]
# The handlers of one path, by verb.
Row = Mapping[str, Handler]

# Subresources that are written as the object itself, and change a part of it.
_OWN_FORM = (*STATUS_VIEWS, "ephemeralcontainers", "resize")
_WRITES = frozenset({"create", "update", "patch"})
_READS = frozenset({"get", "list", "watch"})


class Dispatch:
    """The handlers of all resources, by path and verb."""

    def __init__(self, registry: Registry, objects: Objects, subresources: Subresources, rendering: Rendering) -> None:
        self._registry = registry
        self._bind = subresources.bind
        self._rendering = rendering
        reads: Row = {"list": objects.list, "watch": objects.watch}
        part: Row = {"get": objects.get, "update": objects.update, "patch": objects.patch}
        self._all_namespaces = reads
        self._collection: Row = {**reads, "create": objects.create, "deletecollection": objects.delete_collection}
        # A list or a watch may have a name, too: that of its field selector or that behind `/watch/`.
        self._object: Row = {**reads, **part, "delete": objects.delete}
        self._subresources: dict[str, Row] = {
            **dict.fromkeys(_OWN_FORM, part),
            "scale": {
                "get": subresources.get_scale,
                "update": subresources.update_scale,
                "patch": subresources.patch_scale,
            },
            "binding": {"create": subresources.bind},
            "eviction": {"create": subresources.evict},
            "token": {"create": subresources.create_token},
            "finalize": {"update": subresources.finalize},
        }

    async def handle(self, request: Request) -> Response:
        """Answer a request. Raises a 404, a 405, and what the handlers raise."""
        info = request.info
        if _needs_newest_state(request):
            await self._registry.catch_up()
        if (info.group, info.version, info.resource) == BINDINGS[:3]:
            return await self._create_binding(request)
        resource = await self._find(info)
        if request.method == "HEAD" and resource.definition is None:
            raise method_not_allowed()  # the handler of custom resources looks at the verb only, which is that of a GET
        if resource.warning:
            request.warnings.append(resource.warning)
            request.annotations["k8s.io/deprecated"] = "true"
        handler = self._handler(request, resource)
        if resource.definition is not None and info.verb in _WRITES:
            await self._registry.compile_schema(resource)
        self._rendering.check_acceptable(request, resource)
        response = await handler(request, resource)
        if not info.subresource or info.subresource in _OWN_FORM:
            return response
        columns = SCALE_COLUMNS if info.subresource == "scale" else ()
        return await self._rendering.stored(request, resource, response, columns)

    async def _find(self, info: RequestInfo) -> Resource:
        """Return the resource of a path. Raises a 404."""
        resource = self._registry.find(info.group, info.version, info.resource)
        if resource is None:
            await self._registry.catch_up()  # it may have been defined through another server
            resource = self._registry.find(info.group, info.version, info.resource)
        if resource is None:
            raise self._not_served(info)
        if info.subresource and info.subresource not in resource.subresources:
            raise not_found_path() if resource.definition is None else not_found(resource, info.name)
        if info.namespace and not resource.namespaced and resource.plural != "namespaces":
            raise self._not_served(info)
        return resource

    def _handler(self, request: Request, resource: Resource) -> Handler:
        """Return the handler of a request. Raises a 405 for a verb that the path or the resource does not have."""
        info = request.info
        handler = self._row(info, resource).get(info.verb)
        if handler is None or not resource.allows(info.verb):
            raise method_not_allowed()
        if info.verb == "watch" and request.method not in ("GET", "HEAD"):  # a path below `/watch/`
            raise method_not_allowed()
        if resource.namespaced and not info.namespace and info.verb not in self._all_namespaces:
            raise self._not_served(info)
        return handler

    def _row(self, info: RequestInfo, resource: Resource) -> Row:
        if info.subresource:
            return self._subresources.get(info.subresource, {})
        if info.name:
            return self._object
        return self._collection if info.namespace or not resource.namespaced else self._all_namespaces

    async def _create_binding(self, request: Request) -> Response:
        """Create a Binding in its older form. Raises a 404 or a 405."""
        info = request.info
        pods = self._registry.find("", "v1", "pods")
        if info.verb != "create" or info.name or not info.namespace:
            raise method_not_allowed()
        if pods is None:
            raise not_found_path()
        return await self._rendering.other(request.header(b"accept"), await self._bind(request, pods))

    def _not_served(self, info: RequestInfo) -> ApiStatus:
        """Return the error for a path without a resource: a `Status` if it is in a group of Kubernetes' own."""
        return not_found_path() if has_own_group(self._registry.table, info.group) else PageNotFound()


def _needs_newest_state(request: Request) -> bool:
    """Whether a request is to see every write before it: all writes, and reads that name no revision."""
    if request.info.verb not in _READS:
        return True
    return not request.query.get("resourceVersion") and not request.query.get("continue")
