"""Objects that every cluster has: system namespaces and classes, the Service `kubernetes`, default roles.

They include the date since which uses of legacy tokens are recorded.

They are created at every start and checked periodically afterwards, because `kubectl delete service --all` deletes the
Service. Existing objects are kept; only the addresses of `kubernetes` are updated.
Source: pkg/controlplane/controller/systemnamespaces.
"""

from __future__ import annotations

import asyncio
import logging

from bridgehead.objects.critical_pods import SYSTEM_CLASSES
from bridgehead.storage import StorageError

from . import kubernetes_service
from .errors import ApiStatus
from .kubernetes_service import KubernetesService
from .registry.aggregated_roles import AggregatedRoles
from .registry.default_roles import ensure_default_roles
from .registry.ensuring import ensure
from .registry.legacy_tokens import TRACKING, date_of
from .registry.registry import Registry
from .registry.service_cidrs import ensure_default
from .resource import JsonObject
from .resources import componentstatuses
from .resources.flowcontrol import (
    FLOW_SCHEMA_SPECS,
    PRIORITY_LEVEL_SPECS,
    SUGGESTED_FLOW_SCHEMA_SPECS,
    SUGGESTED_PRIORITY_LEVEL_SPECS,
)
from .server_leases import INTERVAL_SECONDS

log = logging.getLogger(__name__)

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

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


async def ensure_system_objects(registry: Registry, kubernetes: KubernetesService) -> None:
    """Create what is missing, and bring the default roles to what they should be. Raises ApiStatus, StorageError."""
    await asyncio.gather(_ensure_objects(registry, kubernetes), ensure_default_roles(registry))
    await AggregatedRoles(registry).sync()


async def _ensure_objects(registry: Registry, kubernetes: KubernetesService) -> None:
    # At the same time, so that they share a commit.
    await asyncio.gather(
        *(ensure(registry, ("", "v1", "namespaces"), "", {"metadata": {"name": name}}) for name in NAMESPACES),
        *(ensure(registry, path, "", obj) for path, objects in _CLUSTER_OBJECTS for obj in objects),
        ensure_default(registry),
        ensure(registry, ("", "v1", "configmaps"), "kube-system", _token_tracking(registry.clock())),
        kubernetes.ensure(),
    )


async def maintain_system_objects(
    registry: Registry, kubernetes: KubernetesService, interval: float = INTERVAL_SECONDS
) -> None:
    """Create what is missing every `interval` seconds, until cancelled. Roles are looked at only at the start."""
    while True:
        await asyncio.sleep(interval)
        try:
            await _ensure_objects(registry, kubernetes)
        except (ApiStatus, StorageError) as error:
            log.warning("cannot restore the Service %s: %s", kubernetes_service.NAME, error)


def _token_tracking(now: float) -> JsonObject:
    return {"metadata": {"name": TRACKING}, "data": {"since": date_of(now)}}
