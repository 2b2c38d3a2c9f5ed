"""Reports of one pod: its status, and Events about what failed.

The pod's worker reports after each step; `pod_status` decides what the status is, the status manager writes it.
"""

from __future__ import annotations

import logging
import time

import msgspec

from bridgehead.kubelet.containers.context import PodContext
from bridgehead.kubelet.containers.pod_containers import PodContainers
from bridgehead.kubelet.errors import AddressesExhausted, VolumesNotReady
from bridgehead.kubelet.runtimes.runtime import RuntimeFailure
from bridgehead.objects.core import Pod, PodStatus
from bridgehead.objects.meta import find_condition
from bridgehead.objects.times import parse_time

from .pod_resize import PodResize
from .pod_status import PodView, pod_status
from .status_manager import PodStatusManager
from .status_patch import OWN_CONDITIONS
from .worker_state import Deletion, PodSyncStatus, WorkerEvent

log = logging.getLogger(__name__)


class PodReporter:
    """Hands the pod's status to the status manager, and records Events."""

    def __init__(
        self, context: PodContext, containers: PodContainers, resize: PodResize, manager: PodStatusManager
    ) -> None:
        self._context = context
        self._containers = containers
        self._resize = resize
        self._failure: tuple[str, str] | None = None
        self._manager = manager
        # The inputs of the status that was computed last.
        self._published: tuple[Pod, PodStatus, PodView, bool] | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the pod failed as a whole."""
        return self._failure is not None

    def fail(self, type: str, reason: str, message: str, status_message: str = "") -> None:
        """Record that the pod failed as a whole; `status_message` is the status' if it differs from the Event's."""
        self._context.record(type, reason, message)
        self._failure = (reason, status_message or message)

    def report(self, error: Exception) -> None:
        """Record an Event about a step that failed and will be repeated."""
        match error:
            case VolumesNotReady():
                for failure in error.failures:
                    message = f'{failure.step} failed for volume "{failure.volume}" : {failure}'
                    self._context.record("Warning", "FailedMount", message)
            case AddressesExhausted() | RuntimeFailure() if self._context.sandbox is None:
                message = f"Failed to create pod sandbox: {error}"
                self._context.record("Warning", "FailedCreatePodSandBox", message)
            case _:
                self._context.record("Warning", "FailedSync", f"Error syncing pod: {error}")
        log.warning("pod %s: %s", self._context.pod.key, error)

    def publish(self, sync_status: PodSyncStatus) -> None:
        """Compute the status and hand it to the status manager, if anything has changed since it was computed last."""
        containers = self._containers
        view = PodView(
            host_ips=self._context.node.settings.ips,
            pod_ips=self._context.pod_ips,
            has_sandbox=self._context.sandbox is not None,
            runs=dict(containers.runs),
            previous=dict(containers.previous),
            waiting=dict(containers.waiting),
            started=frozenset(name for name in containers.runs if containers.is_started(name)),
            ready=frozenset(name for name in containers.runs if containers.is_ready(name)),
            is_over=sync_status.is_ended,
            failure=self._failure,
            is_rejected=sync_status.cause is WorkerEvent.REJECTED,
            resources=self._resize.actual,
            allocated=self._resize.allocated,
            resize_conditions=self._resize.conditions(),
        )
        old, pod = self._manager.latest, self._context.pod
        is_deleted = sync_status.deletion is not Deletion.NONE
        if self._published is not None:
            known_pod, known_status, known_view, was_deleted = self._published
            if known_pod is pod and known_status is old and known_view == view and was_deleted == is_deleted:
                return
        observed = pod
        pod = msgspec.structs.replace(pod, status=_merge_conditions(pod.status, old))
        new = pod_status(pod, view, time.time())
        if old.phase in ("", "Pending") and new.phase == "Running" and new.start_time is not None:
            self._context.node.metrics.record_pod_started(time.time() - parse_time(new.start_time))
        self._manager.submit(new, urgent=is_urgent(pod, old, new) or (is_deleted and new.phase != "Pending"))
        self._published = observed, self._manager.latest, view, is_deleted


def is_urgent(pod: Pod, old: PodStatus, new: PodStatus) -> bool:
    """Whether the status `new` is written at once, since others wait for its phase or readiness.

    `kubectl run -i` attaches to a pod that is ready, and prints the log of one that has ended before it was seen to be.
    Kubelets need a second to see a start, so this is what a short command meets there. Were the start of such a pod
    shown at once, kubectl 1.36 would find a container that has ended meanwhile, and print the log twice.
    """
    if new.phase == "Pending" or (new.phase == "Running" and _is_interactive(pod)):
        return False
    return new.phase != old.phase or _readiness(new) != _readiness(old)


def _is_interactive(pod: Pod) -> bool:
    return pod.spec.restart_policy != "Always" and any(container.stdin for container in pod.spec.containers)


def _readiness(status: PodStatus) -> str | None:
    condition = find_condition(status.conditions, "Ready")
    return None if condition is None else condition.status


def _merge_conditions(observed: PodStatus, submitted: PodStatus) -> PodStatus:
    """Return the status submitted last, with other writers' conditions as observed."""
    own = [c for c in submitted.conditions if c.type in OWN_CONDITIONS]
    foreign = [c for c in observed.conditions if c.type not in OWN_CONDITIONS]
    return msgspec.structs.replace(submitted, conditions=(*own, *foreign))
