"""Sends pod statuses to the API server: the newest of each pod, in order, and no more writes than needed.

Each pod worker has one and hands statuses in. A status that only says "on its way" waits a moment, since the next one
mostly overtakes it; anything others act upon (ready or not, a phase) goes at once.
"""

from __future__ import annotations

import asyncio
import logging

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError, NotFound
from bridgehead.objects.core import Pod, PodStatus
from bridgehead.objects.kinds import PODS
from bridgehead.objects.meta import version_number

from .status import status_patch

log = logging.getLogger(__name__)

LINGER_SECONDS = 0.5
_RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)


class PodStatusWriter:
    """Writes the status of one pod. `written` is what the API server has, as far as known."""

    def __init__(self, client: ApiClient, pod: Pod) -> None:
        self._client = client
        self._key = pod.key
        self._uid = pod.metadata.uid
        self._written = pod.status
        self._wanted = pod.status
        self._urgent = asyncio.Event()
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._gone = False
        self._version = _version(pod)

    @property
    def latest(self) -> PodStatus:
        """The newest status handed in."""
        return self._wanted

    def observe(self, pod: Pod) -> None:
        """The API server's copy changed, by us or by others (a scheduler, a readiness gate's controller)."""
        if self._idle.is_set() and _version(pod) >= self._version:  # older ones are our own writes, echoed
            self._written = pod.status

    def submit(self, status: PodStatus, *, urgent: bool) -> None:
        """Have `status` written; at once if it is `urgent`."""
        if self._gone or (self._idle.is_set() and not status_patch(self._written, status)):
            return
        self._wanted = status
        self._idle.clear()
        self._changed.set()
        if urgent:
            self._urgent.set()

    def abandon(self) -> None:
        """The pod is gone from the API server, or another one has its name: nobody is left to tell."""
        self._gone = True
        for event in (self._idle, self._changed, self._urgent):
            event.set()

    async def flush(self) -> None:
        """Until the newest status is written, or the pod is known to be gone."""
        self._urgent.set()
        await self._idle.wait()

    async def run(self) -> None:
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
        attempt = 0
        while not self._gone:
            wanted = self._wanted
            patch = status_patch(self._written, wanted)
            if not patch:
                return
            body = {"metadata": {"uid": self._uid}, "status": patch}
            try:
                pod = await self._client.patch(
                    PODS, self._key.name, self._key.namespace, body, type="strategic", subresource="status"
                )
            except NotFound:
                self.abandon()
            except ClientError as error:
                # A conflict, too, may pass: if it is another pod of the same name, `abandon` is called soon.
                if attempt in (0, len(_RETRY_SECONDS)):
                    log.warning("pod %s: status not written, trying again: %s", self._key, error)
                await asyncio.sleep(_RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)])
                attempt += 1
            else:
                self._written = wanted
                self._version = _version(pod)
                return


def _version(pod: Pod) -> int:
    return version_number(pod.metadata.resource_version)
