"""Keep the kernel's rules up to date with the objects of the API. `process.py` starts it.

`cluster_objects.py` follows the objects and marks Services that changed; one consumer recompiles those only, and
`programmer.py` sends the difference as one transaction. Changes that arrive during a transaction make up the next one.
`guard.py` repairs what other programs change. While the API server is unreachable, the rules stay as they are.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from bridgehead.backoff import Backoff
from bridgehead.client import ApiClient, EventRecorder, running
from bridgehead.heap import bulk
from bridgehead.network.gateways import gateways
from bridgehead.network.listening_ports import listeners
from bridgehead.objects.core import Pod
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import ObjectKey, ObjectReference

from .address_texts import Family
from .cluster_objects import Batch, ClusterObjects
from .config import ProxyConfig
from .conntrack.reconciler import ConntrackReconciler
from .errors import TransactionFailed
from .frontend_table import FrontendTable
from .frontends import ServiceFrontends
from .guard import RuleGuard
from .host_port_frontends import compile_host_ports
from .mode import Counting, Mode
from .node_listeners import ListListeners
from .operating.health import ProxyHealth
from .operating.health_ports import HealthCheck, HealthPorts, local_addresses, plan_health_check
from .operating.metrics import ProxyMetrics, WithoutLocalEndpoints
from .operating.problems import ProblemReporter
from .operating.progress import ProgressPublisher
from .programmer import Programmer
from .service_frontends import compile_service

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 30.0
LONG_SYNC_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.25
_SERVICES_AT_ONCE = 200  # compiled before other tasks get their turn


def pause_after(seconds: float, min_sync_period: float) -> float:
    """Return the seconds to wait after a sync that took `seconds`, so that syncs take half of the time at most.

    Each call of iptables-restore reads thousands of rules; under constant change, syncs back to back would leave no
    processor time to the node's pods. Changes that arrive meanwhile are sent together. Short syncs need no pause.
    """
    own = min(seconds, LONGEST_PAUSE_SECONDS) if seconds > LONG_SYNC_SECONDS else 0.0
    return max(own, min_sync_period)


class ProxyAgent:
    """One node's proxy. `run` works until it is cancelled.

    `service_cidrs`: the ranges of cluster IPs; None: those of the cluster's ServiceCIDRs. `api_addresses`: the
    addresses by which the client reaches the API server. `mode_problem`: why this node's proxy is not all that its
    configuration asks for; a Warning Event of the Node.
    """

    def __init__(
        self,
        client: ApiClient,
        mode: Mode,
        config: ProxyConfig,
        node_name: str,
        *,
        service_cidrs: tuple[str, ...] | None = None,
        api_addresses: tuple[str, ...] = (),
        metrics: ProxyMetrics | None = None,
        health: ProxyHealth | None = None,
        flows: ConntrackReconciler | None = None,
        progress: ProgressPublisher | None = None,
        kernel_families: tuple[Family, ...] = (4, 6),
        mode_problem: str = "",
        list_listeners: ListListeners = listeners,
        list_gateways: Callable[[], Collection[str]] = gateways,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.mode = mode
        self._mode_problem = mode_problem
        self._kernel_families = kernel_families
        self.metrics = metrics or ProxyMetrics(mode.name, kernel_families)
        if isinstance(mode, Counting):
            self.metrics.count_rules(mode.rule_counts)
        self.health = health or ProxyHealth(2 * config.sync_period, now)
        self._objects = ClusterObjects(
            client,
            config,
            node_name,
            service_cidrs=service_cidrs,
            api_addresses=api_addresses,
            kernel_families=kernel_families,
            metrics=self.metrics,
            health=self.health,
            list_listeners=list_listeners,
            list_gateways=list_gateways,
        )
        self._config = config
        self._node_name = node_name
        self._flows = flows
        self._progress = progress
        self._now = now
        self._recorder = EventRecorder(client, "kube-proxy", node_name)
        self._reporter = ProblemReporter(self._recorder, self._objects.owner)
        self._programmer = Programmer(mode, self.metrics, self._reporter.report_refused)
        self._guard = RuleGuard(mode, self.metrics, self._objects.has_changed.set, config.sync_period)
        self._without_local = WithoutLocalEndpoints(self.metrics)
        self._health_checks: dict[ObjectKey, HealthCheck | None] = {}  # of changes that the kernel may not have yet
        self._health_ports = HealthPorts(
            node_name,
            lambda: self.health.is_alive,
            self._on_health_port_failed,
            lambda: local_addresses(self._objects.settings.node_port_cidrs),
        )
        self._programmed = asyncio.Event()

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        about = ObjectReference(kind="Node", name=self._node_name, uid=self._node_name)
        self._recorder.record(about, reason="Starting", message="Starting kube-proxy.")
        if self._mode_problem:
            self._recorder.record(about, type="Warning", reason="ProxyModeUnavailable", message=self._mode_problem)
        async with asyncio.TaskGroup() as tasks:
            for follower in self._objects.followers():
                tasks.create_task(follower.run())
            tasks.create_task(self._recorder.run())
            tasks.create_task(self._consume())
            tasks.create_task(self._health_ports.run())
            if self._flows is not None:
                tasks.create_task(self._flows.run(self.metrics.record_flow_scan))

    async def wait_programmed(self) -> None:
        """Wait until the kernel has all objects that existed at the start."""
        await self._programmed.wait()

    async def dry_run(self, render: Callable[[FrontendTable], str]) -> str:
        """Return what `render` returns for all present objects. The kernel is not changed."""
        async with running(*self._objects.followers()):
            await self.wait_synced()
            batch = self._objects.take()
            self._configure()
            await self._compile(batch.services)
            self._reporter.report_missing_ports()
            return render(self._programmer.table)

    async def wait_synced(self) -> None:
        """Wait until all objects have been listed."""
        await self._objects.wait_synced()

    # --- The one consumer ------------------------------------------------------------------------------------

    async def _consume(self) -> None:
        await self.wait_synced()
        if not self._objects.has_node:
            log.warning(
                "there is no Node %s, so this node's addresses, zone and pod range are unknown; "
                "--hostname-override sets the name of this node",
                self._node_name,
            )
        self._guard.start()
        try:
            backoff = Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
            while True:
                try:
                    await self._round()
                    backoff.reset()
                except (TransactionFailed, OSError) as error:
                    self.metrics.failures.inc()
                    self._programmer.require_sync()
                    retry_seconds = backoff.next()
                    log.warning("the kernel's rules could not be changed, next try in %.1f s: %s", retry_seconds, error)
                    await asyncio.sleep(retry_seconds)
                    continue
                await self._wait_for_work()
        finally:
            self._guard.close()

    async def _round(self) -> None:
        """Compile and program the dirty Services, then check that no other program changed the rules."""
        batch = self._objects.take()
        if batch.services:
            self.metrics.last_queued.set(self._now())
        self.metrics.services_pending.set(len(batch.services))
        self.metrics.pending.set(len(batch.services))
        try:
            self._configure()
            with bulk(len(batch.services)):
                await self._compile(batch.services | self._programmer.refusals.due())
                begun = time.monotonic()
                with self._guard.ours():
                    was_sent = await self._programmer.program()
                took = time.monotonic() - begun
        except BaseException:
            self._objects.give_back(batch)
            raise
        if self._flows is not None:
            self._flows.on_programmed(self._programmer.table, self._objects.settings)
        self._publish(batch)
        await self._guard.check(self._programmer.table)
        if was_sent and (pause := pause_after(took, self._config.min_sync_period)):
            await asyncio.sleep(pause)

    async def _wait_for_work(self) -> None:
        waits = [self._guard.due_in()]
        if (refused := self._programmer.refusals.due_in()) is not None:
            waits.append(refused)
        try:
            async with asyncio.timeout(min(waits)):
                await self._objects.has_changed.wait()
        except TimeoutError:
            return

    def _configure(self) -> None:
        old, new = self.mode.settings, self._objects.settings
        if old == new:
            return
        if old.node_port_cidrs != new.node_port_cidrs:
            self._health_ports.reopen()
        self.mode.configure(new)
        self._programmer.restart()

    async def _compile(self, services: Iterable[ObjectKey]) -> None:
        for count, key in enumerate(sorted(services)):
            if count % _SERVICES_AT_ONCE == _SERVICES_AT_ONCE - 1:
                await asyncio.sleep(0)
            self._compile_one(key)

    def _compile_one(self, key: ObjectKey) -> None:
        owner = self._objects.owner(key)
        compiled: ServiceFrontends | None = None
        slices: Sequence[EndpointSlice] = ()
        try:
            if isinstance(owner, Pod):
                compiled = compile_host_ports(owner, self._objects.facts)
            elif owner is not None:
                slices = self._objects.slices_of(key)
                objects = self._objects
                compiled = compile_service(owner, slices, objects.facts, objects.reserved, objects.rivals_of(owner))
        except Exception:
            log.exception("%s: compiling failed, its rules stay as they are; this is a bug", key)
            return
        update = self._programmer.install(key, compiled)
        if self._flows is not None:
            self._flows.record(key, compiled, slices, update)
        self._without_local.record(key, compiled)
        if not isinstance(owner, Pod):
            check = plan_health_check(owner, slices, self._node_name) if owner is not None else None
            self._health_checks[key] = check
        if compiled is None:
            self._reporter.forget(key)
        else:
            unsupported = {self.mode.unsupported(frontend) for frontend in compiled.frontends}
            self._reporter.report_compiled(
                key, [*compiled.problems, *(problem for problem in unsupported if problem is not None)]
            )
        for loser, problems in update.conflicts.items():
            self._reporter.report(loser, problems)

    def _publish(self, batch: Batch) -> None:
        """Publish that the kernel has all Services that were taken: health, metrics, health checks, progress."""
        self.health.updated(self._kernel_families)
        self.metrics.record_up_to_date()
        self._health_ports.update(self._health_checks)
        self._health_checks.clear()
        if self._objects.has_batch:
            self.health.queued()
        for trigger in batch.triggers:
            self.metrics.programming_seconds.observe(max(0.0, self._now() - trigger))
        self._programmed.set()
        self._objects.begin_measuring()
        if self._progress is not None:
            refused = self._programmer.refusals
            nodes = self._objects.known_nodes
            self._progress.on_programmed(*batch.versions, nodes, changed=batch.has_changes, refused=refused)

    def _on_health_port_failed(self, key: ObjectKey, text: str) -> None:
        service = self._objects.owner(key)
        if service is not None:
            self._recorder.record(service, type="Warning", reason="FailedToStartServiceHealthcheck", message=text)
