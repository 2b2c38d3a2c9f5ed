"""The parts of a speaker, put together. `cli/speaker.py` runs it."""

from __future__ import annotations

import asyncio

from bridgehead.client import ApiClient
from bridgehead.pages import Routes

from ..detection.detector import Detector
from ..layer2.announcer import Layer2Announcer
from .agent import SpeakerAgent, SpeakerOptions
from .announcer import Announcer, Observer
from .l2_statuses import L2Statuses
from .metrics import SpeakerMetrics
from .pages import speaker_routes


class Speaker:
    """A speaker. `interfaces`: the only ones that layer 2 uses; empty: all that lead to a network."""

    def __init__(
        self, client: ApiClient, detector: Detector, options: SpeakerOptions, interfaces: tuple[str, ...] = ()
    ) -> None:
        def make_announcers(observer: Observer) -> list[Announcer]:
            self.layer2 = Layer2Announcer(observer, interfaces=interfaces, serves_vrrp=True)
            return [self.layer2]

        self.agent = SpeakerAgent(client, detector, options, make_announcers)
        self.metrics = SpeakerMetrics(self.agent)
        self.metrics.add_layer2(self.layer2.responder)
        self._statuses = L2Statuses(
            client, options.node_name, options.namespace, lambda node: node in self.agent.view.members
        )
        self.agent.on_held.append(self._statuses.set_held)

    def routes(self) -> Routes:
        """Return the HTTP pages."""
        return speaker_routes(self.agent, self.metrics)

    async def run(self) -> None:
        """Announce until cancelled. Raises DetectorEnded."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.agent.run())
            tasks.create_task(self._statuses.run())
