"""The kernel's IPVS (IP Virtual Server): virtual servers and the real servers behind them, over generic netlink.

Encoded by hand, as in `conntrack`; there may be 100,000 real servers. `proxy/ipvs` decides what there is to be.
Source: linux/ip_vs.h, net/netfilter/ipvs/ip_vs_ctl.c.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from bridgehead.objects.addresses import join_host_port

from .closable import Closable
from .netlink import (
    PROTOCOL_NAMES,
    PROTOCOLS,
    Netlink,
    Request,
    address_family,
    as_text,
    attribute,
    attributes,
    nest,
    text,
)

_NETLINK_GENERIC: Final = 16
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2

_NEW_SERVICE, _SET_SERVICE, _DEL_SERVICE, _GET_SERVICE = 1, 2, 3, 4
_NEW_DEST, _SET_DEST, _DEL_DEST, _GET_DEST = 5, 6, 7, 8
_SET_CONFIG: Final = 12
_SERVICE, _DEST, _TIMEOUT_TCP, _TIMEOUT_TCP_FIN, _TIMEOUT_UDP = 1, 2, 4, 5, 6
# IPVS_SVC_ATTR_*
_AF, _PROTOCOL, _ADDR, _PORT, _FWMARK, _SCHED_NAME, _FLAGS, _TIMEOUT, _NETMASK = range(1, 10)
# IPVS_DEST_ATTR_*
_DEST_ADDR, _DEST_PORT, _FWD_METHOD, _WEIGHT, _U_THRESH, _L_THRESH, _ACTIVE, _INACTIVE = range(1, 9)
_DEST_FAMILY: Final = 11

PERSISTENT: Final = 0x1
HASHED: Final = 0x2  # the kernel's own remark
SOURCE_HASH: Final = 0x10  # of the schedulers mh and sh: by the client's port, too
_MASQUERADING: Final = 0

_VERSIONS: Final = {address_family(version): version for version in (4, 6)}

_THERE: Final = frozenset((errno.EEXIST,))
_GONE: Final = frozenset((errno.ENOENT, errno.ESRCH))


class Server(NamedTuple):
    """What tells a virtual server apart: address, protocol and port; or, when `mark` is not 0, that firewall mark.

    `protocol` is tcp, udp, sctp, or "" with a mark (or the number of another); `address` is canonical, "" with a mark.
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
    """How a virtual server chooses. `persistent`: for how many seconds a client keeps its real server; 0: not."""

    scheduler: str
    persistent: int = 0
    flags: int = 0


class Destination(NamedTuple):
    address: str
    port: int


class Load(NamedTuple):
    """What the kernel tells of a real server: its weight, and how many connections it knows."""

    weight: int
    connections: int


class Ipvs(Closable):
    """The virtual servers of the network namespace in which it was made. Loads the kernel's module if it is there.

    Methods block, and raise OSError: ENOENT from the constructor when the kernel has no IPVS.
    """

    def __init__(self) -> None:
        self._netlink = Netlink(_NETLINK_GENERIC)
        try:
            answer = self._netlink.ask(Request(_CONTROL, 0, _generic(_GET_FAMILY) + text(_FAMILY_NAME, "IPVS"), "IPVS"))
            self._family = int(struct.unpack("=H", attributes((answer or b"")[4:])[_FAMILY_ID])[0])
        except BaseException:
            self._netlink.close()
            raise

    def close(self) -> None:
        self._netlink.close()

    # --- What there is --------------------------------------------------------------------------------------

    def servers(self) -> dict[Server, Scheduling]:
        """Every virtual server there is, whoever made it."""
        found = {}
        for payload in self._netlink.dump(self._request(_GET_SERVICE, b"", "list virtual servers")):
            server, scheduling = _parse_server(attributes(attributes(payload[4:])[_SERVICE]))
            found[server] = scheduling
        return found

    def has(self, server: Server) -> bool:
        request = self._request(_GET_SERVICE, _identity(server), f"look for {server}")
        return self._netlink.ask(request._replace(tolerated=_GONE)) is not None

    def destinations(self, server: Server) -> dict[Destination, Load]:
        """The real servers behind one virtual server; none when it is not there."""
        found = {}
        request = self._request(_GET_DEST, _identity(server), f"list what is behind {server}")
        for payload in self._netlink.dump(request._replace(tolerated=_GONE)):
            there = attributes(attributes(payload[4:])[_DEST])
            kind = (
                struct.unpack("=H", there[_DEST_FAMILY])[0] if _DEST_FAMILY in there else address_family(server.family)
            )
            address = _address(kind, there[_DEST_ADDR])
            weight, active, inactive = (
                int(struct.unpack("=I", there[kind])[0]) for kind in (_WEIGHT, _ACTIVE, _INACTIVE)
            )
            found[Destination(address, int.from_bytes(there[_DEST_PORT]))] = Load(weight, active + inactive)
        return found

    # --- Changing it ----------------------------------------------------------------------------------------

    def put(self, servers: Iterable[tuple[Server, Scheduling]]) -> None:
        """Make virtual servers, or change those that are there."""
        requests = []
        for server, scheduling in servers:
            body = _described(server, scheduling)
            new = self._request(_NEW_SERVICE, body, f"add {server} ({scheduling.scheduler})")
            requests.append(new._replace(tolerated=_THERE))
            requests.append(self._request(_SET_SERVICE, body, f"set {server} ({scheduling.scheduler})"))
        self._netlink.send(requests)

    def remove(self, servers: Iterable[Server]) -> None:
        """Remove virtual servers with all that is behind them; those that are gone are fine."""
        self._netlink.send(
            self._request(_DEL_SERVICE, _identity(server), f"remove {server}")._replace(tolerated=_GONE)
            for server in servers
        )

    def put_destinations(self, destinations: Iterable[tuple[Server, Destination, int]]) -> None:
        """Put real servers, with their weights, behind virtual servers, or change their weights."""
        requests = []
        for server, destination, weight in destinations:
            body = _identity(server) + _destination(server, destination, weight)
            name = f"{destination.address}:{destination.port} behind {server}"
            requests.append(self._request(_NEW_DEST, body, f"put {name}")._replace(tolerated=_THERE))
            requests.append(self._request(_SET_DEST, body, f"set {name}"))
        self._netlink.send(requests)

    def quiesce(self, destinations: Iterable[tuple[Server, Destination]]) -> None:
        """Give real servers no new connections (weight 0); those that are gone are fine."""
        self._netlink.send(
            self._request(
                _SET_DEST, _identity(server) + _destination(server, destination, 0), f"quiesce {destination}"
            )._replace(tolerated=_GONE)
            for server, destination in destinations
        )

    def remove_destinations(self, destinations: Iterable[tuple[Server, Destination]]) -> None:
        """Take real servers away; those that are gone are fine."""
        self._netlink.send(
            self._request(
                _DEL_DEST, _identity(server) + _destination(server, destination, 0), f"remove {destination}"
            )._replace(tolerated=_GONE)
            for server, destination in destinations
        )

    def set_timeouts(self, tcp: int, tcp_fin: int, udp: int) -> None:
        """After how many seconds of silence connections are forgotten; 0 leaves what is."""
        body = b"".join(
            _number(kind, seconds)
            for kind, seconds in ((_TIMEOUT_TCP, tcp), (_TIMEOUT_TCP_FIN, tcp_fin), (_TIMEOUT_UDP, udp))
        )
        self._netlink.send([self._request(_SET_CONFIG, body, "set the timeouts")])

    def _request(self, command: int, body: bytes, name: str) -> Request:
        return Request(self._family, 0, _generic(command) + body, f"IPVS: {name}")


