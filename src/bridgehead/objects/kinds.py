"""The kinds that Bridgehead reads and writes, each with its API group, version and URL path.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from .apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from .autoscaling import HorizontalPodAutoscaler
from .batch import CronJob, Job
from .certificates import CertificateSigningRequest
from .coordination import Lease
from .core import (
    ConfigMap,
    Endpoints,
    Event,
    Namespace,
    Node,
    Pod,
    Secret,
    Service,
    ServiceAccount,
)
from .endpoint_slices import EndpointSlice
from .meta import Object
from .networking import ServiceCIDR
from .policy import PodDisruptionBudget
from .replication import ReplicationController
from .runtime_classes import RuntimeClass
from .storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass

T = TypeVar("T", bound=Object)


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind: its struct, and the group, version and plural under which the API serves it. `group` is "" for core."""

    type: type[T]
    group: str
    version: str
    plural: str
    namespaced: bool = True

    @property
    def name(self) -> str:
        return self.type.__name__

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection or, with `name`, of one object."""
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        if name:
            path += f"/{name}"
        if subresource:
            path += f"/{subresource}"
        return path


NAMESPACES = Kind(Namespace, "", "v1", "namespaces", namespaced=False)
NODES = Kind(Node, "", "v1", "nodes", namespaced=False)
PODS = Kind(Pod, "", "v1", "pods")
SERVICES = Kind(Service, "", "v1", "services")
ENDPOINTS = Kind(Endpoints, "", "v1", "endpoints")
EVENTS = Kind(Event, "", "v1", "events")
CONFIG_MAPS = Kind(ConfigMap, "", "v1", "configmaps")
SECRETS = Kind(Secret, "", "v1", "secrets")
SERVICE_ACCOUNTS = Kind(ServiceAccount, "", "v1", "serviceaccounts")
REPLICATION_CONTROLLERS = Kind(ReplicationController, "", "v1", "replicationcontrollers")
PERSISTENT_VOLUMES = Kind(PersistentVolume, "", "v1", "persistentvolumes", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Kind(PersistentVolumeClaim, "", "v1", "persistentvolumeclaims")
RUNTIME_CLASSES = Kind(RuntimeClass, "node.k8s.io", "v1", "runtimeclasses", namespaced=False)
STORAGE_CLASSES = Kind(StorageClass, "storage.k8s.io", "v1", "storageclasses", namespaced=False)
CSI_NODES = Kind(CSINode, "storage.k8s.io", "v1", "csinodes", namespaced=False)
DEPLOYMENTS = Kind(Deployment, "apps", "v1", "deployments")
REPLICA_SETS = Kind(ReplicaSet, "apps", "v1", "replicasets")
DAEMON_SETS = Kind(DaemonSet, "apps", "v1", "daemonsets")
CONTROLLER_REVISIONS = Kind(ControllerRevision, "apps", "v1", "controllerrevisions")
STATEFUL_SETS = Kind(StatefulSet, "apps", "v1", "statefulsets")
JOBS = Kind(Job, "batch", "v1", "jobs")
CRON_JOBS = Kind(CronJob, "batch", "v1", "cronjobs")
ENDPOINT_SLICES = Kind(EndpointSlice, "discovery.k8s.io", "v1", "endpointslices")
LEASES = Kind(Lease, "coordination.k8s.io", "v1", "leases")
CERTIFICATE_SIGNING_REQUESTS = Kind(
    CertificateSigningRequest, "certificates.k8s.io", "v1", "certificatesigningrequests", namespaced=False
)
SERVICE_CIDRS = Kind(ServiceCIDR, "networking.k8s.io", "v1", "servicecidrs", namespaced=False)
HORIZONTAL_POD_AUTOSCALERS = Kind(HorizontalPodAutoscaler, "autoscaling", "v2", "horizontalpodautoscalers")
POD_DISRUPTION_BUDGETS = Kind(PodDisruptionBudget, "policy", "v1", "poddisruptionbudgets")

ALL_KINDS: tuple[Kind[Object], ...] = (
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    ENDPOINTS,
    EVENTS,
    CONFIG_MAPS,
    SECRETS,
    SERVICE_ACCOUNTS,
    REPLICATION_CONTROLLERS,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    DEPLOYMENTS,
    REPLICA_SETS,
    DAEMON_SETS,
    STATEFUL_SETS,
    CONTROLLER_REVISIONS,
    JOBS,
    CRON_JOBS,
    ENDPOINT_SLICES,
    LEASES,
    SERVICE_CIDRS,
    CERTIFICATE_SIGNING_REQUESTS,
    POD_DISRUPTION_BUDGETS,
    HORIZONTAL_POD_AUTOSCALERS,
)  # type: ignore[assignment]
