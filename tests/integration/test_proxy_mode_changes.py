"""W34: open connections survive a change of the proxy's mode, where connection tracking has them; see also tests/e2e.

The proxy itself has connections in mode userspace, and IPVS has them in mode ipvs: they end when the mode changes.
`test_proxy_ipvs.py` has the changes between ipvs and iptables.
"""

from __future__ import annotations

import pytest

from .ipvs_world import IpvsWorld
from .proxy_objects import WEB4, WEB6, dial_all, exchange_all, service, talkers

pytestmark = [pytest.mark.integration, pytest.mark.needs("nft", "iptables-nft")]


@pytest.mark.parametrize(
    ("old", "new"), [("nftables", "iptables"), ("iptables", "nftables"), ("nftables", "userspace")]
)
def test_open_connections_survive_a_change_of_mode(old: str, new: str) -> None:
    with IpvsWorld(old) as world:
        world.reset()
        for family in (4, 6):
            world.talk("listen", "pod1", family)
        slices = [talkers("pod1", family=family) for family in (4, 6)]
        world.put(service(addresses=(WEB4, WEB6), type="NodePort", nodePort=30080), *slices)
        names = dial_all(world, WEB4, WEB6)

        assert world.ask("change_mode", name=new) == [old]

        assert exchange_all(world, names) == ["pod1"] * len(names)
