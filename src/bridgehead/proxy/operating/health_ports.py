"""`healthCheckNodePort`: tells load balancers whether this node has endpoints of a Service, as kube-proxy does.

A Service of type LoadBalancer with `externalTrafficPolicy: Local` has a port on every node that answers 200 where it
has ready endpoints and 503 elsewhere. What each Service asks for is decided by `plan_health_check`, which is pure;
`HealthPorts` has the sockets. `agent.py` calls both, and tells of a change only when the kernel has it.
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

from bridgehead.network.addresses import Addresses
from bridgehead.objects.core import Service
from bridgehead.objects.discovery import EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.pages import Handler, Page, Server, listen
from bridgehead.proxy.addresses import canonical_address, family_of
from bridgehead.proxy.services import health_check_port

from .serving import JSON_HEADERS

log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0


class HealthCheck(NamedTuple):
    """`local_endpoints`: how many ready endpoints of the Service are on this node, each address once.

    Of two families the one with more counts: the same pods have addresses of both.
    """

    port: int
    local_endpoints: int


def plan_health_check(service: Service, slices: Iterable[EndpointSlice], node_name: str) -> HealthCheck | None:
    """What a Service asks of this node; None: nothing."""
    port = health_check_port(service)
    if not port or not service.is_proxied:
        return None
    here = {
        canonical_address(endpoint.addresses[0])
        for slice_ in slices
        for endpoint in slice_.endpoints
        if endpoint.node_name == node_name and endpoint.addresses and endpoint.conditions.is_ready
    }
    families = Counter(family_of(address) for address in here if address is not None)
    return HealthCheck(port, max(families.values(), default=0))


def local_addresses(cidrs: Sequence[str] | None) -> list[str]:
    """This node's addresses in these ranges; [""] for all, as None asks for. Raises OSError."""
    if cidrs is None:
        return [""]
    ranges = [ipaddress.ip_network(cidr) for cidr in cidrs]
    with Addresses() as addresses:
        found = {ipaddress.ip_address(address.address) for address in addresses.all()}
    return sorted(str(address) for address in found if any(address in range_ for range_ in ranges))


@dataclass
class _Port:
    """A Service's server; `server` is None while the port can't be had."""

    check: HealthCheck
    server: Server | None = None
    is_told: bool = False


class HealthPorts:
    """`update`, and `run` brings the sockets to it.

    `addresses` gives the node's addresses to listen on; `tell_failed` is called with the Service and what went wrong,
    each time that a port can't be had.
    """

    def __init__(
        self,
        node_name: str,
        is_healthy: Callable[[], bool],
        tell_failed: Callable[[ObjectKey, str], None],
        addresses: Callable[[], list[str]],
    ) -> None:
        self._node_name = node_name
        self._is_healthy = is_healthy
        self._tell_failed = tell_failed
        self._addresses = addresses
        self._ports: dict[ObjectKey, _Port] = {}
        self._closing: list[Server] = []
        self._wake = asyncio.Event()

    def update(self, wanted: Mapping[ObjectKey, HealthCheck | None]) -> None:
        """What these Services ask for from now on; others stay as they are."""
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
        """The node's addresses are others now."""
        for port in self._ports.values():
            self._shut(port)
        self._wake.set()

    async def run(self) -> None:
        """Open what is wanted until cancelled, and try again what is taken."""
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
            log.log(logging.DEBUG if port.is_told else logging.ERROR, "%s", text)
            port.is_told = True
            self._tell_failed(key, text)
            return
        if self._ports.get(key) is port:
            port.server = server
        else:  # it was changed while we opened it
            await server.close()

    def _handler(self, key: ObjectKey) -> Handler:
        def handle(method: str, path: str) -> Page:
            """Any method and path, as with kube-proxy."""
            port = self._ports.get(key)
            count = port.check.local_endpoints if port is not None else 0
            is_healthy = self._is_healthy()
            return health_page(key, count, is_healthy=is_healthy)

        return handle


def health_page(key: ObjectKey, local_endpoints: int, *, is_healthy: bool) -> Page:
    """kube-proxy's answer to the letter."""
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
