"""Sends a pod's status to the API server: always the newest one, with as few writes as possible.

Each pod worker has one. A changed phase or readiness is sent immediately. Any other status waits `LINGER_SECONDS`,
since another one mostly follows. Source: kubelet's status manager.
"""

from __future__ import annotations

import asyncio
import logging

from bridgehead.backoff import Backoff
from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError, NotFound
from bridgehead.objects.core import Pod, PodStatus
from bridgehead.objects.kinds import PODS
from bridgehead.objects.meta import version_number

from .static_manifest import is_static
from .status_patch import status_patch

log = logging.getLogger(__name__)

LINGER_SECONDS = 0.5
_FIRST_RETRY_SECONDS = 0.2
_LONGEST_RETRY_SECONDS = 5.0
_LOGGED_FAILURES = (1, 6)  # in a row: a short outage is one line, a long one two


class PodStatusManager:
    """Writes the status of one pod."""

    def __init__(self, client: ApiClient, pod: Pod) -> None:
        self._client = client
        self._key = pod.key
        self._is_static = is_static(pod)
        self.uid = "" if self._is_static else pod.metadata.uid
        """The uid of the pod's object; "" while a static pod has no mirror pod."""
        self._bound = asyncio.Event()
        if self.uid:
            self._bound.set()
        self._written = pod.status  # what the API server has, as far as known
        self._wanted = pod.status
        self._urgent = asyncio.Event()
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._gone = False
        self._has_submitted = False
        self._version = _version(pod)

    @property
    def latest(self) -> PodStatus:
        """The status that was submitted last."""
        return self._wanted

    def observe(self, pod: Pod) -> None:
        """The pod has changed on the API server, by this kubelet or another client (a readiness gate's controller)."""
        if self._idle.is_set() and _version(pod) >= self._version:  # older versions are echoes of our own writes
            self._written = pod.status

    def bind(self, mirror: Pod | None) -> None:
        """Write to this mirror pod from now on; wait for the next one if it is None."""
        if mirror is None:
            self.uid = ""
            self._bound.clear()
        elif mirror.metadata.uid != self.uid:
            self.uid = mirror.metadata.uid
            self._written = mirror.status
            self._bound.set()
            if self._has_submitted:  # a new mirror pod has nothing of the status yet
                self._idle.clear()
                self._changed.set()

    def submit(self, status: PodStatus, *, urgent: bool) -> None:
        """Write `status` soon; at once if `urgent`."""
        if self._gone or (self._idle.is_set() and self._is_written(status)):
            return
        self._wanted = status
        self._has_submitted = True
        self._idle.clear()
        self._changed.set()
        if urgent:
            self._urgent.set()

    def _is_written(self, status: PodStatus) -> bool:
        return status == self._written or not status_patch(self._written, status)

    def abandon(self) -> None:
        """Stop writing: the pod is gone from the API server, or another pod has its name."""
        self._gone = True
        for event in (self._idle, self._changed, self._urgent, self._bound):
            event.set()

    async def flush(self) -> None:
        """Wait until the newest status is written, or the pod is known to be gone.

        The end of a static pod does not wait for the API server: its mirror pod may be gone for good.
        """
        if self._is_static:
            return
        self._urgent.set()
        await self._idle.wait()

    async def run(self) -> None:
        """Write submitted statuses until cancelled or abandoned."""
        while not self._gone:
            await self._changed.wait()
            try:
                async with asyncio.timeout(LINGER_SECONDS):
                    await self._urgent.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            self._urgent.clear()
            await self._write()
            if self._gone or not self._changed.is_set():
                self._idle.set()

    async def _write(self) -> None:
        backoff = Backoff(_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
        while not self._gone:
            await self._bound.wait()
            wanted = self._wanted
            patch = status_patch(self._written, wanted)
            if not patch:
                return
            body = {"metadata": {"uid": self.uid}, "status": patch}
            try:
                pod = await self._client.patch(
                    PODS, self._key.name, self._key.namespace, body, type="strategic", subresource="status"
                )
            except NotFound:
                if self._is_static:
                    self.bind(None)
                else:
                    self.abandon()
            except ClientError as error:
                # A conflict is retried, too: if another pod has the name, `abandon` is called soon.
                delay = backoff.next()
                if backoff.failures in _LOGGED_FAILURES:
                    log.warning("pod %s: status not written, retrying: %s", self._key, error)
                await asyncio.sleep(delay)
            else:
                self._written = wanted
                self._version = _version(pod)
                return


def _version(pod: Pod) -> int:
    return version_number(pod.metadata.resource_version)
