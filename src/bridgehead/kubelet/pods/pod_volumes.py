"""The volumes of one pod: set up before its first container, and updated when what they show has changed.

Called by the pod worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bridgehead.kubelet.containers.context import PodContext
from bridgehead.kubelet.errors import VolumesNotReady
from bridgehead.kubelet.volumes.referenced_objects import references_of

_RETRY_SECONDS = 10.0


class PodVolumes:
    """Fills in `context.volumes`. `report` records an update that failed."""

    def __init__(self, context: PodContext, report: Callable[[VolumesNotReady], None]) -> None:
        self._context = context
        self._report = report
        self._is_stale = True
        self._is_set_up = False
        self.refresh_at: float | None = None
        """When to refresh next if nothing changes before, in seconds since the epoch."""

    def mark_stale(self) -> None:
        """Something that the volumes show has changed."""
        self._is_stale = True

    async def refresh(self) -> None:
        """Set the volumes up, or update them if something changed. Raises `VolumesNotReady` until the first success."""
        is_due = self.refresh_at is not None and self.refresh_at <= time.time()
        if not (self._is_stale or is_due):
            return
        node, pod = self._context.node, self._context.pod
        if references := references_of(pod):
            await node.objects.hold(pod.metadata.uid, references)
        self._is_stale = False
        try:
            self._context.volumes, self.refresh_at = await node.volumes.prepare(pod, self._context.id_base)
            self._is_set_up = True
        except VolumesNotReady as error:
            if not self._is_set_up:
                self._is_stale = True
                raise
            # The volumes stay as they are: an old token must not keep a container from being restarted.
            self._report(error)
            self.refresh_at = time.time() + _RETRY_SECONDS
