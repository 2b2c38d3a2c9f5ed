"""What nf_tables tells over netlink itself, without a command: the ruleset's generation. Edge; `Kernel`s use it."""

from __future__ import annotations

import contextlib
import os
import socket
import struct

from .errors import ModeUnavailable

NOT_PERMITTED = "may not change this network namespace's nftables: CAP_NET_ADMIN is needed"
NOT_IN_KERNEL = "this kernel has no nftables (CONFIG_NF_TABLES)"

_NFNL_SUBSYS_NFTABLES = 10
_NFT_MSG_NEWGEN = (_NFNL_SUBSYS_NFTABLES << 8) | 15
_NFT_MSG_GETGEN = (_NFNL_SUBSYS_NFTABLES << 8) | 16
_NFTA_GEN_ID = 1
_NETLINK_NETFILTER = 12
_NLM_F_REQUEST = 1
_NLMSG_ERROR = 2
_SO_SNDBUFFORCE = 32
_HUGE = 1 << 29


class Netlink:
    """One question, asked often, that is worth its own socket: NFT_MSG_GETGEN (linux/netfilter/nf_tables.h)."""

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)
            self._socket.settimeout(5)
            self._socket.bind((0, 0))
            self.generation()
        except PermissionError as error:
            raise ModeUnavailable(NOT_PERMITTED) from error
        except OSError as error:
            raise ModeUnavailable(f"{NOT_IN_KERNEL}: {error.strerror}") from error

    def close(self) -> None:
        self._socket.close()

    def send_buffer(self) -> int:
        """The biggest send buffer nft can give itself here, in bytes.

        Only CAP_NET_ADMIN outside of every user namespace may force more than the default, and nft 1.0.6 only forces.
        """
        size = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        with contextlib.suppress(PermissionError):
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _HUGE)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, size // 2)  # the kernel doubles it
            return _HUGE
        return size

    def generation(self) -> int:
        self._socket.send(struct.pack("=IHHIIBBH", 20, _NFT_MSG_GETGEN, _NLM_F_REQUEST, 0, 0, 0, 0, 0))
        answer = self._socket.recv(4096)
        kind = struct.unpack_from("=H", answer, 4)[0]
        if kind == _NLMSG_ERROR:
            code = -struct.unpack_from("=i", answer, 16)[0]
            raise OSError(code, os.strerror(code))
        position = 20
        while kind == _NFT_MSG_NEWGEN and position + 4 <= len(answer):
            length, attribute = struct.unpack_from("=HH", answer, position)
            if attribute == _NFTA_GEN_ID:
                return int(struct.unpack_from("!I", answer, position + 4)[0])
            position += max((length + 3) & ~3, 4)
        raise OSError(0, "the kernel did not tell the ruleset's generation")
