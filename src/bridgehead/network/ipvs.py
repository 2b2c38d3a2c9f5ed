"""The kernel's IPVS (IP Virtual Server): virtual servers and the real servers behind them.

A node may have 100,000 real servers. `proxy/ipvs` decides which virtual and real servers there are.
Source: linux/ip_vs.h, linux/genetlink.h, net/netfilter/ipvs/ip_vs_ctl.c.
"""

from __future__ import annotations

import errno
import socket
import struct
import sys
from collections.abc import Iterable
from typing import Final, NamedTuple

from bridgehead.objects.addresses import join_host_port

from .closable import Closable
from .inet import PROTOCOL_NAMES, PROTOCOLS, address_family
from .netlink_attributes import attribute, be16, nest, parse_attributes, parse_text, text, u16, u32
from .netlink_socket import NetlinkSocket, Request
from .uapi.genetlink import CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_CMD_GETFAMILY, GENL_ID_CTRL
from .uapi.ip_vs import (
    IP_VS_CONN_F_MASQ,
    IP_VS_SVC_F_HASHED,
    IP_VS_SVC_F_PERSISTENT,
    IPVS_CMD_ATTR_DEST,
    IPVS_CMD_ATTR_SERVICE,
    IPVS_CMD_ATTR_TIMEOUT_TCP,
    IPVS_CMD_ATTR_TIMEOUT_TCP_FIN,
    IPVS_CMD_ATTR_TIMEOUT_UDP,
    IPVS_CMD_DEL_DEST,
    IPVS_CMD_DEL_SERVICE,
    IPVS_CMD_GET_DEST,
    IPVS_CMD_GET_SERVICE,
    IPVS_CMD_NEW_DEST,
    IPVS_CMD_NEW_SERVICE,
    IPVS_CMD_SET_CONFIG,
    IPVS_CMD_SET_DEST,
    IPVS_CMD_SET_SERVICE,
    IPVS_DEST_ATTR_ACTIVE_CONNS,
    IPVS_DEST_ATTR_ADDR,
    IPVS_DEST_ATTR_ADDR_FAMILY,
    IPVS_DEST_ATTR_FWD_METHOD,
    IPVS_DEST_ATTR_INACT_CONNS,
    IPVS_DEST_ATTR_L_THRESH,
    IPVS_DEST_ATTR_PORT,
    IPVS_DEST_ATTR_U_THRESH,
    IPVS_DEST_ATTR_WEIGHT,
    IPVS_GENL_NAME,
    IPVS_GENL_VERSION,
    IPVS_SVC_ATTR_ADDR,
    IPVS_SVC_ATTR_AF,
    IPVS_SVC_ATTR_FLAGS,
    IPVS_SVC_ATTR_FWMARK,
    IPVS_SVC_ATTR_NETMASK,
    IPVS_SVC_ATTR_PORT,
    IPVS_SVC_ATTR_PROTOCOL,
    IPVS_SVC_ATTR_SCHED_NAME,
    IPVS_SVC_ATTR_TIMEOUT,
)
from .uapi.netlink import NETLINK_GENERIC

_GENERIC_HEADER: Final = struct.Struct("=BBH")  # struct genlmsghdr: command, version, reserved
_CONTROLLER_VERSION: Final = 1
_ADDRESS_BYTES: Final = 16  # union nf_inet_addr
_ALL_BITS: Final = 0xFFFFFFFF
_UNLIMITED: Final = 0  # connections, of IPVS_DEST_ATTR_*_THRESH

_VERSIONS: Final = {address_family(version): version for version in (4, 6)}

_EXISTS: Final = frozenset((errno.EEXIST,))
_ABSENT: Final = frozenset((errno.ENOENT, errno.ESRCH))


class Server(NamedTuple):
    """The identity of a virtual server: address, protocol and port, or a firewall mark if `mark` is not 0.

    `protocol` is tcp, udp, sctp, the number of another one, or "" with a mark; `address` is canonical, "" with a mark.
    """

    family: int  # 4 or 6
    address: str
    protocol: str
    port: int
    mark: int = 0

    def __str__(self) -> str:
        if self.mark:
            return f"mark {self.mark} (IPv{self.family})"
        return f"{join_host_port(self.address, self.port)}/{self.protocol}"


class Scheduling(NamedTuple):
    """The scheduling of a virtual server, by which it chooses real servers. `flags`: IP_VS_SVC_F_SCHED*.

    `persistent`: for how many seconds without connections a client keeps its real server; 0: clients keep none.
    """

    scheduler: str
    persistent: int = 0
    flags: int = 0


class Destination(NamedTuple):
    """The identity of a real server behind a virtual server."""

    address: str
    port: int


class Load(NamedTuple):
    """A real server's weight, and its number of connections, active and inactive."""

    weight: int
    connections: int


