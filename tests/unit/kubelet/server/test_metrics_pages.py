"""The kubelet's pages of metrics: measurements for several scrapers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bridgehead.kubelet.metrics.operations import KubeletMetrics, ProbeMetrics
from bridgehead.kubelet.server.metrics_pages import MetricsPages
from bridgehead.objects.core import Pod


class MeasuredKubelet:
    """A kubelet without pods, whose runtime answers when `answers` is set."""

    node_name = "node1"

    def __init__(self) -> None:
        self.runtime: Any = self
        self.asked = 0
        self.answers = asyncio.Event()

    def pods(self) -> list[Pod]:
        return []

    def claims(self) -> list[tuple[str, str, str]]:
        return []

    async def list_containers(self) -> list[Any]:
        self.asked += 1
        await self.answers.wait()
        return []


async def test_a_measurement_goes_on_when_its_scraper_leaves() -> None:
    """A second one at the same time would count the processes that have ended twice."""
    kubelet = MeasuredKubelet()
    pages = MetricsPages(kubelet, KubeletMetrics(), ProbeMetrics())
    leaving = asyncio.create_task(pages.resource(""))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    staying = [asyncio.ensure_future(pages.by_path[path]("")) for path in ("/metrics/resource", "/metrics/cadvisor")]
    await asyncio.sleep(0)
    kubelet.answers.set()
    resource, cadvisor = await asyncio.gather(*staying)
    assert b"node_cpu_usage_seconds_total " in resource[0]
    assert b"machine_cpu_cores " in cadvisor[0]
    assert kubelet.asked == 1
