"""Speakers whose processes are killed and stopped at random moments, and an observer of who answers for the addresses.

Three nodes (`speaker_world.py`) announce addresses by layer 2 in both families, by layer 2 with externalTrafficPolicy
Local, by VRRP where keepalived is installed, and to a BGP peer that does not answer. Speakers, failure detectors,
keepalived and ExaBGP are killed, stopped and continued, nodes are cordoned, endpoints move, and ended speakers are
started again, as a kubelet does. Afterwards each address has one holder, and speakers that end leave nothing behind.
`python -m benchmarks.speaker_chaos` runs this for a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import json
import logging
import os
import random
import selectors
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bridgehead.balancer.layer2 import arp, ndp
from bridgehead.network.link_states import LinkStates
from bridgehead.network.packet_sockets import PacketSocket
from bridgehead.network.uapi.if_ether import ETH_P_ARP, ETH_P_IPV6
from bridgehead.objects import metallb, openelb
from bridgehead.objects.kinds import NODES

from .speaker_world import (
    CLIENT,
    NAMESPACE,
    NODES_IN_WORLD,
    Child,
    SpeakerWorld,
    run_on,
    speaker_world,
    until,
    vip,
)

log = logging.getLogger(__name__)

LAYER2 = (vip(10), vip(10, 6), vip(11))
VRRP = vip(12)
PROBE_SECONDS = 0.025
# A machine that did not answer for so long, six requests, is not taken for one that answers all the time.
ACTIVE_SECONDS = 6 * PROBE_SECONDS
# Two nodes may answer for an address while it is handed over (layer2/announcer.py), until a split has healed, and until
# a process that was continued has learned what the others have concluded meanwhile.
ALLOWED_SECONDS = 1.0
LEFT_ALONE_SECONDS = 1.0


class Seen(NamedTuple):
    """An answer. `at`: CLOCK_MONOTONIC. `mac`: the hardware address that the answer names."""

    at: float
    address: str
    mac: str


class Observer:
    """Asks for each address all the time, in a process of its own, from its construction until `stop`."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._child = Child(lambda stopping: _observe(addresses, stopping))

    def stop(self) -> list[Seen]:
        """Return all answers in the order of their arrival."""
        return [Seen(*seen) for seen in json.loads(self._child.stop())]


def _observe(addresses: Sequence[str], stopping: int) -> str:
    with LinkStates() as links:
        (link,) = (link for link in links.all() if link.name == "fabric")
    wanted = {ipaddress.ip_address(address).packed: address for address in addresses}
    seen: list[Seen] = []
    with (
        PacketSocket(link.number, link.name, ETH_P_ARP) as arp_socket,
        PacketSocket(link.number, link.name, ETH_P_IPV6) as ndp_socket,
    ):
        requests = [
            (_request(address, link.mac), ndp_socket if ":" in address else arp_socket) for address in addresses
        ]
        selector = selectors.DefaultSelector()
        for source in (arp_socket, ndp_socket, stopping):
            selector.register(source, selectors.EVENT_READ)
        planned = time.monotonic()
        while True:
            for key, _ in selector.select(max(0.0, planned - time.monotonic())):
                if key.fileobj == stopping:
                    return json.dumps(seen)
                seen += _answers(key.fileobj, wanted)
            if time.monotonic() >= planned:
                planned = time.monotonic() + PROBE_SECONDS
                for frame, sock in requests:
                    sock.send(frame)


def _request(address: str, mac: bytes) -> bytes:
    target = ipaddress.ip_address(address)
    if isinstance(target, ipaddress.IPv6Address):
        return ndp.solicitation(target, mac)
    source = ipaddress.IPv4Address(CLIENT).packed
    return arp.encode(arp.ArpPacket(arp.BROADCAST, True, mac, source, bytes(6), target.packed))


def _answers(sock: object, wanted: dict[bytes, str]) -> Iterator[Seen]:
    assert isinstance(sock, PacketSocket)
    now = time.monotonic()
    for frame in sock.receive(1000):
        reply = arp.decode(frame)
        if reply is not None and not reply.is_request and reply.sender in wanted and reply.target != reply.sender:
            yield Seen(now, wanted[reply.sender], reply.sender_mac.hex(":"))
        advertisement = ndp.decode(frame)
        if advertisement is not None and not advertisement.is_solicitation and advertisement.target in wanted:
            yield Seen(now, wanted[advertisement.target], advertisement.sender_mac.hex(":"))


# --- The judgement --------------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """Something that lasted `seconds`, from `begun` (CLOCK_MONOTONIC) on."""

    seconds: float
    begun: float
    address: str = ""
    macs: tuple[str, ...] = ()


