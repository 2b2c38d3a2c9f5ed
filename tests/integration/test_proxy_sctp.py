"""SCTP in the modes of rules, on any kernel: few know SCTP, but all follow its connections.

Real associations are tried in the guest, whose kernel has SCTP, and no nftables: see `test_proxy_ipvs`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import tools

from .ipvs_world import IpvsWorld
from .proxy_objects import WEB4, sctp, service, slice_of
from .proxy_world import NODE4, World, pod_ip
from .test_proxy_modes import command_of

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=["nftables", "iptables-nft", "iptables-legacy"])
def any_world(request: pytest.FixtureRequest) -> Iterator[World]:
    tools.require(command_of(request.param))
    with IpvsWorld(request.param) as world:
        yield world


def test_the_first_packet_reaches_a_pod_translated(any_world: World) -> None:
    world = any_world
    world.reset()
    world.put(sctp(service(type="NodePort", nodePort=30080)), sctp(slice_of("pod2")))

    assert world.ask("send_init", where="pod1", address=WEB4, port=80) == f"pod2:8080 from {pod_ip('pod1')}"
    assert world.ask("send_init", where="client", address=WEB4, port=80) == f"pod2:8080 from {NODE4}"
    assert world.ask("send_init", where="client", address=NODE4, port=30080) == f"pod2:8080 from {NODE4}"
    assert world.ask("send_init", where="client", address=WEB4, port=81) == "timeout"
    assert world.ask("difference") == []
