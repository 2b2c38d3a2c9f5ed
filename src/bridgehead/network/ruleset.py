"""What nf_tables tells of its ruleset without listing it: the generation (NFT_MSG_GETGEN, linux/netfilter/nf_tables.h).

Edge. It is asked often, so it has a socket of its own and no command. The proxy's modes find out by it whether somebody
else changed anything.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from .closable import Closable
from .netlink import GENERIC_SIZE, NETFILTER, NF_TABLES, Netlink, Request, attributes

_GEN_ID: Final = 1
_ASK: Final = Request((NF_TABLES << 8) | 16, 0, bytes(GENERIC_SIZE), "generation of the ruleset")  # NFT_MSG_GETGEN
_SO_SNDBUFFORCE: Final = 32
_HUGE: Final = 1 << 29


class Ruleset(Closable):
    """That of the network namespace in which it was made. Use as a context manager, or `close` it.

    Methods block, and raise OSError; so does making one where there is no nf_tables, or nobody may ask.
    """

    def __init__(self) -> None:
        self._netlink = Netlink(NETFILTER)
        try:
            self.generation()
        except OSError:
            self._netlink.close()
            raise

    def close(self) -> None:
        self._netlink.close()

    def send_buffer(self) -> int:
        """The biggest send buffer nft can give itself here, in bytes.

        Only CAP_NET_ADMIN outside of every user namespace may force more than the default, and nft 1.0.6 only forces.
        """
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETFILTER) as trial:
            with contextlib.suppress(PermissionError):
                trial.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _HUGE)
                return _HUGE
            return trial.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    def generation(self) -> int:
        """A number that grows by one with every transaction of anybody in this network namespace."""
        answer = self._netlink.ask(_ASK) or b""
        found = attributes(answer[GENERIC_SIZE:])
        if _GEN_ID not in found:
            raise OSError(0, "the kernel did not tell the ruleset's generation")
        return int.from_bytes(found[_GEN_ID])