def longest_overlap(seen: Iterable[Seen]) -> Span:
    """Return the longest time in which two machines answered for one address all the time."""
    times: dict[tuple[str, str], list[float]] = {}
    for answer in seen:
        times.setdefault((answer.address, answer.mac), []).append(answer.at)
    active = {key: _active(found) for key, found in times.items()}
    found = [
        Span(min(one[1], other[1]) - max(one[0], other[0]), max(one[0], other[0]), address, (mac, other_mac))
        for ((address, mac), (other_address, other_mac)) in itertools.combinations(active, 2)
        if address == other_address
        for one in active[address, mac]
        for other in active[address, other_mac]
    ]
    return max([Span(0.0, 0.0), *found])


def _active(times: Sequence[float]) -> list[tuple[float, float]]:
    """Return the spans in which a machine answered without a pause."""
    spans: list[tuple[float, float]] = []
    for at in times:
        if spans and at - spans[-1][1] <= ACTIVE_SECONDS:
            spans[-1] = spans[-1][0], at
        else:
            spans.append((at, at))
    return spans


def longest_silence(seen: Sequence[Seen], address: str) -> Span:
    """Return the longest time between two answers for an address."""
    times = [answer.at for answer in seen if answer.address == address]
    spans = (Span(later - earlier, earlier, address) for earlier, later in itertools.pairwise(times))
    return max(spans, default=Span(0.0, 0.0, address))


# --- The faults -----------------------------------------------------------------------------------------------------


def processes_of(node: str) -> dict[int, str]:
    """Return the processes in a node's network namespace, with their command lines, without those that have ended."""
    wanted = os.stat(f"/run/netns/{node}").st_ino
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "ns/net").stat().st_ino == wanted:
                found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return found


