"""Choice of a lab's ranges: those that the user wants, those of the previous run, or some that the machine is not in.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from .addressing import RANGES, IpFamily, Ranges
from .errors import LabError
from .plan import LabConfig

Role = Literal["fabric", "pods", "services"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

OPTION_OF: Final[dict[Role, str]] = {
    "fabric": "--fabric-cidr",
    "pods": "--pod-cidr",
    "services": "--service-cidr",
}
_MAX_LENGTH: Final = 200  # of an option's text
# The prefix lengths that a range may have: room for 50 nodes, and no more Services than Kubernetes allows in a range.
_LENGTHS: Final[dict[tuple[Role, int], tuple[int, int]]] = {
    ("fabric", 4): (8, 24),
    ("fabric", 6): (16, 112),
    ("pods", 4): (8, 18),
    ("pods", 6): (16, 56),
    ("services", 4): (12, 28),
    ("services", 6): (64, 124),
}
# After the defaults: ranges for machines that are in these. The machine's Docker and kind use 172.17 to 172.20.
_OTHERS: Final[dict[tuple[Role, int], tuple[str, ...]]] = {
    ("fabric", 4): ("172.30.0.0/24", "192.168.230.0/24", "10.230.0.0/24"),
    ("fabric", 6): ("fd00:11::/64", "fd00:12::/64"),
    ("pods", 4): ("172.28.0.0/16", "10.245.0.0/16", "100.72.0.0/16"),
    ("pods", 6): ("fd00:11:244::/56", "fd00:12:244::/56"),
    ("services", 4): ("172.29.0.0/16", "10.112.0.0/12", "100.73.0.0/16"),
    ("services", 6): ("fd00:11:96::/112", "fd00:12:96::/112"),
}
_UNUSABLE: Final = tuple(
    map(
        ipaddress.ip_network,
        ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/8", "fe80::/10", "ff00::/8"),
    )
)


class Occupied(NamedTuple):
    """A network of the machine, and a text that names it: `eth0 has 10.0.0.7/24`."""

    network: Network
    text: str


def choose_ranges(
    wanted: Mapping[Role, str | None], family: IpFamily, before: LabConfig | None, occupied: Sequence[Occupied]
) -> tuple[tuple[Ranges, ...], tuple[str, ...]]:
    """Return the lab's ranges by family, and a sentence for each default that was avoided.

    `wanted`: the options' texts, a range for one family or, separated by a comma, for both. `occupied`: the networks of
    the machine, which the defaults of a new lab avoid as far as there are others; what is wanted may be among them.
    Raises `LabError`.
    """
    chosen = {role: _parse(role, text, family) for role, text in wanted.items() if text is not None}
    if before is not None:
        _check_unchanged(chosen, before)
        return before.ranges, ()
    avoided: list[str] = []
    ranges = []
    for default in RANGES[family]:
        version = default.version
        texts = {role: str(of[version]) for role, of in chosen.items() if version in of}
        for role in OPTION_OF:
            if role not in texts:
                taken = [ipaddress.ip_network(text) for text in texts.values()]
                taken += [of[version] for of in chosen.values() if version in of]
                texts[role], reason = _free(role, getattr(default, role), taken, occupied, version)
                if reason:
                    avoided.append(f"{reason}, so the lab has {texts[role]} instead of {getattr(default, role)}.")
        ranges.append(Ranges(version=version, **texts))
    for each in ranges:
        _check_apart(each)
    return tuple(ranges), tuple(avoided)


def is_default_route(destination: str) -> bool:
    """Return whether a route is the default one, or one of the two halves of it by which VPNs replace it."""
    return destination == "default" or ipaddress.ip_network(destination).prefixlen <= 1


def clashes(network: Network, occupied: Iterable[Occupied]) -> Iterator[Occupied]:
    """Yield the machine's networks that share addresses with this one."""
    return (each for each in occupied if _overlap(each.network, network))


