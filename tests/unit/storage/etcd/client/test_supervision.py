"""Supervision of connections to members whose answers the tests choose."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from bridgehead.storage.etcd.client import supervision
from bridgehead.storage.etcd.client.connection import Pending
from bridgehead.storage.etcd.client.failures import CallFailed, error_of
from bridgehead.storage.etcd.client.records import Status
from bridgehead.storage.etcd.client.supervision import Supervision

URL = "http://10.0.0.1:2379"
LONG_AGO = time.monotonic() - 3600


def status(*, leader: int = 1, term: int = 3) -> Status:
    return Status(URL, "3.4.23", 0, 0, leader, 1, 1, term, False, (), 9)


class Member:
    """A connection as the supervision sees it. `answers` returns each status, or raises what the call fails with."""

    def __init__(self, answers: Callable[[], Status]) -> None:
        self.answers = answers
        self.asked = 0
        self.has_other = False
        self.last_answer = time.monotonic()
        self.watches = 0
        self.oldest: Pending | None = None
        self.is_closed = False
        self.reason = ""
        self.given_up: list[tuple[int, str]] = []

    async def status(self, timeout: float) -> Status:
        self.asked += 1
        return self.answers()

    async def close(self, reason: str) -> None:
        self.is_closed, self.reason = True, reason

    def give_up_calls_before(self, term: int, reason: str) -> None:
        self.given_up.append((term, reason))
        self.oldest = None

    async def ask_others(self) -> bool:
        return self.has_other


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LOOK_SECONDS", "_ARRIVAL_SECONDS"):
        monkeypatch.setattr(supervision, name, 0.0)


async def supervise(member: Any, until: Callable[[], bool]) -> None:
    task = asyncio.create_task(Supervision(member.ask_others).run(member))
    async with asyncio.timeout(30):
        while not until():  # noqa: ASYNC110 - many things may change it
            await asyncio.sleep(0)
    task.cancel()


def silent() -> Status:
    raise CallFailed("Deadline Exceeded", error_of("DEADLINE_EXCEEDED", "Deadline Exceeded", URL))


def pending(term: int) -> Pending:
    return Pending(None, LONG_AGO, term)


async def test_a_silent_member_is_left_when_another_one_answers() -> None:
    member = Member(silent)
    member.oldest = pending(3)
    await supervise(member, lambda: member.asked > 3)
    assert not member.is_closed  # none answers: the machine is busy
    member.has_other = True
    await supervise(member, lambda: member.is_closed)
    assert member.reason == "the member does not answer"


async def test_a_member_that_is_silent_for_long_is_left() -> None:
    member = Member(silent)
    member.watches, member.last_answer = 1, LONG_AGO
    await supervise(member, lambda: member.is_closed)


async def test_a_member_without_a_leader_is_left_when_another_one_has_it() -> None:
    member = Member(lambda: status(leader=0))
    member.oldest = pending(3)
    await supervise(member, lambda: member.asked > 3)
    assert not member.is_closed  # there is an election
    member.has_other = True
    await supervise(member, lambda: member.is_closed)
    assert "has no leader" in member.reason


async def test_calls_of_an_earlier_leader_are_given_up() -> None:
    member = Member(lambda: status(term=4))
    member.oldest = pending(4)
    await supervise(member, lambda: member.asked > 3)
    assert member.given_up == []
    member.oldest = pending(3)
    await supervise(member, lambda: bool(member.given_up))
    assert member.given_up == [(4, "etcdserver: leader changed")]
    assert not member.is_closed


async def test_calls_wait_for_an_election() -> None:
    member = Member(lambda: status(leader=0, term=5))
    member.oldest = pending(3)
    await supervise(member, lambda: member.asked > 3)
    assert member.given_up == []


async def test_a_member_that_refuses_the_status_is_alive() -> None:
    def refuse() -> Status:
        text = "etcdserver: user name is empty"
        raise CallFailed(text, error_of("INVALID_ARGUMENT", text, URL))

    member = Member(refuse)
    member.has_other, member.watches, member.last_answer = True, 1, LONG_AGO
    member.oldest = pending(3)
    await supervise(member, lambda: member.asked > 3)
    assert not member.is_closed


async def test_members_are_not_asked_when_nobody_waits() -> None:
    member = Member(status)
    looked = 0

    def looks() -> bool:
        nonlocal looked
        looked += 1
        return looked > 50

    member.last_answer = LONG_AGO
    await supervise(member, looks)
    assert member.asked == 0
    member.watches = 1
    await supervise(member, lambda: member.asked > 0)
