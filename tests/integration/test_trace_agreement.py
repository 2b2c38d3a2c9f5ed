"""`bridgehead trace` agrees with where packets really go: generated Services x policies x origins x modes."""

import pytest

from .trace_world import TraceWorld

EACH = 350  # in each of three modes: more than 1,000 in all


@pytest.mark.needs("nft", "iptables-nft", "iptables-nft-save")
@pytest.mark.parametrize("mode", ["nftables", "iptables-nft", "userspace"])
def test_expected_fates_backends_and_clients_are_the_real_ones(mode):
    world = TraceWorld(mode)
    with world:
        found = world.compare(seed=28, count=EACH)
    assert not found["differences"], "\n".join(found["differences"])
    assert sum(found["fates"].values()) == EACH
    assert {"translated", "rejected", "dropped"} <= found["fates"].keys()
