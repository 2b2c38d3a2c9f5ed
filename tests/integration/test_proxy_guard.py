"""Other programs change our rules in the real kernel: repaired at once, and the log names the program."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

from bridgehead.objects.kinds import ENDPOINT_SLICES, SERVICES
from bridgehead.proxy.mode import Mode
from bridgehead.proxy.mode_choice import open_mode
from tests.integration.namespaced import in_namespace, sh
from tests.unit.proxy.agent_world import ScriptedApi, eventually, running, service, slice_of

pytestmark = [pytest.mark.integration, pytest.mark.needs("nft")]

needs_iptables = pytest.mark.needs("iptables-legacy")


class Lines(logging.Handler):
    """The logged lines."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        logging.getLogger("bridgehead").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def count(self, part: str) -> int:
        return sum(part in text for text in self.texts)


CHANGES = {
    "nftables": (
        "nft flush ruleset",
        "nft delete element ip bridgehead endpoints '{ 10.96.0.2 . tcp . 80 . 1:1 }'",
        "nft add rule ip bridgehead nat-output drop",
        "nft insert rule ip bridgehead nat-prerouting accept",
    ),
    "userspace": ("nft flush ruleset",),
    "iptables-nft": (
        "nft flush ruleset",
        "iptables-nft -t nat -F",
        "iptables-nft -t nat -D PREROUTING 1",
        "iptables-nft -t nat -I KUBE-SERVICES -j ACCEPT",
        "iptables-nft -t nat -N KUBE-SVC-AAAAAAAAAAAAAAAA",
    ),
    "iptables-legacy": ("iptables-legacy -t nat -F", "iptables-legacy -t nat -I KUBE-SERVICES -j ACCEPT"),
}


def listing(mode: str) -> str:
    """Our rules, in an order independent of their creation."""
    variant = mode.partition("-")[2]
    command = f"iptables-{variant}-save; ip6tables-{variant}-save" if variant else "nft --stateless list ruleset"
    lines = sh(command).splitlines()
    return "\n".join(sorted(re.sub(r"\[[0-9:]*\]", "", line) for line in lines if not line.startswith("#")))


@needs_iptables
@pytest.mark.parametrize("name", CHANGES)
@in_namespace
async def test_foreign_changes_are_repaired(name: str) -> None:
    api, lines = ScriptedApi(), Lines()
    for number in range(3):
        api.put(SERVICES, service(f"s{number}", f"10.96.0.{number + 1}"))
        api.put(ENDPOINT_SLICES, slice_of(f"s{number}", "10.244.1.1", "10.244.1.2"))
    mode_name, _, variant = name.partition("-")
    if variant:
        sh(f"iptables-{variant} -t mangle -N KUBE-IPTABLES-HINT")
    async with open_mode(mode_name) as mode:
        if variant:
            sh(f"iptables-{variant} -t mangle -X KUBE-IPTABLES-HINT")
        await _change_and_wait(name, api, mode, lines)


async def _change_and_wait(name: str, api: ScriptedApi, mode: Mode, lines: Lines) -> None:
    is_reported = "legacy" not in name
    async with running(api, mode) as agent:
        before = listing(name)
        for command in CHANGES[name]:
            if is_reported:  # the author of a change during a check is unknown: wait for the check after our own change
                await eventually(lambda: agent._guard.due_in() > 5 and agent._guard._during_check is None)
            lines.texts.clear()
            await run(command)
            await eventually(lambda: lines.count("changed our rules; repaired ") > 0)
            await eventually(lambda: listing(name) == before)
            who = f"{command.split()[0]} (process " if is_reported else "another program"
            assert lines.texts[0].startswith(who), lines.texts


@in_namespace
async def test_repeated_foreign_changes_are_logged_and_repaired_more_slowly() -> None:
    api, lines = ScriptedApi(), Lines()
    api.put(SERVICES, service("s", "10.96.0.1"))
    async with open_mode("nftables") as mode, running(api, mode) as agent:
        while not lines.count("the next one waits"):
            repairs = lines.count("; repaired ")  # it may be repaired before we know that the command has ended
            await run("nft flush ruleset")
            await eventually(lambda repairs=repairs: lines.count("; repaired ") > repairs)
        assert agent.metrics.repairs._value.get() == 6
        assert 0.5 < agent._guard.due_in() <= 1.0 or lines.texts[-1].endswith("waits 1 s")


@in_namespace
async def test_an_unchanged_ruleset_causes_no_work() -> None:
    api = ScriptedApi()
    api.put(SERVICES, service("s", "10.96.0.1"))
    async with open_mode("nftables") as mode, running(api, mode) as agent:
        await eventually(lambda: agent._guard.due_in() > 25)
        due = agent._guard._due
        await run("nft add table ip others; nft add chain ip others c")
        await asyncio.to_thread(sh, "nft add rule ip others c accept")
        await eventually(lambda: agent._guard._saw_others)
        assert agent._guard._due == due, "what others do with their own tables is nothing to us"


async def run(line: str) -> None:
    """Run as another process, while this one goes on."""
    process = await asyncio.create_subprocess_shell(line)
    assert await process.wait() == 0
