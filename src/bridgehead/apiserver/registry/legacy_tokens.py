"""Uses of the tokens in Secrets: each Secret has the date of the last one in a label.

A ConfigMap has the date since which uses are recorded. Source: Kubernetes pkg/serviceaccount/legacy.go,
pkg/controlplane/controller/legacytokentracking.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from bridgehead.apiserver.access.token_claims import LAST_USED
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage import StorageError

from .registry import Registry
from .write import Write

log = logging.getLogger(__name__)

TRACKING = "kube-apiserver-legacy-service-account-token-tracking"


def date_of(now: float) -> str:
    """Return the date of a time (seconds since the epoch) in UTC, such as 2026-11-23."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")


class LegacyTokenUses:
    """Records uses, at most one write for each Secret and day."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._writes: dict[tuple[str, str], asyncio.Task[None]] = {}

    def record(self, secret: JsonObject) -> None:
        """Record a use of the Secret's token, in the background. Called at each use."""
        metadata = secret["metadata"]
        today = date_of(self._registry.clock())
        key = (metadata["namespace"], metadata["name"])
        if metadata.get("labels", {}).get(LAST_USED) == today or key in self._writes:
            return
        self._writes[key] = task = asyncio.create_task(self._write(*key, today))
        task.add_done_callback(lambda _: self._writes.pop(key, None))

    async def _write(self, namespace: str, name: str, today: str) -> None:
        secrets = self._registry.find("", "v1", "secrets")
        if secrets is None:
            return

        def label(old: JsonObject) -> JsonObject:
            metadata = old["metadata"]
            return {**old, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), LAST_USED: today}}}

        try:
            await self._registry.update(Write(secrets, namespace, name), label)
        except (ApiStatus, StorageError) as error:
            log.warning("cannot record the use of the token in secret %s/%s: %s", namespace, name, error)
