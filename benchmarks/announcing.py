"""A thousand LoadBalancer Services announced by layer 2 and by BGP, and one more; the memory of a speaker.

The world is that of tests/integration/speaker_world.py: three nodes, whose speakers and API server are real. The time
of one more Service begins with the first of three requests (the Service, its EndpointSlice, its address in the status)
and ends when a gratuitous ARP packet is on the network, or when the kernel of the first of two routers (BIRD) has a
route.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import json
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.integration.api_world import until
from tests.integration.bird_router import KERNEL, ROUTER4, Bird, bgp
from tests.integration.namespaced import sh
from tests.integration.speaker_world import NAMESPACE, NODES_IN_WORLD, SpeakerWorld, speaker_world

from bridgehead.balancer.layer2 import arp
from bridgehead.network.link_states import LinkStates
from bridgehead.network.packet_sockets import PacketSocket
from bridgehead.network.uapi.if_ether import ETH_P_ARP
from bridgehead.objects import metallb

from . import namespaces
from .tables import not_measured

SERVICES = 1000
MORE = 50
_AT_ONCE = 20
_PAUSE_SECONDS = 0.3  # between Services that are added, in which speakers write statuses and Events of the last one
_REST_SECONDS = 10.0  # in which speakers write statuses, and return the memory for that
_SECOND_ROUTER = "10.0.0.2"
RTMGRP_IPV4_ROUTE = 0x40  # linux/rtnetlink.h
_MESSAGES_AT_ONCE = 10_000  # more than the routers get


def run() -> list[tuple[str, str]]:
    result = namespaces.start("benchmarks.announcing")
    if result.status:
        return [("announcing", not_measured("the world did not start"))]
    return [(what, measured) for what, measured in json.loads(result.output)]


async def _measure() -> list[tuple[str, str]]:
    async with speaker_world(Path("/run/world")) as world:
        ranges = {"spec": {"addresses": ["10.9.0.0/16"]}}
        await world.client.patch(metallb.IP_ADDRESS_POOLS, "pool", NAMESPACE, ranges)
        for first in range(0, SERVICES, _AT_ONCE):
            numbers = range(first, first + _AT_ONCE)
            await asyncio.gather(*(world.add_service(f"s{number}", _address(number)) for number in numbers))
        return [*await _measure_layer2(world), *await _measure_bgp(world)]


async def _measure_layer2(world: SpeakerWorld) -> list[tuple[str, str]]:
    begun = time.monotonic()
    await world.start_speakers()

    async def all_held() -> bool:
        return await _held(world) == SERVICES

    await until(all_held)
    started = time.monotonic() - begun

    async def all_written() -> bool:
        found = await world.client.list(metallb.SERVICE_L2_STATUSES, NAMESPACE, limit=SERVICES)
        return len(found.items) == SERVICES and all(status.status.node for status in found.items)

    await until(all_written)
    with _arp_of_fabric() as sock:

        def has_seen(address: bytes) -> bool:
            packets = [arp.decode(frame) for frame in sock.receive(1000)]
            return any(packet is not None and packet.sender == address for packet in packets)

        delays = [await _add_one(world, number, has_seen) for number in range(SERVICES, SERVICES + MORE)]
    return [
        (f"start of 3 speakers until {SERVICES} addresses are announced", f"{started:.1f} s"),
        (f"one more Service, until it is announced (median, longest of {MORE})", _spread(delays)),
        ("memory of a speaker then, at rest (PSS)", await _memory_at_rest(world)),
    ]


async def _measure_bgp(world: SpeakerWorld) -> list[tuple[str, str]]:
    services = SERVICES + MORE
    sh("""
        set -e
        ip netns add second
        ip link add second type veth peer name eth0 netns second
        ip link set second master fabric up
        ip -n second link set eth0 up
    """)
    sh(f"ip -n second address add {_SECOND_ROUTER}/24 dev eth0")
    sessions = "".join(bgp(number) for number in (1, 2, 3))
    with (
        Bird(KERNEL + sessions, namespace="") as first,
        Bird(sessions.replace(ROUTER4, _SECOND_ROUTER), namespace="second") as second,
        _routes_of_kernel() as sock,
    ):
        begun = time.monotonic()
        meta = {"name": "all", "namespace": NAMESPACE}
        await world.create(metallb.BGP_ADVERTISEMENTS, {"metadata": meta})
        for name, address in (("first", ROUTER4), ("second", _SECOND_ROUTER)):
            spec = {"myASN": 64512, "peerASN": 64513, "peerAddress": address}
            await world.create(metallb.BGP_PEERS, {"metadata": {**meta, "name": name}, "spec": spec})

        async def has_all() -> bool:
            counts = [await asyncio.to_thread(bird.ask, "show", "route", "count") for bird in (first, second)]
            return all(f"{services * 3} of" in count and f"for {services} networks" in count for count in counts)

        await until(has_all)
        started = time.monotonic() - begun

        def has_seen(address: bytes) -> bool:
            return address in b"".join(_receive_waiting(sock))

        has_seen(b"")
        delays = [await _add_one(world, number, has_seen) for number in range(services, services + MORE)]
        memory = await _memory_at_rest(world)
    return [
        (f"two BGP peers added, until both have {services} routes from each of 3 nodes", f"{started:.1f} s"),
        (f"one more Service, until the router has a route (median, longest of {MORE})", _spread(delays)),
        ("memory of a speaker then, at rest (PSS)", memory),
    ]


def _spread(delays: list[float]) -> str:
    return f"{statistics.median(delays) * 1000:.0f} ms, {max(delays) * 1000:.0f} ms"


async def _memory_at_rest(world: SpeakerWorld) -> str:
    await asyncio.sleep(_REST_SECONDS)
    return _memory(world)


def _memory(world: SpeakerWorld) -> str:
    """Return the mean memory of the speakers with all their processes, and that of each process."""
    total: dict[str, float] = {}
    for speaker in world.speakers.values():
        for pid in process_tree(speaker.process.pid):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            name = "speaker" if pid == speaker.process.pid else name
            total[name] = total.get(name, 0.0) + _pss_mib(pid) / len(world.speakers)
    parts = ", ".join(f"{name} {mib:.0f}" for name, mib in total.items())
    return f"{sum(total.values()):.0f} MiB ({parts})"


def process_tree(pid: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from process_tree(int(child))


def _address(number: int) -> str:
    return str(ipaddress.IPv4Address("10.9.0.0") + number)


async def _held(world: SpeakerWorld) -> int:
    return sum([len((await world.read_status(node)).get("held", ())) for node in NODES_IN_WORLD])


async def _add_one(world: SpeakerWorld, number: int, has_seen: Callable[[bytes], bool]) -> float:
    """Add a Service. Return the seconds until its address is announced, which `has_seen` finds out."""
    address = ipaddress.IPv4Address(_address(number)).packed
    begun = time.monotonic()
    written = asyncio.create_task(world.add_service(f"s{number}", _address(number)))

    async def announced() -> bool:
        return has_seen(address)

    await until(announced)
    seconds = time.monotonic() - begun
    await written
    await asyncio.sleep(_PAUSE_SECONDS)
    return seconds


@contextlib.contextmanager
def _arp_of_fabric() -> Iterator[PacketSocket]:
    with LinkStates() as links:
        (link,) = (link for link in links.all() if link.name == "fabric")
    with PacketSocket(link.number, link.name, ETH_P_ARP) as sock:
        yield sock


@contextlib.contextmanager
def _routes_of_kernel() -> Iterator[socket.socket]:
    """A socket that receives the changes of IPv4 routes in this network namespace."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        sock.bind((0, RTMGRP_IPV4_ROUTE))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        sock.setblocking(False)
        yield sock


def _receive_waiting(sock: socket.socket) -> Iterator[bytes]:
    """Yield what has arrived, up to a bound: the caller's deadline has its turn between two calls."""
    for _ in range(_MESSAGES_AT_ONCE):
        try:
            yield sock.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:  # the routes were faster than this reader
                raise


def _pss_mib(pid: int) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(rollup.partition("\nPss:")[2].split()[0]) / 1024


if __name__ == "__main__":
    namespaces.enter(sys.argv[1])
    print(json.dumps(asyncio.run(_measure())))
