"""Follow Services, EndpointSlices and this node, and keep the kernel's rules up to date. `process.py` starts it.

Informers mark Services as dirty; one consumer recompiles the dirty Services only, and `programmer.py` sends the
difference as one transaction. Changes that arrive during a transaction make up the next one. `guard.py` repairs what
other programs change. While the API server is unreachable, the rules stay as they are.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bridgehead.backoff import Backoff
from bridgehead.client import ApiClient, EventRecorder, Informer, Running, running
from bridgehead.objects.core import PROXY_NAME_LABEL, Node, Pod, Service
from bridgehead.objects.endpoint_slices import HEADLESS_LABEL, EndpointSlice, index_by_service
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey, ObjectReference

from .addresses import Family
from .bulk import bulk
from .changes import FrontendTable
from .config import ProxyConfig
from .conntrack.reconciler import ConntrackReconciler
from .errors import TransactionFailed
from .frontends import NodeFacts, ServiceFrontends
from .guard import RuleGuard
from .host_ports import compile_host_ports, has_host_ports, pod_key, pod_of
from .mode import Counting, Mode, Settings
from .node import is_eligible, plan_node
from .operating.health import ProxyHealth
from .operating.health_ports import HealthCheck, HealthPorts, local_addresses, plan_health_check
from .operating.metrics import ProxyMetrics, WithoutLocalEndpoints
from .operating.problems import ProblemReporter
from .operating.progress import ProgressPublisher
from .programmer import Programmer
from .reserved import NOTHING_RESERVED, plan_reserved
from .service_ranges import ServiceRanges
from .services import compile_service

log = logging.getLogger(__name__)

SELECTOR = f"!{PROXY_NAME_LABEL},!{HEADLESS_LABEL}"

API_SERVICE = ObjectKey("default", "kubernetes")
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


@dataclass
class _Dirty:
    """The Services to compile again.

    `triggers`: the times, in epoch seconds, at which their endpoints changed. `versions`: the resourceVersions of the
    Services and EndpointSlices known when this was taken. `has_changes`: an object changed, so progress is due at
    once.
    """

    services: set[ObjectKey] = field(default_factory=set)
    triggers: list[float] = field(default_factory=list)
    versions: tuple[str, str] = ("", "")
    has_changes: bool = False


class ProxyAgent:
    """One node's proxy. `run` works until it is cancelled.

    `service_cidrs`: the ranges of cluster IPs; None: those of the cluster's ServiceCIDRs. `api_addresses`: the
    addresses by which the client reaches the API server.
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
        now: Callable[[], float] = time.time,
    ) -> None:
        self.mode = mode
        self.metrics = metrics or ProxyMetrics(mode.name)
        if isinstance(mode, Counting):
            self.metrics.count_rules(mode.rule_counts)
        self.health = health or ProxyHealth(2 * config.sync_period, now)
        self._config = config
        self._node_name = node_name
        self._service_cidrs = service_cidrs
        self._service_ranges = ServiceRanges(client, self._replan)
        self._flows = flows
        self._progress = progress
        self._now = now
        self._recorder = EventRecorder(client, "kube-proxy", node_name)
        self._services: Informer[Service] = Informer(client, SERVICES, label_selector=SELECTOR)
        self._slices: Informer[EndpointSlice] = Informer(
            client,
            ENDPOINT_SLICES,
            label_selector=SELECTOR,
            indexes={"service": index_by_service},
        )
        # All Nodes: no Service may take over an address of any.
        self._nodes: Informer[Node] = Informer(client, NODES)
        self._pods: Informer[Pod] | None = None
        if config.host_ports:
            self._pods = Informer(client, PODS, field_selector=f"spec.nodeName={node_name}")
        self._api_addresses = api_addresses
        self._reserved = NOTHING_RESERVED
        self._knows_reserved = False
        self._kernel_families = kernel_families
        self._node: Node | None = None
        self._facts, self._settings = self._plan()
        self._dirty = _Dirty()
        self._wake = asyncio.Event()
        self._reporter = ProblemReporter(self._recorder, self._owner)
        self._programmer = Programmer(mode, self.metrics, self._reporter.report_refused)
        self._guard = RuleGuard(mode, self.metrics, self._wake.set, config.sync_period)
        self._without_local = WithoutLocalEndpoints(self.metrics)
        self._health_checks: dict[ObjectKey, HealthCheck | None] = {}  # of changes that the kernel may not have yet
        self._health_ports = HealthPorts(
            node_name,
            lambda: self.health.is_alive,
            self._on_health_port_failed,
            lambda: local_addresses(self._settings.node_port_cidrs),
        )
        self._programmed = asyncio.Event()

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        self._services.on_change(self._on_service_change)
        self._slices.on_change(self._on_slice_change)
        self._nodes.on_change(self._on_node_change)
        if self._pods is not None:
            self._pods.on_change(self._on_pod_change)
        about = ObjectReference(kind="Node", name=self._node_name, uid=self._node_name)
        self._recorder.record(about, reason="Starting", message="Starting kube-proxy.")
        async with asyncio.TaskGroup() as tasks:
            for follower in self._followers():
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
        self._services.on_change(self._on_service_change)
        self._nodes.on_change(self._on_node_change)
        if self._pods is not None:
            self._pods.on_change(self._on_pod_change)
        async with running(*self._followers()):
            await self.wait_synced()
            self._configure()
            self._reserve()
            await self._compile(self._take().services)
            return render(self._programmer.table)

    def _followers(self) -> list[Running]:
        """Return the informers, and the follower of ServiceCIDRs unless the ranges are configured."""
        informers: list[Running] = [self._services, self._slices, self._nodes]
        if self._pods is not None:
            informers.append(self._pods)
        return informers if self._service_cidrs is not None else [*informers, self._service_ranges]

    async def wait_synced(self) -> None:
        """Wait until all informers have listed their objects."""
        for informer in (self._services, self._slices, self._nodes):
            await informer.wait_synced()
        if self._pods is not None:
            await self._pods.wait_synced()
        if self._service_cidrs is None:
            await self._service_ranges.wait_answered()

    # --- Changes, from the informers -------------------------------------------------------------------------

    def _on_service_change(self, old: Service | None, new: Service | None) -> None:
        either = new if new is not None else old
        if either is not None:
            self.metrics.service_changes.inc()
            self._mark(either.key)

    def _on_slice_change(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        self.metrics.endpoint_changes.inc()
        for slice_ in (old, new):
            if slice_ is not None and (key := slice_.service_key) is not None:
                self._knows_reserved &= key != API_SERVICE
                self._mark(key)
        trigger = new.triggered_at if new is not None else None
        if trigger is not None and self._programmed.is_set():  # earlier changes do not measure this process
            self._dirty.triggers.append(trigger)

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None and has_host_ports(pod):
                self._mark(pod_key(pod.key))

    def _on_node_change(self, old: Node | None, node: Node | None) -> None:
        if old is None or node is None or old.status.addresses != node.status.addresses:
            self._knows_reserved = False
            self._wake.set()
        if ObjectKey("", self._node_name) not in [either.key for either in (old, node) if either is not None]:
            return
        self.health.is_node_eligible = is_eligible(node)
        if node is None:  # deleted while this proxy runs: the last known Node is still the best guess
            return
        self._node = node
        self._replan()

    def _replan(self) -> None:
        """Derive facts and settings again; if they differ, compile all Services again."""
        facts, settings = self._plan()
        if (facts, settings) == (self._facts, self._settings):
            return
        if facts != self._facts:
            log.info("this node: %s", facts)
        has_other_addresses = settings.node_port_cidrs != self._settings.node_port_cidrs
        self._facts, self._settings = facts, settings
        self._knows_reserved = False
        if has_other_addresses:
            self._health_ports.reopen()
        for key in self._services.keys():  # noqa: SIM118 - an informer is no mapping
            self._mark(key)
        for pod in self._pods.items() if self._pods is not None else ():
            self._on_pod_change(None, pod)
        self._wake.set()

    def _plan(self) -> tuple[NodeFacts, Settings]:
        service_cidrs = self._service_ranges.cidrs if self._service_cidrs is None else self._service_cidrs
        return plan_node(self._config, self._node_name, self._node, service_cidrs, self._kernel_families)

    def _reserve(self) -> None:
        """Update the reserved addresses; if they changed, mark the Services that publish external addresses."""
        if self._knows_reserved:
            return
        self._knows_reserved = True
        api_slices = self._slices.by_index("service", str(API_SERVICE))
        reserved = plan_reserved(self._nodes.items(), api_slices, self._api_addresses, self._settings.service_cidrs)
        if reserved == self._reserved:
            return
        self._reserved = reserved
        for service in self._services.items():
            if service.spec.external_ips or service.status.load_balancer.ingress:
                self._mark(service.key)

    def _mark(self, key: ObjectKey) -> None:
        self._dirty.services.add(key)
        self._dirty.has_changes = True
        self.health.queued()
        self._wake.set()

    def _take(self) -> _Dirty:
        dirty, self._dirty = self._dirty, _Dirty()
        dirty.versions = self._services.resource_version, self._slices.resource_version
        self._wake.clear()
        return dirty

    # --- The one consumer ------------------------------------------------------------------------------------

    async def _consume(self) -> None:
        await self.wait_synced()
        if self._nodes.get(ObjectKey("", self._node_name)) is None:
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
        self._reserve()
        dirty = self._take()
        if dirty.services:
            self.metrics.last_queued.set(self._now())
        self.metrics.services_pending.set(len(dirty.services))
        self.metrics.pending.set(len(dirty.services))
        try:
            self._configure()
            with bulk(len(dirty.services)):
                await self._compile(dirty.services | self._programmer.refusals.due())
                begun = time.monotonic()
                with self._guard.ours():
                    was_sent = await self._programmer.program()
                took = time.monotonic() - begun
        except BaseException:
            self._dirty.triggers += dirty.triggers  # observed when programming succeeds
            self._dirty.has_changes |= dirty.has_changes
            raise
        if self._flows is not None:
            self._flows.on_programmed(self._programmer.table, self._settings)
        self._publish(dirty)
        await self._guard.check(self._programmer.table)
        if was_sent and (pause := pause_after(took, self._config.min_sync_period)):
            await asyncio.sleep(pause)

    async def _wait_for_work(self) -> None:
        waits = [self._guard.due_in()]
        if (refused := self._programmer.refusals.due_in()) is not None:
            waits.append(refused)
        try:
            async with asyncio.timeout(min(waits)):
                await self._wake.wait()
        except TimeoutError:
            return

    def _configure(self) -> None:
        if self.mode.settings != self._settings:
            self.mode.configure(self._settings)
            self._programmer.restart()

    async def _compile(self, services: Iterable[ObjectKey]) -> None:
        for count, key in enumerate(sorted(services)):
            if count % _SERVICES_AT_ONCE == _SERVICES_AT_ONCE - 1:
                await asyncio.sleep(0)
            self._compile_one(key)

    def _compile_one(self, key: ObjectKey) -> None:
        owner = self._owner(key)
        compiled: ServiceFrontends | None = None
        slices: Sequence[EndpointSlice] = ()
        try:
            if isinstance(owner, Pod):
                compiled = compile_host_ports(owner, self._facts)
            elif owner is not None:
                slices = self._slices.by_index("service", f"{key.namespace}/{key.name}")
                compiled = compile_service(owner, slices, self._facts, self._reserved)
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
            self._reporter.report(
                key, [*compiled.problems, *(problem for problem in unsupported if problem is not None)]
            )
        for loser, problems in update.conflicts.items():
            self._reporter.report(loser, problems)

    def _owner(self, key: ObjectKey) -> Service | Pod | None:
        """Return the Service, or the pod with host ports, to which the Frontends under `key` belong."""
        pod = pod_of(key)
        if pod is None:
            return self._services.get(key)
        return self._pods.get(pod) if self._pods is not None else None

    def _publish(self, dirty: _Dirty) -> None:
        """Publish that the kernel has all Services that were taken: health, metrics, health checks, progress."""
        self.health.updated()
        self.metrics.record_up_to_date()
        self._health_ports.update(self._health_checks)
        self._health_checks.clear()
        if self._dirty.services:
            self.health.queued()
        for trigger in dirty.triggers:
            self.metrics.programming_seconds.observe(max(0.0, self._now() - trigger))
        self._programmed.set()
        if self._progress is not None:
            refused = self._programmer.refusals
            self._progress.on_programmed(*dirty.versions, changed=dirty.has_changes, refused=refused)

    def _on_health_port_failed(self, key: ObjectKey, text: str) -> None:
        service = self._services.get(key)
        if service is not None:
            self._recorder.record(service, type="Warning", reason="FailedToStartServiceHealthcheck", message=text)
