"""The in-place resize of one pod: keeps what the node has given to its containers, and gives what the spec wants.

Owned by a pod worker. `resize_plan` decides.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from bridgehead.kubelet.containers.context import PodContext, WaitingResize
from bridgehead.kubelet.containers.pod_containers import PodContainers
from bridgehead.kubelet.containers.resource_limits import plan_limits, plan_pod_limits
from bridgehead.kubelet.runtimes.runtime import Limits, RuntimeFailure
from bridgehead.objects.core import Container, Pod, ResourceRequirements
from bridgehead.objects.meta import Condition

from .resize_plan import (
    DEFERRED,
    WHOLE,
    earlier_resizes,
    effective_resources,
    known_resources,
    needs_restart,
    resize_message,
    resize_refusal,
    spec_resources,
    widest,
    with_resizes,
    with_resources,
)
from .status_patch import RESIZE_IN_PROGRESS, RESIZE_PENDING

_RETRY_SECONDS = 5.0


class _Applied(NamedTuple):
    """The resources that the runtime has for a run: the container's own, and with limits of the whole pod."""

    run_id: str
    own: ResourceRequirements
    effective: ResourceRequirements


class PodResize:
    """The resources of a pod's containers. `stop` stops a container, with the message for its Event."""

    def __init__(self, context: PodContext, containers: PodContainers) -> None:
        self._context = context
        self._containers = containers
        self._wanted = context.pod
        self._allocated = known_resources(context.pod)
        before = with_resources(context.pod, self._allocated)
        self._pod_limits = plan_pod_limits(before, context.node.settings.pod_max_pids)
        # Resources by which `_pod_limits` were computed, and those of each container that has run, with its run.
        self._applied_whole = self._allocated.get(WHOLE)
        self._applied: dict[str, _Applied] = {}
        self._refusal: tuple[str, str] | None = None
        self._refused_generation = 0
        self._error = ""
        self._is_begun = False
        self.retry_at: float | None = None

    def observe(self, pod: Pod) -> Pod:
        """Take note of the pod as the API server has it; return it with the resources that its containers have."""
        self._wanted = pod
        return with_resources(pod, self._allocated)

    async def sync(
        self, find_others: Callable[[], Iterable[Pod]], stop: Callable[[Container, str], Awaitable[None]]
    ) -> bool:
        """Give what the spec wants if the node has it, and apply it to the containers that run. Return whether the pod
        has been given other resources. `find_others` returns the other pods whose requests count."""
        self._note_runs()
        self.retry_at, self._error = None, ""
        wanted, before = spec_resources(self._wanted), self._allocated
        if wanted == self._allocated:
            self._refusal = None
            self._context.node.waiting_resizes.pop(self._wanted.metadata.uid, None)
        else:
            self._decide(wanted, find_others())
        limits = plan_pod_limits(self._context.pod, self._context.node.settings.pod_max_pids)
        if await self._update_pod(widest(self._pod_limits, limits)):
            for name in self._unapplied():
                await self._apply(self._context.container(name), stop)
            if not self._unapplied() and await self._update_pod(limits):
                self._applied_whole = self._allocated.get(WHOLE)
        if self._is_begun and self._is_applied:
            self._is_begun = False
            self._record("ResizeCompleted", "completed")
        return self._allocated is not before

    def _decide(self, wanted: dict[str, ResourceRequirements], others: Iterable[Pod]) -> None:
        """Allocate what is wanted, or keep the reason why the node cannot give it."""
        before, generation = self._refusal, self._wanted.metadata.generation
        self._refusal = self._find_refusal(others)
        if self._refusal is None:
            self._allocated = wanted
            self._context.pod = self._wanted
            self._is_begun = True
            self._record("ResizeStarted", "started")
            return
        reason, message = self._refusal
        if (before, self._refused_generation) != (self._refusal, generation):
            self._refused_generation = generation
            self._context.record("Warning", f"Resize{reason}", resize_message(self._wanted, reason, message))
        if reason == DEFERRED:
            self.retry_at = time.time() + _RETRY_SECONDS

    def _find_refusal(self, others: Iterable[Pod]) -> tuple[str, str] | None:
        """Return reason and message if the node cannot give what is wanted, also to resizes that come first."""
        node, uid = self._context.node, self._wanted.metadata.uid
        resize = node.waiting_resizes.pop(uid, WaitingResize(self._wanted, time.time()))
        earlier = earlier_resizes(self._wanted, resize.since, node.waiting_resizes.values())
        others = with_resizes(others, self._context.pod, earlier, node.allocatable)
        refusal = resize_refusal(self._wanted, others, node.allocatable)
        if refusal is not None and refusal[0] == DEFERRED:
            node.waiting_resizes[uid] = WaitingResize(self._wanted, resize.since)
        return refusal

    async def _update_pod(self, limits: Limits) -> bool:
        """Change the limits of the pod as a whole. No limit is ever below that of a container."""
        if self._context.sandbox is not None and limits != self._pod_limits:
            try:
                await self._context.node.runtime.update_sandbox(self._context.pod.metadata.uid, limits)
            except RuntimeFailure as error:
                self._fail(error)
                return False
        self._pod_limits = limits
        return True

    def _fail(self, error: RuntimeFailure) -> None:
        self._error = str(error)
        self.retry_at = time.time() + _RETRY_SECONDS
        self._context.record("Warning", "ResizeError", resize_message(self._context.pod, "error", str(error)))

    async def _apply(self, container: Container, stop: Callable[[Container, str], Awaitable[None]]) -> None:
        run_id = self._applied[container.name].run_id
        wanted = effective_resources(self._allocated, container.name)
        if needs_restart(container, self._applied[container.name].effective, wanted):
            await stop(container, f"Container {container.name} resize requires restart")
            self._applied.pop(container.name, None)
            return
        node = self._context.node
        limits = plan_limits(self._context.pod, container, node.allocatable)
        try:
            await node.runtime.update_container(run_id, limits)
        except RuntimeFailure as error:
            self._fail(error)
            return
        self._applied[container.name] = _Applied(run_id, container.resources, wanted)

    def _note_runs(self) -> None:
        """Record the resources of new runs, which began with what was allocated then."""
        for name in self._containers.running():
            run = self._containers.runs[name]
            known = self._applied.get(name)
            if name in self._allocated and (known is None or known.run_id != run.id):
                effective = effective_resources(self._allocated, name)
                self._applied[name] = _Applied(run.id, self._allocated[name], effective)

    def _unapplied(self) -> list[str]:
        """Return the running containers whose resources are not those allocated to them."""
        return [
            name
            for name in self._containers.running()
            if name in self._applied
            and (self._applied[name].own, self._applied[name].effective)
            != (self._allocated[name], effective_resources(self._allocated, name))
        ]

    @property
    def _is_applied(self) -> bool:
        return not self._unapplied() and self._applied_whole == self._allocated.get(WHOLE)

    def _record(self, reason: str, verb: str) -> None:
        self._context.record("Normal", reason, resize_message(self._context.pod, verb))

    # --- Status -----------------------------------------------------------------------------------------

    @property
    def allocated(self) -> dict[str, ResourceRequirements]:
        """The resources that the node has given, by container."""
        return self._allocated

    @property
    def actual(self) -> dict[str, ResourceRequirements]:
        """The resources that running containers have, and those allocated to others, by container."""
        self._note_runs()
        whole = {} if self._applied_whole is None else {WHOLE: self._applied_whole}
        return self._allocated | {name: applied.own for name, applied in self._applied.items()} | whole

    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions of a resize that waits or is not finished."""
        found = []
        if self._refusal is not None:
            reason, message = self._refusal
            found.append(Condition(type=RESIZE_PENDING, status="True", reason=reason, message=message))
        if not self._is_applied:
            reason = "Error" if self._error else ""
            found.append(Condition(type=RESIZE_IN_PROGRESS, status="True", reason=reason, message=self._error))
        return tuple(found)
