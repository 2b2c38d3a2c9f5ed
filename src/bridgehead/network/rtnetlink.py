"""The rtnetlink requests that wire one pod, encoded by hand and sent in one go.

`links` speaks to the kernel through pyroute2, which is right for what is done once. A pod needs eleven requests, a node
makes many pods, and the process that makes them forks each container from itself: what it touches is copied for
every fork. Encoded here, the same work takes a seventh of the time and touches next to nothing. Only the container
runtime uses this. Source: rtnetlink(7), linux/if_link.h, linux/veth.h.
"""

from __future__ import annotations

import os
import socket
import struct
from types import TracebackType
from typing import Final, Self

_NEWLINK, _DELLINK, _NEWADDR, _NEWROUTE, _DELROUTE, _NEWNEIGH = 16, 17, 20, 24, 25, 28
_REQUEST, _ACK, _REPLACE, _EXCL, _CREATE = 0x1, 0x4, 0x100, 0x200, 0x400
_ERROR: Final = 2  # the type of the kernel's answers; a number of 0 in it is an acknowledgement
_UP: Final = 1
_PERMANENT: Final = 0x80
_ONLINK: Final = 4
_MAIN_TABLE, _STATIC, _UNICAST, _SCOPE_UNIVERSE, _SCOPE_LINK = 254, 4, 1, 0, 253

_HEADER: Final = struct.Struct("=IHHII")
_LINK: Final = struct.Struct("=BxHiII")
_ATTRIBUTE: Final = struct.Struct("=HH")

# A request without its header: type, flags, body, and what to call it in an error.
Request = tuple[int, int, bytes, str]


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _mac(kind: int, mac: str) -> bytes:
    return _attribute(kind, bytes.fromhex(mac.replace(":", "")))


def _end(name: str, mac: str, mtu: int) -> bytes:
    """IFLA_IFNAME, IFLA_ADDRESS, IFLA_MTU."""
    return _text(3, name) + _mac(1, mac) + _number(4, mtu)


def add_veth(name: str, mac: str, peer: str, peer_mac: str, *, peer_namespace: int, mtu: int) -> Request:
    """A pair: `name` here (up), `peer` in the namespace of that descriptor (down)."""
    there = _LINK.pack(0, 0, 0, 0, 0) + _end(peer, peer_mac, mtu) + _number(28, peer_namespace)  # IFLA_NET_NS_FD
    data = _attribute(2, _attribute(1, there))  # IFLA_INFO_DATA, VETH_INFO_PEER
    info = _attribute(18, _text(1, "veth") + data)  # IFLA_LINKINFO, IFLA_INFO_KIND
    return _NEWLINK, _CREATE | _EXCL, _LINK.pack(0, 0, 0, _UP, _UP) + _end(name, mac, mtu) + info, f"add veth {name}"


def delete_link(name: str) -> Request:
    """With its peer."""
    return _DELLINK, 0, _LINK.pack(0, 0, 0, 0, 0) + _text(3, name), f"delete link {name}"


def set_up(index: int) -> Request:
    return _NEWLINK, 0, _LINK.pack(0, 0, index, _UP, _UP), f"set link {index} up"


def add_address(index: int, address: str) -> Request:
    """An IPv4 address as a /32."""
    packed = socket.inet_aton(address)
    body = struct.pack("=BBBBI", socket.AF_INET, 32, 0, 0, index) + _attribute(2, packed) + _attribute(1, packed)
    return _NEWADDR, _CREATE | _EXCL, body, f"add address {address}"


def add_neighbour(index: int, address: str, mac: str) -> Request:
    """A permanent IPv4 neighbour."""
    body = struct.pack("=BxxxiHBB", socket.AF_INET, index, _PERMANENT, 0, 0)
    body += _attribute(1, socket.inet_aton(address)) + _mac(2, mac)
    return _NEWNEIGH, _CREATE | _REPLACE, body, f"add neighbour {address}"


def _route(length: int, scope: int, flags: int) -> bytes:
    return struct.pack("=BBBBBBBBI", socket.AF_INET, length, 0, 0, _MAIN_TABLE, _STATIC, scope, _UNICAST, flags)


def add_host_route(index: int, address: str) -> Request:
    """To one IPv4 address, on the device itself; takes the place of another."""
    body = _route(32, _SCOPE_LINK, 0) + _attribute(1, socket.inet_aton(address)) + _number(4, index)
    return _NEWROUTE, _CREATE | _REPLACE, body, f"add route {address}"


def delete_host_route(index: int, address: str) -> Request:
    """Only if it goes over that device."""
    body = _route(32, _SCOPE_LINK, 0) + _attribute(1, socket.inet_aton(address)) + _number(4, index)
    return _DELROUTE, 0, body, f"delete route {address}"


def add_default_route(index: int, gateway: str) -> Request:
    """By an IPv4 gateway that is taken to be on the link."""
    body = _route(0, _SCOPE_UNIVERSE, _ONLINK) + _attribute(5, socket.inet_aton(gateway)) + _number(4, index)
    return _NEWROUTE, _CREATE | _REPLACE, body, f"add default route by {gateway}"


class RouteSocket:
    """Speaks to the network namespace in which it was made. Use as a context manager, or `close` it."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, *requests: Request) -> None:
        """Send them together; the kernel does one after the other. Raises OSError for the first that it refused."""
        names: dict[int, str] = {}
        messages = []
        for kind, flags, body, name in requests:
            self._sequence += 1
            names[self._sequence] = name
            header = _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | _ACK | flags, self._sequence, 0)
            messages.append(header + body)
        self._socket.send(b"".join(messages))
        refused: list[tuple[int, str]] = []
        while names:
            data = self._socket.recv(65536)
            at = 0
            while at < len(data):
                length, kind, _, sequence, _ = _HEADER.unpack_from(data, at)
                if kind == _ERROR and sequence in names:
                    (number,) = struct.unpack_from("=i", data, at + _HEADER.size)
                    name = names.pop(sequence)
                    if number:
                        refused.append((-number, name))
                at += (length + 3) & ~3
        if refused:
            number, name = refused[0]
            raise OSError(number, f"{name}: {os.strerror(number)}")
