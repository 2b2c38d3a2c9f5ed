"""The end of one pod's containers: within its grace period, and with SIGTERM held back by the barrier.

Called by the pod worker, whose notifications may bring the end forward. `termination` stops the containers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from bridgehead.backoff import Backoff
from bridgehead.client.errors import ClientError
from bridgehead.kubelet.containers.context import PodContext
from bridgehead.kubelet.containers.termination import Deadline, Terminator
from bridgehead.kubelet.runtimes.runtime import RuntimeFailure
from bridgehead.objects.core import Pod
from bridgehead.objects.times import parse_time

from .barrier import Barrier

log = logging.getLogger(__name__)

_FORCED_GRACE_SECONDS = 1.0
_FIRST_RETRY_SECONDS = 0.5
_LONGEST_RETRY_SECONDS = 16.0


class PodTermination:
    """Owns the deadline of the pod's containers, and the permission for SIGTERM."""

    def __init__(self, context: PodContext, barrier: Barrier) -> None:
        self._context = context
        self._barrier = barrier
        self._sigterm_allowed = asyncio.Event()
        self._deadline: Deadline | None = None  # None before the termination

    def observe_deletion(self) -> None:
        """The pod's deletion was requested, maybe again and with a shorter grace period."""
        if self._deadline is not None and self._deadline.bring_forward(self._deletion_deadline()):
            loop = asyncio.get_running_loop()
            loop.call_later((self._deadline.at - loop.time()) / 2, self.allow_sigterm)

    def force(self) -> None:
        """The pod is gone from the API server: its containers have a second left."""
        self.allow_sigterm()
        if self._deadline is not None:
            self._deadline.bring_forward(asyncio.get_running_loop().time() + _FORCED_GRACE_SECONDS)

    def allow_sigterm(self) -> None:
        self._sigterm_allowed.set()

    async def stop_containers(self, terminator: Terminator, *, is_forced: bool, has_barrier: bool) -> None:
        """Stop the containers, and return when none runs: within a second if `is_forced`, otherwise within the grace
        period. With `has_barrier`, proxies may hold SIGTERM back."""
        now = asyncio.get_running_loop().time()
        deadline = self._deadline = Deadline(now + _FORCED_GRACE_SECONDS if is_forced else self._deletion_deadline())
        async with asyncio.TaskGroup() as tasks:
            holding = tasks.create_task(self._hold_sigterm(deadline, has_barrier=has_barrier))
            await retry(self._context.pod, lambda: terminator.stop_pod(deadline, self._sigterm_allowed))
            holding.cancel()

    async def _hold_sigterm(self, deadline: Deadline, *, has_barrier: bool) -> None:
        """Hold SIGTERM back while proxies still send the pod connections, for half of the grace period at most."""
        try:
            if has_barrier:
                left = deadline.at - asyncio.get_running_loop().time()
                limit = self._context.node.settings.termination_barrier
                await self._barrier.hold(self._context.pod, min(limit, left / 2))
        finally:
            self.allow_sigterm()

    def _deletion_deadline(self) -> float:
        """End of the grace period, on the event loop's clock."""
        pod = self._context.pod
        grace = pod.metadata.deletion_grace_period_seconds
        if grace is None:
            grace = pod.spec.termination_grace_period_seconds
        left = float(grace)
        if pod.metadata.deletion_timestamp is not None:
            # The timestamp is the end of the period, cut to whole seconds.
            left = min(left, parse_time(pod.metadata.deletion_timestamp) + 1.0 - time.time())
        return asyncio.get_running_loop().time() + max(left, 0.0)


async def retry(pod: Pod, step: Callable[[], Awaitable[None]]) -> None:
    """Repeat a step of a pod's termination until it succeeds, since the pod cannot go on without it."""
    backoff = Backoff(_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
    while True:
        try:
            await step()
            return
        except* (RuntimeFailure, ClientError) as errors:
            log.warning("pod %s: termination step failed, retrying: %s", pod.key, errors.exceptions[0])
        await asyncio.sleep(backoff.next())