@dataclass
class Chaos:
    """The faults. `random`: decides about all of them. One node is always left alone for a while."""

    world: SpeakerWorld
    random: random.Random
    _stopped: dict[int, str] = field(default_factory=dict)  # nodes by process id
    _disturbed: dict[str, float] = field(default_factory=dict)  # when something happened to a node last
    _is_over: bool = False

    async def run(self, seconds: float) -> None:
        """Do something at random moments; at the end all processes run."""
        deadline = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            restarting = [tasks.create_task(self._restart(node)) for node in NODES_IN_WORLD]
            while time.monotonic() < deadline:
                await asyncio.sleep(self.random.uniform(0.05, 0.8))
                await self._act(tasks)
            self._is_over = True
            for pid in list(self._stopped):
                self._continue(pid)
            for node in NODES_IN_WORLD:
                await self._cordon(node, is_on=False)
            del restarting

    async def _restart(self, node: str) -> None:
        """Start the speaker of a node again whenever it has ended."""
        while not self._is_over:
            speaker = self.world.speakers[node]
            while speaker.process.poll() is None:
                if self._is_over:
                    return
                await asyncio.sleep(0.02)
            await asyncio.sleep(self.random.uniform(0, 1))
            self.world.start_speaker(node)
            self._disturbed[node] = time.monotonic()

    async def _act(self, tasks: asyncio.TaskGroup) -> None:
        node = self.random.choice(NODES_IN_WORLD)
        kind = self.random.choice(("kill", "kill", "stop", "stop", "stop", "end", "cordon", "endpoints"))
        if not any([await self._is_well(other) for other in NODES_IN_WORLD if other != node]):
            return
        self._disturbed[node] = time.monotonic()
        if kind == "cordon":
            is_on = self.random.random() < 0.5
            self._note(f"{'cordon' if is_on else 'uncordon'} {node}")
            await self._cordon(node, is_on=is_on)
        elif kind == "endpoints":
            nodes = self.random.sample(NODES_IN_WORLD, self.random.randrange(1, 3))
            self._note(f"endpoints on {', '.join(nodes)}")
            await self.world.set_endpoints("local", nodes)
        elif kind == "end":
            self._note(f"end the speaker of {node}")
            self._signal(self.world.speakers[node].process.pid, signal.SIGTERM)
        else:
            processes = processes_of(node)
            if processes:
                pid = self.random.choice(sorted(processes))
                self._note(f"{kind} {pid} of {node}: {processes[pid][:120]}")
                self._signal(pid, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
                if kind == "stop":
                    self._stopped[pid] = node
                    tasks.create_task(self._continue_later(pid, self.random.uniform(0.02, 2.5)))

    async def _is_well(self, node: str) -> bool:
        """Whether a node announces what it should, since it has been left alone for a while."""
        if (
            node in self._stopped.values()
            or self.world.speakers[node].process.poll() is not None
            or time.monotonic() - self._disturbed.get(node, 0.0) < LEFT_ALONE_SECONDS
        ):
            return False
        status = await self.world.read_status(node)
        return status.get("notReady") == "" and node in status["members"]

    async def _continue_later(self, pid: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._continue(pid)

    def _continue(self, pid: int) -> None:
        node = self._stopped.pop(pid, None)
        if node is not None:
            self._disturbed[node] = time.monotonic()
            self._signal(pid, signal.SIGCONT)

    def _signal(self, pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    async def _cordon(self, node: str, *, is_on: bool) -> None:
        await self.world.client.patch(NODES, node, "", {"spec": {"unschedulable": is_on}})

    def _note(self, text: str) -> None:
        log.info("%.3f %s", time.monotonic(), text)


# --- The run --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """The worst that the observer saw: when two machines answered for one address, and when nobody did, for each."""

    overlap: Span
    silences: list[Span]


async def run_chaos(seconds: float, seed: int) -> Outcome:
    """Run, and check what has to hold afterwards. Raises TimeoutError and AssertionError."""
    log.info("seed %d", seed)
    has_vrrp = shutil.which("keepalived", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is not None
    addresses = [*LAYER2, VRRP] if has_vrrp else [*LAYER2]
    async with speaker_world(Path("/run/world")) as world:
        await _configure(world, has_vrrp=has_vrrp)
        await world.start_speakers()
        await _until_answered(addresses)
        observer = Observer(addresses)
        chaos = Chaos(world, random.Random(seed))
        try:
            await chaos.run(seconds)
            await _until_settled(world, addresses)
        finally:
            seen = observer.stop()
        await _check_ends(world, addresses)
    silences = [longest_silence(seen, address) for address in addresses]
    return Outcome(longest_overlap(seen), silences)


async def _configure(world: SpeakerWorld, *, has_vrrp: bool) -> None:
    ranges = [f"{vip(10)}-{vip(11)}", f"{vip(10, 6)}-{vip(11, 6)}"]
    await world.client.patch(metallb.IP_ADDRESS_POOLS, "pool", NAMESPACE, {"spec": {"addresses": ranges}})
    if has_vrrp:
        spec = {"address": VRRP, "protocol": "vip", "interface": "eth0"}
        await world.create(openelb.EIPS, {"metadata": {"name": "vips"}, "spec": spec})
        await world.add_service("vrrp", VRRP)
    peer = {"myASN": 64512, "peerASN": 64513, "peerAddress": CLIENT}
    await world.create(metallb.BGP_PEERS, {"metadata": {"name": "router", "namespace": NAMESPACE}, "spec": peer})
    await world.add_service("web", vip(10), vip(10, 6))
    await world.add_service("local", vip(11), nodes=["node1", "node2"], policy="Local")


async def _until_answered(addresses: Sequence[str]) -> None:
    """Wait until exactly one machine answers for each address."""

    async def is_answered() -> bool:
        observer = Observer(addresses)
        await asyncio.sleep(12 * PROBE_SECONDS)
        macs = {(seen.address, seen.mac) for seen in observer.stop()}
        return len(macs) == len(addresses) == len({address for address, _ in macs})

    await until(is_answered)


async def _until_settled(world: SpeakerWorld, addresses: Sequence[str]) -> None:
    """Wait until all speakers run and agree, and each address has one holder."""

    async def is_running() -> bool:
        for node in NODES_IN_WORLD:  # one whose detector was killed may still be ending
            if world.speakers[node].process.poll() is not None:
                world.start_speaker(node)
        statuses = [await world.read_status(node) for node in NODES_IN_WORLD]
        return all(status.get("notReady") == "" and status["members"] == sorted(NODES_IN_WORLD) for status in statuses)

    await until(is_running)
    for address in addresses:
        await world.until_held(address)
    await _until_answered(addresses)


async def _check_ends(world: SpeakerWorld, addresses: Sequence[str]) -> None:
    """Kill the speakers, and wait until nothing is left of them; start others and end them, too."""
    await _end_all(world, signal.SIGKILL)
    await _until_clean()
    await _until_settled(world, addresses)
    await _end_all(world, signal.SIGTERM)
    await _until_clean()


async def _until_clean() -> None:
    """Wait until the nodes have no addresses, processes and rules of speakers."""

    def left(node: str) -> str:
        shown = run_on(node, "ip", "-o", "address", "show", "dev", "eth0")
        found = [f"address {name}" for name in (*LAYER2, VRRP, "169.254.254.") if f" {name}" in shown]
        found += [f"process {pid} {text}" for pid, text in processes_of(node).items()]
        tables = run_on(node, "nft", "list", "tables")
        return f"{node}: {found} {tables}" if found or tables else ""

    remaining: list[str] = []

    async def is_clean() -> bool:
        remaining[:] = filter(None, map(left, NODES_IN_WORLD))
        return not remaining

    check: Callable[[], Awaitable[bool]] = is_clean
    try:
        await until(check)
    except TimeoutError:
        raise AssertionError(f"left behind: {remaining}") from None


async def _end_all(world: SpeakerWorld, number: signal.Signals) -> None:
    for node in NODES_IN_WORLD:
        world.speakers[node].signal(number)
        await asyncio.to_thread(world.speakers[node].process.wait, 60)
