"""The ConfigurationState object of one component: whether the configuration that it sees is valid.

The controller and each speaker have one. An object that another client deletes or changes is restored. Source: MetalLB
0.15, its names, labels, conditions and reasons.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from bridgehead.backoff import Backoff
from bridgehead.client import ApiClient, Informer
from bridgehead.client.errors import AlreadyExists, ClientError
from bridgehead.objects.meta import ObjectKey, find_condition
from bridgehead.objects.metallb import CONFIGURATION_STATES, ConfigurationState
from bridgehead.objects.times import format_time

log = logging.getLogger(__name__)

COMPONENT_LABEL: Final = "metallb.io/component-type"
NODE_LABEL: Final = "metallb.io/node-name"
SPEAKER_CONDITION: Final = "configReconcilerValid"
CONTROLLER_CONDITION: Final = "poolReconcilerValid"
_DELAYS: Final = (0.2, 5.0)  # seconds: first and longest between attempts

Json = dict[str, Any]


class ConfigurationStateReporter:
    """Keeps the object equal to the last judgement.

    `condition`: the type of its condition. `owner` returns the ownerReference of a new object, None for no owner.
    """

    def __init__(
        self,
        client: ApiClient,
        key: ObjectKey,
        labels: Mapping[str, str],
        condition: str,
        owner: Callable[[], Json | None] = lambda: None,
    ) -> None:
        self._client = client
        self._key = key
        self._labels = dict(labels)
        self._condition = condition
        self._owner = owner
        self._error: str | None = None  # None: nothing has been judged yet
        self._wake = asyncio.Event()
        self._informer: Informer[ConfigurationState] = Informer(
            client, CONFIGURATION_STATES, key.namespace, field_selector=f"metadata.name={key.name}", few=True
        )

    def report(self, error: str) -> None:
        """Take the judgement: why the configuration is invalid, "" if it is valid."""
        self._error = error
        self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        self._informer.on_change(lambda old, new: self._wake.set())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run(), name="informer of the ConfigurationState")
            await self._informer.wait_synced()
            tasks.create_task(self._keep(), name="ConfigurationState")

    async def _keep(self) -> None:
        backoff = Backoff(*_DELAYS)
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._write()
                backoff.reset()
            except ClientError as error:  # also while the definition is missing
                log.debug("cannot write the ConfigurationState, trying again: %s", error)
                await asyncio.sleep(backoff.next())
                self._wake.set()

    async def _write(self) -> None:
        if self._error is None:
            return
        found = self._informer.get(self._key)
        status = state_status(found, self._condition, self._error, time.time())
        if status is None:
            return
        if found is None:
            with contextlib.suppress(AlreadyExists):  # the watch has not reported it yet
                await self._client.create(CONFIGURATION_STATES, self._object())
        name, namespace = self._key.name, self._key.namespace
        await self._client.patch(CONFIGURATION_STATES, name, namespace, {"status": status}, subresource="status")

    def _object(self) -> Json:
        owner = self._owner()
        metadata: Json = {"name": self._key.name, "namespace": self._key.namespace, "labels": self._labels}
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        kind = CONFIGURATION_STATES
        return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}


def state_status(found: ConfigurationState | None, condition: str, error: str, now: float) -> Json | None:
    """Return the status that an object should have; None if it has it. `now`: epoch seconds."""
    message = f"configuration error: {error}" if error else ""
    status = "False" if error else "True"
    reason = "ConfigurationError" if error else "Reconciled"
    result = "Invalid" if error else "Valid"
    before = None if found is None else find_condition(found.status.conditions, condition)
    if found is not None and before is not None:
        summary = found.status.result, found.status.error_summary
        if (*summary, before.status, before.reason, before.message) == (result, message, status, reason, message):
            return None
    since = before.last_transition_time if before is not None and before.status == status else None
    entry = {"type": condition, "status": status, "reason": reason, "message": message}
    entry["lastTransitionTime"] = since or format_time(now)
    return {"result": result, "errorSummary": message or None, "conditions": [entry]}
