"""A process that releases the Lease of a leader that has crashed, so that others need not wait for its expiry.

The guardian is forked before the leader works. It reads from a pipe whose other end only the leader has: the kernel
closes that end when the leader's process has ended, in whatever way. A leader that stopped in order dismisses the
guardian. When both end together, such as with their machine or as all processes of a container, the Lease expires.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import NoReturn

from bridgehead.client import ApiClient, ClientConfig
from bridgehead.client.errors import ClientError, Conflict
from bridgehead.client.leader_election import release_lease
from bridgehead.network.syscalls import set_process_name

from .leader_election import Election

_DISMISSED = b"."
_RETRY_SECONDS = 0.5
_NAME = "lease-guardian"


def start_guardian(config: ClientConfig, user_agent: str, election: Election) -> Callable[[], None]:
    """Fork the guardian of this process. Return the function that dismisses it. To be called without an event loop."""
    its_end, own_end = os.pipe()  # both are closed in programs that this process starts
    if not os.fork():
        os.close(own_end)
        _guard(its_end, config, user_agent, election)
    os.close(its_end)

    def dismiss() -> None:
        with contextlib.suppress(OSError):
            os.write(own_end, _DISMISSED)

    return dismiss


def _guard(pipe: int, config: ClientConfig, user_agent: str, election: Election) -> NoReturn:
    code = 1
    try:
        # Signals to the group of the leader are for the leader, whose end ends the guardian.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        with contextlib.suppress(OSError):
            set_process_name(_NAME, f"bridgehead {_NAME} {election.key} {election.identity}")
        if os.read(pipe, 1) != _DISMISSED:
            asyncio.run(_release(config, user_agent, election))
        code = 0
    finally:
        os._exit(code)  # the stack, and what is open, are the leader's


async def _release(config: ClientConfig, user_agent: str, election: Election) -> None:
    """Release the Lease, with tries until it would have expired."""
    end = time.monotonic() + election.timings.lease_duration
    async with ApiClient(config, user_agent=user_agent) as client:
        while time.monotonic() < end:
            try:
                await release_lease(client, election.key, election.identity)
            except Conflict:
                continue  # a renewal that was under way
            except ClientError:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            return
