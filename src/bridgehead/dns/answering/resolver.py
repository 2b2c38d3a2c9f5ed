"""Answers that take time: external names, addresses of ExternalName Services, and `autopath`.

`serving/server.py` awaits this for queries that `responder.py` does not answer. Names of the cluster are looked up in
the zone only, never asked of upstreams.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from bridgehead.dns.errors import BadPacket, UpstreamFailed
from bridgehead.dns.messages import foreign, replies, wire
from bridgehead.dns.messages.foreign import PlainRecord
from bridgehead.dns.messages.replies import Answer
from bridgehead.dns.messages.wire import Query
from bridgehead.dns.upstreams import Cache, Forwarder

from .responder import Responder, Unresolved
from .rewriting import renamed_untrusted

log = logging.getLogger(__name__)

_MAX_CHAIN = 8  # CNAME records one after another
_CHAIN_TYPES = (wire.TYPES["A"], wire.TYPES["AAAA"], wire.TYPES["CNAME"])


class Resolver:
    """Resolves queries with the help of upstreams.

    `forwarders` has by domain, in wire form, a forwarder or a response code for it and all names below; b"\\0" is
    the root. For `autopath`, `namespace_of` returns the namespace of the pod with an address, and `search` are
    the domains, in wire form, that follow the cluster's in a pod's search list.
    """

    def __init__(
        self,
        responder: Responder,
        forwarders: Mapping[bytes, Forwarder | int],
        cache: Cache,
        *,
        namespace_of: Callable[[str], str | None] = lambda address: None,
        search: tuple[bytes, ...] = (),
    ) -> None:
        self._responder = responder
        self._zone = responder.zone
        self._forwarders = forwarders
        self._cache = cache
        self._namespace_of = namespace_of
        self._search = search
        self._in_flight: dict[bytes, asyncio.Future[Answer]] = {}

    async def resolve(self, question: Unresolved, client: str) -> bytes:
        """Return the reply for the client with that address: SERVFAIL after an error. Raises only CancelledError."""
        query = question.query
        client_query = question.client_query
        try:
            if question.known is None:
                answer = await self._ask(query)
            elif question.namespace:
                answer = await self._resolve_search_list(question, question.known, client)
            else:
                answer = await self._follow_aliases(query)
            if question.rewriting is not None:
                answer = renamed_untrusted(answer, question.rewriting)
        except (UpstreamFailed, BadPacket) as error:
            log.debug("%s: %s", wire.decode_name(query.name), error)
        except Exception:
            log.exception("%s: cannot be resolved; this is a bug", wire.decode_name(query.name))
        else:
            return self._responder.reply(client_query, answer, question.limit)
        return self._responder.error(client_query, wire.SERVFAIL)

    async def _ask(self, query: Query) -> Answer:
        """Return the answer of the cache or of upstreams. Equal queries at the same time share one upstream query."""
        forwarder = self._forwarder(query)
        if not isinstance(forwarder, Forwarder):
            return Answer(replies.head(wire.REFUSED if forwarder is None else forwarder, 0, aa=False), b"", 0)
        do, cd = query.edns is not None and query.edns.do, bool(query.flags2 & wire.CD)
        key = query.key + bytes((do, cd))
        answer = self._cache.get(key)
        if answer is not None:
            if key not in self._in_flight and self._cache.is_prefetch_due(key):
                self._cache.prefetches += 1
                self._start(forwarder, key, query, do, cd)
            return answer
        return await asyncio.shield(self._start(forwarder, key, query, do, cd))

    def _start(self, forwarder: Forwarder, key: bytes, query: Query, do: bool, cd: bool) -> asyncio.Future[Answer]:
        flight = self._in_flight.get(key)
        if flight is None:
            flight = self._in_flight[key] = asyncio.ensure_future(self._fetch(forwarder, key, query, do, cd))
            flight.add_done_callback(lambda done: self._on_fetched(key, done))
        return flight

    def _on_fetched(self, key: bytes, flight: asyncio.Future[Answer]) -> None:
        del self._in_flight[key]
        if not flight.cancelled():
            flight.exception()  # retrieved here, because a prefetch has no caller

    def _forwarder(self, query: Query) -> Forwarder | int | None:
        """Return the target of the longest domain that has the name: a forwarder, a response code, or None."""
        for at in (*query.labels, len(query.name) - 1):
            found = self._forwarders.get(query.name[at:])
            if found is not None:
                return found
        return None

    async def _fetch(self, forwarder: Forwarder, key: bytes, query: Query, do: bool, cd: bool) -> Answer:
        try:
            found = await forwarder.ask(query.question, do=do, cd=cd)
        except UpstreamFailed:
            stale = self._cache.get_stale(key)
            if stale is None:
                raise
            return stale
        self._cache.put(key, found)
        return found.answer

    async def _follow_aliases(self, query: Query) -> Answer:
        """Return the alias at a name of the zone or of a template, the aliases of its target, and their addresses."""
        chain: list[PlainRecord] = []
        seen = {query.name}
        step, in_zone = query, self._zone.contains(query)
        rcode = wire.NOERROR
        for _ in range(_MAX_CHAIN):
            answer = self._responder.own_answer(step, in_zone=in_zone)
            is_own = answer is not None
            if answer is None:
                if not isinstance(self._forwarder(step), Forwarder):
                    break  # no upstream for the target; the alias is a valid answer by itself
                try:
                    answer = await self._ask(step)
                except UpstreamFailed:
                    rcode = wire.SERVFAIL  # with the part of the chain that is known
                    break
            records = foreign.plain_records_untrusted(answer, step.question, types=_CHAIN_TYPES)
            chain += records
            rcode = answer.head[1] & 15
            if not records or records[-1].type != wire.TYPES["CNAME"]:
                break
            step = wire.with_name(query, records[-1].data)
            if step.name in seen:
                break  # a loop of aliases
            seen.add(step.name)
            in_zone = self._zone.contains(step)
            if not is_own and not in_zone:
                break  # the upstream has followed its aliases to the end
        return foreign.compile_chain(query.name, chain, rcode, ra=self._responder.is_recursive)

    async def _resolve_search_list(self, question: Unresolved, known: Answer, client: str) -> Answer:
        """Resolve the search list of a pod in one query instead of four or five; `known` is the NXDOMAIN for its first.

        The first domain of the list has the pod's own namespace, so `known` is the answer for other clients. It is also
        the answer when upstreams fail.
        """
        query = question.query
        if self._namespace_of(client) != question.namespace:
            return known
        domain = self._zone.wire_domain
        base = query.name[: -len(wire.encode_name(f"{question.namespace}.svc")) + 1 - len(domain)]
        for suffix in (wire.encode_name("svc")[:-1] + domain, domain, *self._search, b"\0"):
            step = wire.with_name(query, base + suffix)
            answer = self._responder.own_answer(step, in_zone=self._zone.contains(step))
            if answer is None:
                try:
                    answer = await self._ask(step)
                except UpstreamFailed:
                    break
            elif replies.is_alias(answer):
                answer = await self._follow_aliases(step)
            if answer.head[1] & 15 == wire.NOERROR:
                records = foreign.plain_records_untrusted(answer, step.question, types=_CHAIN_TYPES)
                ttl = min((record.ttl for record in records), default=0)
                alias = foreign.PlainRecord(query.name, wire.TYPES["CNAME"], ttl, step.name)
                return foreign.compile_chain(
                    query.name, [alias, *records], wire.NOERROR, ra=self._responder.is_recursive
                )
        return known
