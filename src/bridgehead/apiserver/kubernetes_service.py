"""The Service `kubernetes`, whose endpoints are the API servers that are alive.

Each server renews its own lease, and writes the addresses of all leases to Endpoints and EndpointSlice, so that a
server that has ended in any way is removed by the others. A server that stops in order removes itself before.
Source: pkg/controlplane/controller/kubernetesservice, pkg/controlplane/reconcilers/lease.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from ipaddress import ip_address

from bridgehead.storage import StorageError

from .errors import ApiStatus
from .registry.ensuring import ensure
from .registry.registry import Registry
from .resource import JsonObject
from .server_leases import LEASE_SECONDS, ServerLeases

log = logging.getLogger(__name__)

NAME = "kubernetes"
_NAMESPACE = "default"
_DEFAULT_PORT = 6443


class KubernetesService:
    """The Service and this server's part of its endpoints.

    `advertise` is the address and port on which pods reach this server; None: the server is no endpoint. All servers
    have the same port. `leases` are those of all servers on the store.
    """

    def __init__(
        self,
        registry: Registry,
        service_ip: str,
        advertise: tuple[str, int] | None,
        leases: ServerLeases,
    ) -> None:
        self._registry = registry
        self._service_ip = service_ip
        self._advertise = advertise
        self._leases = leases
        self._writing = asyncio.Lock()
        self._has_left = False

    async def ensure(self) -> None:
        """Create the Service if it is missing, renew the lease, and update the endpoints.

        A store that takes no writes, such as a full etcd, does not keep a server from its start: the lease is renewed
        later. Raises ApiStatus, StorageError.
        """
        port = _DEFAULT_PORT if self._advertise is None else self._advertise[1]
        service = ensure(self._registry, ("", "v1", "services"), _NAMESPACE, _service(self._service_ip, port))
        await asyncio.gather(service, self._renew())

    async def leave(self) -> None:
        """Remove this server from the endpoints, for good. Raises ApiStatus, StorageError."""
        if self._advertise is None:
            return
        async with self._writing:
            self._has_left = True
            await self._leases.remove(self._advertise[0])
            await self._write_endpoints(*self._advertise)

    async def _renew(self) -> None:
        if self._advertise is None:
            return
        async with self._writing:
            if self._has_left:
                return
            try:
                await self._leases.renew(self._advertise[0], LEASE_SECONDS)
                await self._write_endpoints(*self._advertise)
            except (ApiStatus, StorageError) as error:
                log.warning("cannot renew this server's endpoint of the Service %s: %s", NAME, error)

    async def _write_endpoints(self, own_address: str, port: int) -> None:
        version = ip_address(own_address).version
        alive = await self._leases.alive()
        # Endpoints are of one IP family. The order is that of Kubernetes: of the text.
        addresses = sorted(address for address in alive if ip_address(address).version == version)
        if not addresses:  # the last server: clients that still have it lose nothing
            log.debug("no API server has a lease: the endpoints of the Service %s stay", NAME)
            return
        endpoints, slice_ = make_endpoints(addresses, port), make_endpoint_slice(addresses, port)
        path = ("discovery.k8s.io", "v1", "endpointslices")
        await asyncio.gather(
            ensure(self._registry, ("", "v1", "endpoints"), _NAMESPACE, endpoints, replace=("subsets",)),
            ensure(self._registry, path, _NAMESPACE, slice_, replace=("endpoints", "ports")),
        )


def _service(ip: str, port: int) -> JsonObject:
    labels = {"component": "apiserver", "provider": "kubernetes"}
    return {
        "metadata": {"name": NAME, "labels": labels},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": ip,
            "clusterIPs": [ip],
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None",
        },
    }


def make_endpoints(addresses: Sequence[str], port: int) -> JsonObject:
    """Return the Endpoints object for addresses of servers."""
    return {
        "metadata": {"name": NAME, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [
            {
                "addresses": [{"ip": address} for address in addresses],
                "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            },
        ],
    }


def make_endpoint_slice(addresses: Sequence[str], port: int) -> JsonObject:
    """Return the EndpointSlice for addresses of servers, all of one family."""
    return {
        "metadata": {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": f"IPv{ip_address(addresses[0]).version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }


async def leave_in_time(service: KubernetesService, seconds: float) -> None:
    """Leave the endpoints before this server ends, within so many seconds; a failure only delays the others' turn."""
    try:
        async with asyncio.timeout(seconds):
            await service.leave()
    except (ApiStatus, StorageError, TimeoutError) as error:
        log.warning("cannot remove this server from the endpoints of the Service %s: %s", NAME, error or "no answer")
