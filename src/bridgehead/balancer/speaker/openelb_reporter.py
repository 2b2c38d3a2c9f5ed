"""Records OpenELB's Events about announcements: `openelb_events.py` decides about them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from bridgehead.balancer.announcer import UpdateResult
from bridgehead.balancer.interface_names import find_link
from bridgehead.balancer.view import ClusterView, Publication
from bridgehead.objects.meta import ObjectKey

from .openelb_events import OpenElbEvents, interface_of, missing_interface


class OpenElbReporter:
    """Follows announcements."""

    def __init__(self) -> None:
        self._events = OpenElbEvents()
        self._missing: set[str] = set()  # Eips whose interface this node lacks, as reported

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> UpdateResult:
        events = self._events.update(view, publications, changed)
        missing = {}
        for pool in view.configuration.pools:
            interface = interface_of(pool) if pool.source == "openelb" else ""
            if interface and not find_link(interface):
                missing[pool.name] = missing_interface(pool, view.this_node)
        events += [missing[name] for name in missing.keys() - self._missing]
        self._missing = set(missing)
        return UpdateResult(events=events)

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()
