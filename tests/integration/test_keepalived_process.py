"""keepalived as a child process: its configuration and the changes of it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import shutil
from collections.abc import AsyncIterator

import pytest

from bridgehead.balancer.vrrp.address_groups import OWNER_PRIORITY, Group, GroupKey
from bridgehead.balancer.vrrp.keepalived import Instance, render_configuration
from bridgehead.balancer.vrrp.keepalived_process import KeepalivedProcess
from bridgehead.balancer.workspace import Workspace

from .api_world import until
from .namespaced import in_namespace, sh

pytestmark = [pytest.mark.integration, pytest.mark.needs("keepalived")]


class Node:
    """Groups that keepalived should be the master of, and those that it is the master of, by their router ids."""

    def __init__(self) -> None:
        self.wanted = {1}
        self.masters: set[int] = set()

    def render(self, fifo: str) -> str:
        return render_configuration([instance(number) for number in sorted(self.wanted)], fifo, "root")

    def on_state(self, name: str, is_master: bool) -> None:
        [number] = [number for number in self.wanted if instance(number).group.key.name == name]
        (self.masters.add if is_master else self.masters.discard)(number)

    async def until_masters(self) -> None:
        async def are_masters() -> bool:
            return self.masters == self.wanted

        await until(are_masters)


def instance(number: int) -> Instance:
    address = ipaddress.ip_address(f"10.0.0.{number}")
    group = Group(GroupKey("inside", str(number)), number, 0, OWNER_PRIORITY, (address,))
    return Instance(group, "inside", has_ipv4=True)


@contextlib.asynccontextmanager
async def running(keepalived: KeepalivedProcess) -> AsyncIterator[None]:
    task = asyncio.create_task(keepalived.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def make_keepalived(kind: type[KeepalivedProcess], node: Node, workspace: Workspace) -> KeepalivedProcess:
    sh("ip link add inside type veth peer name outside; ip link set outside up")
    sh("ip link set inside up; ip address add 10.0.0.201/24 dev inside")
    program = shutil.which("keepalived") or ""
    return kind(program, workspace, node.render, node.on_state, lambda: None)


@in_namespace
async def test_a_change_while_the_process_is_being_created_is_not_lost():
    node = Node()

    class Changed(KeepalivedProcess):
        async def _start(self) -> asyncio.subprocess.Process:
            process = await super()._start()
            node.wanted.add(2)
            self.reload()
            return process

    with Workspace() as workspace:
        async with running(make_keepalived(Changed, node, workspace)):
            await node.until_masters()


@in_namespace
async def test_a_configuration_that_keepalived_is_reading_stays_whole():
    node = Node()
    with Workspace() as workspace:
        async with running(keepalived := make_keepalived(KeepalivedProcess, node, workspace)):
            await node.until_masters()
            directory = keepalived._directory
            before = node.render(str(directory / "notifications"))
            with (directory / "keepalived.conf").open() as file:
                node.wanted.add(2)
                keepalived.reload()
                assert file.read() == before
            await node.until_masters()
