import asyncio

import msgspec
import pytest

from bridgehead.insight.dashboard import flow_watch
from bridgehead.insight.dashboard.flow_watch import MOST_PATHS, Count, FlowWatch, message_of, rates_of
from bridgehead.insight.dashboard.history import History

WEB, API = "default/web", "default/api"


def test_a_message_counts_open_new_and_known_connections():
    before = Count(paths={(WEB, "10.0.0.1"): frozenset({1, 2})})
    count = Count(
        paths={(WEB, "10.0.0.1"): frozenset({2, 3, 4}), (API, "10.0.0.2"): frozenset({9})}, ended=frozenset({2})
    )
    message = msgspec.json.decode(message_of(before, count, 5.0))
    assert message["open"] == {WEB: 2, API: 1}
    assert message["paths"] == [[WEB, "10.0.0.1", 2, 2, 3], [API, "10.0.0.2", 1, 1, 1]]


def test_nothing_is_new_in_the_first_count():
    count = Count(paths={(WEB, "10.0.0.1"): frozenset({1})})
    assert msgspec.json.decode(message_of(None, count, 5.0))["paths"] == [[WEB, "10.0.0.1", 1, 0, 1]]


def test_a_message_is_bounded():
    count = Count(paths={(WEB, str(number)): frozenset({number}) for number in range(MOST_PATHS + 10)})
    assert len(msgspec.json.decode(message_of(None, count, 5.0))["paths"]) == MOST_PATHS


def test_rates_are_of_new_connections_and_of_those_without_an_answer():
    before = Count(paths={(WEB, "a"): frozenset({1})}, failing={WEB: frozenset({1})})
    count = Count(
        paths={(WEB, "a"): frozenset({1, 2, 3}), (WEB, "b"): frozenset({4})}, failing={WEB: frozenset({1, 2})}
    )
    assert rates_of(before, count, 2.0) == ({WEB: 1.5}, {WEB: 0.5})


def test_a_service_whose_connections_are_forgotten_has_a_rate_of_zero():
    assert rates_of(Count(paths={(WEB, "a"): frozenset({1})}), Count(), 2.0) == ({WEB: 0.0}, {WEB: 0.0})


class Page:
    def __init__(self):
        self.messages = asyncio.Queue()

    def offer_flows(self, message):
        self.messages.put_nowait(message)


async def test_connections_are_counted_only_while_a_page_looks(monkeypatch):
    monkeypatch.setattr(flow_watch, "SECONDS", 0.0)
    counted = asyncio.Event()
    counts = 0

    async def count():
        nonlocal counts
        counts += 1
        counted.set()
        return Count(paths={(WEB, "a"): frozenset({counts})})

    history = History()
    watch = FlowWatch(count, history)
    page = Page()
    running = asyncio.create_task(watch.run())
    await asyncio.sleep(0)
    assert counts == 0
    watch.look(page, True)
    async with asyncio.timeout(10):
        await page.messages.get()
        await page.messages.get()
    watch.look(page, False)
    assert watch.pages == ()
    counted.clear()
    for _ in range(20):
        await asyncio.sleep(0)
    seen = counts
    for _ in range(20):
        await asyncio.sleep(0)
    assert counts <= seen + 1  # one may have been under way
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
