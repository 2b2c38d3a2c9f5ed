"""Answers that need others: outside names, and ExternalName Services whose client wants addresses.

`server.py` awaits it for what `responder.py` left open. A name of the cluster is only ever asked of the zone.
"""

from __future__ import annotations

import asyncio
import logging

from . import wire
from .cache import Cache
from .errors import BadPacket, UpstreamFailed
from .responder import Open, Responder
from .upstream import Forwarder
from .wire import Answer, PlainRecord, Query

log = logging.getLogger(__name__)

_LONGEST_CHAIN = 8  # aliases that lead to aliases


class Resolver:
    """Without a forwarder (no upstream configured) outside names are refused, and aliases are left unfollowed."""

    def __init__(self, responder: Responder, forwarder: Forwarder | None, cache: Cache) -> None:
        self._responder = responder
        self._zone = responder.zone
        self._forwarder = forwarder
        self._cache = cache
        self._flights: dict[bytes, asyncio.Future[Answer]] = {}

    async def resolve(self, question: Open) -> bytes:
        """The reply. Raises nothing but CancelledError: who asked gets SERVFAIL for what goes wrong."""
        query = question.query
        try:
            answer = await (self._ask(query) if question.alias is None else self._follow(query))
        except (UpstreamFailed, BadPacket) as error:
            log.debug("%s: %s", wire.decode_name(query.name), error)
        except Exception:
            log.exception("%s: cannot be resolved; this is a bug", wire.decode_name(query.name))
        else:
            return self._responder.reply(query, answer, question.limit)
        return self._responder.error(query, wire.SERVFAIL)

    async def _ask(self, query: Query) -> Answer:
        """From the cache or from outside; the same question asked twice at once travels once."""
        if self._forwarder is None:
            raise UpstreamFailed("there is no upstream")
        do, cd = query.edns is not None and query.edns.do, bool(query.flags2 & wire.CD)
        key = query.key + bytes((do, cd))
        answer = self._cache.get(key)
        if answer is not None:
            return answer
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.ensure_future(self._fetch(key, query.question, do, cd))
            flight.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(flight)

    def _landed(self, key: bytes, flight: asyncio.Future[Answer]) -> None:
        del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # whoever waited has been told

    async def _fetch(self, key: bytes, question: bytes, do: bool, cd: bool) -> Answer:
        if self._forwarder is None:
            raise UpstreamFailed("there is no upstream")
        try:
            found = await self._forwarder.ask(question, do=do, cd=cd)
        except UpstreamFailed:
            stale = self._cache.get_stale(key)
            if stale is None:
                raise
            return stale
        self._cache.put(key, found)
        return found.answer

    async def _follow(self, query: Query) -> Answer:
        """The alias, its target's aliases, and the addresses at the end. The cluster's part comes from the zone."""
        chain: list[PlainRecord] = []
        step = query
        rcode = wire.NOERROR
        for _ in range(_LONGEST_CHAIN):
            answer = self._zone.answer(step)
            is_ours = answer is not None
            if answer is None:
                if self._forwarder is None:
                    break
                try:
                    answer = await self._ask(step)
                except UpstreamFailed:
                    rcode = wire.SERVFAIL  # with the part of the chain that is known
                    break
            records = wire.plain_records_untrusted(answer, step.question)
            chain += records
            rcode = answer.head[1] & 15
            if not records or records[-1].type != wire.TYPES["CNAME"]:
                break
            step = _question(query, records[-1].data)
            if not is_ours and not self._zone.is_ours(step):
                break  # the upstream has followed its aliases as far as they lead
        return wire.compile_chain(query.name, chain, rcode, ra=self._responder.is_recursive)


def _question(query: Query, name: bytes) -> Query:
    """The same query about another name."""
    labels = []
    at = 0
    while name[at]:
        labels.append(at)
        at += 1 + name[at]
    return query._replace(name=name, labels=tuple(labels), question=name + query.question[-4:])
