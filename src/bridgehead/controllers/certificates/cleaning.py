"""Deletes old requests: issued, denied and failed ones after an hour, pending ones after a day.

Source: kube-controller-manager's certificatesigningrequest-cleaner-controller (pkg/controller/certificates/cleaner).
"""

from __future__ import annotations

import contextlib
import time

from bridgehead.client import ApiClient, Done, EventRecorder, Outcome, Requeue, WorkQueue
from bridgehead.client.errors import Conflict, NotFound
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.certificates import CertificateSigningRequest
from bridgehead.objects.kinds import CERTIFICATE_SIGNING_REQUESTS
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.times import parse_time

HANDLED_SECONDS, PENDING_SECONDS = 3600.0, 24 * 3600.0


class CertificateCleaner:
    """Deletes requests when their time has come. The keys of its queue are their names."""

    def __init__(self, client: ApiClient, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._requests = informers.get(CERTIFICATE_SIGNING_REQUESTS)
        self._queue: WorkQueue[str] = WorkQueue("certificate cleaning")
        self._requests.on_change(self._changed)

    async def run(self) -> None:
        await self._requests.wait_synced()
        await self._queue.run(self.reconcile)

    def _changed(self, old: CertificateSigningRequest | None, new: CertificateSigningRequest | None) -> None:
        if new is not None:
            self._queue.add(new.metadata.name)

    async def reconcile(self, name: str) -> Outcome:
        """Delete one request if it is old enough, else wait. Raises ClientError."""
        request = self._requests.get(ObjectKey("", name))
        if request is None:
            return Done()
        due = deletion_time(request)
        if due is None:
            return Done()
        now = time.time()
        if due > now:
            return Requeue(due - now)
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(CERTIFICATE_SIGNING_REQUESTS, name, uid=request.metadata.uid)
        return Done()


def deletion_time(request: CertificateSigningRequest) -> float | None:
    """Return when to delete a request (seconds since the epoch); None: it waits for its signer."""
    times = []
    for condition in request.status.conditions:
        is_handled = condition.type in ("Denied", "Failed") or (
            condition.type == "Approved" and request.status.certificate
        )
        if is_handled and condition.last_update_time:
            times.append(parse_time(condition.last_update_time) + HANDLED_SECONDS)
    if times:
        return min(times)
    created = request.metadata.creation_timestamp
    if not request.status.conditions and created:
        return parse_time(created) + PENDING_SECONDS
    return None
