"""Answers that need others: outside names, ExternalName Services whose client wants addresses, and `autopath`.

`server.py` awaits it for what `responder.py` left open. A name of the cluster is only ever asked of the zone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from . import foreign, wire
from .cache import Cache
from .errors import BadPacket, UpstreamFailed
from .foreign import PlainRecord
from .responder import Open, Responder
from .rewriting import renamed_untrusted
from .upstream import Forwarder
from .wire import Answer, Query

log = logging.getLogger(__name__)

_LONGEST_CHAIN = 8  # aliases that lead to aliases
_FOLLOWED = (wire.TYPES["A"], wire.TYPES["AAAA"], wire.TYPES["CNAME"])


class Resolver:
    """`forwarders` are who answers for a domain (in wire form) and all below it, or the code that is the answer;
    b"\\0" is everything.

    For `autopath`, `namespace_of` knows in which namespace the pod with an address is, and `search` are the domains
    (wire form) that a pod's search list has behind those of the cluster.
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
        self._flights: dict[bytes, asyncio.Future[Answer]] = {}

    async def resolve(self, question: Open, client: str) -> bytes:
        """The reply for the client with that address.

        Raises nothing but CancelledError: the client is told SERVFAIL when something goes wrong.
        """
        query = question.query
        asked = query if question.asked is None else question.asked
        try:
            if question.known is None:
                answer = await self._ask(query)
            elif question.namespace:
                answer = await self._walk(question, question.known, client)
            else:
                answer = await self._follow(query)
            if asked is not query:
                answer = renamed_untrusted(answer, asked, query)
        except (UpstreamFailed, BadPacket) as error:
            log.debug("%s: %s", wire.decode_name(query.name), error)
        except Exception:
            log.exception("%s: cannot be resolved; this is a bug", wire.decode_name(query.name))
        else:
            return self._responder.reply(asked, answer, question.limit)
        return self._responder.error(asked, wire.SERVFAIL)

    async def _ask(self, query: Query) -> Answer:
        """From the cache or from outside; the same question asked twice at once travels once."""
        forwarder = self._forwarder(query)
        if not isinstance(forwarder, Forwarder):
            return Answer(wire.head(wire.REFUSED if forwarder is None else forwarder, 0, aa=False), b"", 0)
        do, cd = query.edns is not None and query.edns.do, bool(query.flags2 & wire.CD)
        key = query.key + bytes((do, cd))
        answer = self._cache.get(key)
        if answer is not None:
            if key not in self._flights and self._cache.is_due(key):
                self._cache.prefetches += 1
                self._start(forwarder, key, query, do, cd)
            return answer
        return await asyncio.shield(self._start(forwarder, key, query, do, cd))

    def _start(self, forwarder: Forwarder, key: bytes, query: Query, do: bool, cd: bool) -> asyncio.Future[Answer]:
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.ensure_future(self._fetch(forwarder, key, query, do, cd))
            flight.add_done_callback(lambda done: self._landed(key, done))
        return flight

    def _landed(self, key: bytes, flight: asyncio.Future[Answer]) -> None:
        del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # whoever waited has been told

    def _forwarder(self, query: Query) -> Forwarder | int | None:
        """That of the longest domain which the name is in; a code where nobody is to be asked."""
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

    async def _follow(self, query: Query) -> Answer:
        """The alias, its target's aliases, and the addresses at the end. The cluster's part comes from the zone."""
        chain: list[PlainRecord] = []
        seen = {query.name}
        step = query
        rcode = wire.NOERROR
        for _ in range(_LONGEST_CHAIN):
            answer = self._responder.own_answer(step)
            is_ours = answer is not None
            if answer is None:
                if not isinstance(self._forwarder(step), Forwarder):
                    break  # nobody can say anything about the target; the alias is true all the same
                try:
                    answer = await self._ask(step)
                except UpstreamFailed:
                    rcode = wire.SERVFAIL  # with the part of the chain that is known
                    break
            records = foreign.plain_records_untrusted(answer, step.question, types=_FOLLOWED)
            chain += records
            rcode = answer.head[1] & 15
            if not records or records[-1].type != wire.TYPES["CNAME"]:
                break
            step = wire.with_name(query, records[-1].data)
            if step.name in seen:
                break  # round and round: each alias is said once
            seen.add(step.name)
            if not is_ours and not self._zone.is_ours(step):
                break  # the upstream has followed its aliases as far as they lead
        return foreign.compile_chain(query.name, chain, rcode, ra=self._responder.is_recursive)

    async def _walk(self, question: Open, known: Answer, client: str) -> Answer:
        """What a pod would find at the end of its search list, in one query instead of four or five.

        The name was the list's first: the pod's own namespace. Somebody else who asked for that name meant it so. Where
        nobody outside answers it is still known that the name which was asked for does not exist.
        """
        query = question.query
        if self._namespace_of(client) != question.namespace:
            return known
        domain = self._zone.wire_domain
        base = query.name[: -len(wire.encode_name(f"{question.namespace}.svc")) + 1 - len(domain)]
        for end in (wire.encode_name("svc")[:-1] + domain, domain, *self._search, b"\0"):
            step = wire.with_name(query, base + end)
            answer = self._responder.own_answer(step)
            if answer is None:
                try:
                    answer = await self._ask(step)
                except UpstreamFailed:
                    break
            elif self._zone.is_alias(step.name):
                answer = await self._follow(step)
            if answer.head[1] & 15 == wire.NOERROR:
                records = foreign.plain_records_untrusted(answer, step.question, types=_FOLLOWED)
                ttl = min((record.ttl for record in records), default=0)
                alias = foreign.PlainRecord(query.name, wire.TYPES["CNAME"], ttl, step.name)
                return foreign.compile_chain(
                    query.name, [alias, *records], wire.NOERROR, ra=self._responder.is_recursive
                )
        return known
