"""The life of one pod on this node, from its first sight to its deletion.

The agent makes one worker for each pod (by uid) and tells it what happens: the pod changed, a container exited, an
object it refers to changed. In order inside, parallel across pods. What to do next is decided by `plan`, what to show
by `status`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from bridgehead.client.errors import ClientError, NotFound
from bridgehead.objects.core import Pod, PodStatus
from bridgehead.objects.kinds import PODS
from bridgehead.objects.times import parse_time

from .admission import admission_refusal, check_namespaces, pod_sysctls, unsupported_fields
from .container_driver import ContainerDriver
from .containers import PodContainers
from .errors import AddressesExhausted, SandboxRefused, VolumeNotReady
from .hosts import kernel_host_name
from .logs import last_words
from .parts import NodeParts, PodContext
from .plan import Plan, plan_pod
from .references import references_of
from .runtimes.runtime import ContainerInfo, RuntimeFailure, SandboxInfo, SandboxSpec
from .status import OWN_CONDITIONS, PodView, pod_status
from .status_writer import PodStatusWriter
from .termination import Deadline
from .uninterrupted import uninterrupted

log = logging.getLogger(__name__)

T = TypeVar("T")

_FORCED_GRACE_SECONDS = 1.0
_VOLUME_RETRY_SECONDS = 10.0
_RETRY_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


class PodWorker:
    def __init__(self, parts: NodeParts, pod: Pod, sandbox: SandboxInfo | None, found: list[ContainerInfo]) -> None:
        """`sandbox` and `found` are what the runtime has of this pod from before."""
        self._parts = parts
        self._context = PodContext(parts, pod, sandbox)
        self._had_sandbox = bool(pod.status.pod_ip and pod.status.container_statuses)
        self._wake = asyncio.Event()
        self._ending = asyncio.Event()
        self._deleted = asyncio.Event()
        self._released = asyncio.Event()
        self._removed = False
        self._is_over = False
        self._verdict: tuple[str, str] | None = None
        self._is_rejected = False
        self._deadline: Deadline | None = None
        self._volumes_stale = True
        self._has_volumes = False
        self._volumes_due: float | None = None
        self._failures = 0
        self._tasks = asyncio.TaskGroup()
        self._writer = PodStatusWriter(parts.client, pod)
        self.containers = PodContainers(pod, self._wake.set)
        self._driver = ContainerDriver(self._context, self.containers, self._tasks)
        for info in found:
            self.containers.adopt(self._with_last_words(info))
        self.observe(pod)

    @property
    def pod(self) -> Pod:
        """The pod as the API server had it last."""
        return self._context.pod

    @property
    def sandbox(self) -> SandboxInfo | None:
        """The pod's namespaces, once they are made."""
        return self._context.sandbox

    # --- What the agent tells ---------------------------------------------------------------------------

    def observe(self, pod: Pod) -> None:
        """The pod as the API server has it now."""
        self._context.pod = pod
        self._writer.observe(pod)
        if pod.metadata.deletion_timestamp is not None:
            self._deleted.set()
            self._ending.set()
            if self._deadline is not None and self._deadline.bring_forward(self._deletion_deadline()):
                loop = asyncio.get_running_loop()
                loop.call_later((self._deadline.at - loop.time()) / 2, self._released.set)
        self._wake.set()

    def removed(self) -> None:
        """The pod is gone from the API server: forced, or finished by somebody else."""
        self._removed = True
        self._writer.abandon()
        self._deleted.set()
        self._ending.set()
        self._released.set()
        if self._deadline is not None:
            self._deadline.bring_forward(asyncio.get_running_loop().time() + _FORCED_GRACE_SECONDS)
        self._wake.set()

    def container_changed(self, info: ContainerInfo) -> None:
        """The runtime reports an exit, or lists the container."""
        self.containers.adopt(self._with_last_words(info))

    def runtime_listed(self, sandbox: SandboxInfo | None, found: list[ContainerInfo]) -> None:
        """Everything the runtime has of this pod at the moment; nothing, if it lost it."""
        for info in found:
            self.containers.adopt(self._with_last_words(info))
        if self._context.sandbox is not None and sandbox is None and not self._is_over:
            self._context.sandbox = None
            self._had_sandbox = True
            self.containers.lose_sandbox(time.time())
        self._wake.set()

    def _with_last_words(self, info: ContainerInfo) -> ContainerInfo:
        """With terminationMessagePolicy FallbackToLogsOnError, a failed container without a message shows its log."""
        if info.message or not info.exit_code or info.state == "running":
            return info
        container = next((c for c in self._context.all_containers() if c.name == info.name), None)
        if container is None or container.termination_message_policy != "FallbackToLogsOnError":
            return info
        path = self._parts.settings.log_path(self.pod, info.name, info.attempt)
        return msgspec.structs.replace(info, message=last_words(path))

    def references_changed(self) -> None:
        self._volumes_stale = True
        self.containers.release_holds()
        self._wake.set()

    # --- The life ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the pod is gone from this node and from the API server."""
        async with asyncio.TaskGroup() as self._tasks:
            writer = self._tasks.create_task(self._writer.run())
            self._driver = ContainerDriver(self._context, self.containers, self._tasks)
            self._driver.follow_found()
            await self._until_ending(self._live())
            await self._end()
            await self._deleted.wait()
            await self._persist(self._delete_object)
            writer.cancel()
        self._parts.objects.release(self.pod.metadata.uid)

    async def _until_ending(self, life: Coroutine[Any, Any, None]) -> None:
        """Run `life` until it returns by itself or the pod begins to end."""
        task = asyncio.create_task(life)
        ending = asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait((task, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            task.cancel()
            result, _ = await asyncio.gather(task, ending, return_exceptions=True)
        if isinstance(result, Exception):
            raise result

    async def _live(self) -> None:
        if not self._admit():
            return
        while not (self.pod.is_finished or self._ending.is_set()):
            self._wake.clear()
            now = time.time()
            if self._is_past_deadline(now):
                return
            try:
                await self._refresh_volumes()
                await self._driver.stop_changed()
                plan = self._plan(now)
                if plan.finished:
                    return
                self._driver.note_back_off(plan)
                acted = await self._act(plan)
                self._failures = 0
            except (RuntimeFailure, VolumeNotReady, AddressesExhausted, SandboxRefused, ClientError) as error:
                self._report(error)
                self._publish()
                await self._pause()
                continue
            self._publish()
            if not acted:
                await self._wait(plan)

    def _admit(self) -> bool:
        """Whether the node takes the pod. One that it does not take fails; one that runs already is left alone."""
        if self.pod.status.phase not in ("", "Pending") or self._context.sandbox is not None:
            return True
        refusal = admission_refusal(self.pod, has_app_armor=self._parts.has_app_armor)
        if refusal is None:
            return True
        reason, message = refusal
        self._context.record("Warning", reason, message)
        self._verdict = (reason, f"Pod was rejected: {message}")
        self._is_rejected = True
        return False

    def _plan(self, now: float) -> Plan:
        return plan_pod(
            self.pod.spec,
            self.containers.runs,
            has_sandbox=self._context.sandbox is not None,
            started=self.containers.is_started,
            not_before=self.containers.not_before,
            now=now,
        )

    async def _act(self, plan: Plan) -> bool:
        if plan.create_sandbox:
            self._publish()
            await self._create_sandbox()
            return True
        for name in plan.start:
            await self._driver.start(name)
        return bool(plan.start)

    async def _wait(self, plan: Plan) -> None:
        """Until something happens, or it is time for what the plan waits for."""
        waits = (plan.wake_at, self._active_deadline(), self.containers.next_pull_word(), self._volumes_due)
        moments = [m for m in waits if m is not None]
        timeout = max(0.0, min(moments) - time.time()) if moments else None
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _pause(self) -> None:
        """After a failure: until something changes, or for a while that grows."""
        delay = _RETRY_SECONDS[min(self._failures, len(_RETRY_SECONDS) - 1)]
        self._failures += 1
        self._wake.clear()
        try:
            async with asyncio.timeout(delay):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _report(self, error: Exception) -> None:
        match error:
            case VolumeNotReady():
                message = f'MountVolume.SetUp failed for volume "{error.volume}" : {error}'
                self._context.record("Warning", "FailedMount", message)
            case AddressesExhausted() | RuntimeFailure() | SandboxRefused() if self._context.sandbox is None:
                if isinstance(error, SandboxRefused):
                    self.containers.wait_all([c.name for c in self._context.all_containers()], error)
                message = f"Failed to create pod sandbox: {error}"
                self._context.record("Warning", "FailedCreatePodSandBox", message)
            case _:
                self._context.record("Warning", "FailedSync", f"Error syncing pod: {error}")
        log.warning("pod %s: %s", self.pod.key, error)

    def _active_deadline(self) -> float | None:
        limit, start = self.pod.spec.active_deadline_seconds, self._writer.latest.start_time
        return parse_time(start) + limit if limit is not None and start is not None else None

    def _is_past_deadline(self, now: float) -> bool:
        deadline = self._active_deadline()
        if deadline is None or now < deadline:
            return False
        self._verdict = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        self._context.record("Normal", *self._verdict)
        return True

    # --- Sandbox, volumes, containers -------------------------------------------------------------------

    async def _create_sandbox(self) -> None:
        pod = self.pod
        meta = pod.metadata
        check_namespaces(pod)
        if self._had_sandbox:
            message = "Pod sandbox changed, it will be killed and re-created."
            self._context.record("Normal", "SandboxChanged", message)
            self.containers.begin_sandbox([c.name for c in pod.spec.init_containers])
        else:
            for reason, message in unsupported_fields(pod):
                self._context.record("Warning", reason, message)
        hostname = self._parts.settings.name
        if not pod.spec.host_network:
            try:
                hostname = kernel_host_name(pod, self._parts.settings.cluster_domain)
            except ValueError as error:
                raise RuntimeFailure(str(error)) from error
        spec = SandboxSpec(
            pod_uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            hostname=hostname,
            host_network=pod.spec.host_network,
            host_pid=pod.spec.host_pid,
            host_ipc=pod.spec.host_ipc,
            sysctls=pod_sysctls(pod),
            ips=() if pod.spec.host_network else self._parts.addresses.allocate(meta.uid),
        )

        async def run() -> None:
            self._context.sandbox = await self._parts.runtime.run_sandbox(spec)
            self._had_sandbox = True

        await uninterrupted(run())

    async def _refresh_volumes(self) -> None:
        """Set the volumes up, and write them again when something they show has changed."""
        is_due = self._volumes_due is not None and self._volumes_due <= time.time()
        if not (self._volumes_stale or is_due):
            return
        uid = self.pod.metadata.uid
        references = references_of(self.pod)
        if references:
            await self._parts.objects.hold(uid, references)
        self._volumes_stale = False
        try:
            self._context.volumes, self._volumes_due = await self._parts.volumes.prepare(self.pod)
            self._has_volumes = True
        except VolumeNotReady as error:
            if not self._has_volumes:
                self._volumes_stale = True
                raise
            # What was set up once goes on as it is: an old token must not keep a container from being restarted.
            self._report(error)
            self._volumes_due = time.time() + _VOLUME_RETRY_SECONDS

    # --- Status -----------------------------------------------------------------------------------------

    def _publish(self) -> None:
        containers = self.containers
        view = PodView(
            host_ips=self._parts.settings.ips,
            pod_ips=self._context.pod_ips,
            has_sandbox=self._context.sandbox is not None,
            runs=containers.runs,
            previous=containers.previous,
            waiting=containers.waiting,
            started=frozenset(name for name in containers.runs if containers.is_started(name)),
            ready=frozenset(name for name in containers.runs if containers.is_ready(name)),
            is_over=self._is_over,
            verdict=self._verdict,
            is_rejected=self._is_rejected,
        )
        old = self._writer.latest
        pod = msgspec.structs.replace(self.pod, status=_known_status(self.pod.status, old))
        new = pod_status(pod, view, time.time())
        is_urgent = new.phase != old.phase or _readiness(new) != _readiness(old) or self._ending.is_set()
        self._writer.submit(new, urgent=is_urgent and new.phase != "Pending")

    # --- The end ----------------------------------------------------------------------------------------

    def _deletion_deadline(self) -> float:
        """When the grace period ends, on the event loop's clock."""
        meta = self.pod.metadata
        grace = meta.deletion_grace_period_seconds
        if grace is None:
            grace = self.pod.spec.termination_grace_period_seconds
        left = float(grace)
        if meta.deletion_timestamp is not None:
            # The timestamp is the end of the period, cut to whole seconds.
            left = min(left, parse_time(meta.deletion_timestamp) + 1.0 - time.time())
        return asyncio.get_running_loop().time() + max(left, 0.0)

    async def _end(self) -> None:
        """Stop what runs, write the last status, give back what the pod had."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._deadline = Deadline(now + _FORCED_GRACE_SECONDS if self._removed else self._deletion_deadline())
        for probes in self.containers.probes.values():
            probes.stop_liveness()
        if self.containers.running():
            beside = [self._tasks.create_task(self._publish_changes()), self._tasks.create_task(self._hold())]
            await self._persist(self._stop_containers)
            for task in beside:
                task.cancel()
        self._is_over = True
        self._publish()
        await self._writer.flush()
        await self._persist(self._remove_sandbox)

    async def _hold(self) -> None:
        """Keep SIGTERM back while nodes still send the pod connections, for half of its grace period at most."""
        try:
            if self._deadline is not None and self._deleted.is_set() and not self._removed and self._verdict is None:
                left = self._deadline.at - asyncio.get_running_loop().time()
                await self._parts.barrier.hold(self.pod, min(self._parts.settings.termination_barrier, left / 2))
        finally:
            self._released.set()

    async def _publish_changes(self) -> None:
        """While the containers stop one after the other, the status follows. Nobody holds what has ended by itself."""
        while True:
            self._wake.clear()
            self._publish()
            if not self.containers.running():
                self._released.set()
            await self._wake.wait()

    async def _stop_containers(self) -> None:
        if self._deadline is not None:
            await self._driver.terminator().stop_pod(self._deadline, self._released)

    async def _remove_sandbox(self) -> None:
        uid = self.pod.metadata.uid
        await self._parts.runtime.remove_sandbox(uid)
        self._context.sandbox = None
        self._parts.addresses.release(uid)
        await self._parts.volumes.remove(uid)

    async def _delete_object(self) -> None:
        """Tell the API server that nothing is left of the pod."""
        if self._removed:
            return
        meta = self.pod.metadata
        try:
            await self._parts.client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=0)
        except NotFound:
            return

    async def _persist(self, step: Any) -> None:
        """Do `step` again until it succeeds: an ending pod has nothing else to wait for."""
        failures = 0
        while True:
            try:
                await step()
                return
            except* (RuntimeFailure, ClientError) as errors:
                log.warning("pod %s: can't end yet: %s", self.pod.key, errors.exceptions[0])
            await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
            failures += 1


def _readiness(status: PodStatus) -> tuple[str, ...]:
    return tuple(c.status for c in status.conditions if c.type == "Ready")


def _known_status(observed: PodStatus, submitted: PodStatus) -> PodStatus:
    """What was submitted last, with others' conditions as observed."""
    own = [c for c in submitted.conditions if c.type in OWN_CONDITIONS]
    foreign = [c for c in observed.conditions if c.type not in OWN_CONDITIONS]
    return msgspec.structs.replace(submitted, conditions=(*own, *foreign))
