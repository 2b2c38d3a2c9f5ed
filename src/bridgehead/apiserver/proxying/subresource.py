"""The subresource `proxy` of pods, services and nodes.

Finds the target in the store and passes the request on: every method, path and query, also upgrades.
Source: Kubernetes pkg/registry/core/{pod,service,node}, apimachinery `pkg/util/proxy/upgradeaware.go`.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Mapping

import msgspec

from bridgehead.apiserver.admission.connect_requests import connect_attributes, connect_options
from bridgehead.apiserver.errors import bad_request, method_not_allowed, not_found_named, not_found_path
from bridgehead.apiserver.http.request import Request, Response
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.tunnel import asks_for_upgrade
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.service_endpoints import read_endpoints
from bridgehead.apiserver.streams.kubelet_access import KubeletAccess, kubelet_address
from bridgehead.storage import Key

from .connections import Connections
from .passing import pass_on
from .routes import Route
from .targets import (
    ProxyName,
    Target,
    is_proxyable,
    make_target,
    parse_name,
    pod_target,
    service_port_name,
    service_target,
)
from .urls import Links, split_path

_RESOURCES = frozenset({"pods", "services", "nodes"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class ProxySubresource:
    """`kubelets` reaches the nodes, `connections` everything else."""

    def __init__(self, registry: Registry, kubelets: KubeletAccess, connections: Connections) -> None:
        self._registry = registry
        self._kubelets = kubelets
        self._connections = connections

    def serves(self, info: RequestInfo) -> bool:
        is_core = not info.group and info.version == "v1"
        return info.subresource == "proxy" and is_core and info.resource in _RESOURCES

    async def answer(self, request: Request) -> Response:
        """Answer a request. Raises `ApiStatus`, `Disconnected`."""
        info = request.info
        if request.method not in _METHODS:
            raise method_not_allowed()
        wanted = parse_name(info.name)
        if wanted is None:
            raise bad_request(f'invalid {info.resource.removesuffix("s")} request "{info.name}"')
        path = split_path(request.scope["path"], info.rest)
        query = request.scope["query_string"]
        await self._admit(request, path.path)
        target, is_kubelet = self._find(info, wanted)
        is_upgraded = asks_for_upgrade(request.scope["headers"])
        if not path.path and not is_upgraded and request.method in ("GET", "HEAD"):
            return Response(301, content_type="", headers=((b"location", path.with_slash(query).encode()),))
        route = Route(
            target=target,
            path=path.escaped(query),
            tls=self._tls(is_kubelet) if target.scheme == "https" else None,
            extra_headers=() if is_upgraded else ((b"x-forwarded-uri", path.forwarded_uri.encode()),),
            links=Links(path.prefix, target.authority, request.header(b"host")),
        )
        return await pass_on(request, route, self._connections)

    async def _admit(self, request: Request, path: str) -> None:
        """Ask admission. Raises `ApiStatus` for a connection that is refused."""
        info = request.info
        resource = self._registry.find("", "v1", info.resource)
        if resource is None:
            raise not_found_path()
        attributes = connect_attributes(request, resource)
        options = connect_options(info.resource, "proxy", request.query.items(), path)
        await self._registry.admission.admit(attributes, options, {})

    def _tls(self, is_kubelet: bool) -> ssl.SSLContext | None:
        return self._kubelets.context if is_kubelet else self._connections.unverified

    def _find(self, info: RequestInfo, wanted: ProxyName) -> tuple[Target, bool]:
        """Return the target, and whether it is a kubelet, which is reached with this server's certificate."""
        match info.resource:
            case "pods":
                return pod_target(wanted, self._get("pods", info.namespace, wanted.name)), False
            case "services":
                return self._find_endpoint(info, wanted), False
        return self._find_on_node(wanted)

    def _find_endpoint(self, info: RequestInfo, wanted: ProxyName) -> Target:
        behind, port = read_endpoints(self._registry.store, info.namespace, wanted.name), wanted.port
        if port.isascii() and port.isdigit():
            if behind.service is None:
                raise not_found_named("services", "", wanted.name)
            port = service_port_name(behind.service, port)
        elif behind.service is None and not behind.slices:
            raise not_found_named("endpoints", "", wanted.name)
        return service_target(wanted, info.name, port, behind.by_preference(), self._pod_of, random.randrange)

    def _find_on_node(self, wanted: ProxyName) -> tuple[Target, bool]:
        node = self._get("nodes", "", wanted.name)
        address, port = kubelet_address(node)
        if wanted.port in ("", str(port)):
            return Target(self._kubelets.scheme, address, port), True
        if not is_proxyable(address):
            raise bad_request("address not allowed")
        return make_target(wanted.scheme, address, wanted.port), False

    def _get(self, resource: str, namespace: str, name: str) -> JsonObject:
        record = self._registry.store.get(Key(resource, namespace, name))
        if record is None:
            raise not_found_named(resource, "", name)
        found: JsonObject = msgspec.json.decode(record.value)
        return found

    def _pod_of(self, reference: Mapping[str, str]) -> JsonObject | None:
        if reference.get("kind") != "Pod":
            return None
        record = self._registry.store.get(Key("pods", reference.get("namespace", ""), reference.get("name", "")))
        return None if record is None else msgspec.json.decode(record.value)
