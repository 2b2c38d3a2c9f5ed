"""Interfaces on which addresses are announced.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bridgehead.network.link_states import Link

from .exclusions import compile_patterns

# Names of interfaces that lead to no network of the node's own: containers, tunnels, IPVS. Source: the ConfigMap
# metallb-excludel2 of MetalLB's manifests.
DEFAULT_EXCLUDED: Final = compile_patterns(
    (
        "^docker.*",
        "^cbr.*",
        "^dummy.*",
        "^virbr.*",
        "^lxcbr.*",
        "^veth.*",
        "^lo$",
        "^cali.*",
        "^tunl.*",
        "^flannel.*",
        "^kube-ipvs.*",
        "^cni.*",
        "^nodelocaldns.*",
        "^lxc.*",
    )
)


def usable_links(links: Iterable[Link], wanted: frozenset[str], excluded: re.Pattern[str]) -> dict[int, Link]:
    """Return the links for announcements, by their numbers.

    Those named in `wanted` (empty: any) that resolve neighbours on Ethernet and whose names do not match `excluded`. A
    port of a bridge or a bond receives nothing itself.
    """
    return {
        link.number: link
        for link in links
        if link.mac
        and link.resolves
        and link.transmits
        and not link.master
        and (link.name in wanted if wanted else not excluded.search(link.name))
    }


def is_announced_on(interfaces: frozenset[str], link: Link) -> bool:
    """Whether an address is announced on a link. `interfaces`: the names that its advertisements give; empty: all."""
    return not interfaces or link.name in interfaces
