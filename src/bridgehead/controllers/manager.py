"""Runs the controllers of one process over shared informers. Called by `bridgehead controllers`.

A controller is a class that takes `(client, informers, recorder)`, subscribes to what it needs, and has a coroutine
`run` that works until cancelled. One that crashes is logged and run again; the others don't notice.
"""

from __future__ import annotations

import asyncio
import fnmatch
import importlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bridgehead.client import ApiClient, EventRecorder
from bridgehead.client.errors import ClientError
from bridgehead.objects.kinds import LEASES

from .nodes.hearing import HeardClock, monitor_period
from .shared import Informers

log = logging.getLogger(__name__)

RESTART_SECONDS = (1.0, 60.0)  # first and longest delay


class Controller(Protocol):
    async def run(self) -> None: ...


@dataclass(frozen=True)
class Entry:
    """Where a controller is. `component` is who its Events are from; `settings` it takes by name from `Settings`.

    One that `judges_silence` also takes the `hearing` that all such share.
    """

    module: str
    type: str
    component: str
    settings: tuple[str, ...] = ()
    judges_silence: bool = False


@dataclass(frozen=True)
class Settings:
    """What the command line decides. `root_ca` is PEM; periods are in seconds."""

    max_endpoints_per_slice: int = 100
    node_monitor_grace_period: float = 40.0
    root_ca: str = ""


# Names are those of kube-controller-manager's `--controllers`. The garbage collector comes last: of kinds that
# somebody else follows it shares the copy, of all others it keeps no more than the metadata.
CONTROLLERS: dict[str, Entry] = {
    "scheduler": Entry("scheduling.scheduler", "Scheduler", "default-scheduler"),
    "deployment-controller": Entry("workloads.deployments", "DeploymentController", "deployment-controller"),
    "replicaset-controller": Entry("workloads.replicasets", "ReplicaSetController", "replicaset-controller"),
    "daemonset-controller": Entry("workloads.daemonsets", "DaemonSetController", "daemonset-controller"),
    "endpoints-controller": Entry("endpoints.endpoints", "EndpointsController", "endpoint-controller"),
    "endpointslice-controller": Entry(
        "endpoints.endpointslices", "EndpointSliceController", "endpoint-slice-controller", ("max_endpoints_per_slice",)
    ),
    "endpointslice-mirroring-controller": Entry(
        "endpoints.mirroring", "EndpointSliceMirroringController", "endpoint-slice-mirroring-controller"
    ),
    "node-lifecycle-controller": Entry(
        "nodes.nodes", "NodeLifecycleController", "node-controller", ("node_monitor_grace_period",), judges_silence=True
    ),
    "taint-eviction-controller": Entry("nodes.taint_eviction", "TaintEvictionController", "taint-eviction-controller"),
    "pod-garbage-collector-controller": Entry(
        "nodes.pod_garbage", "PodGarbageCollector", "pod-garbage-collector", judges_silence=True
    ),
    "serviceaccount-controller": Entry(
        "namespaces.serviceaccounts", "ServiceAccountController", "serviceaccount-controller"
    ),
    "root-ca-certificate-publisher-controller": Entry(
        "namespaces.root_ca", "RootCAPublisher", "root-ca-publisher", ("root_ca",)
    ),
    "namespace-controller": Entry("namespaces.namespaces", "NamespaceController", "namespace-controller"),
    "garbage-collector-controller": Entry("namespaces.garbage", "GarbageCollector", "garbage-collector-controller"),
}


def select_controllers(wanted: str, names: Sequence[str] = tuple(CONTROLLERS)) -> list[str]:
    """Which to run: `*` stands for all, `-NAME` takes one out, patterns work. Raises ValueError for unknown names.

    As in kube-controller-manager, a list that only takes out means "all but these" only if it has `*`.
    """
    chosen: set[str] = set()
    refused: set[str] = set()
    for word in (word.strip() for word in wanted.split(",") if word.strip()):
        pattern = word.removeprefix("-")
        matching = fnmatch.filter(names, pattern)
        if not matching:
            raise ValueError(f"no controller {pattern!r}; there are: {', '.join(names)}")
        (refused if word.startswith("-") else chosen).update(matching)
    return [name for name in names if name in chosen and name not in refused]


@dataclass
class Manager:
    """`run` runs the controllers named until cancelled."""

    client: ApiClient
    names: Sequence[str]
    settings: Settings = field(default_factory=Settings)
    controllers: Mapping[str, Entry] = field(default_factory=lambda: CONTROLLERS)

    async def run(self) -> None:
        informers = Informers(self.client)
        recorders: dict[str, EventRecorder] = {}
        hearing = self._hearing(informers)
        async with asyncio.TaskGroup() as tasks:
            for name in self.names:
                entry = self.controllers[name]
                recorder = recorders[name] = EventRecorder(self.client, entry.component)
                controller = self._load(entry, informers, recorder, hearing)
                tasks.create_task(_run_for_ever(name, controller), name=name)
            for name, recorder in recorders.items():
                tasks.create_task(_run_for_ever(f"{name}'s events", recorder), name=f"{name} events")
            if hearing is not None:
                tasks.create_task(_run_for_ever("hearing", hearing), name="hearing")
            tasks.create_task(informers.run(), name="informers")
            await informers.wait_synced()
            log.info("running %d controllers: %s", len(self.names), ", ".join(self.names))

    def _hearing(self, informers: Informers) -> HeardClock | None:
        if not any(self.controllers[name].judges_silence for name in self.names):
            return None
        return HeardClock(self.client, informers.get(LEASES), monitor_period(self.settings.node_monitor_grace_period))

    def _load(
        self, entry: Entry, informers: Informers, recorder: EventRecorder, hearing: HeardClock | None
    ) -> Controller:
        module = importlib.import_module(f"{__package__}.{entry.module}")
        its_type: Any = getattr(module, entry.type)
        settings = {name: getattr(self.settings, name) for name in entry.settings}
        if entry.judges_silence:
            settings["hearing"] = hearing
        controller: Controller = its_type(self.client, informers, recorder, **settings)
        return controller


async def _run_for_ever(name: str, controller: Controller) -> None:
    """Run it again whenever it ends: at once if it has run well for a while, else after ever longer delays."""
    first, longest = RESTART_SECONDS
    delay = first
    now = asyncio.get_running_loop().time
    while True:
        begun = now()
        problem: Exception | None = None
        try:
            await controller.run()
        except Exception as error:  # noqa: BLE001 - told below
            problem = error
        if now() - begun >= longest:
            delay = 0.0
        _tell(name, problem, delay)
        await asyncio.sleep(delay)
        delay = min(longest, max(first, delay * 2))


def _tell(name: str, problem: Exception | None, delay: float) -> None:
    if problem is None:
        log.error("%s ended by itself; running it again in %.0f s", name, delay)
    elif isinstance(problem, ClientError):
        log.warning("%s: %s; running it again in %.0f s", name, problem, delay)
    else:
        log.error("%s crashed; running it again in %.0f s", name, delay, exc_info=problem)
