"""Names and addresses of a gateway's links.

Pure: no I/O, no clock, no randomness.

      machine's namespace       gateway's namespace         lab's namespace
      bh-NAME .1 ───────── .2 machine      lab .1 ───────── .2 gateway
      (slirp4netns)  ────── .100 outside

Links between routers have link-local IPv4 addresses, which no network routes, and IPv6 addresses of a random unique
local prefix (RFC 4193). Only the addresses of the machine's link have to differ from lab to lab.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from bridgehead.lab.addressing import Ranges
from bridgehead.lab.range_choice import Network

MACHINE_LINK_PREFIX: Final = "bh-"
GATEWAY_LINK: Final = "gateway"  # in the lab
LAB_LINK: Final = "lab"  # these three in the gateway
MACHINE_LINK: Final = "machine"
OUTSIDE_LINK: Final = "outside"

LINK_LOCAL4: Final = "169.254.0.0/16"
OWN_PREFIX6: Final = "fd6c:9a3e:51d0::/48"

_MOST_LINK_NAME: Final = 15  # IFNAMSIZ, without the terminating zero
# The lower half has the addresses of clouds' metadata services; RFC 3927 reserves the last /24.
_FIRST_PAIR: Final = ipaddress.IPv4Address("169.254.192.0")
_PAIRS: Final = (253 - 192) * 64  # networks of four addresses


class LinkPair(NamedTuple):
    """The addresses of the two ends of a link: of the end nearer to the machine, and of the other."""

    near: str
    far: str
    prefix_length: int

    @property
    def near_interface(self) -> str:
        return f"{self.near}/{self.prefix_length}"

    @property
    def far_interface(self) -> str:
        return f"{self.far}/{self.prefix_length}"

    @property
    def network(self) -> Network:
        return ipaddress.ip_interface(self.near_interface).network


class OutsideAddresses(NamedTuple):
    """The network of one family that slirp4netns simulates: its router, its name server, and the gateway's address.

    IPv6: slirp4netns has no choice of another network.
    """

    network: str
    router: str
    name_server: str
    own: str

    @property
    def own_interface(self) -> str:
        return f"{self.own}/{self.network.partition('/')[2]}"


Version = Literal[4, 6]

LAB_PAIRS: Final[dict[Version, LinkPair]] = {
    4: LinkPair("169.254.254.1", "169.254.254.2", 30),
    6: LinkPair("fd6c:9a3e:51d0:1::1", "fd6c:9a3e:51d0:1::2", 126),
}
OUTSIDE: Final[dict[Version, OutsideAddresses]] = {
    4: OutsideAddresses("169.254.253.0/24", "169.254.253.2", "169.254.253.3", "169.254.253.100"),
    6: OutsideAddresses("fd00::/64", "fd00::2", "fd00::3", "fd00::100"),
}


@dataclass(frozen=True)
class GatewayPlan:
    """A lab's gateway. `ranges` are those of the families that the machine has, too.

    `link` is the machine's link to it, with the addresses `pairs` in the order of `ranges`; "" without host routes.
    """

    ranges: tuple[Ranges, ...]
    outside: bool
    link: str = ""
    pairs: tuple[LinkPair, ...] = ()


def name_link(lab: str) -> str:
    """Return the name of the machine's link to a lab; of a long name the first letters and a digest."""
    name = f"{MACHINE_LINK_PREFIX}{lab}"
    if len(name) <= _MOST_LINK_NAME:
        return name
    return f"{name[: _MOST_LINK_NAME - 5]}-{hashlib.sha256(lab.encode()).hexdigest()[:4]}"


def networks_of(ranges: Ranges) -> tuple[str, str, str]:
    """Return the networks of one family to which the machine gets routes: nodes and load balancers, pods, Services."""
    return ranges.fabric, ranges.pods, ranges.services


def choose_pairs(lab: str, versions: Sequence[Version], taken: Sequence[Network]) -> tuple[LinkPair, ...] | None:
    """Return addresses for the machine's link to a lab, one pair for each IP version. None: all are `taken`."""
    for pairs in _candidates(lab):
        chosen = tuple(pairs[version] for version in versions)
        if not any(pair.network.overlaps(each) for pair in chosen for each in taken if _is_comparable(pair, each)):
            return chosen
    return None


def _is_comparable(pair: LinkPair, network: Network) -> bool:
    """Return whether the network may forbid the pair. One as wide as all link-local addresses loses too little by it:
    zeroconf has such a route."""
    return pair.network.version == network.version and network.prefixlen > 16


def _candidates(lab: str) -> Iterator[dict[Version, LinkPair]]:
    start = int.from_bytes(hashlib.sha256(lab.encode()).digest()[:4])
    for step in range(_PAIRS):
        number = (start + step) % _PAIRS
        first4 = _FIRST_PAIR + 4 * number
        first6 = ipaddress.IPv6Address("fd6c:9a3e:51d0:2::") + 4 * number
        yield {
            4: LinkPair(str(first4 + 1), str(first4 + 2), 30),
            6: LinkPair(str(first6 + 1), str(first6 + 2), 126),
        }
