"""Paths to other hosts: the link, this node's address on it, and whether a gateway is between.

Source: rtnetlink(7).
"""

from __future__ import annotations

import socket
import sys
from typing import NamedTuple

from . import rtnetlink_requests as requests
from .inet import address_family
from .netlink_attributes import parse_attributes
from .netlink_socket import NetlinkSocket
from .uapi.if_addr import IFA_ADDRESS, IFA_LOCAL
from .uapi.rtnetlink import RT_SCOPE_UNIVERSE, RTA_GATEWAY, RTA_OIF, RTA_PREFSRC


class Path(NamedTuple):
    """The way of packets to a host. `source`: their source address; `link`: the number of the link."""

    source: str
    link: int
    is_on_link: bool


def find_path(address: str) -> Path | None:
    """Return the path to an address; None without a route. Raises OSError."""
    with NetlinkSocket(socket.NETLINK_ROUTE) as netlink:
        answer = netlink.ask(requests.get_route(address))
    if answer is None:
        return None
    found = parse_attributes(answer[requests.ROUTE_HEADER.size :])
    source, link = found.get(RTA_PREFSRC), found.get(RTA_OIF)
    if source is None or link is None:  # the kernel discards such packets
        return None
    family = socket.AF_INET if len(source) == 4 else socket.AF_INET6
    return Path(socket.inet_ntop(family, source), int.from_bytes(link, sys.byteorder), RTA_GATEWAY not in found)


def address_on(link: int, version: int) -> str:
    """Return an address of a family that other hosts can reach on a link; "" if there is none. Raises OSError.

    An address with the length of its network comes first: those of a single host may be a Service's.
    """
    with NetlinkSocket(socket.NETLINK_ROUTE) as netlink:
        answers = netlink.dump(requests.list_addresses())
    found = []
    for answer in answers:
        family, length, _, scope, index = requests.ADDRESS_HEADER.unpack_from(answer)
        if (family, index, scope) == (address_family(version), link, RT_SCOPE_UNIVERSE):
            attributes = parse_attributes(answer[requests.ADDRESS_HEADER.size :])
            packed = attributes.get(IFA_LOCAL) or attributes[IFA_ADDRESS]
            found.append((length == 8 * len(packed), socket.inet_ntop(family, packed)))
    return min(found, key=lambda item: item[0], default=(True, ""))[1]
