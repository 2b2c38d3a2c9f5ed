"""Supervision of a connection: whether its member answers and has a leader, and whether calls still have one.

A member that forwards a write to a leader that is gone, or that has lost the others, does not answer for seconds (its
time for a request is 5 s and two elections). All of it shows in the members' statuses, which they answer at once, each
for itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from .connection import Connection
from .failures import LEADER_CHANGED, CallFailed, is_from_etcd
from .records import Status

_LOOK_SECONDS = 0.25
# The member is asked for its status when a call has waited for so long, or a watch has been silent. An idle connection
# would be found dead by gRPC's keepalive only, after 7.5 s, and a process that is stopped not at all.
_PENDING_SECONDS = 0.5
_SILENCE_SECONDS = 1.5
# A member that does not answer for this time is left if another one does. On a machine that is too busy, none does.
_ANSWER_SECONDS = 1.0
# A member that does not answer for this time is left in any case.
_LOST_SECONDS = 4.0
# Answers of the new leader that are on their way arrive within this time.
_ARRIVAL_SECONDS = 0.1


class Supervision:
    """Supervises one member's connections. `has_other` returns whether another member answers and has a leader."""

    def __init__(self, has_other: Callable[[], Awaitable[bool]]) -> None:
        self._has_other = has_other

    async def run(self, connection: Connection) -> None:
        """Supervise until the connection is closed."""
        was_leaderless = False
        while not connection.is_closed:
            await asyncio.sleep(_LOOK_SECONDS)
            if not _is_due(connection):
                was_leaderless = False
                continue
            status = await self._status(connection)
            if status is None:
                continue
            if not status.leader:
                # All members are without a leader for a moment in an election, and learn of the new one in turn.
                if was_leaderless and await self._has_other():
                    await connection.close("the member has no leader, and another one has")
                was_leaderless = True
                continue
            was_leaderless = False
            if connection.oldest is not None and connection.oldest.term < status.raft_term:
                await asyncio.sleep(_ARRIVAL_SECONDS)
                connection.give_up_calls_before(status.raft_term, LEADER_CHANGED)

    async def _status(self, connection: Connection) -> Status | None:
        """Return the member's status; None if there is none. Then the connection may be closed."""
        try:
            return await connection.status(_ANSWER_SECONDS)
        except CallFailed as failure:
            if is_from_etcd(failure.details):
                connection.last_answer = time.monotonic()
                return None
        if time.monotonic() - connection.last_answer > _LOST_SECONDS or await self._has_other():
            await connection.close("the member does not answer")
        return None


def _is_due(connection: Connection) -> bool:
    """Whether the member is to be asked for its status."""
    now, oldest = time.monotonic(), connection.oldest
    if oldest is not None and now - oldest.began >= _PENDING_SECONDS:
        return True
    return connection.watches > 0 and now - connection.last_answer >= _SILENCE_SECONDS
