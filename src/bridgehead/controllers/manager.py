"""Runs the controllers of one process over shared informers. Called by `bridgehead controllers`.

A controller is a class that takes `(client, informers, recorder)`, adds handlers to the informers that it needs, and
has a coroutine `run` that works until cancelled. A controller that crashes is logged and restarted; the others go on.
"""

from __future__ import annotations

import asyncio
import fnmatch
import importlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bridgehead.backoff import Backoff
from bridgehead.client import ApiClient, EventRecorder
from bridgehead.client.errors import ClientError
from bridgehead.heap import no_collection
from bridgehead.objects.endpoint_slices import DEFAULT_MAX_ENDPOINTS
from bridgehead.objects.kinds import LEASES
from bridgehead.objects.storage import HOST_PATH_PROVISIONER
from bridgehead.suggestions import did_you_mean

from .endpoints.service_troubles import COMPONENT as SERVICE_WARNINGS
from .nodes.watch_clock import WatchClock, monitor_period
from .shared_informers import Informers

log = logging.getLogger(__name__)

RESTART_SECONDS = (1.0, 60.0)  # first and longest delay


class Controller(Protocol):
    async def run(self) -> None: ...


@dataclass(frozen=True)
class Entry:
    """Module and class of a controller.

    `component`: source of its Events; `settings`: fields of `Settings` that it takes as arguments; `uses_watch_clock`:
    it takes the shared `watch_clock`.
    """

    module: str
    type: str
    component: str
    settings: tuple[str, ...] = ()
    uses_watch_clock: bool = False


@dataclass(frozen=True)
class Settings:
    """Settings from the command line. `root_ca` is PEM; periods are in seconds; keys are files in PEM."""

    max_endpoints_per_slice: int = DEFAULT_MAX_ENDPOINTS
    node_monitor_grace_period: float = 40.0
    root_ca: str = ""
    service_account_private_key: Path | None = None
    cluster_signing_certificate: Path | None = None
    cluster_signing_key: Path | None = None
    cluster_signing_seconds: float = 365 * 24 * 3600.0


# Names are those of kube-controller-manager's `--controllers`, but for host-path-provisioner,
# service-warnings-controller and healed-events-controller, which it does not have. The garbage collector comes last: it
# shares the informers of other controllers, and keeps only the metadata of all other kinds.
CONTROLLERS: dict[str, Entry] = {
    "scheduler": Entry("scheduling.scheduler", "Scheduler", "default-scheduler"),
    "deployment-controller": Entry("workloads.deployment_controller", "DeploymentController", "deployment-controller"),
    "replicaset-controller": Entry("workloads.replicaset_controller", "ReplicaSetController", "replicaset-controller"),
    "replicationcontroller-controller": Entry(
        "workloads.replicaset_controller", "ReplicationControllerController", "replication-controller"
    ),
    "daemonset-controller": Entry("workloads.daemonset_controller", "DaemonSetController", "daemonset-controller"),
    "statefulset-controller": Entry(
        "stateful.statefulset_controller", "StatefulSetController", "statefulset-controller"
    ),
    "persistentvolume-binder-controller": Entry(
        "volumes.binder", "PersistentVolumeBinder", "persistentvolume-controller"
    ),
    "persistentvolumeclaim-protection-controller": Entry(
        "volumes.protection", "ClaimProtectionController", "pvc-protection-controller"
    ),
    "persistentvolume-protection-controller": Entry(
        "volumes.protection", "VolumeProtectionController", "pv-protection-controller"
    ),
    "ephemeral-volume-controller": Entry("volumes.ephemeral", "EphemeralVolumeController", "ephemeral_volume"),
    "host-path-provisioner": Entry("volumes.host_path", "HostPathProvisioner", HOST_PATH_PROVISIONER),
    "job-controller": Entry("jobs.job_controller", "JobController", "job-controller"),
    "cronjob-controller": Entry("jobs.cronjob_controller", "CronJobController", "cronjob-controller"),
    "disruption-controller": Entry("disruption.budgets", "DisruptionController", "controllermanager"),
    "horizontal-pod-autoscaler-controller": Entry(
        "autoscaling.horizontal", "HorizontalController", "horizontal-pod-autoscaler"
    ),
    "endpoints-controller": Entry("endpoints.endpoints_controller", "EndpointsController", "endpoint-controller"),
    "endpointslice-controller": Entry(
        "endpoints.endpointslice_controller",
        "EndpointSliceController",
        "endpoint-slice-controller",
        ("max_endpoints_per_slice",),
    ),
    "endpointslice-mirroring-controller": Entry(
        "endpoints.mirroring", "EndpointSliceMirroringController", "endpoint-slice-mirroring-controller"
    ),
    "service-warnings-controller": Entry(
        "endpoints.service_warnings_controller", "ServiceWarningsController", SERVICE_WARNINGS
    ),
    "healed-events-controller": Entry(
        "endpoints.healed_events_controller", "HealedEventsController", "healed-events-controller"
    ),
    "node-lifecycle-controller": Entry(
        "nodes.node_lifecycle_controller",
        "NodeLifecycleController",
        "node-controller",
        ("node_monitor_grace_period",),
        uses_watch_clock=True,
    ),
    "taint-eviction-controller": Entry("nodes.taint_eviction", "TaintEvictionController", "taint-eviction-controller"),
    "pod-garbage-collector-controller": Entry(
        "nodes.pod_garbage", "PodGarbageCollector", "pod-garbage-collector", uses_watch_clock=True
    ),
    "serviceaccount-controller": Entry(
        "serviceaccounts.serviceaccount_controller", "ServiceAccountController", "serviceaccount-controller"
    ),
    "serviceaccount-token-controller": Entry(
        "serviceaccounts.token_controller",
        "ServiceAccountTokenController",
        "serviceaccount-token-controller",
        ("service_account_private_key", "root_ca"),
    ),
    "root-ca-certificate-publisher-controller": Entry(
        "certificates.root_ca", "RootCAPublisher", "root-ca-publisher", ("root_ca",)
    ),
    "certificatesigningrequest-approving-controller": Entry(
        "certificates.approving", "CertificateApprovingController", "certificate-approver"
    ),
    "certificatesigningrequest-signing-controller": Entry(
        "certificates.signing",
        "CertificateSigningController",
        "certificate-signer",
        ("cluster_signing_certificate", "cluster_signing_key", "cluster_signing_seconds"),
    ),
    "certificatesigningrequest-cleaner-controller": Entry(
        "certificates.cleaning", "CertificateCleaner", "certificate-cleaner"
    ),
    "namespace-controller": Entry("namespaces.namespace_controller", "NamespaceController", "namespace-controller"),
    "garbage-collector-controller": Entry(
        "garbage.garbage_collector", "GarbageCollector", "garbage-collector-controller"
    ),
}


