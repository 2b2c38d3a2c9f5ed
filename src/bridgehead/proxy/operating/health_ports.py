"""`healthCheckNodePort`: the port by which load balancers learn whether this node has endpoints of a Service.

A Service of type LoadBalancer with `externalTrafficPolicy: Local` has a port on every node. It answers 200 on nodes
with ready endpoints and 503 on all others. `plan_health_check` decides, `HealthPorts` has the sockets. `agent.py` calls
both, and publishes a change only when the kernel has it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridgehead.network.interface_addresses import Addresses
from bridgehead.objects.core import Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.pages import Handler, Page, Server, listen
from bridgehead.proxy.address_texts import canonical_address, family_of
from bridgehead.proxy.service_frontends import health_check_port

from .serving import JSON_HEADERS

log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0


class HealthCheck(NamedTuple):
    """A health check of a Service. `local_endpoints`: its ready endpoints on this node, each address once.

    The larger number of two families counts: the same pods have addresses of both.
    """

    port: int
    local_endpoints: int


def plan_health_check(service: Service, slices: Iterable[EndpointSlice], node_name: str) -> HealthCheck | None:
    """Return the health check of a Service on this node; None: it has none."""
    port = health_check_port(service)
    if not port or not service.is_proxied:
        return None
    local = {
        canonical_address(endpoint.first_address or "")
        for slice_ in slices
        for endpoint in slice_.endpoints
        if endpoint.node_name == node_name and endpoint.conditions.is_ready
    }
    families = Counter(family_of(address) for address in local if address is not None)
    return HealthCheck(port, max(families.values(), default=0))


def local_addresses(cidrs: Sequence[str] | None) -> list[str]:
    """Return this node's addresses in these ranges; [""] (all addresses) if `cidrs` is None. Raises OSError."""
    if cidrs is None:
        return [""]
    ranges = [ipaddress.ip_network(cidr) for cidr in cidrs]
    with Addresses() as addresses:
        found = {ipaddress.ip_address(address.address) for address in addresses.all()}
    return sorted(str(address) for address in found if any(address in range_ for range_ in ranges))


@dataclass
class _Port:
    """The port of a Service. `server` is None while the port is not open."""

    check: HealthCheck
    server: Server | None = None
    is_reported: bool = False


class HealthPorts:
    """The sockets of all health checks. `update` sets the wanted ports, `run` opens and closes them.

    `addresses` returns the node's addresses to listen on. `on_failed` is called with the Service and the error each
    time that a port cannot be opened.
    """

    def __init__(
        self,
        node_name: str,
        is_healthy: Callable[[], bool],
        on_failed: Callable[[ObjectKey, str], None],
        addresses: Callable[[], list[str]],
    ) -> None:
        self._node_name = node_name
        self._is_healthy = is_healthy
        self._on_failed = on_failed
        self._addresses = addresses
        self._ports: dict[ObjectKey, _Port] = {}
        self._closing: list[Server] = []
        self._wake = asyncio.Event()

    def update(self, wanted: Mapping[ObjectKey, HealthCheck | None]) -> None:
        """Set the health checks of these Services; those of others stay."""
        for key, check in wanted.items():
            port = self._ports.get(key)
            if port is not None and check is not None and port.check.port == check.port:
                port.check = check
                continue
            if port is not None:
                del self._ports[key]
                self._shut(port)
            if check is not None:
                self._ports[key] = _Port(check)
                self._wake.set()

    def reopen(self) -> None:
        """Open all ports again: the node's addresses changed."""
        for port in self._ports.values():
            self._shut(port)
        self._wake.set()

    async def run(self) -> None:
        """Open the wanted ports until cancelled, and retry those that are in use."""
        try:
            while True:
                self._wake.clear()
                while self._closing:
                    await self._closing.pop().close()
                for key, port in list(self._ports.items()):
                    if port.server is None:
                        await self._open(key, port)
                is_complete = all(port.server is not None for port in self._ports.values())
                try:
                    async with asyncio.timeout(None if is_complete else RETRY_SECONDS):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            for port in self._ports.values():
                self._shut(port)
            for server in self._closing:
                await server.close()

    def _shut(self, port: _Port) -> None:
        if port.server is not None:
            self._closing.append(port.server)
            port.server = None
            self._wake.set()

    async def _open(self, key: ObjectKey, port: _Port) -> None:
        number = port.check.port
        try:
            server = await listen([(address, number) for address in self._addresses()], self._handler(key))
        except OSError as error:
            text = f'node {self._node_name} failed to start healthcheck "{key}" on port {number}: {error.strerror}'
            log.log(logging.DEBUG if port.is_reported else logging.ERROR, "%s", text)
            port.is_reported = True
            self._on_failed(key, text)
            return
        if self._ports.get(key) is port:
            port.server = server
        else:  # the health check changed meanwhile
            await server.close()

    def _handler(self, key: ObjectKey) -> Handler:
        def handle(method: str, path: str, accept: str) -> Page:
            """Answer any method and path, as kube-proxy does."""
            port = self._ports.get(key)
            count = port.check.local_endpoints if port is not None else 0
            is_healthy = self._is_healthy()
            return health_page(key, count, is_healthy=is_healthy)

        return handle


def health_page(key: ObjectKey, local_endpoints: int, *, is_healthy: bool) -> Page:
    """Return the answer; status, headers and body are kube-proxy's."""
    body = (
        "{\n"
        '\t"service": {\n'
        f'\t\t"namespace": {json.dumps(key.namespace)},\n'
        f'\t\t"name": {json.dumps(key.name)}\n'
        "\t},\n"
        f'\t"localEndpoints": {local_endpoints},\n'
        f'\t"serviceProxyHealthy": {json.dumps(is_healthy)}\n'
        "}"
    )
    headers = (*JSON_HEADERS, ("X-Load-Balancing-Endpoint-Weight", str(local_endpoints)))
    return Page(200 if local_endpoints and is_healthy else 503, body.encode(), "application/json", headers)
