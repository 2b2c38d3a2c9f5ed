"""Fences, with an etcd that loses answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bridgehead.storage.etcd import fences
from bridgehead.storage.etcd.client.errors import NoSpace, OutcomeUnknown, Unavailable
from bridgehead.storage.etcd.client.records import TxnResult
from bridgehead.storage.etcd.client.requests import create_revision_equals, put
from bridgehead.storage.etcd.fences import Fences


class Etcd:
    """Answers transactions by `outcomes`, in turn, then all of them with revision 7."""

    def __init__(self, *outcomes: Exception) -> None:
        self.outcomes = list(outcomes)
        self.sent: list[Sequence[Any]] = []

    async def txn(self, *arguments: Any) -> TxnResult:
        self.sent.append(arguments)
        if self.outcomes:
            raise self.outcomes.pop(0)
        return TxnResult(7, True, [])


async def lease(seconds: int) -> int:
    return 5


def fences_of(etcd: Any) -> Fences:
    return Fences(etcd, b"/registry/bridgehead/", lease)


async def test_a_closed_fence_is_there_and_new_writes_have_another() -> None:
    etcd = Etcd()
    opened = fences_of(etcd)
    first = opened.current
    assert first.key.startswith(b"/registry/bridgehead/fences/")
    assert first.is_open == create_revision_equals(first.key, 0)
    assert await opened.close(first) == 7
    assert etcd.sent == [([], [put(first.key, b"", lease=5)])]
    assert opened.current.key != first.key


async def test_a_fence_is_closed_once_for_all_who_wait() -> None:
    etcd = Etcd()
    opened = fences_of(etcd)
    first = opened.current
    assert (await opened.close(first), await opened.close(first)) == (7, 7)
    second = opened.current
    await opened.close(first)
    assert opened.current is second
    assert len(etcd.sent) == 1


async def test_a_fence_is_written_again_when_its_answer_is_lost() -> None:
    etcd = Etcd(OutcomeUnknown("lost"), Unavailable("no member answers"), OutcomeUnknown("lost"))
    opened = fences_of(etcd)
    assert await opened.close(opened.current) == 7
    assert len(etcd.sent) == 4


async def test_a_fence_that_cannot_be_closed_is_an_error_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = fences_of(Etcd(NoSpace("full")))
    first = opened.current
    for _ in range(2):
        with pytest.raises(NoSpace):
            await opened.close(first)
    monkeypatch.setattr(fences, "_CLOSING_SECONDS", 0.05)
    away = fences_of(Etcd(*[OutcomeUnknown("lost")] * 1000))
    with pytest.raises(Unavailable, match="has not accepted a write in time"):
        await away.close(away.current)
