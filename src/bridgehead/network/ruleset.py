"""The generation of nf_tables' ruleset, by which the proxy's modes find out whether anybody changed anything.

The proxy asks often, so there is a socket of its own for it, and no command is run. The list of tables needs no
command, either. Source: NFT_MSG_GETGEN and NFT_MSG_GETTABLE in linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import Final

from .closable import Closable
from .netlink_attributes import parse_attributes
from .netlink_socket import NETFILTER_HEADER, NetlinkSocket, Request, netfilter_header, open_socket
from .uapi.netfilter import NFPROTO_UNSPEC
from .uapi.netlink import NETLINK_NETFILTER
from .uapi.nf_tables import NFT_MSG_GETGEN, NFT_MSG_GETTABLE, NFTA_GEN_ID, NFTA_TABLE_NAME
from .uapi.nfnetlink import NFNL_SUBSYS_NFTABLES
from .uapi.socket import SO_SNDBUFFORCE

_GET_GENERATION: Final = Request(
    NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN, 0, netfilter_header(NFPROTO_UNSPEC), "generation of the ruleset"
)
_HUGE_BYTES: Final = 1 << 29  # a send buffer that no transaction fills


class Ruleset(Closable):
    """The ruleset of the network namespace in which it was made.

    Methods block, and raise OSError. The constructor raises OSError without nf_tables, or without the right to ask.
    """

    def __init__(self) -> None:
        self._netlink = NetlinkSocket(NETLINK_NETFILTER)
        try:
            self.generation()
        except OSError:
            self._netlink.close()
            raise

    def close(self) -> None:
        self._netlink.close()

    def send_buffer(self) -> int:
        """Return the size of the biggest send buffer that nft can have here, in bytes.

        A process may force a size beyond the default only with CAP_NET_ADMIN outside of every user namespace, and nft
        1.0.6 only forces.
        """
        with open_socket(NETLINK_NETFILTER) as trial:
            with contextlib.suppress(PermissionError):
                trial.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, _HUGE_BYTES)
                return _HUGE_BYTES
            return trial.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    def generation(self) -> int:
        """Return the ruleset's generation, which every transaction in this network namespace increments."""
        answer = self._netlink.ask(_GET_GENERATION) or b""
        found = parse_attributes(answer[NETFILTER_HEADER.size :])
        if NFTA_GEN_ID not in found:
            raise OSError(errno.EPROTO, "the kernel did not report the ruleset's generation")
        return int.from_bytes(found[NFTA_GEN_ID])

    def table_names(self, family: int) -> set[str]:
        """Return the names of the tables of a family (NFPROTO_*)."""
        header = netfilter_header(family)
        answers = self._netlink.dump(
            Request(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETTABLE, 0, header, "list the ruleset's tables")
        )
        tables = [parse_attributes(answer[NETFILTER_HEADER.size :]) for answer in answers]
        return {table[NFTA_TABLE_NAME].rstrip(b"\0").decode(errors="replace") for table in tables}
