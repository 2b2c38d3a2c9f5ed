"""Questions about outside names, asked of those who know: resolv.conf's servers or configured ones.

`resolver.py` asks through here. UDP from a new random port with a random id for each question, TCP when the answer is
cut, or TLS; what does not answer the question, comes from elsewhere, or is no sound message is not taken (RFC 5452).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import random
import secrets
import socket
from collections.abc import Callable, Iterable

from . import foreign, wire
from .connections import TLS_PORT, Connections, Server, Tls
from .errors import BadPacket, ConfigInvalid, UpstreamFailed
from .foreign import Found
from .records import as_domain
from .tallies import Durations

log = logging.getLogger(__name__)

OUR_SIZE = 1232
ATTEMPT_SECONDS = 2.0
ALL_SECONDS = 4.5  # a resolver's own patience is 5 s
_REST_SECONDS = 5.0  # a server that failed is asked last for that long


def parse_server(text: str) -> Server:
    """ "1.1.1.1", "10.0.0.1:5353", "fd00::1", "[fd00::1]:5353", and after "tls://" also with the name in the server's
    certificate: "9.9.9.9%dns.quad9.net:853". Raises ConfigInvalid."""
    scheme, _, address = text.rpartition("://")
    if scheme not in ("", "dns", "tls"):
        raise ConfigInvalid(f"upstream {text!r}: only dns:// and tls:// are spoken here")
    tls, default = (Tls(), TLS_PORT) if scheme == "tls" else (None, 53)
    if tls is not None and "%" in address:
        address, _, name = address.partition("%")
        name, _, port = name.partition(":")
        tls = Tls(name)
        address = f"{address}:{port}" if port else address
    host, port = address, ""
    if address.startswith("["):
        host, _, rest = address[1:].partition("]")
        port = rest.removeprefix(":")
    elif address.count(":") == 1:
        host, _, port = address.partition(":")
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except OSError:
        raise ConfigInvalid(f"upstream {text!r} is not an address") from None
    if not (port or "53").isdecimal() or not 0 < int(port or "53") < 65536:
        raise ConfigInvalid(f"upstream {text!r}: {port!r} is not a port")
    return Server(host, int(port or default), tls)


def parse_resolv_conf(text: str) -> list[Server]:
    """Its name servers, those with a scope left out (they would need an interface)."""
    servers = []
    for line in text.splitlines():
        words = line.split("#")[0].split(";")[0].split()
        if len(words) >= 2 and words[0] == "nameserver" and "%" not in words[1]:
            try:
                servers.append(parse_server(f"[{words[1]}]" if ":" in words[1] else words[1]))
            except ConfigInvalid as error:
                log.warning("resolv.conf: %s", error)
    return servers


def parse_search(text: str) -> list[str]:
    """The search domains of a resolv.conf: its last `search` or `domain` line counts."""
    found: list[str] = []
    for line in text.splitlines():
        words = line.split("#")[0].split(";")[0].split()
        if words and words[0] in ("search", "domain"):
            found = [as_domain(word) for word in words[1:] if word != "."]
    return found


class Forwarder:
    """Asks `servers`, those first that answered last time, and none of which `is_us` says that it leads back to us.

    `shuffle` orders equals; `now` is monotonic, in seconds. With `only_tcp` nobody is asked by UDP, as those never are
    to whom we speak TLS. Has to be closed in the end. Raises ConfigInvalid.
    """

    def __init__(
        self,
        servers: Iterable[Server],
        now: Callable[[], float],
        *,
        shuffle: Callable[[list[Server]], None] = random.shuffle,
        attempt_seconds: float = ATTEMPT_SECONDS,
        is_us: Callable[[Server], bool] = lambda server: False,
        only_tcp: bool = False,
    ) -> None:
        self.servers = tuple(servers)
        self._only_tcp = only_tcp
        self._connections = Connections(self.servers)
        self._now = now
        self._shuffle = shuffle
        self._attempt_seconds = attempt_seconds
        self._is_us = is_us
        self._told_of: set[Server] = set()
        self._resting: dict[Server, float] = {}
        self.requests: dict[Server, int] = dict.fromkeys(self.servers, 0)
        self.failures: dict[Server, int] = dict.fromkeys(self.servers, 0)
        self.durations: dict[tuple[Server, int], Durations] = {}  # of questions that got a reply with that code
        self.forlorn = 0  # questions asked although every server had failed a moment ago

    async def ask(self, question: bytes, *, do: bool = False, cd: bool = False) -> Found:
        """The first sound answer. A SERVFAIL or REFUSED counts only if nobody knows better. Raises UpstreamFailed."""
        unhappy: Found | None = None
        try:
            async with asyncio.timeout(ALL_SECONDS):
                for server in self._order():
                    found = await self._try(server, question, do=do, cd=cd)
                    if found is not None and found.rcode in (wire.NOERROR, wire.NXDOMAIN):
                        return found
                    unhappy = found or unhappy
        except TimeoutError:
            pass
        if unhappy is None:
            raise UpstreamFailed("no upstream answered")
        return unhappy

    def close(self) -> None:
        """Open questions are still answered."""
        self._connections.close()

    def _order(self) -> list[Server]:
        now = self._now()
        order = [server for server in self.servers if not self._is_us(server)]
        for server in set(self.servers) - set(order) - self._told_of:
            self._told_of.add(server)
            log.error("upstream %s is the address of this DNS itself and is not asked", server)
        self._shuffle(order)
        resting = [server for server in order if self._resting.get(server, 0.0) > now]
        if order and len(resting) == len(order):
            self.forlorn += 1
        return [server for server in order if server not in resting] + resting

    async def _try(self, server: Server, question: bytes, *, do: bool, cd: bool) -> Found | None:
        self.requests[server] += 1
        begun = self._now()
        query = foreign.forwarded_query(secrets.token_bytes(2), question, OUR_SIZE, do=do, cd=cd)
        try:
            async with asyncio.timeout(self._attempt_seconds):
                data = await self._exchange(server, query, question)
                found = foreign.adopt_reply_untrusted(data, question)
        except (OSError, TimeoutError, BadPacket, asyncio.IncompleteReadError) as error:
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                raise UpstreamFailed("no more sockets") from error  # not this server's fault
            self._failed(server, error)
            return None
        self.durations.setdefault((server, found.rcode), Durations()).add(self._now() - begun)
        if self._resting.pop(server, None) is not None:
            log.info("upstream %s answers again", server)
        return found

    async def _exchange(self, server: Server, query: bytes, question: bytes) -> bytes:
        if server.tls is None and not self._only_tcp:
            data = await _exchange_udp(server, query, question)
            if not data[2] & wire.TC:
                return data
        return await self._connections.exchange(server, query)

    def _failed(self, server: Server, error: Exception) -> None:
        self.failures[server] += 1
        if server not in self._resting:
            log.warning("upstream %s does not answer: %s", server, error or type(error).__name__)
        self._resting[server] = self._now() + _REST_SECONDS


async def _exchange_udp(server: Server, query: bytes, question: bytes) -> bytes:
    """The first datagram that answers; others are somebody's attempt to be quicker, or late, and are passed over."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as udp:
        udp.connect((server.host, server.port))  # only this server's datagrams reach us, at a port the kernel picked
        await loop.sock_sendall(udp, query)
        while True:
            data = await loop.sock_recv(udp, wire.LARGEST)
            if data[:2] != query[:2]:
                continue
            try:
                if not data[2:3] or not data[2] & wire.TC:
                    foreign.parse_reply_untrusted(data, question)
            except BadPacket:
                continue
            return data
