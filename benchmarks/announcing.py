"""A thousand LoadBalancer Services announced by layer 2, and one more; the memory of a speaker.

The world is that of tests/integration/speaker_world.py: three nodes, whose speakers and API server are real. The time
of one more Service begins with the first of three requests (the Service, its EndpointSlice, its address in the status)
and ends when a gratuitous ARP packet is on the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.integration.api_world import until
from tests.integration.speaker_world import NAMESPACE, NODES_IN_WORLD, SpeakerWorld, enter_world, speaker_world

from bridgehead.balancer.layer2 import arp
from bridgehead.network.link_states import LinkStates
from bridgehead.network.packet_sockets import PacketSocket
from bridgehead.network.uapi.if_ether import ETH_P_ARP
from bridgehead.objects import metallb

from .tables import not_measured

SERVICES = 1000
MORE = 50
_AT_ONCE = 20
_ROOT = Path(__file__).parents[1]


def run() -> list[tuple[str, str]]:
    command = ["unshare", "--user", "--map-root-user", "unshare", "--net", "--mount", "--kill-child", "--fork"]
    command += [sys.executable, "-m", "benchmarks.announcing", os.readlink("/proc/self/ns/net")]
    result = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        return [("announcing", not_measured("the world did not start"))]
    return [(what, measured) for what, measured in json.loads(result.stdout)]


async def _measure() -> list[tuple[str, str]]:
    async with speaker_world(Path("/run/world")) as world:
        ranges = {"spec": {"addresses": ["10.9.0.0/16"]}}
        await world.client.patch(metallb.IP_ADDRESS_POOLS, "pool", NAMESPACE, ranges)
        for first in range(0, SERVICES, _AT_ONCE):
            numbers = range(first, first + _AT_ONCE)
            await asyncio.gather(*(world.add_service(f"s{number}", _address(number)) for number in numbers))
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
            delays = [await _add_one(world, number, sock) for number in range(SERVICES, SERVICES + MORE)]
        pids = [pid for speaker in world.speakers.values() for pid in (speaker.process.pid, speaker.detector_pid)]
        memory = sum(map(_pss_mib, pids)) / len(world.speakers)
    return [
        (f"start of 3 speakers until {SERVICES} addresses are announced", f"{started:.1f} s"),
        (
            f"one more Service, until it is announced (median, longest of {MORE})",
            f"{statistics.median(delays) * 1000:.0f} ms, {max(delays) * 1000:.0f} ms",
        ),
        ("memory of a speaker and its failure detector then (PSS)", f"{memory:.0f} MiB"),
    ]


def _address(number: int) -> str:
    return str(ipaddress.IPv4Address("10.9.0.0") + number)


async def _held(world: SpeakerWorld) -> int:
    return sum([len((await world.read_status(node)).get("held", ())) for node in NODES_IN_WORLD])


async def _add_one(world: SpeakerWorld, number: int, sock: PacketSocket) -> float:
    """Add a Service. Return the seconds until it is announced."""
    address = ipaddress.IPv4Address(_address(number)).packed
    begun = time.monotonic()
    written = asyncio.create_task(world.add_service(f"s{number}", _address(number)))

    async def announced() -> bool:
        packets = [arp.decode(frame) for frame in sock.receive(1000)]
        return any(packet is not None and packet.sender == address for packet in packets)

    await until(announced)
    await written
    return time.monotonic() - begun


@contextlib.contextmanager
def _arp_of_fabric() -> Iterator[PacketSocket]:
    with LinkStates() as links:
        (link,) = (link for link in links.all() if link.name == "fabric")
    with PacketSocket(link.number, link.name, ETH_P_ARP) as sock:
        yield sock


def _pss_mib(pid: int) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(rollup.partition("\nPss:")[2].split()[0]) / 1024


if __name__ == "__main__":
    enter_world(sys.argv[1])
    print(json.dumps(asyncio.run(_measure())))
