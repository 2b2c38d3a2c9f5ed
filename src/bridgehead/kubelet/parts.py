"""What one node's pod workers share. Made by the agent, handed to each worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bridgehead.client import ApiClient, EventRecorder, Informer
from bridgehead.objects.core import Container, Pod, Service
from bridgehead.objects.meta import ObjectReference

from .addresses import PodAddresses
from .barrier import Barrier
from .handlers import Handlers
from .hosts import Resolver
from .references import ReferencedObjects
from .runtimes.runtime import Runtime, SandboxInfo
from .volumes import Volumes

# Kubernetes has no limit unless it is configured; here a pod's fork bomb would take the whole machine along.
DEFAULT_MAX_PIDS = 4096


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """The kubelet's configuration. Times are in seconds.

    `ips` are the node's addresses, `pod_cidrs` the ranges of its pods: one of each family, the primary one first.
    `pod_max_pids` is how many processes and threads each container of a pod may have; None: any number.
    """

    name: str
    ips: tuple[str, ...]
    pod_cidrs: tuple[str, ...]
    root: Path
    cluster_dns: tuple[str, ...] = ("10.96.0.10",)
    cluster_domain: str = "cluster.local"
    resolver: Resolver = field(default_factory=Resolver)
    labels: Mapping[str, str] = field(default_factory=dict)
    max_pods: int = 110
    termination_barrier: float = 5.0
    port: int = 10250
    pod_max_pids: int | None = DEFAULT_MAX_PIDS

    @property
    def ip(self) -> str:
        """The node's primary address."""
        return self.ips[0]

    @property
    def seccomp_root(self) -> Path:
        """The directory of the seccomp profiles that pods may name (type Localhost)."""
        return self.root / "seccomp"

    def log_directory(self, pod: Pod) -> Path:
        meta = pod.metadata
        return self.root / "logs" / f"{meta.namespace}_{meta.name}_{meta.uid}"

    def log_path(self, pod: Pod, container: str, attempt: int) -> Path:
        return self.log_directory(pod) / container / f"{attempt}.log"


@dataclass(frozen=True, kw_only=True)
class NodeParts:
    settings: NodeSettings
    client: ApiClient
    runtime: Runtime
    recorder: EventRecorder
    services: Informer[Service]
    objects: ReferencedObjects
    volumes: Volumes
    addresses: PodAddresses
    handlers: Handlers
    barrier: Barrier
    allocatable: Mapping[str, str | int | float]
    has_app_armor: bool

    def record(self, pod: Pod, type: str, reason: str, message: str, container: Container | None = None) -> None:
        """Write an event about the pod or one of its containers."""
        path = ""
        if container is not None:
            is_init = any(c.name == container.name for c in pod.spec.init_containers)
            path = f"spec.{'initContainers' if is_init else 'containers'}{{{container.name}}}"
        reference = ObjectReference(
            api_version="v1",
            kind="Pod",
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            uid=pod.metadata.uid,
            resource_version=pod.metadata.resource_version,
            field_path=path,
        )
        self.recorder.record(reference, type=type, reason=reason, message=message)


@dataclass
class PodContext:
    """One pod of this node: as the API server has it, and what the kubelet made for it.

    `volumes` is name -> path on the node. Changed by the pod's worker only.
    """

    parts: NodeParts
    pod: Pod
    sandbox: SandboxInfo | None = None
    volumes: dict[str, str] = field(default_factory=dict)

    @property
    def pod_ips(self) -> tuple[str, ...]:
        """The pod's addresses, the primary one first; none while it has no sandbox."""
        if self.sandbox is None:
            return ()
        return self.parts.settings.ips if self.pod.spec.host_network else self.sandbox.ips

    @property
    def pod_ip(self) -> str:
        """The pod's primary address, "" while it has none."""
        return next(iter(self.pod_ips), "")

    def all_containers(self) -> tuple[Container, ...]:
        return self.pod.spec.init_containers + self.pod.spec.containers

    def container(self, name: str) -> Container:
        """Raises KeyError for a name that the pod does not have."""
        for container in self.all_containers():
            if container.name == name:
                return container
        raise KeyError(name)

    def record(self, type: str, reason: str, message: str, container: Container | None = None) -> None:
        """Write an event about the pod or one of its containers."""
        self.parts.record(self.pod, type, reason, message, container)
