"""The subresources of a pod that its kubelet serves: log, exec, attach, portforward.

Finds the pod and its Node in the store, and asks admission for all but logs. `kubelet_streams` forwards the request.
All but logs take the right to `create` the subresource, also with GET, which WebSockets use.
Source: Kubernetes pkg/registry/core/pod/rest (subresources.go, authorize.go).
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.admission.connect_requests import connect_attributes, connect_options, connect_query
from bridgehead.apiserver.errors import forbidden, method_not_allowed, not_found_path
from bridgehead.apiserver.http.request import Request, Response
from bridgehead.apiserver.http.request_info import QueryList, RequestInfo, parse_query_list
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.resource import JsonObject, copied
from bridgehead.storage import Key

from .kubelet_access import KubeletAccess

_UPGRADED = frozenset({"exec", "attach", "portforward"})
_NAMES = _UPGRADED | {"log"}


class PodStreams:
    def __init__(self, registry: Registry, authorizer: Authorizer, kubelets: KubeletAccess) -> None:
        self._registry = registry
        self._authorizer = authorizer
        self._kubelets = kubelets

    def serves(self, info: RequestInfo) -> bool:
        return info.resource == "pods" and not info.group and info.version == "v1" and info.subresource in _NAMES

    def takes_upgrade(self, info: RequestInfo) -> bool:
        """Whether the kubelet serves the upgraded connections of a request."""
        return self.serves(info) and info.subresource in _UPGRADED

    async def answer(self, request: Request) -> Response:
        """Answer a request; return when an upgraded connection has ended. Raises `ApiStatus`, `Disconnected`."""
        info = request.info
        is_known = info.verb == "get" or (info.verb == "create" and info.subresource != "log")
        if not is_known or request.method == "HEAD":
            raise method_not_allowed()
        pod, node = self._find(info)
        query = parse_query_list(request.scope["query_string"])
        if info.subresource != "log":
            query = await self._admit(request, query)
        from . import kubelet_streams  # with its HTTP client, which most servers do not need at their start

        return await kubelet_streams.answer(request, pod, node, query, self._kubelets)

    async def _admit(self, request: Request, query: QueryList) -> QueryList:
        """Ask admission, and for the right to create; return the query, which admission may change.

        Raises `ApiStatus` for a refused connection.
        """
        pods = self._registry.find("", "v1", "pods")
        if pods is None:
            raise not_found_path()
        info = request.info
        attributes = connect_attributes(request, pods)
        options = connect_options("pods", info.subresource, query)
        admitted = await self._registry.admission.admit(attributes, copied(options), {})
        if info.verb != "create":
            decision = self._authorizer.decide(request.user, replace(info, verb="create"))
            if not decision.allowed:
                raise forbidden(pods, info.name, decision.reason)
        return query if admitted == options or info.subresource == "portforward" else connect_query(admitted)

    def _find(self, info: RequestInfo) -> tuple[JsonObject, JsonObject | None]:
        """Return the pod, and its Node if it has one."""
        pods = self._registry.find("", "v1", "pods")
        if pods is None:
            raise not_found_path()
        pod: JsonObject = msgspec.json.decode(self._registry.get(pods, info.namespace, info.name).value)
        node = self._registry.store.get(Key("nodes", "", pod.get("spec", {}).get("nodeName", "")))
        return pod, None if node is None else msgspec.json.decode(node.value)
