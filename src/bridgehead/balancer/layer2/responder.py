"""The sockets of layer 2: answers for the addresses that this node holds, and announces them.

`announcer.py` decides which addresses these are, and when they are announced.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from bridgehead.balancer.ranges import IpAddress
from bridgehead.network.link_states import Link
from bridgehead.network.packet_sockets import MulticastGroups, PacketSocket
from bridgehead.network.uapi.if_ether import ETH_P_ARP, ETH_P_IPV6

from . import arp, ndp
from .answers import Answer, DropReason, answer
from .interfaces import is_announced_on

log = logging.getLogger(__name__)

_FRAMES_AT_ONCE: Final = 64  # of one socket, before the rest of the process gets its turn
_FLOOD_FRAMES_PER_SECOND: Final = 20_000  # of one socket; a thousand addresses that move make some thousand frames

OnConflict = Callable[[IpAddress, bytes, Link], None]


class Responder:
    """Answers on the event loop in which `set_links` is called. Owners call `close`.

    `on_conflict` gets each packet by which another machine claims an address, with its MAC address. Frames are received
    from the first call of `listen` or `hold` on: in a network of many nodes, each of them gets the questions of all.
    """

    def __init__(self, on_conflict: OnConflict) -> None:
        self._on_conflict = on_conflict
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_listening = False
        self._links: dict[int, Link] = {}
        self._sockets: dict[tuple[int, int], PacketSocket] = {}  # by link and protocol
        self._budgets: dict[tuple[int, int], tuple[int, int]] = {}  # frames read in the present second
        self._groups = MulticastGroups()
        self._interfaces: dict[bytes, frozenset[str]] = {}  # of the addresses held, packed
        self.received: Counter[bytes] = Counter()  # requests, by packed address
        self.answered: Counter[bytes] = Counter()
        self.announced: Counter[bytes] = Counter()
        self.dropped = dict.fromkeys(DropReason, 0)  # frames, by why they were not answered

    @property
    def links(self) -> Mapping[int, Link]:
        return self._links

    def close(self) -> None:
        for key in list(self._sockets):
            self._close_socket(key)
        self._groups.close()

    # --- Interfaces ----------------------------------------------------------------------------------------------

    def set_links(self, links: Mapping[int, Link]) -> bool:
        """Use exactly these interfaces. Return whether one of them is new, or has another MAC address."""
        self._loop = asyncio.get_running_loop()
        old, self._links = self._links, dict(links)
        gone = [key for key in self._sockets if key[0] not in links]
        fresh = [link for link in links.values() if old.get(link.number) != link]
        for key in gone:
            self._close_socket(key)
        for link in old.values():
            if link.number not in links:
                self._set_groups(link, is_member=False)
        for link in fresh:
            if self._is_listening:
                self._open_sockets(link)
            if link.number not in old:
                self._set_groups(link, is_member=True)
        return bool(fresh)

    def listen(self) -> None:
        """Receive frames from now on, also while no address is held."""
        if not self._is_listening:
            self._is_listening = True
            for link in self._links.values():
                self._open_sockets(link)

    def _set_groups(self, link: Link, *, is_member: bool) -> None:
        for packed, interfaces in self._interfaces.items():
            if is_announced_on(interfaces, link):
                self._set_group(link, packed, is_member=is_member)

    def _set_group(self, link: Link, packed: bytes, *, is_member: bool) -> None:
        address = ipaddress.ip_address(packed)
        if isinstance(address, ipaddress.IPv6Address):
            change = self._groups.join if is_member else self._groups.leave
            change(link.number, ndp.solicited_node(address))

    def _open_sockets(self, link: Link) -> None:
        for protocol in (ETH_P_ARP, ETH_P_IPV6):
            self._open_socket(link, protocol)

    def _open_socket(self, link: Link, protocol: int) -> None:
        key = link.number, protocol
        if key in self._sockets:
            return
        try:
            sock = PacketSocket(link.number, link.name, protocol)
        except OSError as error:  # the interface has just gone, or CAP_NET_RAW is missing
            log.warning("cannot announce on %s: %s", link.name, error.strerror)
            return
        self._sockets[key] = sock
        if self._loop is not None:
            self._loop.add_reader(sock, self._read, key)

    def _close_socket(self, key: tuple[int, int]) -> None:
        sock = self._sockets.pop(key)
        self._budgets.pop(key, None)
        if self._loop is not None:
            self._loop.remove_reader(sock)
        sock.close()

    # --- Addresses -----------------------------------------------------------------------------------------------

    def hold(self, address: IpAddress, interfaces: frozenset[str]) -> None:
        """Answer for an address from now on, on these interfaces (empty: all)."""
        self.listen()
        if self._interfaces.get(address.packed) != interfaces:
            self.release(address)
            self._interfaces[address.packed] = interfaces
            for link in self._links_of(interfaces):
                self._set_group(link, address.packed, is_member=True)

    def release(self, address: IpAddress) -> None:
        """Answer for an address no longer."""
        interfaces = self._interfaces.pop(address.packed, None)
        if interfaces is not None:
            for link in self._links_of(interfaces):
                self._set_group(link, address.packed, is_member=False)

    def _links_of(self, interfaces: frozenset[str]) -> Iterator[Link]:
        return (link for link in self._links.values() if is_announced_on(interfaces, link))

    def interfaces_of(self, address: IpAddress) -> Collection[str]:
        """Return the names of the interfaces on which an address is announced now."""
        interfaces = self._interfaces.get(address.packed)
        return () if interfaces is None else sorted(link.name for link in self._links_of(interfaces))

    def announce(self, address: IpAddress) -> None:
        """Announce an address once, on each of its interfaces."""
        for link in self._links_of(self._interfaces.get(address.packed, frozenset())):
            if isinstance(address, ipaddress.IPv4Address):
                for frame in arp.gratuitous(address, link.mac):
                    self._send(link, ETH_P_ARP, frame)
            else:
                self._send(link, ETH_P_IPV6, ndp.unsolicited(address, link.mac))
            self.announced[address.packed] += 1

    def probe(self, address: IpAddress) -> None:
        """Ask whether another machine has an address; its answer is a conflict."""
        for link in self._links_of(self._interfaces.get(address.packed, frozenset())):
            if isinstance(address, ipaddress.IPv4Address):
                self._send(link, ETH_P_ARP, arp.probe(address, link.mac))
            else:
                self._send(link, ETH_P_IPV6, ndp.solicitation(address, link.mac))

    # --- Packets -------------------------------------------------------------------------------------------------

    def _send(self, link: Link, protocol: int, frame: bytes) -> None:
        sock = self._sockets.get((link.number, protocol))
        if sock is not None:
            sock.send(frame)

    def _read(self, key: tuple[int, int]) -> None:
        number, protocol = key
        link, sock = self._links[number], self._sockets[key]
        own = {other.mac for other in self._links.values()}
        count = 0
        for frame in sock.receive(_FRAMES_AT_ONCE):
            count += 1
            found = answer(frame, protocol, link, self._interfaces)
            if isinstance(found, Answer):
                self.received[found.address] += 1
                self.answered[found.address] += sock.send(found.frame)
            elif isinstance(found, DropReason):
                self.dropped[found] += 1
            elif found.mac in own:
                self.dropped[DropReason.OWN_FRAME] += 1
            else:
                self._on_conflict(ipaddress.ip_address(found.address), found.mac, link)
        self._limit(key, count)

    def _limit(self, key: tuple[int, int], count: int) -> None:
        """Stop reading for the rest of the second after too many frames: the kernel drops the others at no cost."""
        second = int(time.monotonic())
        since, total = self._budgets.get(key, (second, 0))
        total = total + count if since == second else count
        self._budgets[key] = second, total
        if total > _FLOOD_FRAMES_PER_SECOND and self._loop is not None:
            self._loop.remove_reader(self._sockets[key])
            self._loop.call_later(second + 1 - time.monotonic(), self._resume, key)

    def _resume(self, key: tuple[int, int]) -> None:
        sock = self._sockets.get(key)
        if sock is not None and self._loop is not None:
            self._loop.add_reader(sock, self._read, key)
