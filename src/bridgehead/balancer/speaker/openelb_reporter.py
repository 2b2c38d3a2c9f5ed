"""Records OpenELB's Events about announcements: `openelb_events.py` decides about them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

from bridgehead.objects.meta import ObjectKey

from ..interface_names import find_link
from ..view import ClusterView, Publication
from .announcer import Observer
from .openelb_events import OpenElbEvents, Report, interface_of, missing_interface


class OpenElbReporter:
    """Follows announcements.

    `record_about_eip` gets the name of an Eip, and the type, the reason and the message of an Event about it.
    """

    def __init__(self, observer: Observer, record_about_eip: Callable[[str, Any, str, str], None]) -> None:
        self._observer = observer
        self._record_about_eip = record_about_eip
        self._events = OpenElbEvents()
        self._missing: set[str] = set()  # Eips whose interface this node lacks, as reported

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> None:
        for report in self._events.update(view, publications, changed):
            self._record(report)
        missing = {}
        for pool in view.configuration.pools:
            interface = interface_of(pool) if pool.source == "openelb" else ""
            if interface and not find_link(interface):
                missing[pool.name] = missing_interface(pool, view.this_node)
        for name in missing.keys() - self._missing:
            self._record(missing[name])
        self._missing = set(missing)

    def _record(self, report: Report) -> None:
        if isinstance(report.about, str):
            self._record_about_eip(report.about, report.type, report.reason, report.message)
        else:
            self._observer.record(report.about, type=report.type, reason=report.reason, message=report.message)

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()