class Ipvs(Closable):
    """The virtual servers of the network namespace in which it was made.

    The constructor has the kernel load its IPVS module, and raises OSError with ENOENT when the kernel has none.
    Methods block, and raise OSError.
    """

    def __init__(self) -> None:
        self._netlink = NetlinkSocket(NETLINK_GENERIC)
        try:
            body = _GENERIC_HEADER.pack(CTRL_CMD_GETFAMILY, _CONTROLLER_VERSION, 0)
            body += text(CTRL_ATTR_FAMILY_NAME, IPVS_GENL_NAME)
            answer = self._netlink.ask(Request(GENL_ID_CTRL, 0, body, "IPVS")) or b""
            self._family = _number(parse_attributes(answer[_GENERIC_HEADER.size :])[CTRL_ATTR_FAMILY_ID])
        except BaseException:
            self._netlink.close()
            raise

    def close(self) -> None:
        self._netlink.close()

    # --- Reading --------------------------------------------------------------------------------------------

    def servers(self) -> dict[Server, Scheduling]:
        """Return every virtual server, whichever program made it."""
        found = {}
        for payload in self._netlink.dump(self._request(IPVS_CMD_GET_SERVICE, b"", "list virtual servers")):
            server, scheduling = _parse_server(_nested(payload, IPVS_CMD_ATTR_SERVICE))
            found[server] = scheduling
        return found

    def has(self, server: Server) -> bool:
        request = self._request(IPVS_CMD_GET_SERVICE, _identity(server), f"look for {server}")
        return self._netlink.ask(request._replace(tolerated=_ABSENT)) is not None

    def destinations(self, server: Server) -> dict[Destination, Load]:
        """Return the real servers behind a virtual server; none if it is absent."""
        found = {}
        request = self._request(IPVS_CMD_GET_DEST, _identity(server), f"list what is behind {server}")
        for payload in self._netlink.dump(request._replace(tolerated=_ABSENT)):
            values = _nested(payload, IPVS_CMD_ATTR_DEST)
            family = values.get(IPVS_DEST_ATTR_ADDR_FAMILY)  # absent before Linux 3.18
            af = address_family(server.family) if family is None else _number(family)
            destination = Destination(
                _address(af, values[IPVS_DEST_ATTR_ADDR]), int.from_bytes(values[IPVS_DEST_ATTR_PORT])
            )
            connections = _number(values[IPVS_DEST_ATTR_ACTIVE_CONNS]) + _number(values[IPVS_DEST_ATTR_INACT_CONNS])
            found[destination] = Load(_number(values[IPVS_DEST_ATTR_WEIGHT]), connections)
        return found

    # --- Changing -------------------------------------------------------------------------------------------

    def put(self, servers: Iterable[tuple[Server, Scheduling]]) -> None:
        """Add virtual servers, or change those that exist."""
        requests = []
        for server, scheduling in servers:
            body = _service(server, scheduling)
            new = self._request(IPVS_CMD_NEW_SERVICE, body, f"add {server} ({scheduling.scheduler})")
            requests.append(new._replace(tolerated=_EXISTS))
            requests.append(self._request(IPVS_CMD_SET_SERVICE, body, f"set {server} ({scheduling.scheduler})"))
        self._netlink.send(requests)

    def remove(self, servers: Iterable[Server]) -> None:
        """Remove virtual servers with their real servers; absent ones are success."""
        self._netlink.send(
            self._request(IPVS_CMD_DEL_SERVICE, _identity(server), f"remove {server}")._replace(tolerated=_ABSENT)
            for server in servers
        )

    def put_destinations(self, destinations: Iterable[tuple[Server, Destination, int]]) -> None:
        """Add real servers with their weights to virtual servers, or change their weights."""
        requests = []
        for server, destination, weight in destinations:
            body = _identity(server) + _destination(server, destination, weight)
            name = f"{destination.address}:{destination.port} behind {server}"
            requests.append(self._request(IPVS_CMD_NEW_DEST, body, f"put {name}")._replace(tolerated=_EXISTS))
            requests.append(self._request(IPVS_CMD_SET_DEST, body, f"set {name}"))
        self._netlink.send(requests)

    def quiesce(self, destinations: Iterable[tuple[Server, Destination]]) -> None:
        """Give real servers no new connections (weight 0); absent ones are success."""
        self._netlink.send(
            self._request(
                IPVS_CMD_SET_DEST, _identity(server) + _destination(server, destination, 0), f"quiesce {destination}"
            )._replace(tolerated=_ABSENT)
            for server, destination in destinations
        )

    def remove_destinations(self, destinations: Iterable[tuple[Server, Destination]]) -> None:
        """Remove real servers; absent ones are success."""
        self._netlink.send(
            self._request(
                IPVS_CMD_DEL_DEST, _identity(server) + _destination(server, destination, 0), f"remove {destination}"
            )._replace(tolerated=_ABSENT)
            for server, destination in destinations
        )

    def set_timeouts(self, tcp: int, tcp_fin: int, udp: int) -> None:
        """Set after how many idle seconds connections expire; 0 keeps the kernel's value."""
        body = b"".join(
            u32(kind, seconds)
            for kind, seconds in (
                (IPVS_CMD_ATTR_TIMEOUT_TCP, tcp),
                (IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, tcp_fin),
                (IPVS_CMD_ATTR_TIMEOUT_UDP, udp),
            )
        )
        self._netlink.send([self._request(IPVS_CMD_SET_CONFIG, body, "set the timeouts")])

    def _request(self, command: int, body: bytes, name: str) -> Request:
        return Request(self._family, 0, _GENERIC_HEADER.pack(command, IPVS_GENL_VERSION, 0) + body, f"IPVS: {name}")


