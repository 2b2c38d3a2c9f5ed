"""Reconciliation of Services: a decision by the allocator, written to the status, with Events.

Decisions are made one after the other on the event loop; their writes overlap. A Service waits in `_waiting` until an
address, a port or a pool may be free for it, and is decided again at once then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from bridgehead.balancer.allocation import Allocator, Decision, Note, adopt, converge
from bridgehead.balancer.allocation.address_requests import cluster_versions
from bridgehead.balancer.allocation.convergence import current_addresses
from bridgehead.balancer.compiled_configuration import Configuration, Pool
from bridgehead.client import ApiClient, Done, EventRecorder, Informer, Outcome, WorkQueue
from bridgehead.client.errors import ClientError, Invalid, NotFound
from bridgehead.objects.address_holders import (
    EIP_NAME_ANNOTATION,
    POOL_ANNOTATION,
    assigned_addresses,
    external_addresses,
    is_from_pool,
)
from bridgehead.objects.core import Namespace, Node, Service
from bridgehead.objects.kinds import SERVICES
from bridgehead.objects.meta import ObjectKey, find_condition, version_number

from .announceability import ASSIGNED_INDEX, Announceability
from .external_ips import note_clash, note_unannounced
from .metrics import ControllerMetrics
from .service_patches import CONDITION, SERVICE_FINALIZER, openelb_patch, status_patch
from .service_refusals import not_configured, with_problem, wrong_class

log = logging.getLogger(__name__)

_WORKERS: Final = 32  # writes at a time
_BY_NAMESPACE: Final = "namespace"
_BY_EXTERNAL_IP: Final = "externalIPs"


class ServiceReconciler:
    """Gives addresses to the Services whose loadBalancerClass is `lb_class` ("": those without one).

    `ignore_exclude`: speakers ignore the label that excludes nodes from load balancers.
    `on_change` is called after allocations changed, for reports about pools.
    """

    def __init__(
        self,
        client: ApiClient,
        services: Informer[Service],
        nodes: Informer[Node],
        namespaces: Informer[Namespace],
        recorder: EventRecorder,
        metrics: ControllerMetrics,
        allocator: Allocator,
        on_change: Callable[[], None],
        *,
        lb_class: str = "",
        ignore_exclude: bool = False,
    ) -> None:
        self._client = client
        self._services = services
        self._namespaces = namespaces
        self._recorder = recorder
        self._metrics = metrics
        self._allocator = allocator
        self._lb_class = lb_class
        self._on_change = on_change
        self._queue: WorkQueue[ObjectKey] = WorkQueue("services")
        self._announceability = Announceability(
            client, services, nodes, self._queue.add_after, lb_class=lb_class, ignore_exclude=ignore_exclude
        )
        self._waiting: dict[ObjectKey, None] = {}  # in the order in which they began to wait
        self._written: dict[ObjectKey, Service] = {}  # as patched, until the informer has a version as new
        self._last_notes: dict[ObjectKey, list[Note]] = {}  # of the last decision that had any
        self._eips: frozenset[str] = frozenset()
        self._pools = Configuration()  # without advertisements and peers
        self._is_started = self._is_configured = False
        self._problem = ""  # why the pools are not valid
        services.add_index(_BY_NAMESPACE, lambda service: (service.metadata.namespace,))
        services.add_index(_BY_EXTERNAL_IP, external_addresses)

    def configure(self, configuration: Configuration) -> None:
        """Use another configuration: every Service is decided again, those that have addresses first."""
        self._announceability.configure(configuration)
        self._use_pools(configuration.pools)

    def configure_pools(self, pools: tuple[Pool, ...], problem: str) -> None:
        """Use other pools, while the speakers go on with the last valid configuration because of `problem`."""
        self._announceability.refuse(problem)
        self._use_pools(pools)

    def _use_pools(self, pools: tuple[Pool, ...]) -> None:
        self._allocator.set_pools(pools)
        self._pools = Configuration(pools)
        self._problem = ""
        self._eips = frozenset(pool.name for pool in pools if pool.source == "openelb")
        is_first, self._is_configured = not self._is_configured, True
        if self._is_started:
            if is_first:
                self._adopt_all()
            self._enqueue(self._services.items())
        self._on_change()

    def refuse(self, problem: str) -> None:
        """Report to waiting Services why there are no pools, or why the last valid ones are in force."""
        if problem != self._problem:
            self._problem = problem
            if self._is_started:
                self._enqueue(self._services.items())

    async def run(self) -> None:
        """Reconcile until cancelled; Services keep their addresses until the first valid configuration."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._announceability.run(), name="endpoints")
            tasks.create_task(self._reconcile_all(), name="Services")

    async def _reconcile_all(self) -> None:
        await self._services.wait_synced()
        await self._namespaces.wait_synced()
        await self._announceability.wait_synced()
        self._is_started = True
        if self._is_configured:
            self._adopt_all()
        self._enqueue(self._services.items())
        self._services.on_change(self._service_changed)
        self._namespaces.on_change(self._namespace_changed)
        self._on_change()
        await self._queue.run(self._reconcile, _WORKERS)

    def _adopt_all(self) -> None:
        """Record what Services have: first those whose address is marked as one of a pool, the older ones first.

        A user therefore cannot get such an address by a write to the status of another Service while no balancer runs.
        """
        for service in sorted(self._services.items(), key=lambda service: (not is_from_pool(service), _age(service))):
            if self._is_ours(service):
                adopt(self._allocator, service, self._namespace_labels(service))

    # --- Changes -------------------------------------------------------------------------------------------

    def _enqueue(self, services: Iterable[Service]) -> None:
        for service in sorted(services, key=lambda service: (not current_addresses(service), _age(service))):
            self._queue.add(service.key)

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        found = new if new is not None else old
        if found is None:
            return
        written = self._written.get(found.key)
        if written is not None and (new is None or _is_as_new(new, written)):
            del self._written[found.key]
        if new is None or old is None or _relevant(old) != _relevant(new):
            self._queue.add(found.key)
            self._enqueue_rivals(old, new)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None and (old is None or old.metadata.labels != new.metadata.labels):
            for service in self._services.by_index(_BY_NAMESPACE, new.metadata.name):
                self._queue.add(service.key)

    def _enqueue_rivals(self, old: Service | None, new: Service | None) -> None:
        """Decide again on Services that list an address of a changed one, or have one that it lists: their Events."""
        for one in (old, new):
            if one is None:
                continue
            found = [(_BY_EXTERNAL_IP, address) for address in assigned_addresses(one)]
            found += [(ASSIGNED_INDEX, address) for address in external_addresses(one)]
            for index, address in found:
                for service in self._services.by_index(index, address):
                    self._queue.add(service.key)

    def _wake_waiting(self) -> None:
        for key in self._waiting:
            self._queue.add(key)

    # --- Decisions -----------------------------------------------------------------------------------------

    async def _reconcile(self, key: ObjectKey) -> Outcome:
        service = self._latest(key)
        if service is None:
            self._last_notes.pop(key, None)
            self._release(key)
            return Done()
        if service.metadata.deletion_timestamp is not None:
            await self._finish(service)
            return Done()
        try:
            decision = self._decide(service)
        except Exception:
            # A bug must not leave the Service without a reason for its missing address. The queue logs it.
            message = "didn't allocate an IP, because of an error in the balancer, whose log has it"
            self._recorder.record(service, type="Warning", reason="InternalError", message=message)
            raise
        self._note(service, [*(decision.notes if decision is not None else ()), *self._external_notes(service)])
        if decision is not None:
            await self._write(service, decision)
        return Done()

    def _latest(self, key: ObjectKey) -> Service | None:
        """Return the Service as the informer has it, or as this process patched it since."""
        found = self._services.get(key)
        written = self._written.get(key)
        return written if found is not None and written is not None and not _is_as_new(found, written) else found

    def _decide(self, service: Service) -> Decision | None:
        """Return the decision; None if the Service is not for this balancer and has no trace of it."""
        key = service.key
        before = self._allocator.allocation(key)
        if not self._is_ours(service):
            self._release(key)
            if self._is_of_others(service) and not service.status.load_balancer.ingress:
                return wrong_class(service, self._lb_class)
            return Decision() if before is not None or _has_traces(service) else None
        if not cluster_versions(service):
            return None  # its cluster IPs follow
        if not self._is_configured:
            has_reason = self._problem and not current_addresses(service)
            return not_configured(service, self._problem) if has_reason else None
        decision = converge(self._allocator, service, self._namespace_labels(service))
        if decision.allocation is None:
            if self._problem and decision.pending is not None:
                decision.pending = with_problem(decision.pending, self._problem)
            self._waiting.setdefault(key)
            self._announceability.forget(key)
        else:
            self._waiting.pop(key, None)
            self._add_why_unannounced(service, decision)
        if decision.allocation != before:
            self._on_change()
        if before is not None and decision.allocation != before:
            self._wake_waiting()
        return decision

    def _add_why_unannounced(self, service: Service, decision: Decision) -> None:
        decision.pending = self._announceability.judge(service)
        if decision.pending is not None:
            decision.notes.append(Note("NotAnnounced", decision.pending.message, "Warning"))

    def _is_ours(self, service: Service) -> bool:
        return (
            service.spec.type == "LoadBalancer"
            and not self._is_of_others(service)
            and service.metadata.deletion_timestamp is None
        )

    def _is_of_others(self, service: Service) -> bool:
        """Whether another controller gives the Service its address."""
        return service.spec.type == "LoadBalancer" and (service.spec.load_balancer_class or "") != self._lb_class

    def _namespace_labels(self, service: Service) -> dict[str, str]:
        namespace = self._namespaces.get(ObjectKey("", service.metadata.namespace))
        return {} if namespace is None else namespace.metadata.labels

    def _release(self, key: ObjectKey) -> bool:
        """Take back what the Service holds, and decide again on those that wait."""
        self._waiting.pop(key, None)
        self._announceability.forget(key)
        if not self._allocator.release(key):
            return False
        self._wake_waiting()
        self._on_change()
        return True

    # --- Writes --------------------------------------------------------------------------------------------

    def _external_notes(self, service: Service) -> list[Note]:
        """Return the Events about externalIPs: of the Service, and of others that list its addresses."""
        if not self._is_configured:
            return []
        held = self._services_by(ASSIGNED_INDEX, external_addresses(service))
        listing = self._services_by(_BY_EXTERNAL_IP, assigned_addresses(service))
        found = (note_unannounced(service, self._pools, held), note_clash(service, listing))
        return [note for note in found if note is not None]

    def _services_by(self, index: str, addresses: Iterable[str]) -> list[Service]:
        return [service for address in addresses for service in self._services.by_index(index, address)]

    def _note(self, service: Service, notes: list[Note]) -> None:
        """Record the Events of a decision that the last decision did not have."""
        last = self._last_notes.get(service.key, ())
        for note in notes:
            if note not in last:
                self._recorder.record(service, type=note.type, reason=note.reason, message=note.message)
        if notes:
            self._last_notes[service.key] = notes
        else:
            self._last_notes.pop(service.key, None)

    async def _write(self, service: Service, decision: Decision) -> None:
        key = service.key
        is_of_others = self._is_of_others(service)
        patch = status_patch(service, decision, time.time(), owns_address=not is_of_others)
        allocation = decision.allocation
        eip = allocation.pool if allocation is not None and allocation.pool in self._eips else ""
        metadata = None if is_of_others else openelb_patch(service, eip, is_openelb=decision.is_openelb)
        try:
            if patch is not None:
                self._metrics.updates.inc()
                self._written[key] = await self._client.patch(
                    SERVICES, key.name, key.namespace, patch, "strategic", "status"
                )
            if metadata is not None:
                self._written[key] = await self._client.patch(SERVICES, key.name, key.namespace, metadata, "strategic")
        except NotFound:
            return
        except ClientError as error:
            self._metrics.update_errors.inc()
            if isinstance(error, Invalid):  # the API server does not accept the address
                self._recorder.record(service, type="Warning", reason="UpdateFailed", message=str(error))
            raise
        found = self._services.get(key)
        written = self._written.get(key)
        if found is not None and written is not None and _is_as_new(found, written):
            del self._written[key]

    async def _finish(self, service: Service) -> None:
        """Release the addresses of a Service that is being deleted, and let it go."""
        allocation = self._allocator.allocation(service.key)
        released = self._release(service.key)
        if SERVICE_FINALIZER not in service.metadata.finalizers:
            return
        if released and allocation is not None:
            message = f"success to release ip {allocation.addresses[0]} from eip {allocation.pool}"
            self._recorder.record(service, reason="ReleaseIP", message=message)
        patch = openelb_patch(service, "", is_openelb=True)
        if patch is not None:
            try:
                await self._client.patch(
                    SERVICES, service.metadata.name, service.metadata.namespace, patch, "strategic"
                )
            except NotFound:
                return


def _age(service: Service) -> tuple[str, ObjectKey]:
    return service.metadata.creation_timestamp or "", service.key


def _is_as_new(found: Service, written: Service) -> bool:
    """Whether the informer's copy is the object that was written, or a later version, or another object."""
    return found.metadata.uid != written.metadata.uid or version_number(
        found.metadata.resource_version
    ) >= version_number(written.metadata.resource_version)


def _relevant(service: Service) -> tuple[object, ...]:
    meta = service.metadata
    return (
        meta.uid,
        meta.labels,
        meta.annotations,
        meta.finalizers,
        meta.deletion_timestamp,
        service.spec,
        service.status,
    )


def _has_traces(service: Service) -> bool:
    return (
        POOL_ANNOTATION in service.metadata.annotations
        or EIP_NAME_ANNOTATION in service.metadata.labels
        or SERVICE_FINALIZER in service.metadata.finalizers
        or find_condition(service.status.conditions, CONDITION) is not None
    )
