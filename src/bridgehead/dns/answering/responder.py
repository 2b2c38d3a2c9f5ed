"""Replies to queries, both as bytes, for answers that this process has.

Pure: no I/O, no clock, no randomness.

`serving/server.py` calls this for every message. Queries for other names are returned as `Unresolved`, for
`resolver.py`. Nearly all queries take the fast path: one look-up, one concatenation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bridgehead.dns.config import Network
from bridgehead.dns.counters import Traffic
from bridgehead.dns.errors import BadPacket
from bridgehead.dns.messages import replies, wire
from bridgehead.dns.messages.replies import Answer
from bridgehead.dns.messages.wire import Query
from bridgehead.dns.zone import NODATA, Zone, is_allowed, transfer

from .hosts import HostTable
from .rewrite import Rewriter, Rewriting, renamed_untrusted
from .template import Templates

_PLAIN = b"\1\0\0\1\0\0\0\0\0\0"  # RD, one question, nothing else
_WITH_OPT = b"\1\0\0\1\0\0\0\0\0\1"
_NONE = bytes(2)  # a count of records
_NO_MORE_RECORDS = (bytes(4), b"\0\0\0\1")  # authority and additional counts of a head, without and with an OPT record
_ADDRESSES = (b"\0\1\0\1", b"\0\x1c\0\1")  # type and class of A and AAAA queries
_ENDPOINT_LABELS = 4  # <endpoint>.<Service>.<namespace>.svc before the zone's domain
_ANY_TTL = 8482  # as CoreDNS' plugin `any`
_MAX_SHAPES = 64  # OPT records that are remembered


class Unresolved(NamedTuple):
    """A query for the resolver. `limit` is the size in bytes of the largest reply.

    `known` is None for an external name, and the alias for a name of the zone that is one. With `namespace` it is the
    NXDOMAIN for a name with which the search list of a pod in that namespace begins.
    """

    query: Query
    limit: int
    known: Answer | None
    namespace: str = ""
    rewriting: Rewriting | None = None  # if a rule has rewritten the client's query

    @property
    def client_query(self) -> Query:
        """The query as the client sent it."""
        return self.query if self.rewriting is None else self.rewriting.asked


class TransferRequest(NamedTuple):
    """A query for the whole zone (AXFR, IXFR)."""

    query: Query


class Responder:
    """Answers from a zone. Names of the zone get SERVFAIL until `set_ready`.

    `size` is the largest UDP reply in bytes; `is_recursive`: external names are answered, too; `has_autopath`: the
    search lists of pods are resolved in one query. `rewriter` comes first, then `templates`, the zone, and `hosts`.
    Clients in `transfer_to` may transfer the zone. Upstreams are asked for names of the zone that do not exist, below a
    domain of `falls_through`. `is_minimal`: positive replies have answer records only; `has_minimal_any`: queries for
    ANY get one HINFO record, also at external names.
    """

    def __init__(
        self,
        zone: Zone,
        *,
        size: int = 1232,
        is_recursive: bool = True,
        has_autopath: bool = False,
        hosts: HostTable | None = None,
        templates: Templates | None = None,
        rewriter: Rewriter | None = None,
        transfer_to: tuple[Network, ...] = (),
        falls_through: Iterable[str] = (),
        is_minimal: bool = False,
        has_minimal_any: bool = False,
    ) -> None:
        self.zone = zone
        self._falls_through = tuple(map(wire.encode_name, falls_through))
        self._is_minimal = is_minimal
        self._has_minimal_any = has_minimal_any
        self._hosts = hosts
        self._templates = templates
        self._rewriter = rewriter
        self._transfer_to = transfer_to
        # The fast path ignores rules. It is used if no rule can match a name of the table.
        self._has_rules_for_table = any(
            rules is not None and rules.touches(domain)
            for rules in (rewriter, templates)
            for domain in (zone.settings.domain, "in-addr.arpa", "ip6.arpa")
        )
        self.has_autopath = has_autopath
        self.size = size
        self.is_recursive = is_recursive
        self.is_ready = False
        self._table: dict[bytes, Answer] = {}
        self._turn = 0
        self._shapes: dict[bytes, tuple[int, bytes]] = {}
        self._heads: dict[bytes, bytes] = {}

    def set_ready(self) -> None:
        """Answer for the zone from now on: it is complete."""
        self.is_ready = True
        self._table = self.zone.table

    def respond_untrusted(
        self, data: bytes, *, is_udp: bool = True, traffic: Traffic | None = None
    ) -> bytes | Unresolved | TransferRequest | None:
        """Return the reply to one message; None when none must be sent. Raises no exception, whatever the bytes are.

        A TransferRequest is returned for TCP only. `traffic` counts query and reply, without their sizes.
        """
        if is_udp and not self._has_rules_for_table:
            reply = self._reply_fast(data, traffic)
            if reply is not None:
                return reply
        found = self._reply_slow_untrusted(data, is_udp)
        if traffic is not None:
            traffic.add_query(data, found)
        return found

    def _reply_fast(self, data: bytes, traffic: Traffic | None) -> bytes | None:
        end = data.find(b"\0", wire.HEADER_SIZE) + 5
        answer = self._table.get(data[wire.HEADER_SIZE : end].lower())
        rcode = wire.NOERROR
        if answer is None:
            answer, rcode = self._nxdomain(data, end), wire.NXDOMAIN
        reply = None if answer is None else self._assemble_fast(data, end, answer)
        if reply is not None and traffic is not None:
            traffic.queries[data[end - 3]] += 1
            traffic.rcodes[rcode] += 1
        return reply

    def _nxdomain(self, data: bytes, end: int) -> Answer | None:
        """Return the NXDOMAIN for an A or AAAA query below the zone; None where the slow path has to decide.

        Search lists of pods make NXDOMAIN the most frequent reply after positive ones.
        """
        if data[end - 4 : end] not in _ADDRESSES or self.has_autopath or self._falls_through or not self.is_ready:
            return None
        name = data[wire.HEADER_SIZE : end - 4].lower()
        zone = self.zone
        if not name.endswith(zone.wire_domain) or name.endswith(zone.wire_pods_domain):
            return None
        at, start, labels = 0, len(name) - len(zone.wire_domain), 0
        while at < start:
            if name[at] > 63:
                return None
            at += 1 + name[at]
            labels += 1
        if at != start or len(name) > 255 or zone.has_name(name):
            return None
        if labels == _ENDPOINT_LABELS and zone.has_name(name[1 + name[0] :]):
            return None  # the name of an endpoint may be added on demand
        return zone.nxdomain(len(name))

    def _assemble_fast(self, data: bytes, end: int, answer: Answer) -> bytes | None:
        """Return the reply to a query of a usual shape; None where the slow path has to assemble it."""
        front, body, stride = answer
        if stride > 0:
            self._turn = turn = self._turn + 1
            offset = turn % (len(body) // stride) * stride
            body = body[offset:] + body[:offset]
        elif stride < 0:
            if answer is not NODATA:
                return None
            front, body, _ = self.zone.nodata(end - wire.HEADER_SIZE - 4)
        header = data[2:12]
        if header == _PLAIN and len(data) == end:
            limit, opt = wire.UDP_SIZE, b""
        elif header == _WITH_OPT:
            shape = self._shapes.get(data[end:])
            if shape is None:
                return None
            limit, opt = shape
            front = self._head_with_opt(front)
        else:
            return None
        if self._is_minimal and front[4:6] != _NONE and front[6:] != _NO_MORE_RECORDS[bool(opt)]:
            return None
        room = limit - end - len(opt)
        if len(body) > room:
            if stride <= 0:
                return None
            count = room // stride
            body = body[: count * stride]
            front = replies.head_cut(front, count)
        return data[:2] + front + data[12:end] + body + opt

    def _head_with_opt(self, front: bytes) -> bytes:
        found = self._heads.get(front)
        if found is None:
            additional = int.from_bytes(front[8:10], "big") + 1
            found = front[:8] + additional.to_bytes(2, "big")
            if len(self._heads) < _MAX_SHAPES:
                self._heads[front] = found
        return found

    def own_answer(self, query: Query, *, in_zone: bool) -> Answer | None:
        """Return the answer of templates, the zone or hosts, if any. `in_zone` is `zone.contains(query)`."""
        if self._templates is not None:
            answer = self._templates.answer(query, in_zone=in_zone)
            if answer is not None:
                return answer
        answer = self.zone.answer(query, in_zone=in_zone) if self.is_ready else None
        if answer is not None and answer.head[1] & 15 == wire.NXDOMAIN and self._passes_on(query):
            answer = None
        if answer is None and self._hosts is not None:
            return self._hosts.answer(query)
        return answer

    def _passes_on(self, query: Query) -> bool:
        return any(query.name[at:] in self._falls_through for at in query.labels)

    def transfer(self, request: TransferRequest, client: str) -> Iterator[bytes]:
        """Return the messages of a zone transfer, or one message that refuses it."""
        if not is_allowed(client, self._transfer_to):
            return iter((self.error(request.query, wire.REFUSED),))
        if not self.is_ready:
            return iter((self.error(request.query, wire.SERVFAIL),))
        return transfer(self.zone, request.query)

    def _reply_slow_untrusted(self, data: bytes, is_udp: bool) -> bytes | Unresolved | TransferRequest | None:
        try:
            asked = wire.parse_query_untrusted(data)
        except BadPacket:
            return replies.format_error_untrusted(data)
        limit = self.limit(asked, is_udp)
        rcode = self._refusal(asked)
        if rcode is not None:
            return self.error(asked, rcode)
        self._remember_shape(data, asked, limit)
        if asked.class_ != wire.IN:
            return self.error(asked, wire.REFUSED)
        if asked.type in (wire.AXFR, wire.IXFR):
            is_possible = not is_udp and self._transfer_to and asked.name == self.zone.wire_domain
            return TransferRequest(asked) if is_possible else self.error(asked, wire.REFUSED)
        in_zone = self.zone.contains(asked)
        if asked.type == wire.ANY and self._has_minimal_any and not in_zone:
            return self.reply(asked, replies.minimal_any(_ANY_TTL, ra=self.is_recursive), limit)
        if self._rewriter is not None:
            rewriting = self._rewriter.apply(asked, in_zone=in_zone)
            if rewriting is not None:
                query = rewriting.answered
                return self._answer(query, limit, rewriting, in_zone=self.zone.contains(query))
        return self._answer(asked, limit, None, in_zone=in_zone)

    def _answer(self, query: Query, limit: int, rewriting: Rewriting | None, *, in_zone: bool) -> bytes | Unresolved:
        """`rewriting` is that of the client's query, if a rule has rewritten it."""
        client_query = query if rewriting is None else rewriting.asked
        if in_zone and not self.is_ready:
            return self.error(client_query, wire.SERVFAIL)
        answer = self.own_answer(query, in_zone=in_zone)
        if answer is None:
            if self.is_recursive:
                return Unresolved(query, limit, None, rewriting=rewriting)
            if in_zone:
                return self.reply(client_query, self.zone.nxdomain(len(query.name)), limit)
            return self.error(client_query, wire.REFUSED)
        if query.type in (wire.TYPES["A"], wire.TYPES["AAAA"]) and replies.is_alias(answer):
            return Unresolved(query, limit, answer, rewriting=rewriting)
        if self.has_autopath and answer.head[1] & 15 == wire.NXDOMAIN:
            namespace = self.zone.namespace_of_search(query)
            if namespace and query.type in (wire.TYPES["A"], wire.TYPES["AAAA"]):
                return Unresolved(query, limit, answer, namespace, rewriting)
        if rewriting is not None:
            answer = renamed_untrusted(answer, rewriting)
        return self.reply(client_query, answer, limit)

    def reply(
        self, query: Query, answer: Answer, limit: int, *, options: bytes = b"", extended_rcode: int = 0
    ) -> bytes:
        """Assemble a reply of at most `limit` bytes. The last two are for the OPT record."""
        self._turn += 1
        answer = replies.without_rest(answer) if self._is_minimal else answer
        return replies.assemble(
            query, answer, limit, self.size, self._turn, options=options, extended_rcode=extended_rcode
        )

    def error(self, query: Query, rcode: int) -> bytes:
        """Return a reply with a response code and no records."""
        return replies.error_reply(query, rcode, self.size, ra=self.is_recursive)

    def refuse(self, question: Unresolved) -> bytes:
        """Return REFUSED, as CoreDNS does when `max_concurrent` is reached."""
        return self.error(question.client_query, wire.REFUSED)

    def limit(self, query: Query, is_udp: bool) -> int:
        """Return the size in bytes of the largest reply: for UDP what the client accepts, at most `size`."""
        if not is_udp:
            return wire.LARGEST
        if query.edns is None:
            return wire.UDP_SIZE
        return max(wire.UDP_SIZE, min(query.edns.size, self.size))

    def _refusal(self, query: Query) -> int | None:
        if query.flags & wire.OPCODE:
            return wire.NOTIMP  # NOTIFY, UPDATE, ...
        if query.edns is not None and query.edns.version:
            return wire.BADVERS
        if query.type == wire.OPT:
            return wire.FORMERR
        return None

    def _remember_shape(self, data: bytes, query: Query, limit: int) -> None:
        """Keep the OPT record for the fast path: most clients send one record, without options, in all queries."""
        tail = data[wire.HEADER_SIZE + len(query.question) :]
        if query.edns is not None and len(tail) == 11 and limit <= self.size and len(self._shapes) < _MAX_SHAPES:
            self._shapes[tail] = (limit, replies.opt_record(self.size, do=query.edns.do))