def _number(value: bytes) -> int:
    """Return a number of 16 or 32 bits in the machine's byte order."""
    return int.from_bytes(value, sys.byteorder)


def _nested(payload: bytes, kind: int) -> dict[int, bytes]:
    return parse_attributes(parse_attributes(payload[_GENERIC_HEADER.size :])[kind])


def _packed(family: int, address: str) -> bytes:
    return socket.inet_pton(address_family(family), address).ljust(_ADDRESS_BYTES, b"\0")


def _address(af: int, packed: bytes) -> str:
    return socket.inet_ntop(af, packed[: 4 if af == socket.AF_INET else 16])


def _identity_attributes(server: Server) -> bytes:
    af = u16(IPVS_SVC_ATTR_AF, address_family(server.family))
    if server.mark:
        return af + u32(IPVS_SVC_ATTR_FWMARK, server.mark)
    protocol = PROTOCOLS.get(server.protocol)
    return (
        af
        + u16(IPVS_SVC_ATTR_PROTOCOL, int(server.protocol) if protocol is None else protocol)
        + attribute(IPVS_SVC_ATTR_ADDR, _packed(server.family, server.address))
        + be16(IPVS_SVC_ATTR_PORT, server.port)
    )


def _identity(server: Server) -> bytes:
    return nest(IPVS_CMD_ATTR_SERVICE, _identity_attributes(server))


def _service(server: Server, scheduling: Scheduling) -> bytes:
    flags = scheduling.flags | (IP_VS_SVC_F_PERSISTENT if scheduling.persistent else 0)
    # Persistence is for single clients: in IPv4 a mask of all bits, in IPv6 a prefix length.
    netmask = b"\xff" * 4 if server.family == 4 else struct.pack("=I", 128)
    return nest(
        IPVS_CMD_ATTR_SERVICE,
        _identity_attributes(server)
        + text(IPVS_SVC_ATTR_SCHED_NAME, scheduling.scheduler)
        + attribute(IPVS_SVC_ATTR_FLAGS, struct.pack("=II", flags, _ALL_BITS))  # struct ip_vs_flags: flags, mask
        + u32(IPVS_SVC_ATTR_TIMEOUT, scheduling.persistent)
        + attribute(IPVS_SVC_ATTR_NETMASK, netmask),
    )


def _destination(server: Server, destination: Destination, weight: int) -> bytes:
    return nest(
        IPVS_CMD_ATTR_DEST,
        attribute(IPVS_DEST_ATTR_ADDR, _packed(server.family, destination.address))
        + be16(IPVS_DEST_ATTR_PORT, destination.port)
        + u32(IPVS_DEST_ATTR_FWD_METHOD, IP_VS_CONN_F_MASQ)
        + u32(IPVS_DEST_ATTR_WEIGHT, weight)
        + u32(IPVS_DEST_ATTR_U_THRESH, _UNLIMITED)
        + u32(IPVS_DEST_ATTR_L_THRESH, _UNLIMITED)
        + u16(IPVS_DEST_ATTR_ADDR_FAMILY, address_family(server.family)),
    )


def _parse_server(values: dict[int, bytes]) -> tuple[Server, Scheduling]:
    af = _number(values[IPVS_SVC_ATTR_AF])
    mark = _number(values[IPVS_SVC_ATTR_FWMARK]) if IPVS_SVC_ATTR_FWMARK in values else 0
    flags, _ = struct.unpack("=II", values[IPVS_SVC_ATTR_FLAGS])
    scheduling = Scheduling(
        parse_text(values[IPVS_SVC_ATTR_SCHED_NAME]),
        _number(values[IPVS_SVC_ATTR_TIMEOUT]) if flags & IP_VS_SVC_F_PERSISTENT else 0,
        flags & ~(IP_VS_SVC_F_PERSISTENT | IP_VS_SVC_F_HASHED),
    )
    if mark:
        return Server(_VERSIONS[af], "", "", 0, mark), scheduling
    protocol = _number(values[IPVS_SVC_ATTR_PROTOCOL])
    name = PROTOCOL_NAMES.get(protocol, str(protocol))
    address, port = _address(af, values[IPVS_SVC_ATTR_ADDR]), int.from_bytes(values[IPVS_SVC_ATTR_PORT])
    return Server(_VERSIONS[af], address, name, port), scheduling
