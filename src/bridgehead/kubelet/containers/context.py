"""The state that the pod workers of a node share, and the state of one pod.

The kubelet makes one `NodeContext`; each worker makes a `PodContext`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bridgehead.client import ApiClient, EventRecorder, Informer
from bridgehead.images.service.client import PullerClient
from bridgehead.kubelet.metrics.operations import KubeletMetrics, ProbeMetrics
from bridgehead.kubelet.node.pod_addresses import PodAddresses
from bridgehead.kubelet.node.pod_id_ranges import PodUsers
from bridgehead.kubelet.node.settings import NodeSettings
from bridgehead.kubelet.runtimes.runtime import Runtime, SandboxInfo
from bridgehead.kubelet.volumes.referenced_objects import ReferencedObjects
from bridgehead.kubelet.volumes.volume_manager import VolumeManager
from bridgehead.objects.core import Container, Node, Pod, Service
from bridgehead.objects.meta import ObjectReference

from .handlers import Handlers


class WaitingResize(NamedTuple):
    """A resize for which the node has no room: the pod with the resources that it wants, and since when it waits, in
    seconds since the epoch."""

    pod: Pod
    since: float


@dataclass(frozen=True, kw_only=True)
class NodeContext:
    """`allocatable` is the node's, by resource name; `has_app_armor`: the kernel enforces AppArmor. Without a `puller`
    the node pulls nothing.

    `pods` returns all pods of the node, each with the resources that the node has given it; `pods_listed` returns when
    those of the API server are among them. `admitted` has the uids of the pods that the node has taken and not yet
    released; `waiting_resizes` the resizes that wait for room, by uid. `find_node` returns the Node as last observed,
    `preempt` ends the pod with this uid and returns after its end.
    """

    settings: NodeSettings
    client: ApiClient
    runtime: Runtime
    puller: PullerClient | None
    recorder: EventRecorder
    services: Informer[Service]
    objects: ReferencedObjects
    volumes: VolumeManager
    addresses: PodAddresses
    users: PodUsers
    handlers: Handlers
    allocatable: Mapping[str, str | int | float]
    has_app_armor: bool
    pods: Callable[[], Iterable[Pod]]
    pods_listed: Callable[[], Awaitable[None]]
    find_node: Callable[[], Node | None]
    preempt: Callable[[str], Awaitable[None]]
    metrics: KubeletMetrics = field(default_factory=KubeletMetrics)
    probe_metrics: ProbeMetrics = field(default_factory=ProbeMetrics)
    admitted: set[str] = field(default_factory=set)
    waiting_resizes: dict[str, WaitingResize] = field(default_factory=dict)

    def record(self, pod: Pod, type: str, reason: str, message: str, container: Container | None = None) -> None:
        """Record an Event about the pod or one of its containers."""
        path = ""
        if container is not None:
            kinds = (
                ("initContainers", pod.spec.init_containers),
                ("ephemeralContainers", pod.spec.ephemeral_containers),
            )
            names = (kind for kind, containers in kinds if any(c.name == container.name for c in containers))
            path = f"spec.{next(names, 'containers')}{{{container.name}}}"
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
    """One pod of this node: the API server's object, and what the kubelet has made for it.

    `volumes` is name -> path on the node. Only the pod's worker changes a context.
    """

    node: NodeContext
    pod: Pod
    sandbox: SandboxInfo | None = None
    volumes: dict[str, str] = field(default_factory=dict)

    @property
    def pod_ips(self) -> tuple[str, ...]:
        """The pod's addresses, the primary one first; empty while it has no sandbox."""
        if self.sandbox is None:
            return ()
        return self.node.settings.ips if self.pod.spec.host_network else self.sandbox.ips

    @property
    def pod_ip(self) -> str:
        """The pod's primary address, "" while it has none."""
        return next(iter(self.pod_ips), "")

    @property
    def id_base(self) -> int:
        """The node's id of the pod's root; 0 if it is the node's."""
        return self.node.users.id_base(self.pod)

    def all_containers(self) -> tuple[Container, ...]:
        spec = self.pod.spec
        return spec.init_containers + spec.containers + spec.ephemeral_containers

    def container(self, name: str) -> Container:
        """Return the container with this name. Raises KeyError."""
        for container in self.all_containers():
            if container.name == name:
                return container
        raise KeyError(name)

    def record(self, type: str, reason: str, message: str, container: Container | None = None) -> None:
        """Record an Event about the pod or one of its containers."""
        self.node.record(self.pod, type, reason, message, container)
