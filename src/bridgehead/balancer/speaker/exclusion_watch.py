"""Follows the ConfigMap that names the interfaces which layer 2 leaves out.

Without it, the speaker's own list is in force. A list that cannot be read changes nothing, and gets an Event.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from bridgehead.balancer.layer2.exclusions import CONFIG_MAP_NAME, parse_exclusions
from bridgehead.client import ApiClient, EventRecorder, Informer, reference_to
from bridgehead.objects.core import ConfigMap
from bridgehead.objects.kinds import CONFIG_MAPS

log = logging.getLogger(__name__)


class ExclusionWatch:
    """Calls `on_change` with the pattern of the names to leave out, None without a ConfigMap, after each change."""

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        recorder: EventRecorder,
        on_change: Callable[[re.Pattern[str] | None], None],
    ) -> None:
        self._recorder = recorder
        self._on_change = on_change
        self._informer: Informer[ConfigMap] = Informer(
            client, CONFIG_MAPS, namespace, field_selector=f"metadata.name={CONFIG_MAP_NAME}", few=True
        )
        self._informer.on_change(self._changed)

    async def run(self) -> None:
        """Follow until cancelled."""
        await self._informer.run()

    def _changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        if new is None:
            self._on_change(None)
        elif old is None or old.data != new.data:
            try:
                self._on_change(parse_exclusions(new))
            except ValueError as error:
                log.error("ConfigMap %s: %s; the interfaces stay as they are", new.key, error)
                self._recorder.record(
                    reference_to(new), type="Warning", reason="InvalidConfiguration", message=str(error)
                )
