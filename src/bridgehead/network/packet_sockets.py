"""Packet sockets: Ethernet frames of one protocol on one interface, and membership in IPv6 multicast groups.

Source: packet(7), socket(7) (SO_ATTACH_FILTER), linux/filter.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
from collections.abc import Iterator
from typing import Final

from .closable import Closable
from .uapi.bpf_common import BPF_ABS, BPF_B, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET
from .uapi.icmp6 import ND_NEIGHBOR_ADVERT, ND_NEIGHBOR_SOLICIT
from .uapi.if_ether import ETH_P_IPV6
from .uapi.socket import SO_ATTACH_FILTER

_FRAME_BYTES: Final = 2048
_BUFFER_BYTES: Final = 1 << 22  # a burst of some thousand frames; the kernel may grant less
_INSTRUCTION: Final = struct.Struct("=HBBI")  # struct sock_filter: code, jumps if true and false, operand
_GROUPS_AT_ONCE: Final = 100  # of one socket; the kernel limits the memory of a socket's options
_ALL: Final = 0xFFFF

# Offsets in an Ethernet frame with an IPv6 header.
_NEXT_HEADER: Final = 14 + 6
_ICMPV6_TYPE: Final = 14 + 40


class PacketSocket(Closable):
    """Sends and receives whole Ethernet frames of one protocol (ETH_P_*) on the interface of this number.

    The socket receives no IPv6 but neighbour solicitations and advertisements: the kernel drops all else before this
    process wakes. Raises OSError without CAP_NET_RAW.
    """

    def __init__(self, link: int, name: str, protocol: int) -> None:
        self.link = link
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0)
        try:
            if protocol == ETH_P_IPV6:
                _attach(self._socket, _NEIGHBOUR_DISCOVERY)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            # Without a protocol a new socket receives nothing, so no frame passes before the filter is attached.
            self._socket.bind((name, protocol))
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, frame: bytes) -> bool:
        """Send a frame. Return False if the interface is down or its queue is full."""
        try:
            self._socket.send(frame)
        except OSError:
            return False
        return True

    def receive(self, limit: int) -> Iterator[bytes]:
        """Yield up to `limit` frames that have arrived."""
        for _ in range(limit):
            try:
                yield self._socket.recv(_FRAME_BYTES)
            except OSError:  # none is left, or the interface went down
                return


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, if_true, if_false, operand)


_NEIGHBOUR_DISCOVERY: Final = b"".join(
    (
        _instruction(BPF_LD | BPF_B | BPF_ABS, _NEXT_HEADER),
        _instruction(BPF_JMP | BPF_JEQ | BPF_K, socket.IPPROTO_ICMPV6, 0, 4),
        _instruction(BPF_LD | BPF_B | BPF_ABS, _ICMPV6_TYPE),
        _instruction(BPF_JMP | BPF_JEQ | BPF_K, ND_NEIGHBOR_SOLICIT, 1, 0),
        _instruction(BPF_JMP | BPF_JEQ | BPF_K, ND_NEIGHBOR_ADVERT, 0, 1),
        _instruction(BPF_RET | BPF_K, _ALL),
        _instruction(BPF_RET | BPF_K, 0),
    )
)


def _attach(sock: socket.socket, program: bytes) -> None:
    """Attach a filter. The kernel copies the program."""
    buffer = ctypes.create_string_buffer(program)
    # struct sock_fprog: the number of instructions, and a pointer to them
    header = struct.pack("@HP", len(program) // _INSTRUCTION.size, ctypes.addressof(buffer))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, header)


class MulticastGroups(Closable):
    """IPv6 multicast groups that this network namespace is a member of, so that switches and interfaces pass them.

    A group is joined once for each call of `join`. On a kernel without IPv6 nothing happens.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self._members: dict[tuple[int, bytes], tuple[int, int]] = {}  # link and group -> socket's index and count
        self._free: list[int] = []  # indices of sockets, once for each group that they may still join

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()
        self._members.clear()
        self._free.clear()

    def join(self, link: int, group: bytes) -> None:
        """Join a group on the interface of this number. An interface without IPv6 is ignored."""
        index, count = self._members.get((link, group), (-1, 0))
        if count == 0:
            if not self._free and not self._open():
                return
            index = self._free.pop()
            # EADDRINUSE: the interface of this number is a new one. The kernel dropped the group with the old one.
            with contextlib.suppress(OSError):
                self._sockets[index].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, _request(link, group))
        self._members[link, group] = index, count + 1

    def leave(self, link: int, group: bytes) -> None:
        """Undo one `join`."""
        index, count = self._members.pop((link, group), (-1, 0))
        if count > 1:
            self._members[link, group] = index, count - 1
        elif count == 1:
            with contextlib.suppress(OSError):  # the interface is gone
                self._sockets[index].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_LEAVE_GROUP, _request(link, group))
            self._free.append(index)

    def _open(self) -> bool:
        try:
            sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        except OSError:
            return False
        self._free += [len(self._sockets)] * _GROUPS_AT_ONCE
        self._sockets.append(sock)
        return True


def _request(link: int, group: bytes) -> bytes:
    return group + struct.pack("@i", link)  # struct ipv6_mreq
