"""One pod on this node, from its first sight to its removal.

The kubelet makes one worker for each pod uid and notifies it of changes: of the pod, of a container, of an object that
the pod refers to. A worker does one thing at a time; workers run concurrently. `worker_state` decides which state
follows, `starts_and_restarts` what to do next in SYNCING, `pod_reporter` reports, `pod_termination` stops the
containers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

import msgspec

from bridgehead.backoff import Backoff
from bridgehead.client.errors import ClientError, NotFound
from bridgehead.kubelet.containers.container_logs import with_fallback_message
from bridgehead.kubelet.containers.context import NodeContext, PodContext
from bridgehead.kubelet.containers.driver import ContainerDriver
from bridgehead.kubelet.containers.pod_containers import PodContainers
from bridgehead.kubelet.errors import AddressesExhausted, VolumesNotReady
from bridgehead.kubelet.runtimes.runtime import ContainerInfo, RuntimeFailure, SandboxInfo
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PODS
from bridgehead.objects.times import parse_time

from .barrier import Barrier
from .pod_admission import PodAdmission
from .pod_reporter import PodReporter
from .pod_resize import PodResize
from .pod_sandbox import PodSandbox
from .pod_status import EVICTED, PREEMPTED
from .pod_termination import PodTermination, retry
from .pod_volumes import PodVolumes
from .starts_and_restarts import PodActions, compute_pod_actions
from .static_manifest import is_static
from .status_manager import PodStatusManager
from .worker_state import Deletion, PodSyncStatus, WorkerEvent, WorkerState, advance

log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 0.5
_LONGEST_RETRY_SECONDS = 16.0


class PodWorker:
    """`await run()` until the pod is gone from this node and from the API server."""

    def __init__(
        self, node: NodeContext, barrier: Barrier, pod: Pod, sandbox: SandboxInfo | None, found: list[ContainerInfo]
    ) -> None:
        """`sandbox` and `found` are what the runtime already has of this pod."""
        self._node = node
        self._context = PodContext(node, pod, sandbox)
        self._sync_status = PodSyncStatus()
        self._advanced = asyncio.Event()  # the sync status has changed
        self._wake = asyncio.Event()  # something has changed that the worker may have to act upon
        self._backoff = Backoff(_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
        self._tasks = asyncio.TaskGroup()
        self.containers = PodContainers(pod, self._wake.set)
        self._driver = ContainerDriver(self._context, self.containers, self._tasks)
        self._admission = PodAdmission(self._context)
        self._pod_sandbox = PodSandbox(self._context, self.containers)
        self._resize = PodResize(self._context, self.containers)
        self._status_manager = PodStatusManager(node.client, pod)
        self._reporter = PodReporter(self._context, self.containers, self._resize, self._status_manager)
        self._volumes = PodVolumes(self._context, self._reporter.report)
        self._termination = PodTermination(self._context, barrier)
        self._adopt(found)
        self.observe(pod)

    @property
    def volume_paths(self) -> Mapping[str, str]:
        """The paths of the volumes that are set up, by name."""
        return self._context.volumes

    @property
    def pod(self) -> Pod:
        """The pod as the API server had it last, with the resources that the node has given it."""
        return self._context.pod

    @property
    def is_gone(self) -> bool:
        """Whether the pod is gone from the API server, although its containers may not have ended."""
        return self._sync_status.deletion is Deletion.GONE

    @property
    def sandbox(self) -> SandboxInfo | None:
        """The pod's namespaces, once they are made."""
        return self._context.sandbox

    # --- Notifications ----------------------------------------------------------------------------------

    def observe(self, pod: Pod) -> None:
        """The pod as the API server has it now."""
        before, meta = self._context.pod.metadata, pod.metadata
        if (before.labels, before.annotations) != (meta.labels, meta.annotations):
            self._volumes.mark_stale()  # volumes with fields of the pod
        images = {container.name: container.image for container in self._context.all_containers()}
        self._context.pod = self._resize.observe(pod)
        for container in self._context.all_containers():
            if images.get(container.name, container.image) != container.image:
                self.containers.forget_back_off(container.name)
        self._status_manager.observe(pod)
        if pod.metadata.deletion_timestamp is not None:
            self._advance(WorkerEvent.DELETION_REQUESTED)
            self._termination.observe_deletion()
        self._wake.set()

    def observe_mirror(self, mirror: Pod | None) -> None:
        """The mirror pod of this static pod as the API server has it now; None if it was deleted."""
        self._status_manager.bind(mirror)
        if mirror is not None:
            meta = msgspec.structs.replace(self.pod.metadata, resource_version=mirror.metadata.resource_version)
            self.observe(msgspec.structs.replace(self.pod, metadata=meta, status=mirror.status))

    def evict(self, message: str) -> None:
        """End the pod because of its use of the node; it has a second to stop."""
        if self._sync_status.is_syncing:
            self._node.metrics.record_eviction("ephemeralpodfs.limit")
            self._reporter.fail("Warning", EVICTED, message)
            self._advance(WorkerEvent.EVICTED)

    async def preempt(self) -> None:
        """End the pod for a critical one, within its grace period; return when no container of it runs."""
        if self._sync_status.is_syncing:
            self._reporter.fail("Warning", PREEMPTED, "Preempted in order to admit critical pod")
            self._advance(WorkerEvent.PREEMPTED)
        await self._wait_until(lambda status: status.is_ended)

    def stop(self) -> None:
        """End the pod: the manifest of this static pod is gone."""
        self._advance(WorkerEvent.DELETION_REQUESTED)

    def on_object_gone(self) -> None:
        """The pod was deleted from the API server, by force or by another client."""
        self._status_manager.abandon()
        self._advance(WorkerEvent.OBJECT_GONE)
        self._termination.force()
        self._wake.set()

    def on_container_changed(self, info: ContainerInfo) -> None:
        """The runtime reports an exit, or lists the container."""
        self._adopt([info])

    def on_runtime_listed(self, sandbox: SandboxInfo | None, found: list[ContainerInfo]) -> None:
        """Everything that the runtime has of this pod now; nothing, if the runtime has lost the pod."""
        self._adopt(found)
        if self._context.sandbox is not None and sandbox is None and not self._sync_status.is_ended:
            self._pod_sandbox.lose()
            self._wake.set()

    def on_references_changed(self) -> None:
        """A ConfigMap or Secret that the pod refers to has changed."""
        self._volumes.mark_stale()
        self.containers.release_holds()
        self._wake.set()

    def _adopt(self, found: list[ContainerInfo]) -> None:
        for info in found:
            self.containers.adopt(with_fallback_message(self._context, info))

    # --- States -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Do the work of each state in turn. Can be called again after an error; it resumes in the state it was in."""
        steps = {
            WorkerState.SYNCING: self._sync_until_terminating,
            WorkerState.TERMINATING: self._terminate,
            WorkerState.TERMINATED: self._release_resources,
            WorkerState.RELEASED: self._delete_object,
        }
        async with asyncio.TaskGroup() as self._tasks:
            status_writes = self._tasks.create_task(self._status_manager.run())
            self._driver = ContainerDriver(self._context, self.containers, self._tasks)
            self._driver.probe_running()
            while (step := steps.get(self._sync_status.state)) is not None:
                await step()
            status_writes.cancel()
        self._node.objects.release(self.pod.metadata.uid)

    def _advance(self, event: WorkerEvent) -> None:
        self._sync_status = advance(self._sync_status, event)
        self._advanced.set()

    async def _wait_until(self, condition: Callable[[PodSyncStatus], bool]) -> None:
        while not condition(self._sync_status):
            self._advanced.clear()
            await self._advanced.wait()

    # --- SYNCING ----------------------------------------------------------------------------------------

    async def _sync_until_terminating(self) -> None:
        """Run the sync loop until it returns or a notification ends SYNCING."""
        loop = asyncio.create_task(self._sync())
        ended = asyncio.create_task(self._wait_until(lambda status: not status.is_syncing))
        try:
            await asyncio.wait((loop, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            loop.cancel()
            result, _ = await asyncio.gather(loop, ended, return_exceptions=True)
        if isinstance(result, Exception):
            raise result

    async def _sync(self) -> None:
        refusal = await self._admission.find_refusal()
        if refusal is not None and self._sync_status.is_syncing:
            reason, message = refusal
            self._reporter.fail("Warning", reason, message, f"Pod was rejected: {message}")
            self._advance(WorkerEvent.REJECTED)
        while self._sync_status.is_syncing:
            self._wake.clear()
            began = time.perf_counter()
            if self.pod.is_finished:
                self._advance(WorkerEvent.CONTAINERS_FINISHED)
                return
            if self._is_past_deadline(time.time()):
                self._advance(WorkerEvent.DEADLINE_EXCEEDED)
                return
            try:
                await self._driver.stop_changed()
                if await self._resize.sync(self._admission.running_others, self._driver.stop):
                    self._volumes.mark_stale()  # volumes with resources of the pod
                await self._volumes.refresh()
                actions = self._compute_actions(time.time())  # not earlier: what was just stopped waits for nothing
                if actions.finished:
                    self._advance(WorkerEvent.CONTAINERS_FINISHED)
                    return
                self._driver.record_back_off(actions.back_off)
                has_acted = await self._act(actions)
                self._backoff.reset()
                self._node.metrics.record_sync("sync", time.perf_counter() - began)
            except (RuntimeFailure, VolumesNotReady, AddressesExhausted, ClientError) as error:
                self._reporter.report(error)
                self._reporter.publish(self._sync_status)
                await self._pause()
                continue
            self._reporter.publish(self._sync_status)
            if not has_acted:
                await self._wait(actions)

    def _compute_actions(self, now: float) -> PodActions:
        return compute_pod_actions(
            self.pod.spec,
            self.containers.runs,
            has_sandbox=self._context.sandbox is not None,
            started=self.containers.is_started,
            not_before=self.containers.not_before,
            now=now,
        )

    async def _act(self, actions: PodActions) -> bool:
        """Do what is to be done now; return whether there was anything."""
        if actions.create_sandbox:
            self._reporter.publish(self._sync_status)
            await self._pod_sandbox.create()
            return True
        if actions.restart_all:
            self._reporter.publish(self._sync_status)
            await self._driver.remove_all(actions.restart_all)
            return True
        for name in actions.start:
            await self._driver.start(name)
        return bool(actions.start)

    async def _wait(self, actions: PodActions) -> None:
        """Wait for a change, or until the next back-off, deadline or refresh is due."""
        due = (
            actions.wake_at,
            self._active_deadline(),
            self.containers.next_error_end(actions.back_off),
            self._driver.next_record(actions.back_off),
            self._volumes.refresh_at,
            self._resize.retry_at,
        )
        moments = [moment for moment in due if moment is not None]
        await self._wait_for_change(max(0.0, min(moments) - time.time()) if moments else None)

    async def _pause(self) -> None:
        """Wait after a failure: for a change, or for a time that grows with each failure."""
        self._wake.clear()
        await self._wait_for_change(self._backoff.next())

    async def _wait_for_change(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _active_deadline(self) -> float | None:
        """End of activeDeadlineSeconds, in seconds since the epoch."""
        limit, start = self.pod.spec.active_deadline_seconds, self._status_manager.latest.start_time
        return parse_time(start) + limit if limit is not None and start is not None else None

    def _is_past_deadline(self, now: float) -> bool:
        deadline = self._active_deadline()
        if deadline is None or now < deadline:
            return False
        message = "Pod was active on the node longer than the specified deadline"
        self._reporter.fail("Normal", "DeadlineExceeded", message)
        return True

    # --- TERMINATING, TERMINATED, RELEASED --------------------------------------------------------------

    async def _terminate(self) -> None:
        """Stop the containers, and publish the status as they stop."""
        for probes in self.containers.probes.values():
            probes.stop_liveness()
        if self.containers.running():
            status = self._sync_status
            publishing = self._tasks.create_task(self._publish_changes())
            await self._termination.stop_containers(
                self._driver.terminator(),
                is_forced=status.deletion is Deletion.GONE or status.cause is WorkerEvent.EVICTED,
                has_barrier=status.deletion is Deletion.REQUESTED and not self._reporter.has_failed,
            )
            publishing.cancel()
        self._advance(WorkerEvent.CONTAINERS_STOPPED)

    async def _publish_changes(self) -> None:
        """Publish the status after every change. Once all containers have exited, nothing is left to hold."""
        while True:
            self._wake.clear()
            self._reporter.publish(self._sync_status)
            if not self.containers.running():
                self._termination.allow_sigterm()
            await self._wake.wait()

    async def _release_resources(self) -> None:
        """Write the last status, then remove the sandbox and the volumes."""
        self._reporter.publish(self._sync_status)
        await self._status_manager.flush()
        await retry(self.pod, self._remove_sandbox_and_volumes)
        self._advance(WorkerEvent.RESOURCES_RELEASED)

    async def _remove_sandbox_and_volumes(self) -> None:
        await self._pod_sandbox.remove()
        await self._node.volumes.remove(self.pod.metadata.uid)
        self._admission.release()

    async def _delete_object(self) -> None:
        """Delete the pod's object if its deletion is requested: nothing is left of it here."""
        await self._wait_until(lambda status: status.deletion is not Deletion.NONE)
        await retry(self.pod, self._try_delete_object)
        self._advance(WorkerEvent.OBJECT_GONE)

    async def _try_delete_object(self) -> None:
        if self._sync_status.deletion is Deletion.GONE or is_static(self.pod):  # `static_pods` deletes mirror pods
            return
        meta = self.pod.metadata
        try:
            await self._node.client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=0)
        except NotFound:
            return
