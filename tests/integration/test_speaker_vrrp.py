"""Whole speakers that announce by VRRP, with keepalived: an Eip of protocol vip, external IPs, and faults."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.objects import openelb
from bridgehead.objects.kinds import SERVICES
from bridgehead.objects.metallb import IP_ADDRESS_POOLS

from .api_world import until
from .namespaced import in_namespace, sh
from .speaker_world import (
    CLIENT,
    NAMESPACE,
    NODES_IN_WORLD,
    SpeakerWorld,
    answered_by,
    fault,
    run_on,
    speaker_world,
    vip,
)
from .test_network_handover import PORT, check_carried_on, listen

pytestmark = [pytest.mark.integration, pytest.mark.needs("keepalived")]

BOTH = f"{vip(10)},{vip(11)}"
VRRP = 112  # protocol number (RFC 5798)


def addresses_of(node: str) -> str:
    return sh(f"ip -n {node} -br address show dev eth0")


def masters(*addresses: str) -> dict[str, str]:
    """Return the nodes whose keepalived has configured each address."""
    texts = {node: addresses_of(node) for node in NODES_IN_WORLD}
    found = {address: [node for node in NODES_IN_WORLD if f"{address}/32" in texts[node]] for address in addresses}
    return {address: ",".join(nodes) for address, nodes in found.items() if nodes}


async def until_master(addresses: str, *nodes: str) -> str:
    """Wait until these addresses, separated by commas, are on one node alone, one of `nodes` if given; return it."""

    async def is_settled() -> str:
        found = masters(*addresses.split(","))
        holders = set(found.values())
        is_one = len(found) == len(addresses.split(",")) and len(holders) == 1 and holders <= set(NODES_IN_WORLD)
        return holders.pop() if is_one and (not any(nodes) or holders <= set(nodes)) else ""

    master: str = await until(is_settled)
    return master


async def add_eip(world: SpeakerWorld) -> None:
    """Have an Eip of protocol vip in the place of the world's pool."""
    await world.client.delete(IP_ADDRESS_POOLS, "pool", NAMESPACE)
    spec: dict[str, Any] = {"address": f"{vip(10)}-{vip(12)}", "protocol": "vip", "interface": "can_reach:10.0.0.1"}
    await world.create(openelb.EIPS, {"metadata": {"name": "vips"}, "spec": spec})


def flood() -> None:
    """Send advertisements by the thousand that are no VRRP, or of a virtual router that nobody has."""
    choice = random.Random(1)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, VRRP) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(CLIENT))
        for number in range(5000):
            body = choice.randbytes(choice.randrange(60))
            # Version and type, router id, priority, addresses, interval, a checksum that is wrong.
            text = bytes([0x31, choice.randrange(256), 255, 1, 0, 10, 0, 0]) + socket.inet_aton(vip(10))
            with contextlib.suppress(BlockingIOError):
                sock.sendto(text if number % 2 else body, socket.MSG_DONTWAIT, ("224.0.0.18", 0))


def others(node: str) -> tuple[str, ...]:
    return tuple(name for name in NODES_IN_WORLD if name != node)


def living() -> set[int]:
    """Return the process ids of all processes without those that only wait for their parents."""
    rows = [line.split() for line in sh("ps -eo pid,state").splitlines()[1:]]
    return {int(pid) for pid, state in rows if state != "Z"}


async def until_ended(pids: Collection[int]) -> None:
    async def is_ended() -> bool:
        return not set(pids) & living()

    await until(is_ended)


def keepalived_of(world: SpeakerWorld, node: str) -> list[int]:
    """Return the process ids of a speaker's keepalived: of the first process, and of the one that speaks VRRP."""
    rows = [line.split() for line in sh("ps -eo pid,ppid,comm").splitlines()]
    parents = {int(row[0]): int(row[1]) for row in rows if row[2].startswith("keepalived")}
    speaker = world.speakers[node].process.pid
    first = [pid for pid, parent in parents.items() if parent == speaker]
    return first + [pid for pid, parent in parents.items() if parent in first]


@contextlib.contextmanager
def connections() -> Iterator[Callable[[str], tuple[socket.socket, socket.socket]]]:
    """Let all nodes accept TCP connections at an address during the block, and track them, as service proxies do.

    The yielded function connects to the address, which a node has to have; it returns both ends.
    """
    with contextlib.ExitStack() as stack:
        servers = {}
        for node in NODES_IN_WORLD:
            run_on(node, "nft", "add table ip t; add chain ip t c { type filter hook prerouting priority 0; }")
            run_on(node, "nft", "add rule ip t c ct state new")
            servers[node] = stack.enter_context(listen(node, 4))

        def connect(node: str) -> tuple[socket.socket, socket.socket]:
            client = stack.enter_context(socket.create_connection((vip(10), PORT), 20))
            server = stack.enter_context(servers[node].accept()[0])
            server.settimeout(20)
            check_carried_on(client, server)
            return client, server

        yield connect


