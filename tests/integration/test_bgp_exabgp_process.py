"""The ExaBGP process of a speaker when it hangs."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import signal
from pathlib import Path

import pytest

from bridgehead.balancer.bgp.exabgp import SessionSettings, render_settings
from bridgehead.balancer.bgp.exabgp_messages import Request
from bridgehead.balancer.bgp.exabgp_process import ExaBgp

from .namespaced import DEADLINE, in_namespace

pytestmark = pytest.mark.integration

LOOPBACK = ipaddress.ip_address("127.0.0.1")
SETTINGS = SessionSettings(LOOPBACK, LOOPBACK, 1, 64512, 64513, "127.0.0.1", next_hops={4: "127.0.0.1"})


def children() -> set[str]:
    own = os.getpid()
    return set(Path(f"/proc/{own}/task/{own}/children").read_text().split())


@in_namespace
async def test_a_process_that_hangs_is_replaced() -> None:
    exabgp = ExaBgp(ping_seconds=0.2)
    before = children()
    async with asyncio.timeout(DEADLINE / 2):
        channel = await exabgp.open(Request("open", "router", 0, render_settings(SETTINGS)))
        [child] = children() - before
        refused = await exabgp.open(Request("open", "nobody", 0, "nonsense"))
        answer = await refused.answer()
        assert answer is None or answer.kind == "closed"  # the process has started
        with contextlib.suppress(ProcessLookupError):  # a busy machine may have delayed its answers for too long
            os.kill(int(child), signal.SIGSTOP)
        while (answer := await channel.answer()) is not None:
            assert answer.kind in ("connecting", "down")
        assert child not in children()
        again = await exabgp.open(Request("open", "router", 0, render_settings(SETTINGS)))
        assert children() - before != set()
        for one in (refused, again):
            await one.close()
    assert children() == before
