"""Forwarding of queries for external names to upstream resolvers.

UDP queries have a new random port and a random id each; TCP follows when the reply is truncated. Replies to another
question, from another address, or that are malformed are ignored (RFC 5452). `answering/resolver.py` calls this.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import random
import secrets
import socket
from collections.abc import Callable, Iterable
from typing import NamedTuple

from bridgehead.dns.config import DnsConfig, ForwardSettings, Server
from bridgehead.dns.counters import Durations
from bridgehead.dns.errors import BadPacket, UpstreamFailed
from bridgehead.dns.messages import upstream_replies, wire
from bridgehead.dns.messages.replies import opt_record
from bridgehead.dns.messages.upstream_replies import UpstreamAnswer

from .connection_pool import Connections
from .health_checks import Health

log = logging.getLogger(__name__)

EDNS_SIZE = 1232  # bytes, which upstreams may send by UDP
ATTEMPT_SECONDS = 2.0
PROBE_SECONDS = 1.0
_PLAIN_SECONDS = 300.0  # in which a server that does not answer queries with EDNS gets none


class OutgoingQuery(NamedTuple):
    """A client's question, and what of its query is passed on to upstreams. Without `edns` there is no OPT record."""

    question: bytes
    rd: bool = True
    cd: bool = False
    edns: wire.Edns | None = None

    def message(self) -> bytes:
        """Return the message, with a random id. Options with which it would be larger than EDNS_SIZE are left out."""
        opt = b"" if self.edns is None else opt_record(EDNS_SIZE, do=self.edns.do, options=self.edns.options)
        made = upstream_replies.forwarded_query(secrets.token_bytes(2), self.question, rd=self.rd, cd=self.cd, opt=opt)
        return made if len(made) <= EDNS_SIZE else self.without_options().message()

    def without_options(self) -> OutgoingQuery:
        """Return the query with EDNS as before, and no options."""
        return self._replace(edns=self.edns and self.edns._replace(options=b""))


