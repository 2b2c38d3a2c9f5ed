"""W34: open connections survive a change of the proxy's mode, where connection tracking has them; see also tests/e2e.

In mode userspace the proxy itself has them, and in mode ipvs IPVS: from there they end with it. `test_proxy_ipvs.py`
has the changes between ipvs and iptables.
"""

from __future__ import annotations

import pytest

from .ipvs_world import IpvsWorld
from .proxy_clients import TALK_PORT
from .proxy_objects import WEB4, WEB6, service, slice_of
from .proxy_world import NODE4

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("old", "new"), [("nftables", "iptables"), ("iptables", "nftables"), ("nftables", "userspace")]
)
def test_open_connections_go_on_in_the_new_mode(old: str, new: str) -> None:
    with IpvsWorld(old) as world:
        world.reset()
        for family in (4, 6):
            world.talk("listen", "pod1", family)
        slices = [slice_of("pod1", family=family) for family in (4, 6)]
        for part in slices:
            part["ports"][0]["port"] = TALK_PORT
        world.put(service(addresses=(WEB4, WEB6), type="NodePort", nodePort=30080), *slices)
        dialled = [
            ("client", WEB4, 80), ("client", WEB6, 80), ("client", NODE4, 30080),
            ("node", WEB4, 80), ("pod2", WEB4, 80), ("pod1", WEB4, 80),
        ]  # fmt: skip
        names = [f"{where} {address} {port}" for where, address, port in dialled]
        for name, place in zip(names, dialled, strict=True):
            world.talk("dial", name, *place)
        assert [world.talk("say", name) for name in names] == ["pod1"] * len(names)

        assert world.ask("change_mode", name=new) == [old]

        assert [world.talk("say", name) for name in names] == ["pod1"] * len(names)
