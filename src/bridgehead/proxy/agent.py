"""Follows Services, EndpointSlices and this node, and keeps the kernel equal to what they say.

Informers mark Services as dirty; one consumer recompiles those, and only those, and sends the difference as one
transaction. Nothing waits for anything else: changes that arrive during a transaction make up the next one.
`cli/proxy.py` starts it. While the API server is away the rules stay as they are.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bridgehead.client import ApiClient, EventRecorder, Informer
from bridgehead.objects.core import Node, Service
from bridgehead.objects.discovery import EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, SERVICES
from bridgehead.objects.meta import ObjectKey, ObjectReference
from bridgehead.objects.times import parse_time

from .changes import FrontendTable, Update
from .config import ProxyConfig
from .errors import TransactionFailed
from .flows import FlowKeeper
from .frontends import (
    HEADLESS_LABEL,
    PROXY_NAME_LABEL,
    NodeFacts,
    Problem,
    ServiceFrontends,
    compile_service,
    family_of,
)
from .metrics import ProxyHealth, ProxyMetrics
from .mode import Mode, Settings

log = logging.getLogger(__name__)

SELECTOR = f"!{PROXY_NAME_LABEL},!{HEADLESS_LABEL}"
ZONE_LABEL = "topology.kubernetes.io/zone"
TRIGGER_ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"
TO_BE_DELETED_TAINT = "ToBeDeletedByClusterAutoscaler"

VERIFY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 30.0
_SERVICES_AT_ONCE = 200  # compiled before other tasks get their turn


@dataclass
class _Dirty:
    """What has to be looked at again, since when, and when the endpoints behind it changed."""

    services: set[ObjectKey] = field(default_factory=set)
    triggers: list[float] = field(default_factory=list)


class ProxyAgent:
    """One node's proxy. `run` works until it is cancelled."""

    def __init__(
        self,
        client: ApiClient,
        mode: Mode,
        config: ProxyConfig,
        node_name: str,
        *,
        service_cidrs: tuple[str, ...] = (),
        metrics: ProxyMetrics | None = None,
        health: ProxyHealth | None = None,
        flows: FlowKeeper | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.mode = mode
        self.metrics = metrics or ProxyMetrics()
        self.health = health or ProxyHealth(2 * config.sync_period, now)
        self.table = FrontendTable()
        self._config = config
        self._node_name = node_name
        self._service_cidrs = service_cidrs
        self._flows = flows
        self._now = now
        self._recorder = EventRecorder(client, "kube-proxy", node_name)
        self._services: Informer[Service] = Informer(client, SERVICES, label_selector=SELECTOR)
        self._slices: Informer[EndpointSlice] = Informer(
            client,
            ENDPOINT_SLICES,
            label_selector=SELECTOR,
            indexes={"service": lambda s: (f"{s.metadata.namespace}/{s.service_name}",) if s.service_name else ()},
        )
        self._nodes: Informer[Node] = Informer(client, NODES, field_selector=f"metadata.name={node_name}")
        self._facts, self._settings = plan_node(config, node_name, None, service_cidrs)
        self._dirty = _Dirty()
        self._wake = asyncio.Event()
        self._needs_sync = True
        self._problems: dict[ObjectKey, frozenset[Problem]] = {}  # what was told of a Service, until it is deleted
        self._programmed = asyncio.Event()

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        self._services.on_change(self._service_changed)
        self._slices.on_change(self._slice_changed)
        self._nodes.on_change(lambda old, new: self._node_changed(new))
        about = ObjectReference(kind="Node", name=self._node_name, uid=self._node_name)
        self._recorder.record(about, reason="Starting", message="Starting kube-proxy.")
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._services, self._slices, self._nodes):
                tasks.create_task(informer.run())
            tasks.create_task(self._recorder.run())
            tasks.create_task(self._consume())

    async def wait_programmed(self) -> None:
        """Wait until everything that was there at the start is in the kernel."""
        await self._programmed.wait()

    async def dry_run(self, render: Callable[[FrontendTable], str]) -> str:
        """What `render` makes of everything there is, without touching the kernel."""
        self._services.on_change(self._service_changed)
        self._nodes.on_change(lambda old, new: self._node_changed(new))
        informers = (self._services, self._slices, self._nodes)
        runs = [asyncio.create_task(informer.run()) for informer in informers]
        try:
            await self._wait_synced()
            self._configure()
            await self._compile(self._take().services)
            return render(self.table)
        finally:
            for run in runs:
                run.cancel()
            await asyncio.gather(*runs, return_exceptions=True)

    async def _wait_synced(self) -> None:
        for informer in (self._services, self._slices, self._nodes):
            await informer.wait_synced()

    # --- Changes, from the informers -------------------------------------------------------------------------

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        either = new if new is not None else old
        if either is not None:
            self.metrics.service_changes.inc()
            self._mark(either.key)

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        self.metrics.endpoint_changes.inc()
        for slice_ in (old, new):
            if slice_ is not None and slice_.service_name:
                self._mark(ObjectKey(slice_.metadata.namespace, slice_.service_name))
        trigger = new.metadata.annotations.get(TRIGGER_ANNOTATION) if new is not None else None
        if trigger and self._programmed.is_set():  # what happened before our start says nothing about us
            try:
                self._dirty.triggers.append(parse_time(trigger))
            except ValueError:
                log.debug("%s: %s is no time", TRIGGER_ANNOTATION, trigger)

    def _node_changed(self, node: Node | None) -> None:
        taints = node.spec.taints if node is not None else ()
        self.health.is_node_eligible = not any(taint.key == TO_BE_DELETED_TAINT for taint in taints)
        facts, settings = plan_node(self._config, self._node_name, node, self._service_cidrs)
        if (facts, settings) == (self._facts, self._settings):
            return
        log.info("this node: %s", facts)
        self._facts, self._settings = facts, settings
        for key in self._services.keys():  # noqa: SIM118 - an informer is no mapping
            self._mark(key)
        self._wake.set()

    def _mark(self, key: ObjectKey) -> None:
        self._dirty.services.add(key)
        self.health.queued()
        self._wake.set()

    def _take(self) -> _Dirty:
        dirty, self._dirty = self._dirty, _Dirty()
        self._wake.clear()
        return dirty

    # --- The one consumer ------------------------------------------------------------------------------------

    async def _consume(self) -> None:
        await self._wait_synced()
        compared = verified = time.monotonic()
        retry_seconds = 0.0
        while True:
            dirty = self._take()
            if dirty.services:
                self.metrics.last_queued.set(self._now())
            self.metrics.pending.set(len(dirty.services))
            self._configure()
            updates = await self._compile(dirty.services)
            try:
                await self._program(updates)
                if self._flows is not None:
                    await self._flows.clean(self.table, self._facts.families, self._service_cidrs)
                now = time.monotonic()
                if now - verified >= VERIFY_SECONDS:
                    thoroughly = now - compared >= self._config.sync_period
                    await self._verify(thoroughly)
                    verified, compared = now, now if thoroughly else compared
                retry_seconds = 0.0
            except (TransactionFailed, OSError) as error:
                self.metrics.failures.inc()
                self._needs_sync = True
                retry_seconds = min(max(2 * retry_seconds, 0.5), LONGEST_RETRY_SECONDS)
                log.warning("the kernel's rules could not be changed, next try in %.1f s: %s", retry_seconds, error)
                await asyncio.sleep(retry_seconds)
                continue
            self._finished(dirty)
            if self._config.min_sync_period and updates:
                await asyncio.sleep(self._config.min_sync_period)
            await self._wait_for_work()

    async def _wait_for_work(self) -> None:
        try:
            async with asyncio.timeout(VERIFY_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return

    def _configure(self) -> None:
        if self.mode.settings != self._settings:
            self.mode.configure(self._settings)
            self._needs_sync = True

    async def _compile(self, services: Iterable[ObjectKey]) -> list[Update]:
        updates = []
        for count, key in enumerate(sorted(services)):
            if count % _SERVICES_AT_ONCE == _SERVICES_AT_ONCE - 1:
                await asyncio.sleep(0)
            update = self._compile_one(key)
            if update is not None and (update.changes or update.old_cluster_ips != update.new_cluster_ips):
                updates.append(update)
        return updates

    def _compile_one(self, key: ObjectKey) -> Update | None:
        service = self._services.get(key)
        compiled = None
        slices: Sequence[EndpointSlice] = ()
        if service is not None:
            try:
                slices = self._slices.by_index("service", f"{key.namespace}/{key.name}")
                compiled = compile_service(service, slices, self._facts)
            except Exception:
                log.exception("Service %s: cannot be compiled and keeps what it had; this is a bug", key)
                return None
        update = self.table.update(key, compiled)
        if self._flows is not None:
            self._flows.note(key, compiled, slices, update)
        self._report(key, compiled)
        for loser, problems in update.conflicts.items():
            self._warn(loser, problems)
        return update

    def _report(self, key: ObjectKey, compiled: ServiceFrontends | None) -> None:
        """Say once what is wrong with a Service's objects, or what it does not get."""
        if compiled is None:
            self._problems.pop(key, None)
            return
        lacking = {self.mode.unsupported(frontend) for frontend in compiled.frontends}
        self._warn(key, [*compiled.problems, *(problem for problem in lacking if problem is not None)])

    def _warn(self, key: ObjectKey, problems: Iterable[Problem]) -> None:
        told = self._problems.get(key, frozenset())
        fresh = set(problems) - told
        service = self._services.get(key)
        for problem in sorted(fresh, key=str):
            log.warning("Service %s: %s", key, problem)
            if service is not None:
                self._recorder.record(service, type="Warning", reason=problem.reason.value, message=problem.text)
        if fresh:
            self._problems[key] = told | fresh

    async def _program(self, updates: list[Update]) -> None:
        if not updates and not self._needs_sync:
            return
        begun = time.monotonic()
        full = self._needs_sync
        if not full:
            try:
                elements = await self.mode.apply(updates)
            except TransactionFailed as error:
                self.metrics.failures.inc()
                log.warning("a change was refused, writing all rules anew: %s", error)
                full = True
        if full:
            self._needs_sync = True
            elements = await self.mode.sync(self.table)
            self._needs_sync = False
        took = time.monotonic() - begun
        self.metrics.elements.inc(elements)
        self.metrics.sync_seconds.observe(took)
        (self.metrics.full_sync_seconds if full else self.metrics.partial_sync_seconds).observe(took)
        self.metrics.last_sync.set(self._now())
        log.log(
            logging.INFO if full else logging.DEBUG,
            "%s: %d Frontends, %d elements changed in %.0f ms",
            "full sync" if full else "sync",
            len(self.table),
            elements,
            took * 1000,
        )

    async def _verify(self, thoroughly: bool) -> None:
        repair = await self.mode.verify(self.table, thoroughly=thoroughly)
        if repair is not None:
            self.metrics.repairs.inc()
            what = "tables or rules and " if repair.structure else ""
            log.warning("somebody else changed our rules; repaired %s%d elements", what, repair.elements)

    def _finished(self, dirty: _Dirty) -> None:
        """All that was taken is in the kernel."""
        self.health.updated()
        if self._dirty.services:
            self.health.queued()
        for trigger in dirty.triggers:
            self.metrics.programming_seconds.observe(max(0.0, self._now() - trigger))
        self._programmed.set()


def plan_node(
    config: ProxyConfig, name: str, node: Node | None, service_cidrs: tuple[str, ...]
) -> tuple[NodeFacts, Settings]:
    """What Frontends and rules depend on, from the configuration and this node's object (None: not there yet)."""
    pod_cidrs = (node.spec.pod_cidrs or tuple(filter(None, (node.spec.pod_cidr,)))) if node is not None else ()
    cluster_cidrs = config.cluster_cidrs if config.detect_local_mode == "ClusterCIDR" else pod_cidrs
    addresses = node.internal_ips if node is not None else ()
    known = {family_of(text) for text in (*addresses, *pod_cidrs, *cluster_cidrs, *service_cidrs)}
    families = tuple(sorted(known)) or (4,)
    node_port_cidrs: tuple[str, ...] | None = config.node_port_addresses or None
    if node_port_cidrs == ("primary",):
        node_port_cidrs = tuple(f"{address}/{128 if ':' in address else 32}" for address in addresses)
    facts = NodeFacts(
        name=name,
        zone=node.metadata.labels.get(ZONE_LABEL, "") if node is not None else "",
        families=families,
        cluster_cidrs=cluster_cidrs,
        masquerade_all=config.masquerade_all,
    )
    return facts, Settings(families, cluster_cidrs, service_cidrs, node_port_cidrs)
