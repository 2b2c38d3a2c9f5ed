"""The kernel's notifications of who changed nf_tables.

A socket in the multicast group NFNLGRP_NFTABLES receives every object of every transaction, then who made it and the
ruleset's generation from then on (NFT_MSG_NEWGEN). The proxy's `guard.py` listens while none of its own transactions
is under way. The group includes changes by iptables-nft, not those by iptables-legacy, and not IPVS.
Source: linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import Final, NamedTuple

from .closable import Closable
from .netlink_attributes import each_message, parse_attributes, parse_text
from .netlink_socket import NETFILTER_HEADER, open_socket
from .ruleset import Ruleset
from .uapi import nf_tables as nft
from .uapi.netfilter import NFPROTO_ARP, NFPROTO_BRIDGE, NFPROTO_INET, NFPROTO_IPV4, NFPROTO_IPV6, NFPROTO_NETDEV
from .uapi.netlink import NETLINK_ADD_MEMBERSHIP, NETLINK_DROP_MEMBERSHIP, NETLINK_NETFILTER
from .uapi.nfnetlink import NFNL_SUBSYS_NFTABLES, NFNLGRP_NFTABLES
from .uapi.socket import SO_RCVBUFFORCE, SOL_NETLINK

_RECEIVE_BYTES: Final = 1 << 18
_BUFFER_BYTES: Final = 1 << 22  # the default of 200 KiB is too small for the removal of some ten thousand elements
FAMILIES: Final = {
    NFPROTO_INET: "inet",
    NFPROTO_IPV4: "ip",
    NFPROTO_ARP: "arp",
    NFPROTO_NETDEV: "netdev",
    NFPROTO_BRIDGE: "bridge",
    NFPROTO_IPV6: "ip6",
}
# The attributes with names of objects, by type of the message; that of the table is the same in all types.
_TABLE_NAME: Final = nft.NFTA_TABLE_NAME
_CHAIN_NAME: Final = {
    nft.NFT_MSG_NEWCHAIN: nft.NFTA_CHAIN_NAME,
    nft.NFT_MSG_DELCHAIN: nft.NFTA_CHAIN_NAME,
    nft.NFT_MSG_NEWRULE: nft.NFTA_RULE_CHAIN,
    nft.NFT_MSG_DELRULE: nft.NFTA_RULE_CHAIN,
}
_CONTAINER_NAME: Final = {
    nft.NFT_MSG_NEWSET: nft.NFTA_SET_NAME,
    nft.NFT_MSG_DELSET: nft.NFTA_SET_NAME,
    nft.NFT_MSG_NEWSETELEM: nft.NFTA_SET_ELEM_LIST_SET,
    nft.NFT_MSG_DELSETELEM: nft.NFTA_SET_ELEM_LIST_SET,
}
_ELEMENTS: Final = {
    nft.NFT_MSG_NEWSETELEM: nft.NFTA_SET_ELEM_LIST_ELEMENTS,
    nft.NFT_MSG_DELSETELEM: nft.NFTA_SET_ELEM_LIST_ELEMENTS,
}
_NO_ATTRIBUTE: Final = 0


class RulesetChange(NamedTuple):
    """One object that was made, changed or deleted.

    A chain or one of its rules; a set or map (`container`), or elements of one, encoded as in the attribute
    NFTA_SET_ELEM_LIST_ELEMENTS; without any of these, the table or another object of it. `is_deleted`: the chain itself
    or these elements were deleted.
    """

    family: str  # as in the commands of nft: inet, ip, ip6, ...
    table: str
    chain: str = ""
    container: str = ""
    elements: bytes = b""
    is_deleted: bool = False


class Author(NamedTuple):
    """The process that made a transaction, with its PID in the machine's first PID namespace."""

    name: str
    pid: int

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})" if self.name else "somebody"


class TransactionEnd(NamedTuple):
    """The last message of a transaction: the generation of the ruleset that it made, and its author."""

    generation: int
    author: Author


class Commit(NamedTuple):
    """One transaction. `is_whole`: `changes` are all of its changes; otherwise some may be missing."""

    generation: int
    author: Author
    changes: tuple[RulesetChange, ...]
    is_whole: bool = True


class RulesetEvents(Closable):
    """The group's messages. The constructor raises OSError without nf_tables or CAP_NET_ADMIN."""

    def __init__(self) -> None:
        self._ruleset = Ruleset()
        self._pending: list[RulesetChange] = []  # of a transaction whose end was not received yet
        self._whole_after = 0
        self._has_lost = False
        self._socket = open_socket(NETLINK_NETFILTER)
        try:
            self._socket.setblocking(False)
            self._socket.bind((0, 0))
            with contextlib.suppress(PermissionError):  # in a user namespace the default size must do
                self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, _BUFFER_BYTES)
            self.resume()
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()
        self._ruleset.close()

    def pause(self) -> None:
        """Receive nothing until `resume`. Messages received before can still be read.

        The kernel does not even write messages for a group without members.
        """
        self._socket.setsockopt(SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, NFNLGRP_NFTABLES)

    def resume(self) -> None:
        self._socket.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, NFNLGRP_NFTABLES)
        self._has_lost |= bool(self._pending)
        self._begin()

    def read(self) -> list[Commit] | None:
        """Return the transactions received since the last call, in order.

        None: some messages were lost, so anything may have been changed.
        """
        found: list[Commit] = []
        is_complete, self._has_lost = not self._has_lost, False
        while True:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                is_complete = False
                continue
            for event in parse_events(data):
                if isinstance(event, RulesetChange):
                    self._pending.append(event)
                    continue
                is_whole = event.generation > self._whole_after
                found.append(Commit(event.generation, event.author, tuple(self._pending), is_whole))
                self._pending.clear()
        if is_complete:
            return found
        self._begin()
        return None

    def _begin(self) -> None:
        """Take transactions as whole from now on.

        The kernel increments the generation before it sends a transaction's messages, so it has sent none yet of those
        with a later generation.
        """
        self._pending.clear()
        self._whole_after = self._ruleset.generation()


def parse_events(data: bytes) -> Iterator[RulesetChange | TransactionEnd]:
    """Yield the messages of one datagram; unknown ones are left out."""
    for kind, _, _, payload in each_message(data):
        subsystem, message = divmod(kind, 1 << 8)
        if subsystem != NFNL_SUBSYS_NFTABLES or len(payload) < NETFILTER_HEADER.size:
            continue
        found = parse_attributes(payload[NETFILTER_HEADER.size :])
        if message == nft.NFT_MSG_NEWGEN:
            generation, pid = (
                int.from_bytes(found.get(kind, b"")) for kind in (nft.NFTA_GEN_ID, nft.NFTA_GEN_PROC_PID)
            )
            yield TransactionEnd(generation, Author(parse_text(found.get(nft.NFTA_GEN_PROC_NAME, b"")), pid))
            continue
        yield RulesetChange(
            FAMILIES.get(payload[0], ""),
            parse_text(found.get(_TABLE_NAME, b"")),
            parse_text(found.get(_CHAIN_NAME.get(message, _NO_ATTRIBUTE), b"")),
            parse_text(found.get(_CONTAINER_NAME.get(message, _NO_ATTRIBUTE), b"")),
            found.get(_ELEMENTS.get(message, _NO_ATTRIBUTE), b""),
            message in (nft.NFT_MSG_DELCHAIN, nft.NFT_MSG_DELSETELEM),
        )


def try_open() -> RulesetEvents | None:
    """Return None where this kernel, or this process' rights, do not allow to receive the messages."""
    with contextlib.suppress(OSError):
        return RulesetEvents()
    return None
