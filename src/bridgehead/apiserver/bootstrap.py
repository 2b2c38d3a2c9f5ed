"""What must be there before the first client: the first namespaces, and the Service by which pods reach the API.

Run at every start and now and then after it, for `kubectl delete service --all` takes the Service, too. What is there
already is kept, and the addresses of `kubernetes` are brought up to date (source:
pkg/controlplane/controller/kubernetesservice, systemnamespaces).
"""

from __future__ import annotations

import asyncio
import logging
from ipaddress import ip_address

from bridgehead.storage import Key, StoreBroken

from .errors import ApiStatus
from .registry.registry import Registry
from .resource import JsonObject, Resource

log = logging.getLogger(__name__)

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
INTERVAL_SECONDS = 10.0
_NAME = "kubernetes"


async def ensure_basics(registry: Registry, *, service_ip: str, advertise: tuple[str, int] | None) -> None:
    """`advertise` is where pods reach the server; None leaves the Service without endpoints. Raises `ApiStatus`."""
    for name in NAMESPACES:
        await _ensure(registry, ("", "v1", "namespaces"), "", {"metadata": {"name": name}})
    service = _service(service_ip, 6443 if advertise is None else advertise[1])
    await _ensure(registry, ("", "v1", "services"), "default", service)
    if advertise is None:
        return
    address, port = advertise
    await _ensure(registry, ("", "v1", "endpoints"), "default", _endpoints(address, port), replace="subsets")
    slice_ = _endpoint_slice(address, port)
    await _ensure(registry, ("discovery.k8s.io", "v1", "endpointslices"), "default", slice_, replace="endpoints")


async def keep_basics(
    registry: Registry, *, service_ip: str, advertise: tuple[str, int] | None, interval: float = INTERVAL_SECONDS
) -> None:
    """`ensure_basics` every `interval` seconds, until cancelled."""
    while True:
        await asyncio.sleep(interval)
        try:
            await ensure_basics(registry, service_ip=service_ip, advertise=advertise)
        except (ApiStatus, StoreBroken) as error:
            log.warning("the Service %s can't be kept up: %s", _NAME, error)


async def _ensure(
    registry: Registry, path: tuple[str, str, str], namespace: str, obj: JsonObject, *, replace: str = ""
) -> None:
    resource = registry.find(*path)
    if resource is None:
        return
    name = obj["metadata"]["name"]
    if registry.store.get(Key(resource.id, namespace, name)) is None:
        await _create(registry, resource, namespace, obj)
    elif replace:
        wanted = {key: obj[key] for key in (replace, "ports") if key in obj}
        await registry.update(resource, namespace, name, lambda old: {**old, **wanted})


async def _create(registry: Registry, resource: Resource, namespace: str, obj: JsonObject) -> None:
    try:
        await registry.create(resource, namespace, obj)
    except ApiStatus as status:
        # Another server over the same store may have been first.
        if status.reason != "AlreadyExists":
            raise


def _service(ip: str, port: int) -> JsonObject:
    labels = {"component": "apiserver", "provider": "kubernetes"}
    return {
        "metadata": {"name": _NAME, "labels": labels},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": ip,
            "clusterIPs": [ip],
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None",
        },
    }


def _endpoints(address: str, port: int) -> JsonObject:
    return {
        "metadata": {"name": _NAME, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [
            {"addresses": [{"ip": address}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]},
        ],
    }


def _endpoint_slice(address: str, port: int) -> JsonObject:
    return {
        "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": f"IPv{ip_address(address).version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
