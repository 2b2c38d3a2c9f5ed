"""Requests of rtnetlink, to be sent by a `NetlinkSocket`: links, addresses, routes, neighbours, rules.

Used by the container runtime, which wires each pod with eleven of them, and by `links`, `interface_addresses` and
`own_addresses`.

Source: rtnetlink(7), linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h, linux/neighbour.h, linux/fib_rules.h.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from typing import Final

from .inet import pack_address
from .netlink_attributes import attribute, parse_attributes, text, u32
from .netlink_socket import Request
from .uapi.fib_rules import FR_ACT_TO_TBL, FR_ACT_UNREACHABLE, FRA_IIFNAME, FRA_PRIORITY
from .uapi.if_ import IF_OPER_UP, IFF_NOARP, IFF_UP
from .uapi.if_addr import IFA_ADDRESS, IFA_CACHEINFO, IFA_F_NODAD, IFA_F_NOPREFIXROUTE, IFA_FLAGS, IFA_LOCAL
from .uapi.if_link import (
    IFLA_ADDRESS,
    IFLA_AF_SPEC,
    IFLA_BR_FORWARD_DELAY,
    IFLA_GROUP,
    IFLA_IFNAME,
    IFLA_INET6_ADDR_GEN_MODE,
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_LINKINFO,
    IFLA_MASTER,
    IFLA_MTU,
    IFLA_NET_NS_FD,
    IFLA_OPERSTATE,
    IN6_ADDR_GEN_MODE_NONE,
)
from .uapi.neighbour import NDA_DST, NDA_LLADDR, NUD_PERMANENT
from .uapi.netlink import NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE
from .uapi.rtnetlink import (
    RT_SCOPE_HOST,
    RT_SCOPE_LINK,
    RT_SCOPE_UNIVERSE,
    RT_TABLE_LOCAL,
    RT_TABLE_MAIN,
    RTA_DST,
    RTA_GATEWAY,
    RTA_OIF,
    RTA_PREFSRC,
    RTM_DELADDR,
    RTM_DELLINK,
    RTM_DELROUTE,
    RTM_GETADDR,
    RTM_GETLINK,
    RTM_GETROUTE,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
    RTM_NEWROUTE,
    RTM_NEWRULE,
    RTN_LOCAL,
    RTN_THROW,
    RTN_UNICAST,
    RTNH_F_ONLINK,
    RTPROT_STATIC,
)
from .uapi.veth import VETH_INFO_PEER

LINK_HEADER: Final = struct.Struct("=BxHiII")  # struct ifinfomsg: family, type, index, flags, changed flags
ADDRESS_HEADER: Final = struct.Struct("=BBBBI")  # struct ifaddrmsg: family, prefix length, flags, scope, link's index
ROUTE_HEADER: Final = struct.Struct("=BBBBBBBBI")  # struct rtmsg: family, destination's and source's length, tos,
#                                                     table, protocol, scope, type, flags
_NEIGHBOUR_HEADER: Final = struct.Struct("=BxxxiHBB")  # struct ndmsg: family, link's index, state, flags, type
_RULE_HEADER: Final = struct.Struct("=BBBBBxxBI")  # struct fib_rule_hdr: family, lengths, tos, table, action, flags
_ROUTE_TYPE_OFFSET: Final = 7  # rtm_type in struct rtmsg

LOOPBACK_INDEX: Final = 1  # of lo, in every network namespace
_INFINITY_LIFE_TIME: Final = 0xFFFFFFFF  # the kernel's net/addrconf.h
_NO_LINK: Final = frozenset((errno.ENODEV,))
_NO_ROUTE: Final = frozenset((errno.ENETUNREACH, errno.EHOSTUNREACH))
_EXISTS: Final = frozenset((errno.EEXIST,))

_ANY_LINK: Final = LINK_HEADER.pack(socket.AF_UNSPEC, 0, 0, 0, 0)


def _mac(kind: int, mac: str) -> bytes:
    return attribute(kind, bytes.fromhex(mac.replace(":", "")))


# --- Links ------------------------------------------------------------------------------------------------------


def add_veth(
    name: str,
    peer: str,
    *,
    peer_namespace: int,
    mtu: int,
    mac: str = "",
    peer_mac: str = "",
    group: int = 0,
    master: int = 0,
    has_arp: bool = True,
) -> Request:
    """A pair of links: `name` here, up; `peer` in the network namespace with that descriptor, down.

    Without MAC addresses the kernel chooses them. `group`: the link group (IFLA_GROUP); `master`: the index of a
    bridge; `has_arp`: whether the end sends ARP and accepts it (IFF_NOARP). All are those of the end here.
    """
    peer_end = _ANY_LINK + _end(peer, peer_mac, mtu) + u32(IFLA_NET_NS_FD, peer_namespace)
    flags = IFF_UP if has_arp else IFF_UP | IFF_NOARP
    body = LINK_HEADER.pack(socket.AF_UNSPEC, 0, 0, flags, flags) + _end(name, mac, mtu) + u32(IFLA_GROUP, group)
    if master:
        body += u32(IFLA_MASTER, master)
    body += _link_info("veth", attribute(VETH_INFO_PEER, peer_end))
    return Request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"add veth {name}")


def _end(name: str, mac: str, mtu: int) -> bytes:
    return text(IFLA_IFNAME, name) + (_mac(IFLA_ADDRESS, mac) if mac else b"") + u32(IFLA_MTU, mtu)


def _link_info(kind: str, data: bytes = b"") -> bytes:
    return attribute(IFLA_LINKINFO, text(IFLA_INFO_KIND, kind) + (attribute(IFLA_INFO_DATA, data) if data else b""))


def add_bridge(name: str, mtu: int) -> Request:
    """A bridge, up, without a forwarding delay; one that exists is success."""
    body = LINK_HEADER.pack(socket.AF_UNSPEC, 0, 0, IFF_UP, IFF_UP) + text(IFLA_IFNAME, name) + u32(IFLA_MTU, mtu)
    body += _link_info("bridge", u32(IFLA_BR_FORWARD_DELAY, 0))
    return Request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"add bridge {name}", _EXISTS)


def add_dummy(name: str) -> Request:
    """A dummy interface, down; one that exists is success."""
    body = _ANY_LINK + text(IFLA_IFNAME, name) + _link_info("dummy")
    return Request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"add {name}", _EXISTS)


def delete_link(name: str, *, may_be_absent: bool = False) -> Request:
    """Delete a link with its addresses, of a veth pair both ends."""
    tolerated = _NO_LINK if may_be_absent else frozenset[int]()
    return Request(RTM_DELLINK, 0, _ANY_LINK + text(IFLA_IFNAME, name), f"delete link {name}", tolerated)


def find_link(name: str) -> Request:
    """Ask for a link by its name; `link_index` reads the answer, which is None without such a link."""
    return Request(RTM_GETLINK, 0, _ANY_LINK + text(IFLA_IFNAME, name), f"look for {name}", _NO_LINK)


def link_index(answer: bytes) -> int:
    """Return the index of the link in an answer or notification."""
    return int(LINK_HEADER.unpack_from(answer)[2])


def set_up(index: int) -> Request:
    """Set a link up."""
    body = LINK_HEADER.pack(socket.AF_UNSPEC, 0, index, IFF_UP, IFF_UP)
    return Request(RTM_NEWLINK, 0, body, f"set link {index} up")


def get_link(index: int) -> Request:
    """Ask for a link; `is_operating` reads the answer."""
    return Request(RTM_GETLINK, 0, LINK_HEADER.pack(socket.AF_UNSPEC, 0, index, 0, 0), f"get link {index}")


def is_operating(answer: bytes) -> bool:
    """Return whether the link transmits what is sent through it.

    A link transmits once the kernel's link watch has noticed its carrier, a moment after both ends of a pair are up;
    until then the kernel drops packets silently. Recent kernels notice the carrier before they answer.
    """
    return parse_attributes(answer[LINK_HEADER.size :]).get(IFLA_OPERSTATE) == bytes([IF_OPER_UP])


def list_links() -> Request:
    """List all links."""
    return Request(RTM_GETLINK, 0, _ANY_LINK, "list links")


def set_no_link_local(index: int) -> Request:
    """Give a link that is down no IPv6 link-local address later; it does not solicit routers either."""
    mode = attribute(IFLA_INET6_ADDR_GEN_MODE, struct.pack("=B", IN6_ADDR_GEN_MODE_NONE))
    body = LINK_HEADER.pack(socket.AF_UNSPEC, 0, index, 0, 0) + attribute(
        IFLA_AF_SPEC, attribute(socket.AF_INET6, mode)
    )
    return Request(RTM_NEWLINK, 0, body, f"let link {index} have no link-local address")


# --- Addresses --------------------------------------------------------------------------------------------------


def _address(index: int, address: str, length: int | None = None, *, scope: int = 0, flags: int = 0) -> bytes:
    """An address, by default as a /32 or /128."""
    family, bits, packed = pack_address(address)
    body = ADDRESS_HEADER.pack(family, bits if length is None else length, 0, scope, index)
    body += attribute(IFA_LOCAL, packed) + attribute(IFA_ADDRESS, packed)
    return body + (u32(IFA_FLAGS, flags) if flags else b"")


def add_address(index: int, address: str) -> Request:
    """Add an address as a /32 or /128, without duplicate address detection; `is_local_route` is true once it works."""
    flags = IFA_F_NODAD | IFA_F_NOPREFIXROUTE if ":" in address else 0
    body = _address(index, address, flags=flags)
    return Request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body, f"add address {address}")


def add_network_address(index: int, address: str) -> Request:
    """Add an address with its prefix length (`10.0.0.1/24`), without duplicate address detection.

    The kernel adds a route to the network. An address that exists is success.
    """
    interface = ipaddress.ip_interface(address)
    flags = IFA_F_NODAD if interface.version == 6 else 0
    body = _address(index, str(interface.ip), interface.network.prefixlen, flags=flags)
    return Request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body, f"add address {address}", _EXISTS)


def add_host_address(index: int, address: str) -> Request:
    """Add an address as a /32 or /128 with its route; one that exists is success."""
    body = _address(index, address, flags=IFA_F_NODAD if ":" in address else 0)
    return Request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body, f"add {address}", _EXISTS)


def delete_host_address(index: int, address: str) -> Request:
    """Delete an address; an absent one, or an absent link, is success."""
    absent = frozenset((errno.EADDRNOTAVAIL, errno.ENODEV))
    return Request(RTM_DELADDR, 0, _address(index, address), f"remove {address}", absent)


def list_addresses() -> Request:
    """List the addresses of all links."""
    return Request(RTM_GETADDR, 0, ADDRESS_HEADER.pack(socket.AF_UNSPEC, 0, 0, 0, 0), "list addresses")


def add_loopback_address(address: str) -> Request:
    """Add an address to lo, or replace it, that the kernel never chooses as a source by itself.

    IPv4: of scope host. IPv6: with a preferred lifetime of 0, so it is deprecated (RFC 6724, rule 3).
    """
    body = _address(
        LOOPBACK_INDEX,
        address,
        scope=RT_SCOPE_HOST,
        flags=IFA_F_NODAD | IFA_F_NOPREFIXROUTE if ":" in address else 0,
    )
    if ":" in address:
        # struct ifa_cacheinfo: preferred and valid lifetime, two timestamps
        body += attribute(IFA_CACHEINFO, struct.pack("=IIII", 0, _INFINITY_LIFE_TIME, 0, 0))
    return Request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, body, f"add address {address}")


def delete_loopback_address(address: str) -> Request:
    """Delete an address of lo."""
    body = _address(LOOPBACK_INDEX, address, scope=RT_SCOPE_HOST)
    return Request(RTM_DELADDR, 0, body, f"remove address {address}")


# --- Routes and neighbours --------------------------------------------------------------------------------------


def _route(
    family: int,
    length: int,
    *,
    table: int = RT_TABLE_MAIN,
    scope: int = RT_SCOPE_UNIVERSE,
    kind: int = RTN_UNICAST,
    flags: int = 0,
) -> bytes:
    return ROUTE_HEADER.pack(family, length, 0, 0, table, RTPROT_STATIC, scope, kind, flags)


def get_route(address: str) -> Request:
    """Ask for the route to an address; `is_local_route` reads the answer, which is None without a route."""
    family, length, packed = pack_address(address)
    body = ROUTE_HEADER.pack(family, length, 0, 0, 0, 0, 0, 0, 0) + attribute(RTA_DST, packed)
    return Request(RTM_GETROUTE, 0, body, f"get route {address}", _NO_ROUTE)


def list_routes(family: int) -> Request:
    """List the routes of a family (AF_INET, AF_INET6) in all tables."""
    return Request(RTM_GETROUTE, 0, ROUTE_HEADER.pack(family, 0, 0, 0, 0, 0, 0, 0, 0), "list routes")


def is_local_route(answer: bytes) -> bool:
    """Return whether this network namespace receives packets for the address: with IPv6 a moment after it was added."""
    return len(answer) > _ROUTE_TYPE_OFFSET and answer[_ROUTE_TYPE_OFFSET] == RTN_LOCAL


def add_host_route(index: int, address: str) -> Request:
    """Add or replace the route to one address through a link."""
    return Request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, _host_route(index, address), f"add route {address}")


def delete_host_route(index: int, address: str) -> Request:
    """Delete the route to one address if it goes through the link."""
    return Request(RTM_DELROUTE, 0, _host_route(index, address), f"delete route {address}")


def _host_route(index: int, address: str) -> bytes:
    family, length, packed = pack_address(address)
    return _route(family, length, scope=RT_SCOPE_LINK) + attribute(RTA_DST, packed) + u32(RTA_OIF, index)


def add_default_route(index: int, gateway: str) -> Request:
    """Add or replace the default route through a gateway that is assumed to be on the link."""
    family, _, packed = pack_address(gateway)
    body = _route(family, 0, flags=RTNH_F_ONLINK) + attribute(RTA_GATEWAY, packed) + u32(RTA_OIF, index)
    return Request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, body, f"add default route by {gateway}")


def add_route(destination: str, gateway: str, table: int = RT_TABLE_MAIN, *, replaces: bool = True) -> Request:
    """Add or replace the route to a network, or "default", through a gateway. `table`: at most 255.

    If it may not replace one, EEXIST is an error.
    """
    family, _, packed_gateway = pack_address(gateway)
    body = _route_to(destination, family, table, RTN_UNICAST) + attribute(RTA_GATEWAY, packed_gateway)
    flags = NLM_F_CREATE | (NLM_F_REPLACE if replaces else NLM_F_EXCL)
    return Request(RTM_NEWROUTE, flags, body, f"add route {destination} by {gateway}")


def add_throw_route(destination: str, table: int) -> Request:
    """Add or replace a route that ends the lookup in this table, so that the next rule decides."""
    family = socket.AF_INET6 if ":" in destination else socket.AF_INET
    body = _route_to(destination, family, table, RTN_THROW)
    return Request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, body, f"throw {destination}")


def _route_to(destination: str, family: int, table: int, kind: int) -> bytes:
    if destination == "default":
        return _route(family, 0, table=table, kind=kind)
    network = ipaddress.ip_network(destination)
    head = _route(family, network.prefixlen, table=table, kind=kind)
    return head + attribute(RTA_DST, network.network_address.packed)


def add_local_route(address: str, source: str) -> Request:
    """Add a local route; packets from this namespace to the address have the source `source`, or the address if ""."""
    body = _local_route(address)
    if source:
        body += attribute(RTA_PREFSRC, pack_address(source)[2])
    return Request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, body, f"receive packets for {address}")


def delete_local_route(address: str) -> Request:
    """Delete a route of `add_local_route`; those that the kernel made for addresses stay."""
    return Request(RTM_DELROUTE, 0, _local_route(address), f"no longer receive packets for {address}")


def _local_route(address: str) -> bytes:
    family, length, packed = pack_address(address)
    head = _route(family, length, table=RT_TABLE_LOCAL, scope=RT_SCOPE_HOST, kind=RTN_LOCAL)
    return head + attribute(RTA_DST, packed) + u32(RTA_OIF, LOOPBACK_INDEX)


def add_neighbour(index: int, address: str, mac: str) -> Request:
    """Add or replace a permanent neighbour."""
    family, _, packed = pack_address(address)
    body = _NEIGHBOUR_HEADER.pack(family, index, NUD_PERMANENT, 0, 0)
    body += attribute(NDA_DST, packed) + _mac(NDA_LLADDR, mac)
    return Request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, body, f"add neighbour {address}")


def add_unreachable_rule(family: int, link: str, priority: int) -> Request:
    """Add a rule that answers packets from a link, unless they are for this namespace itself, with "unreachable".

    A rule that exists is success.
    """
    body = _RULE_HEADER.pack(family, 0, 0, 0, 0, FR_ACT_UNREACHABLE, 0)
    body += text(FRA_IIFNAME, link) + u32(FRA_PRIORITY, priority)
    return Request(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, body, f"refuse to forward from {link}", _EXISTS)


def add_lookup_rule(family: int, link: str, table: int, priority: int) -> Request:
    """Add a rule that routes packets from a link by a table of at most 255. A rule that exists is success."""
    body = _RULE_HEADER.pack(family, 0, 0, 0, table, FR_ACT_TO_TBL, 0)
    body += text(FRA_IIFNAME, link) + u32(FRA_PRIORITY, priority)
    return Request(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, body, f"route packets from {link}", _EXISTS)
