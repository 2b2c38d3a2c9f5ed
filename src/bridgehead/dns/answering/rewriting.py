"""`rewrite name`: queries answered as if another name had been asked for (source: CoreDNS' plugin `rewrite`).

Pure: no I/O, no clock, no randomness.

`responder.py` applies the rules first. The answer always has the name that was asked for, as with CoreDNS' `answer
auto`: clients discard answers for other names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bridgehead.dns.config import RewriteRule
from bridgehead.dns.messages import replies, wire
from bridgehead.dns.messages.foreign import plain_records_untrusted
from bridgehead.dns.messages.names import is_name
from bridgehead.dns.messages.replies import Answer
from bridgehead.dns.messages.wire import Query


def _closed(name: str) -> str:
    return name if name.endswith(".") else f"{name}."


class Rewriter:
    """Rules in their order. The first rule that matches is the last one applied, unless it has `continue`."""

    def __init__(self, rules: Iterable[RewriteRule]) -> None:
        self._rules = tuple((rule, re.compile(rule.pattern) if rule.kind == "regex" else None) for rule in rules)

    def touches(self, domain: str) -> bool:
        """Whether any rule may match a name in this domain, which may end with a dot or not."""
        domain = _closed(domain)
        return any(
            not rule.for_others
            and not (
                rule.kind in ("exact", "suffix")
                and not rule.pattern.endswith(domain)
                and not (rule.kind == "suffix" and f".{domain}".endswith(rule.pattern))
            )
            for rule, _ in self._rules
        )

    def apply(self, query: Query, *, in_zone: bool) -> Query:
        """Return the query to answer instead; the same object when no rule matches. `in_zone`: a cluster name."""
        text = wire.decode_name(query.name) + "."
        if "\\" in text:
            return query  # an escaped byte, which rules cannot contain
        for rule, pattern in self._rules:
            if in_zone and rule.for_others:
                continue
            fresh = _rewritten(rule, pattern, text)
            if fresh is None or not is_name(fresh[:-1]):
                continue
            text = fresh
            if rule.is_last:
                break
        name = wire.encode_name(text[:-1])
        return query if name == query.name else wire.with_name(query, name)


def _rewritten(rule: RewriteRule, pattern: re.Pattern[str] | None, name: str) -> str | None:
    """Return the new name; None when the rule does not match."""
    if pattern is not None:
        found = pattern.search(name)
        if found is None:
            return None
        return re.sub(r"\{(\d+)\}", lambda group: found[int(group[1])] or "", rule.replacement).lower()
    match rule.kind:
        case "exact" if name == rule.pattern:
            return rule.replacement
        case "prefix" if name.startswith(rule.pattern):
            return rule.replacement + name[len(rule.pattern) :]
        case "suffix" if name.endswith(rule.pattern):
            return name[: len(name) - len(rule.pattern)] + rule.replacement
        case "substring" if rule.pattern in name:
            return name.replace(rule.pattern, rule.replacement)
    return None


def renamed_untrusted(answer: Answer, asked: Query, answered: Query) -> Answer:
    """Return the answer to the query `answered` as an answer to `asked`, without AD. Raises BadPacket."""
    answer = answer._replace(head=answer.head[:1] + bytes((answer.head[1] & ~wire.AD,)) + answer.head[2:])
    if answer.stride > 0 or not answer.body:
        return answer  # address records, whose names are pointers to the question
    writer = replies.Writer(asked.name)
    for owner, kind, ttl, data in plain_records_untrusted(answer, answered.question, sections=3):
        writer.add_plain(asked.name if owner == answered.name else owner, kind, ttl, data)
    return Answer(answer.head, bytes(writer.body), 0)
