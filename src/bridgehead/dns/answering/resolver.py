"""Answers that take time: external names, addresses of ExternalName Services, and `autopath`.

`serving/server.py` awaits this for queries that `responder.py` does not answer. Names of the cluster are looked up in
the zone only, never asked of upstreams.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from bridgehead.dns.errors import BadPacket, UpstreamFailed
from bridgehead.dns.messages import replies, upstream_replies, wire
from bridgehead.dns.messages.replies import Answer
from bridgehead.dns.messages.upstream_replies import PlainRecord, UpstreamAnswer
from bridgehead.dns.messages.wire import Query
from bridgehead.dns.upstreams import Cache, Denial, Forwarder, OutgoingQuery, Target

from .responder import Responder, Unresolved
from .rewrite import renamed_untrusted

log = logging.getLogger(__name__)

_MAX_CHAIN = 8  # CNAME records one after another
_CHAIN_TYPES = (wire.TYPES["A"], wire.TYPES["AAAA"], wire.TYPES["CNAME"])


class Resolver:
    """Resolves queries with the help of upstreams.

    `forwarders` has by domain, in wire form, a forwarder or a denial for it and all names below; b"\\0" is
    the root. For `autopath`, `namespace_of` returns the namespace of the pod with an address, and `search` are
    the domains, in wire form, that follow the cluster's in a pod's search list.
    """

    def __init__(
        self,
        responder: Responder,
        forwarders: Mapping[bytes, Target],
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
        self._in_flight: dict[bytes, asyncio.Future[UpstreamAnswer]] = {}
        self.panics = 0  # queries that could not be resolved because of a bug

    async def resolve(self, question: Unresolved, client: str) -> bytes:
        """Return the reply for the client with that address: SERVFAIL after an error. Raises only CancelledError."""
        query = question.query
        client_query = question.client_query
        try:
            if question.known is None:
                found = await self._ask(query)
            elif question.namespace:
                found = _without_opt(await self._resolve_search_list(question, question.known, client))
            else:
                found = _without_opt(await self._follow_aliases(query))
            answer = found.answer
            if question.rewriting is not None:
                answer = renamed_untrusted(answer, question.rewriting)
        except (UpstreamFailed, BadPacket) as error:
            log.debug("%s: %s", wire.decode_name(query.name), error)
        except Exception:
            self.panics += 1
            log.exception("%s: cannot be resolved; this is a bug", wire.decode_name(query.name))
        else:
            return self._responder.reply(
                client_query,
                answer,
                question.limit,
                options=found.options or b"",
                extended_rcode=found.extended_rcode,
            )
        return self._responder.error(client_query, wire.SERVFAIL)

    async def _ask(self, query: Query) -> UpstreamAnswer:
        """Return the answer of the cache or of upstreams. Equal queries at the same time share one upstream query.

        Queries without RD, and those for a client's subnet, have answers that are not for other clients.
        """
        domain, forwarder = self._forwarder(query)
        if not isinstance(forwarder, Forwarder):
            return _without_opt(self._deny(query, domain, forwarder))
        edns = query.edns
        outgoing = OutgoingQuery(query.question, bool(query.flags & wire.RD), bool(query.flags2 & wire.CD), edns)
        key = query.key + bytes((edns is not None and edns.do, outgoing.cd))
        is_shared = outgoing.rd and not (edns is not None and edns.has_option(wire.CLIENT_SUBNET))
        if not is_shared:
            return await self._fetch(forwarder, key, outgoing, is_kept=False)
        answer = self._cache.get(key)
        if answer is not None:
            if self._cache.is_prefetch_due(key) and self._refresh(forwarder, key, outgoing):
                self._cache.prefetches += 1
            return _without_opt(answer)
        settings = self._cache.settings_for(key)
        if settings.stale_mode == "immediate" and (answer := self._cache.get_stale(key)) is not None:
            self._refresh(forwarder, key, outgoing)
            return _without_opt(answer)
        flight = self._start(forwarder, key, outgoing)
        if settings.verify_seconds and settings.stale_seconds:
            await asyncio.wait((flight,), timeout=settings.verify_seconds)
            if not flight.done() and (answer := self._cache.get_stale(key)) is not None:
                return _without_opt(answer)
        return await asyncio.shield(flight)

    def _refresh(self, forwarder: Forwarder, key: bytes, outgoing: OutgoingQuery) -> bool:
        """Ask for a cached answer anew, for no client in particular. Returns whether a query was started."""
        outgoing = outgoing.without_options()
        is_new = _flight_key(key, outgoing) not in self._in_flight
        self._start(forwarder, key, outgoing)
        return is_new

    def _start(self, forwarder: Forwarder, key: bytes, outgoing: OutgoingQuery) -> asyncio.Future[UpstreamAnswer]:
        flying = _flight_key(key, outgoing)
        flight = self._in_flight.get(flying)
        if flight is None:
            flight = asyncio.ensure_future(self._fetch(forwarder, key, outgoing, is_kept=True))
            self._in_flight[flying] = flight
            flight.add_done_callback(_retrieve)
            flight.add_done_callback(lambda done: self._in_flight.pop(flying))
        return flight

    def _forwarder(self, query: Query) -> tuple[bytes, Target | None]:
        """Return the longest domain that has the name, and its target; the root and None if there is none."""
        for at in (*query.labels, len(query.name) - 1):
            found = self._forwarders.get(query.name[at:])
            if found is not None:
                return query.name[at:], found
        return b"\0", None

    def _deny(self, query: Query, domain: bytes, denial: Denial | None) -> Answer:
        if self._zone.contains(query):
            return self._zone.nxdomain(len(query.name))  # a name of the cluster that falls through to nobody
        if denial is not None and denial.is_owned:
            return self._zone.denial(query.name, domain, denial.rcode)
        rcode = wire.REFUSED if denial is None else denial.rcode
        return Answer(replies.head(rcode, 0, aa=rcode in (wire.NOERROR, wire.NXDOMAIN)), b"", 0)

    async def _fetch(
        self, forwarder: Forwarder, key: bytes, outgoing: OutgoingQuery, *, is_kept: bool
    ) -> UpstreamAnswer:
        """Ask upstreams; when they fail, return the stale answer if there is one."""
        try:
            found = self._cache.limit(key, await forwarder.ask(outgoing))
        except UpstreamFailed:
            stale = self._cache.get_stale(key) if is_kept else None
            if stale is None:
                raise
            return _without_opt(stale)
        if not is_kept:
            return found
        if found.rcode not in (wire.NOERROR, wire.NXDOMAIN) and (stale := self._cache.get_stale(key)) is not None:
            return _without_opt(stale)
        self._cache.put(key, found._replace(options=None))
        return found

    async def _follow_aliases(self, query: Query) -> Answer:
        """Return the alias at a name of the zone or of a template, the aliases of its target, and their addresses."""
        chain: list[PlainRecord] = []
        seen = {query.name}
        step, in_zone = query, self._zone.contains(query)
        rcode = wire.NOERROR
        authority: list[PlainRecord] = []
        for _ in range(_MAX_CHAIN):
            answer = self._responder.own_answer(step, in_zone=in_zone)
            is_own = answer is not None
            if answer is None:
                if not isinstance(self._forwarder(step)[1], Forwarder):
                    break  # no upstream for the target; the alias is a valid answer by itself
                try:
                    answer = (await self._ask(step)).answer
                except UpstreamFailed:
                    rcode = wire.SERVFAIL  # with the part of the chain that is known
                    break
            records = upstream_replies.plain_records_untrusted(answer, step.question, types=_CHAIN_TYPES)
            chain += records
            rcode = answer.head[1] & 15
            if not records or records[-1].type != wire.TYPES["CNAME"]:
                authority = upstream_replies.plain_soa_untrusted(answer, step.question) if not records else []
                break
            asked, step = step.question, wire.with_name(query, records[-1].data)
            if step.name in seen:
                break  # a loop of aliases
            seen.add(step.name)
            in_zone = self._zone.contains(step)
            if not is_own and not in_zone:
                # The upstream has followed its aliases to the end.
                authority = upstream_replies.plain_soa_untrusted(answer, asked)
                break
        return upstream_replies.compile_chain(
            query.name, chain, rcode, ra=self._responder.is_recursive, authority=authority
        )

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
                    answer = (await self._ask(step)).answer
                except UpstreamFailed:
                    break
            elif replies.is_alias(answer):
                answer = await self._follow_aliases(step)
            if answer.head[1] & 15 == wire.NOERROR:
                records = upstream_replies.plain_records_untrusted(answer, step.question, types=_CHAIN_TYPES)
                ttl = min((record.ttl for record in records), default=0)
                alias = upstream_replies.PlainRecord(query.name, wire.TYPES["CNAME"], ttl, step.name)
                return upstream_replies.compile_chain(
                    query.name,
                    [alias, *records],
                    wire.NOERROR,
                    ra=self._responder.is_recursive,
                    authority=[] if records else upstream_replies.plain_soa_untrusted(answer, step.question),
                )
        return known


def _without_opt(answer: Answer) -> UpstreamAnswer:
    """Return an answer to which no OPT record of an upstream belongs."""
    return UpstreamAnswer(answer, (), 0)


def _flight_key(key: bytes, outgoing: OutgoingQuery) -> bytes:
    """Return what is equal in queries that can share an upstream query: with the same options, or all without EDNS."""
    return key + (b"" if outgoing.edns is None else b"\1" + outgoing.edns.options)


def _retrieve(flight: asyncio.Future[UpstreamAnswer]) -> None:
    """Retrieve the exception of a query that may have no caller, so that asyncio does not log it."""
    if not flight.cancelled():
        flight.exception()
