"""The kernel's own news of who changed nf_tables (linux/netlink.h, linux/netfilter/nfnetlink.h and nf_tables.h).

Edge: a socket in the multicast group NFNLGRP_NFTABLES, which tells every object of every transaction and ends each with
its author and the ruleset's generation from then on. The proxy's `guard.py` listens while none of its own transactions
is under way. Changes of iptables-nft are told too; those of iptables-legacy and IPVS are not.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import NamedTuple

from .closable import Closable
from .netlink import GENERIC_SIZE, NETFILTER, NF_TABLES, SOL_NETLINK, as_text, attributes, each_message
from .ruleset import Ruleset

_ADD_MEMBERSHIP, _DROP_MEMBERSHIP = 1, 2
_GROUP_NFTABLES = 7
_RECEIVE_BYTES = 1 << 18
_SO_RCVBUFFORCE = 33
_BUFFER_BYTES = 1 << 22  # more than the usual 200 KiB: some ten thousand elements, such as all of a map that is emptied
_NEWGEN = 15
_FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}
# Which attribute has a name, by the message's kind (NFT_MSG_*); that of the table's name is always the first.
_CHAIN_NAME = {3: 3, 5: 3, 6: 2, 8: 2}
_CONTAINER_NAME = {9: 2, 11: 2, 12: 2, 14: 2}
_ELEMENTS = {12: 3, 14: 3}
_GONE = (5, 14)


class Touched(NamedTuple):
    """What one message says was made, changed or deleted.

    A chain or one of its rules, a set or map (`container`), or elements of one, as the kernel tells them in the
    attribute NFTA_SET_ELEM_LIST_ELEMENTS; without any of these something else of the table. `is_gone`: the chain
    itself, or these elements, are not there any more.
    """

    family: str  # as nft says it
    table: str
    chain: str = ""
    container: str = ""
    elements: bytes = b""
    is_gone: bool = False


class Author(NamedTuple):
    """Who made a transaction. The kernel counts processes from the outside of every PID namespace."""

    name: str
    pid: int

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})" if self.name else "somebody"


class End(NamedTuple):
    """What the last message of a transaction says: the ruleset's generation that it made, and who it was."""

    generation: int
    author: Author


class Commit(NamedTuple):
    """One transaction. `is_whole`: everything it touched is told here; else only a part may be."""

    generation: int
    author: Author
    touched: tuple[Touched, ...]
    is_whole: bool = True


class RulesetEvents(Closable):
    """The group's messages. Raises OSError where they cannot be had (no nf_tables, no CAP_NET_ADMIN)."""

    def __init__(self) -> None:
        self._ruleset = Ruleset()
        self._begun: list[Touched] = []  # of a transaction whose end has not come yet
        self._whole_after = 0
        self._has_lost = False
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETFILTER)
        try:
            self._socket.setblocking(False)
            self._socket.bind((0, 0))
            with contextlib.suppress(PermissionError):  # in a user namespace, where the usual has to do
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
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
        """Hear nothing until `resume`, but what has come can still be read. What nobody hears is not even written."""
        self._socket.setsockopt(SOL_NETLINK, _DROP_MEMBERSHIP, _GROUP_NFTABLES)

    def resume(self) -> None:
        self._socket.setsockopt(SOL_NETLINK, _ADD_MEMBERSHIP, _GROUP_NFTABLES)
        self._has_lost |= bool(self._begun)
        self._listen_from_now()

    def read(self) -> list[Commit] | None:
        """What has come, in order. None: more than could be kept, so anything may have been changed."""
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
                if isinstance(event, Touched):
                    self._begun.append(event)
                    continue
                is_whole = event.generation > self._whole_after
                found.append(Commit(event.generation, event.author, tuple(self._begun), is_whole))
                self._begun.clear()
        if is_complete:
            return found
        self._listen_from_now()
        return None

    def _listen_from_now(self) -> None:
        """A transaction that ends now may have begun to be told before we listened.

        The kernel counts it before it tells of it, so what is counted later is heard from its beginning.
        """
        self._begun.clear()
        self._whole_after = self._ruleset.generation()


def parse_events(data: bytes) -> Iterator[Touched | End]:
    """The messages of one datagram; what is not understood is left out."""
    for kind, _, _, payload in each_message(data):
        if kind >> 8 != NF_TABLES or len(payload) < GENERIC_SIZE:
            continue
        kind &= 0xFF
        found = attributes(payload[GENERIC_SIZE:])
        if kind == _NEWGEN:
            generation, pid = (int.from_bytes(found.get(number, b""), "big") for number in (1, 2))
            yield End(generation, Author(as_text(found.get(3, b"")), pid))
            continue
        yield Touched(
            _FAMILIES.get(payload[0], ""),
            as_text(found.get(1, b"")),
            as_text(found.get(_CHAIN_NAME.get(kind, 0), b"")),
            as_text(found.get(_CONTAINER_NAME.get(kind, 0), b"")),
            found.get(_ELEMENTS.get(kind, 0), b""),
            kind in _GONE,
        )


def try_open() -> RulesetEvents | None:
    """None where this kernel, or this process' rights, allow none."""
    with contextlib.suppress(OSError):
        return RulesetEvents()
    return None
