"""Objects that every cluster has: system namespaces and classes, the Service `kubernetes`, default roles.

They include the date since which uses of legacy tokens are recorded.

They are created at every start and checked periodically afterwards, because `kubectl delete service --all` deletes the
Service. Existing objects are kept; only the addresses of `kubernetes` are updated.
Source: pkg/controlplane/controller/kubernetesservice, systemnamespaces.
"""

from __future__ import annotations

import asyncio
import logging
from ipaddress import ip_address

from bridgehead.objects.critical_pods import SYSTEM_CLASSES
from bridgehead.storage import Key, StoreBroken

from .errors import ApiStatus
from .registry.aggregated_roles import AggregatedRoles
from .registry.default_roles import ensure_default_roles
from .registry.legacy_tokens import TRACKING, date_of
from .registry.registry import Registry
from .registry.service_cidrs import ensure_default
from .registry.writes import Write
from .resource import JsonObject, Resource, copied
from .resources import componentstatuses
from .resources.flowcontrol import (
    FLOW_SCHEMA_SPECS,
    PRIORITY_LEVEL_SPECS,
    SUGGESTED_FLOW_SCHEMA_SPECS,
    SUGGESTED_PRIORITY_LEVEL_SPECS,
)

log = logging.getLogger(__name__)

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
INTERVAL_SECONDS = 10.0
_NAME = "kubernetes"
_DEFAULT_PORT = 6443

_SYSTEM_CLASS_DESCRIPTIONS = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
    ),
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}


def _flow_objects(specs: dict[str, JsonObject]) -> list[JsonObject]:
    annotations = {"apf.kubernetes.io/autoupdate-spec": "true"}
    return [{"metadata": {"name": name, "annotations": annotations}, "spec": spec} for name, spec in specs.items()]


_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"
_CLUSTER_OBJECTS: tuple[tuple[tuple[str, str, str], list[JsonObject]], ...] = (
    (("", "v1", "componentstatuses"), [componentstatuses.STORE]),
    (
        ("scheduling.k8s.io", "v1", "priorityclasses"),
        [
            {"metadata": {"name": name}, "value": value, "description": _SYSTEM_CLASS_DESCRIPTIONS[name]}
            for name, value in SYSTEM_CLASSES.items()
        ],
    ),
    (
        (_FLOW_CONTROL, "v1", "prioritylevelconfigurations"),
        _flow_objects({**PRIORITY_LEVEL_SPECS, **SUGGESTED_PRIORITY_LEVEL_SPECS}),
    ),
    (
        (_FLOW_CONTROL, "v1", "flowschemas"),
        _flow_objects({**FLOW_SCHEMA_SPECS, **SUGGESTED_FLOW_SCHEMA_SPECS}),
    ),
)


async def ensure_system_objects(registry: Registry, *, service_ip: str, advertise: tuple[str, int] | None) -> None:
    """Create what is missing, and bring the default roles to what they should be.

    `advertise` is the address and port on which pods reach the server; None: the Service gets no endpoints.
    Raises `ApiStatus`.
    """
    objects = _ensure_objects(registry, service_ip=service_ip, advertise=advertise)
    await asyncio.gather(objects, ensure_default_roles(registry))
    await AggregatedRoles(registry).sync()


async def _ensure_objects(registry: Registry, *, service_ip: str, advertise: tuple[str, int] | None) -> None:
    service = _service(service_ip, _DEFAULT_PORT if advertise is None else advertise[1])
    ensured = [
        *(_ensure(registry, ("", "v1", "namespaces"), "", {"metadata": {"name": name}}) for name in NAMESPACES),
        *(_ensure(registry, path, "", obj) for path, objects in _CLUSTER_OBJECTS for obj in objects),
        ensure_default(registry),
        _ensure(registry, ("", "v1", "configmaps"), "kube-system", _token_tracking(registry.clock())),
        _ensure(registry, ("", "v1", "services"), "default", service),
    ]
    if advertise is not None:
        slices, slice_ = ("discovery.k8s.io", "v1", "endpointslices"), _endpoint_slice(*advertise)
        ensured += [
            _ensure(registry, ("", "v1", "endpoints"), "default", _endpoints(*advertise), replace="subsets"),
            _ensure(registry, slices, "default", slice_, replace="endpoints"),
        ]
    # At the same time, so that they share a commit.
    await asyncio.gather(*ensured)


async def maintain_system_objects(
    registry: Registry, *, service_ip: str, advertise: tuple[str, int] | None, interval: float = INTERVAL_SECONDS
) -> None:
    """Create what is missing every `interval` seconds, until cancelled. Roles are looked at only at the start."""
    while True:
        await asyncio.sleep(interval)
        try:
            await _ensure_objects(registry, service_ip=service_ip, advertise=advertise)
        except (ApiStatus, StoreBroken) as error:
            log.warning("cannot restore the Service %s: %s", _NAME, error)


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
        await registry.update(Write(resource, namespace, name), lambda old: {**old, **wanted})


async def _create(registry: Registry, resource: Resource, namespace: str, obj: JsonObject) -> None:
    try:
        await registry.create(Write(resource, namespace), copied(obj))
    except ApiStatus as status:
        # Another server on the same store may have been first.
        if status.reason != "AlreadyExists":
            raise


def _token_tracking(now: float) -> JsonObject:
    return {"metadata": {"name": TRACKING}, "data": {"since": date_of(now)}}


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
