"""From a query's bytes to its reply's, as far as this process knows the answer by itself.

`server.py` calls it for every packet and message. What it cannot say goes back as an `Open` question, for
`resolver.py`. The way of nearly all queries through here is short: one look-up, one concatenation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from . import wire
from .errors import BadPacket
from .hosts import HostTable
from .rewriting import Rewriter, renamed_untrusted
from .tallies import Traffic
from .templates import Templates
from .transfer import Network, is_allowed, transfer
from .wire import Answer, Query
from .zone import NODATA, Zone

_PLAIN = b"\1\0\0\1\0\0\0\0\0\0"  # RD, one question, nothing else
_WITH_OPT = b"\1\0\0\1\0\0\0\0\0\1"
_ADDRESSES = (b"\0\1\0\1", b"\0\x1c\0\1")  # type and class of A and AAAA
_ENDPOINT_LABELS = 4  # <endpoint>.<Service>.<namespace>.svc before the zone's own name
_MOST_SHAPES = 64  # of OPT records that are remembered


class Open(NamedTuple):
    """A question that needs others. `limit` is the size in bytes of the largest reply.

    `known` is None for an outside name; for one of ours that is an alias, the alias; and where the search list of a pod
    in `namespace` begins with a name that does not exist, that answer.
    """

    query: Query
    limit: int
    known: Answer | None
    namespace: str = ""
    asked: Query | None = None  # what the client asked, if a rule has made another question of it


class Transfer(NamedTuple):
    """Somebody asks for the whole zone."""

    query: Query


class Responder:
    """Answers from a zone. Until `is_ready` is set the zone is not complete, and its names get SERVFAIL.

    `size` is the largest UDP reply we send; `is_recursive` whether outside names can be answered at all;
    `has_autopath` whether a pod's search list is walked for it. `hosts` are names beside the cluster's, `templates`
    answer before everything else, `rewriter` makes other questions of some, and clients in `transfer_to` may have the
    whole zone.
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
    ) -> None:
        self.zone = zone
        self._hosts = hosts
        self._templates = templates
        self._rewriter = rewriter
        self._transfer_to = transfer_to
        # Names of the table are answered without thinking of rules, if none can mean one of them.
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
        self.is_ready = True
        self._table = self.zone.table

    def respond_untrusted(
        self, data: bytes, *, is_udp: bool = True, traffic: Traffic | None = None
    ) -> bytes | Open | Transfer | None:
        """The reply to one message; None when there must be none. Raises nothing, whatever the bytes are.

        A Transfer only comes of what did not come by UDP. `traffic` counts query and reply, but for their sizes.
        """
        if is_udp and not self._has_rules_for_table:
            reply = self._at_once(data, traffic)
            if reply is not None:
                return reply
        found = self._carefully_untrusted(data, is_udp)
        if traffic is not None:
            traffic.add_query(data, found)
        return found

    def _at_once(self, data: bytes, traffic: Traffic | None) -> bytes | None:
        end = data.find(b"\0", wire.HEADER_SIZE) + 5
        answer = self._table.get(data[wire.HEADER_SIZE : end].lower())
        rcode = wire.NOERROR
        if answer is None:
            answer, rcode = self._no_such_name(data, end), wire.NXDOMAIN
        reply = None if answer is None else self._quickly(data, end, answer)
        if reply is not None and traffic is not None:
            traffic.queries[data[end - 3]] += 1
            traffic.rcodes[rcode] += 1
        return reply

    def _no_such_name(self, data: bytes, end: int) -> Answer | None:
        """The zone's answer to a question for addresses that nothing has, where that is plain to see.

        Pods' search lists make this the most frequent question after those that have an answer.
        """
        if data[end - 4 : end] not in _ADDRESSES or self.has_autopath or not self.is_ready:
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
        if at != start or len(name) > 255 or zone.knows(name):
            return None
        if labels == _ENDPOINT_LABELS and zone.knows(name[1 + name[0] :]):
            return None  # it may be an endpoint's
        return zone.no_such_name(len(name))

    def _quickly(self, data: bytes, end: int, answer: Answer) -> bytes | None:
        """The reply to a query of the usual shape, if it fits without thinking."""
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
        room = limit - end - len(opt)
        if len(body) > room:
            if stride <= 0:
                return None
            count = room // stride
            body = body[: count * stride]
            front = wire.head_cut(front, count)
        return data[:2] + front + data[12:end] + body + opt

    def _head_with_opt(self, front: bytes) -> bytes:
        found = self._heads.get(front)
        if found is None:
            additional = int.from_bytes(front[8:10], "big") + 1
            found = front[:8] + additional.to_bytes(2, "big")
            if len(self._heads) < _MOST_SHAPES:
                self._heads[front] = found
        return found

    def own_answer(self, query: Query) -> Answer | None:
        """What is known without asking others: what templates say, names of the cluster, and those of hosts."""
        if self._templates is not None:
            made = self._templates.answer(query, is_ours=self.zone.is_ours(query))
            if made is not None:
                return made
        answer = self.zone.answer(query) if self.is_ready else None
        if answer is None and self._hosts is not None:
            return self._hosts.answer(query)
        return answer

    def transfer(self, wanted: Transfer, client: str) -> Iterator[bytes]:
        """The messages for who asks for the whole zone; one that refuses it, if that is to be."""
        if not is_allowed(client, self._transfer_to):
            return iter((self.error(wanted.query, wire.REFUSED),))
        if not self.is_ready:
            return iter((self.error(wanted.query, wire.SERVFAIL),))
        return transfer(self.zone, wanted.query)

    def _carefully_untrusted(self, data: bytes, is_udp: bool) -> bytes | Open | Transfer | None:
        try:
            asked = wire.parse_query_untrusted(data)
        except BadPacket:
            return wire.format_error_untrusted(data)
        limit = self.limit(asked, is_udp)
        refused = self._refuse(asked)
        if refused is not None:
            return self.error(asked, refused)
        self._remember_shape(data, asked, limit)
        if asked.class_ != wire.IN:
            return self.error(asked, wire.REFUSED)
        if asked.type in (wire.AXFR, wire.IXFR):
            is_possible = not is_udp and self._transfer_to and asked.name == self.zone.wire_domain
            return Transfer(asked) if is_possible else self.error(asked, wire.REFUSED)
        query = asked
        if self._rewriter is not None:
            query = self._rewriter.apply(asked, is_ours=self.zone.is_ours(asked))
        return self._answer(query, limit, None if query is asked else asked)

    def _answer(self, query: Query, limit: int, asked: Query | None) -> bytes | Open:
        """`asked` is what the client asked, if that was something else."""
        client_query = query if asked is None else asked
        if not self.is_ready and self.zone.is_ours(query):
            return self.error(client_query, wire.SERVFAIL)
        answer = self.own_answer(query)
        if answer is None:
            if self.is_recursive:
                return Open(query, limit, None, asked=asked)
            return self.error(client_query, wire.REFUSED)
        if query.type in (wire.TYPES["A"], wire.TYPES["AAAA"]) and self.zone.is_alias(query.name):
            return Open(query, limit, answer, asked=asked)
        if self.has_autopath and answer.head[1] & 15 == wire.NXDOMAIN:
            namespace = self.zone.namespace_of_search(query)
            if namespace and query.type in (wire.TYPES["A"], wire.TYPES["AAAA"]):
                return Open(query, limit, answer, namespace, asked)
        if asked is not None:
            answer = renamed_untrusted(answer, asked, query)
        return self.reply(client_query, answer, limit)

    def reply(self, query: Query, answer: Answer, limit: int) -> bytes:
        """Assemble, and cut to `limit`."""
        self._turn += 1
        return wire.assemble(query, answer, limit, self.size, self._turn)

    def error(self, query: Query, rcode: int) -> bytes:
        return wire.error_reply(query, rcode, self.size, ra=self.is_recursive)

    def refuse(self, question: Open) -> bytes:
        """There is no room for one more question to others; as CoreDNS says it."""
        return self.error(question.asked or question.query, wire.REFUSED)

    def limit(self, query: Query, is_udp: bool) -> int:
        """The largest reply in bytes: what the client takes, and we care to send in one packet."""
        if not is_udp:
            return wire.LARGEST
        if query.edns is None:
            return wire.UDP_SIZE
        return max(wire.UDP_SIZE, min(query.edns.size, self.size))

    def _refuse(self, query: Query) -> int | None:
        if query.flags & wire.OPCODE:
            return wire.NOTIMP  # an operation that is not a query: NOTIFY, UPDATE
        if query.edns is not None and query.edns.version:
            return wire.BADVERS
        if query.type == wire.OPT:
            return wire.FORMERR
        return None

    def _remember_shape(self, data: bytes, query: Query, limit: int) -> None:
        """Most clients send the same OPT record, without options, all their life."""
        tail = data[wire.HEADER_SIZE + len(query.question) :]
        if query.edns is not None and len(tail) == 11 and limit <= self.size and len(self._shapes) < _MOST_SHAPES:
            self._shapes[tail] = (limit, wire.opt_record(self.size, do=query.edns.do))