def select_controllers(wanted: str, names: Sequence[str] = tuple(CONTROLLERS)) -> list[str]:
    """Return the controllers to run: `*` means all, `-NAME` excludes one, patterns work. Raises ValueError.

    As in kube-controller-manager, a list of exclusions needs `*` to mean "all but these".
    """
    chosen: set[str] = set()
    excluded: set[str] = set()
    for entry in (entry.strip() for entry in wanted.split(",") if entry.strip()):
        pattern = entry.removeprefix("-")
        matching = fnmatch.filter(names, pattern)
        if not matching:
            raise ValueError(f"no controller {pattern!r}; there are: {', '.join(names)}{did_you_mean(pattern, names)}")
        (excluded if entry.startswith("-") else chosen).update(matching)
    return [name for name in names if name in chosen and name not in excluded]


@dataclass
class Manager:
    """Runs the named controllers until cancelled."""

    client: ApiClient
    names: Sequence[str]
    settings: Settings = field(default_factory=Settings)
    controllers: Mapping[str, Entry] = field(default_factory=lambda: CONTROLLERS)

    def preload(self) -> None:
        """Import the modules of the controllers, so that `run` begins sooner."""
        with no_collection():
            for name in self.names:
                importlib.import_module(f"{__package__}.{self.controllers[name].module}")

    async def run(self) -> None:
        informers = Informers(self.client)
        recorders: dict[str, EventRecorder] = {}
        watch_clock = self._make_watch_clock(informers)
        async with asyncio.TaskGroup() as tasks:
            with no_collection():
                for name in self.names:
                    entry = self.controllers[name]
                    recorder = recorders[name] = EventRecorder(self.client, entry.component)
                    controller = self._load(entry, informers, recorder, watch_clock)
                    tasks.create_task(_run_for_ever(name, controller), name=name)
            for name, recorder in recorders.items():
                tasks.create_task(_run_for_ever(f"{name}'s events", recorder), name=f"{name} events")
            if watch_clock is not None:
                tasks.create_task(_run_for_ever("watch clock", watch_clock), name="watch clock")
            tasks.create_task(informers.run(), name="informers")
            await informers.wait_synced()
            log.info("running %d controllers: %s", len(self.names), ", ".join(self.names))

    def _make_watch_clock(self, informers: Informers) -> WatchClock | None:
        if not any(self.controllers[name].uses_watch_clock for name in self.names):
            return None
        return WatchClock(self.client, informers.get(LEASES), monitor_period(self.settings.node_monitor_grace_period))

    def _load(
        self, entry: Entry, informers: Informers, recorder: EventRecorder, watch_clock: WatchClock | None
    ) -> Controller:
        module = importlib.import_module(f"{__package__}.{entry.module}")
        controller_type: Any = getattr(module, entry.type)
        settings = {name: getattr(self.settings, name) for name in entry.settings}
        if entry.uses_watch_clock:
            settings["watch_clock"] = watch_clock
        controller: Controller = controller_type(self.client, informers, recorder, **settings)
        return controller


async def _run_for_ever(name: str, controller: Controller) -> None:
    """Restart a controller whenever it ends: at once if it ran for long, else with back-off."""
    first, longest = RESTART_SECONDS
    backoff = Backoff(first, longest)
    now = asyncio.get_running_loop().time
    while True:
        begun = now()
        problem: Exception | None = None
        try:
            await controller.run()
        except Exception as error:  # noqa: BLE001 - logged below
            problem = error
        if now() - begun >= longest:
            backoff.reset()
            delay = 0.0
        else:
            delay = backoff.next()
        _log_end(name, problem, delay)
        await asyncio.sleep(delay)


def _log_end(name: str, problem: Exception | None, delay: float) -> None:
    if problem is None:
        log.error("%s ended by itself; running it again in %.0f s", name, delay)
    elif isinstance(problem, ClientError):
        log.warning("%s: %s; running it again in %.0f s", name, problem, delay)
    else:
        log.error("%s crashed; running it again in %.0f s", name, delay, exc_info=problem)