def _generic(command: int) -> bytes:
    return struct.pack("=BBH", command, 1, 0)


def _number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def _short(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=H", value))


def _packed(family: int, address: str) -> bytes:
    return socket.inet_pton(address_family(family), address).ljust(16, b"\0")


def _address(family: int, packed: bytes) -> str:
    return socket.inet_ntop(family, packed[: 4 if family == socket.AF_INET else 16])


def _who(server: Server) -> bytes:
    if server.mark:
        return _short(_AF, address_family(server.family)) + _number(_FWMARK, server.mark)
    protocol = PROTOCOLS.get(server.protocol)
    return (
        _short(_AF, address_family(server.family))
        + _short(_PROTOCOL, int(server.protocol) if protocol is None else protocol)
        + attribute(_ADDR, _packed(server.family, server.address))
        + attribute(_PORT, struct.pack("!H", server.port))
    )


def _identity(server: Server) -> bytes:
    return nest(_SERVICE, _who(server))


def _described(server: Server, scheduling: Scheduling) -> bytes:
    flags = scheduling.flags | (PERSISTENT if scheduling.persistent else 0)
    # Each client by itself: a mask of all bits in IPv4, a prefix length in IPv6.
    netmask = b"\xff" * 4 if server.family == 4 else struct.pack("=I", 128)
    return nest(
        _SERVICE,
        _who(server)
        + text(_SCHED_NAME, scheduling.scheduler)
        + attribute(_FLAGS, struct.pack("=II", flags, 0xFFFFFFFF))
        + _number(_TIMEOUT, scheduling.persistent)
        + attribute(_NETMASK, netmask),
    )


def _destination(server: Server, destination: Destination, weight: int) -> bytes:
    return nest(
        _DEST,
        attribute(_DEST_ADDR, _packed(server.family, destination.address))
        + attribute(_DEST_PORT, struct.pack("!H", destination.port))
        + _number(_FWD_METHOD, _MASQUERADING)
        + _number(_WEIGHT, weight)
        + _number(_U_THRESH, 0)
        + _number(_L_THRESH, 0)
        + _short(_DEST_FAMILY, address_family(server.family)),
    )


def _parse_server(found: dict[int, bytes]) -> tuple[Server, Scheduling]:
    af = int(struct.unpack("=H", found[_AF])[0])
    mark = int(struct.unpack("=I", found[_FWMARK])[0]) if _FWMARK in found else 0
    flags, _ = struct.unpack("=II", found[_FLAGS])
    timeout = int(struct.unpack("=I", found[_TIMEOUT])[0])
    scheduling = Scheduling(
        as_text(found[_SCHED_NAME]),
        timeout if flags & PERSISTENT else 0,
        flags & ~(PERSISTENT | HASHED),
    )
    if mark:
        return Server(_VERSIONS[af], "", "", 0, mark), scheduling
    protocol = int(struct.unpack("=H", found[_PROTOCOL])[0])
    name = PROTOCOL_NAMES.get(protocol, str(protocol))
    return Server(_VERSIONS[af], _address(af, found[_ADDR]), name, int.from_bytes(found[_PORT])), scheduling