class Forwarder:
    """Asks the upstreams of one domain. Needs `close` at the end. Raises ConfigInvalid.

    Servers for which `is_self` is true are never asked. A query has `total_seconds`, of which one server has at most
    `attempt_seconds`; a health check has `probe_seconds`. `now` is monotonic, in seconds. `shuffle` is for the policy
    "random".
    """

    def __init__(
        self,
        servers: Iterable[Server],
        now: Callable[[], float],
        settings: ForwardSettings = ForwardSettings(),  # noqa: B008 - frozen
        *,
        shuffle: Callable[[list[Server]], None] = random.shuffle,
        attempt_seconds: float = ATTEMPT_SECONDS,
        probe_seconds: float = PROBE_SECONDS,
        total_seconds: float = DnsConfig.forward_seconds,
        is_self: Callable[[Server], bool] = lambda server: False,
    ) -> None:
        self.servers = tuple(servers)
        self._settings = settings
        self._connections = Connections(self.servers, settings.idle_seconds, settings.most_idle)
        self._now = now
        self._shuffle = shuffle
        self._attempt_seconds = attempt_seconds
        self._probe_seconds = probe_seconds
        self._total_seconds = total_seconds
        self._is_self = is_self
        self._turn = 0
        self._logged_as_self: set[Server] = set()
        self._health = Health(settings, self._answers_probe)
        self._plain_until: dict[Server, float] = {}
        self._silent_to_edns: set[Server] = set()  # since their last answer to a query with EDNS
        self.requests: dict[Server, int] = dict.fromkeys(self.servers, 0)
        self.failures: dict[Server, int] = dict.fromkeys(self.servers, 0)
        self.durations: dict[tuple[Server, int], Durations] = {}  # by response code
        self.all_failed = 0  # queries at a time when every server was down

    async def ask(self, query: OutgoingQuery) -> UpstreamAnswer:
        """Return the first NOERROR or NXDOMAIN; another code if all servers send one. Raises UpstreamFailed.

        With `failover` only its codes lead to the next server.

        Some servers refuse EDNS, and some firewalls drop it. They are asked again without it (RFC 6891, 6.2.2 and 7).
        """
        fallback: UpstreamAnswer | None = None
        silent: list[Server] = []
        try:
            async with asyncio.timeout(self._total_seconds):
                for server in self._order():
                    was_down = self._health.is_down(server)
                    found = await self._ask_one(server, query)
                    if found is not None and not self._leads_to_next(found.rcode):
                        return found
                    fallback = found or fallback
                    if server in self._silent_to_edns and not was_down:
                        silent.append(server)
                for server in silent if fallback is None else ():
                    found = await self._ask_plainly(server, query)
                    if found is not None:
                        return found
        except TimeoutError:
            pass
        if fallback is None:
            raise UpstreamFailed("no upstream answered")
        return fallback

    def _leads_to_next(self, rcode: int) -> bool:
        failover = self._settings.failover
        return rcode not in (wire.NOERROR, wire.NXDOMAIN) if failover is None else rcode in failover

    async def _ask_one(self, server: Server, query: OutgoingQuery) -> UpstreamAnswer | None:
        if self._plain_until.get(server, 0.0) > self._now():
            return await self._try(server, query._replace(edns=None))
        found = await self._try(server, query)
        refuses_edns = found is not None and found.rcode in (wire.FORMERR, wire.NOTIMP) and found.options is None
        if query.edns is None or not refuses_edns:
            return found
        if query.edns.options:  # maybe it refuses only these, which the client has chosen
            return await self._ask_one(server, query.without_options()) or found
        return await self._ask_plainly(server, query) or found

    async def _ask_plainly(self, server: Server, query: OutgoingQuery) -> UpstreamAnswer | None:
        """Ask a server without EDNS, and for some time again if it answers.

        A query with options of a client proves nothing about others: `_answers_probe` finds out.
        """
        found = await self._try(server, query._replace(edns=None))
        has_options = query.edns is not None and query.edns.options != b""
        if found is not None and found.rcode not in (wire.FORMERR, wire.NOTIMP) and not has_options:
            self._record_plain(server)
        return found

    def _record_plain(self, server: Server) -> None:
        log.info("upstream %s does not answer queries with EDNS and is asked without it", server)
        self._silent_to_edns.discard(server)
        self._plain_until[server] = self._now() + _PLAIN_SECONDS

    def close(self) -> None:
        """Close idle connections, and end probes. Queries that wait for a reply still get it."""
        self._connections.close()
        self._health.close()

    def _order(self) -> list[Server]:
        order = [server for server in self.servers if not self._is_self(server)]
        for server in set(self.servers) - set(order) - self._logged_as_self:
            self._logged_as_self.add(server)
            log.error("upstream %s is the address of this DNS server itself and is not asked", server)
        match self._settings.policy:
            case "random":
                self._shuffle(order)
            case "round_robin":
                first = self._turn % max(1, len(order))
                self._turn += 1
                order = order[first:] + order[:first]
        down = [server for server in order if self._health.is_down(server)]
        if order and len(down) == len(order):
            self.all_failed += 1
            if self._settings.fails_fast and all(map(self._health.is_silent_to_probes, order)):
                return []
        order = [server for server in order if server not in down] + down
        return order[: self._settings.most_attempts or None]

    async def _try(self, server: Server, query: OutgoingQuery) -> UpstreamAnswer | None:
        self.requests[server] += 1
        start = self._now()
        message, question = query.message(), query.question
        try:
            async with asyncio.timeout(self._attempt_seconds):
                data = await self._exchange(server, message, question)
                found = upstream_replies.adopt_reply_untrusted(data, question)
        except (OSError, TimeoutError, BadPacket, asyncio.IncompleteReadError) as error:
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                raise UpstreamFailed("no more sockets") from error  # no failure of the server
            if isinstance(error, TimeoutError) and query.edns is not None:
                self._silent_to_edns.add(server)
            self._failed(server, error)
            return None
        if query.edns is not None:
            self._silent_to_edns.discard(server)
        self.durations.setdefault((server, found.rcode), Durations()).add(self._now() - start)
        self._health.record_answer(server)
        return found

    async def _exchange(self, server: Server, query: bytes, question: bytes) -> bytes:
        if server.tls is None and not self._settings.tcp_only:
            data = await _exchange_udp(server, query, question)
            if not data[2] & wire.TC:
                return data
        return await self._connections.exchange(server, query)

    def _failed(self, server: Server, error: Exception) -> None:
        self.failures[server] += 1
        self._health.record_failure(server, error)

    async def _answers_probe(self, server: Server) -> bool:
        """Probe a server, and find out whether it was silent because of EDNS only."""
        question = wire.question_key(wire.encode_name(self._settings.health_name), wire.TYPES["NS"])
        probe = OutgoingQuery(question, rd=self._settings.health_rd)
        if not await self._answers(server, probe):
            return False
        if server in self._silent_to_edns:
            if await self._answers(server, probe._replace(edns=wire.Edns(EDNS_SIZE, 0, False))):
                self._silent_to_edns.discard(server)
            else:
                self._record_plain(server)
        return True

    async def _answers(self, server: Server, query: OutgoingQuery) -> bool:
        try:
            async with asyncio.timeout(self._probe_seconds):
                data = await self._exchange(server, query.message(), query.question)
                upstream_replies.parse_reply_untrusted(data, query.question)
        except (OSError, TimeoutError, BadPacket, asyncio.IncompleteReadError):
            return False
        return True


async def _exchange_udp(server: Server, query: bytes, question: bytes) -> bytes:
    """Return the first datagram that answers the question. Forged and late ones are ignored."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as udp:
        udp.connect((server.host, server.port))  # the kernel picks a port, and drops datagrams from other addresses
        await loop.sock_sendall(udp, query)
        while True:
            data = await loop.sock_recv(udp, wire.LARGEST)
            if data[:2] != query[:2]:
                continue
            try:
                if not data[2:3] or not data[2] & wire.TC:
                    upstream_replies.parse_reply_untrusted(data, question)
            except BadPacket:
                continue
            return data
