"""The kubelet's configuration, and the paths of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bridgehead.objects.core import Pod

from .resolv_conf import Resolver

# Kubernetes sets no limit by default; here a fork bomb in a pod would bring down the whole machine.
DEFAULT_MAX_PIDS = 4096


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """The kubelet's configuration. Times are in seconds.

    `ips` are the node's addresses, `pod_cidrs` the ranges of its pods: one of each family, the primary one first.
    `pod_max_pids` bounds the processes and threads of each container; None: no bound. `system_logs` is what the
    kubelet's server shows below /logs/. `static_pods` is the directory of the manifests of static pods.
    `eviction_period` is the time between two measurements of the storage of pods that have limits of it. `image_gc_*`:
    above the high threshold (percent of the disk), unused images are removed down to the low one, except those that
    were used in the last `image_minimum_gc_age`. All times are in seconds. `flags` are the options of the command line
    by name, for the page /flagz.
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
    system_logs: Path = Path("/var/log")
    static_pods: Path | None = None
    eviction_period: float = 10.0
    image_gc_high_threshold: int = 85
    image_gc_low_threshold: int = 80
    image_minimum_gc_age: float = 120.0
    flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def ip(self) -> str:
        """The node's primary address."""
        return self.ips[0]

    @property
    def seccomp_root(self) -> Path:
        """The directory of the seccomp profiles that pods may name (type Localhost)."""
        return self.root / "seccomp"

    def log_directory(self, pod: Pod) -> Path:
        """The directory of all logs of a pod."""
        meta = pod.metadata
        return self.root / "logs" / f"{meta.namespace}_{meta.name}_{meta.uid}"

    def log_path(self, pod: Pod, container: str, attempt: int) -> Path:
        """The log file of a container's run number `attempt`."""
        return self.log_directory(pod) / container / f"{attempt}.log"