@in_namespace
async def test_addresses_have_one_master_that_changes_when_it_fails():
    async with speaker_world(Path("/run/world")) as world:
        await add_eip(world)
        await world.start_speakers()
        await world.add_service("web", vip(10))
        # An external IP that the Eip holds.
        port = {"port": 8080, "protocol": "UDP"}
        await world.create(
            SERVICES,
            {
                "metadata": {"name": "external", "namespace": "default"},
                "spec": {"externalIPs": [vip(11)], "ports": [port]},
            },
        )
        await world.set_endpoints("external", NODES_IN_WORLD, is_new=True)

        async def priorities() -> dict[int, str]:
            sections = [(await world.read_status(node))["sections"]["vrrp"] for node in NODES_IN_WORLD]
            return {
                group["priority"]: node
                for node, groups in zip(NODES_IN_WORLD, sections, strict=True)
                for group in groups
                if len(group["addresses"]) == 2
            }

        async def have_priorities() -> bool:
            return len(await priorities()) == len(NODES_IN_WORLD)

        await until(have_priorities)
        found = await priorities()
        second = found[sorted(found)[-2]]
        master = await until_master(BOTH, found[max(found)])

        async def is_held() -> bool:
            return await world.holder(vip(10)) == await world.holder(vip(11)) == master

        await until(is_held)

        # A group that has a master gets another address, without another election.
        await world.add_service("later", vip(12))
        await world.until_held(vip(12), master)

        async def answers(*nodes: str) -> bool:
            return await answered_by(vip(10)) in nodes

        async def is_taken_over() -> bool:
            return await answers(*others(master))

        # A master that cannot receive goes on sending advertisements, which must not keep the others from taking over.
        for what in ("black hole", "cannot receive"):
            with fault(world, what, master):
                await until(is_taken_over)
            # The node with the highest priority gets its addresses back, and no other keeps them.
            assert await until_master(BOTH, master) == master

        async def is_back() -> bool:
            return await answers(master)

        await until(is_back)

        flood()
        assert await until_master(BOTH, master) == master
        await until(is_back)

        # A drain: the others take over before the node lets go, and open connections go on, also when the node comes
        # back, and takes the addresses back. On a busy machine, the third node may be the master before the second one
        # is: connections of the drained node go on all the same, but those that begin at the third one need not.
        speaker = world.speakers[master]
        with connections() as connect:
            before = connect(master)
            speaker.signal(signal.SIGTERM)
            await until_master(BOTH, *others(master))
            speaker.process.wait()
            check_carried_on(*before)
            successor = await until_master(BOTH, second)

            async def is_drained() -> bool:
                return await answers(successor)

            await until(is_drained)
            check_carried_on(*before)
            meanwhile = connect(successor)
            world.start_speaker(master)
            await until_master(BOTH, master)
            await until(is_back)
            for connection in (before, meanwhile):
                check_carried_on(*connection)

        # A killed speaker takes its keepalived along, with the addresses, also one that is stopped.
        for stopped in (False, True):
            processes = keepalived_of(world, master)
            for pid in processes if stopped else ():
                os.kill(pid, signal.SIGSTOP)
            world.speakers[master].signal(signal.SIGKILL)
            await until_master(BOTH, *others(master))
            await until_ended(processes)
            world.start_speaker(master)
            await until_master(BOTH, master)

        # A keepalived of which a process is killed or stopped is replaced, and leaves no address behind. A stopped one
        # is killed, so that it cannot go on later.
        for number, which in ((signal.SIGKILL, 1), (signal.SIGSTOP, 0)):
            processes = keepalived_of(world, master)
            os.kill(processes[which], number)

            async def is_replaced(processes: list[int] = processes) -> bool:
                now = keepalived_of(world, master)
                return len(now) == len(processes) and not set(now) & set(processes)

            await until(is_replaced)
            await until_master(BOTH, master)
            await until_ended(processes)

        # Without endpoints, no node has the addresses, or that of a virtual router. A node that learns of it later than
        # the master may be the master for a moment.
        for name in ("web", "external", "later"):
            await world.set_endpoints(name, [])

        async def is_gone() -> bool:
            has_routers = any("169.254.254" in addresses_of(node) for node in NODES_IN_WORLD)
            return not has_routers and masters(vip(10), vip(11), vip(12)) == {}

        await until(is_gone)

        async def are_recorded() -> bool:
            hops, gone = "success to add nexthops [node1, node2, node3]", "delete balancer with no available nodes"
            messages = [message for reason, message in await world.events("web") if reason == "SetBalancer"]
            about_eip = [message for reason, message in await world.events("vips") if reason == "ConfigSpeaker"]
            return (
                hops in messages
                and any(message.startswith(gone) for message in messages)
                and "config openelb vip speaker successfully" in about_eip
            )

        await until(are_recorded)