def _parse(role: Role, text: str, family: IpFamily) -> dict[int, Network]:
    """Return an option's ranges by IP version."""
    option, found = OPTION_OF[role], dict[int, Network]()
    versions = [ranges.version for ranges in RANGES[family]]
    if len(text) > _MAX_LENGTH:
        raise LabError(f"{option}: longer than {_MAX_LENGTH} characters; give a range such as {_example(role)}")
    for part in text.split(","):
        try:
            network = ipaddress.ip_network(part.strip(), strict=False)
        except ValueError:
            raise LabError(f"{option}: {part.strip()!r} is no range; give one such as {_example(role)}") from None
        given, number = ipaddress.ip_interface(part.strip()), network.version
        if given.ip != network.network_address:
            raise LabError(f"{option}: {given} is an address in a range; the range is {network}")
        if number not in versions:
            raise LabError(f"{option}: the lab has no IPv{number} (--ip-family {family}), of which {network} is")
        if number in found:
            raise LabError(f"{option}: two ranges of IPv{number}; give one for each family")
        shortest, longest = _LENGTHS[role, number]
        if not shortest <= network.prefixlen <= longest:
            raise LabError(
                f"{option}: {network} is too {'large' if network.prefixlen < shortest else 'small'}:"
                f" its prefix length has to be from {shortest} to {longest}, as in {_example(role, number)}"
            )
        if unusable := next((each for each in _UNUSABLE if _overlap(each, network)), None):
            raise LabError(f"{option}: {network} has addresses of {unusable}, which no host may have")
        found[number] = network
    return found


def _example(role: Role, version: int = 4) -> str:
    return next(str(getattr(each, role)) for each in RANGES["dual"] if each.version == version)


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def _free(
    role: Role, default: str, taken: Sequence[Network], occupied: Sequence[Occupied], version: int
) -> tuple[str, str]:
    """Return a range for the role apart from the lab's other ones, and the reason why it is not the default."""
    candidates = [default, *_OTHERS[role, version]]
    apart = [text for text in candidates if not any(_overlap(ipaddress.ip_network(text), each) for each in taken)]
    reason = next(clashes(ipaddress.ip_network(default), occupied), None)
    for text in apart:
        if next(clashes(ipaddress.ip_network(text), occupied), None) is None:
            return text, reason.text if reason and text != default else ""
    # The machine is in all of them. The lab's namespaces are apart from the machine, so that they can be used still.
    return (apart or candidates)[0], ""


def _check_apart(ranges: Ranges) -> None:
    """Raise `LabError` if two ranges of a family share addresses."""
    roles = list(OPTION_OF)
    for index, role in enumerate(roles):
        for other in roles[index + 1 :]:
            mine, theirs = getattr(ranges, role), getattr(ranges, other)
            if _overlap(ipaddress.ip_network(mine), ipaddress.ip_network(theirs)):
                raise LabError(
                    f"{OPTION_OF[role]} {mine} and {OPTION_OF[other]} {theirs} share addresses; choose them apart"
                )


def _check_unchanged(chosen: Mapping[Role, Mapping[int, Network]], before: LabConfig) -> None:
    for role, networks in chosen.items():
        former: dict[int, str] = {each.version: getattr(each, role) for each in before.ranges}
        for version, network in networks.items():
            if str(network) != former[version]:
                raise LabError(
                    f"the lab was made with {OPTION_OF[role]} {','.join(former.values())}, and its nodes and Services"
                    " have their addresses: `bridgehead down --delete` removes it, another --name makes a second one"
                )


def describe_ranges(ranges: Sequence[Ranges]) -> str:
    """Return `nodes in 10.0.0.0/24, pods in 10.244.0.0/16, Services in 10.96.0.0/12`,
    with "and" between the ranges of two families."""
    named = (("nodes", "fabric"), ("pods", "pods"), ("Services", "services"))
    return ", ".join(f"{name} in {' and '.join(getattr(each, role) for each in ranges)}" for name, role in named)
