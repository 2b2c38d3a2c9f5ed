"""The spread of connections over backends: part of the contract of all proxy modes (docs/decisions/0009).

The userspace and ipvs modes use backends in turn, so counts are exact. The nftables and iptables modes choose at
random: of n connections over k backends each gets n/k, with a standard deviation of sqrt(n (1/k) (1 - 1/k)). A count
is more than 6.5 standard deviations away in one of 10**10 tries, so the test fails by chance in less than one of
10**9 runs.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import tools

from .proxy_objects import WEB4, service, slice_of
from .proxy_world import PODS, World

pytestmark = pytest.mark.integration

IN_TURN = ("userspace", pytest.param("ipvs", marks=pytest.mark.guest))
AT_RANDOM = ("nftables", "iptables-nft")  # the legacy variant has the same rules
CONNECTIONS = 3_000
STANDARD_DEVIATIONS = 6.5


def connect_many(world: World, count: int) -> Counter[str]:
    """Connect from the client's namespace, whose ports are enough for all connections."""
    script = str(Path(__file__).with_name("connect_many.py"))
    world.run("ip", "netns", "exec", "client", "sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65535")
    output = world.run("ip", "netns", "exec", "client", sys.executable, script, WEB4, "80", str(count))
    return Counter(json.loads(output))


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    mode = request.param
    command = {"iptables-nft": "iptables-nft-restore", "ipvs": "iptables-legacy-restore"}.get(mode, "nft")
    tools.require(command)
    with World(mode) as world:
        world.reset()
        yield world


@pytest.mark.parametrize("world", AT_RANDOM, indirect=True)
def test_random_choice_gives_each_backend_its_share(world: World) -> None:
    world.put(service(), slice_of(*PODS))

    counts = connect_many(world, CONNECTIONS)

    assert counts.keys() == set(PODS)
    share = 1 / len(PODS)
    bound = STANDARD_DEVIATIONS * math.sqrt(CONNECTIONS * share * (1 - share))
    assert all(abs(count - CONNECTIONS * share) <= bound for count in counts.values()), counts


@pytest.mark.parametrize("world", IN_TURN, indirect=True)
def test_round_robin_gives_each_backend_the_same_share(world: World) -> None:
    world.put(service(), slice_of(*PODS))

    assert connect_many(world, CONNECTIONS) == dict.fromkeys(PODS, CONNECTIONS // len(PODS))
