"""`rewrite name`: queries answered as if another name had been asked for (source: CoreDNS' plugin `rewrite`).

Pure: no I/O, no clock, no randomness.

`responder.py` applies the rules first. The records at the rewritten name always get the name that was asked for:
clients discard answers for other names. Other names in the answer, and names that are values of records (targets of
CNAME, SRV, MX, ...), are rewritten by the rule's `answer` options, in all three sections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from bridgehead.dns.config import AnswerRule, RewriteRule
from bridgehead.dns.messages import replies, wire
from bridgehead.dns.messages.domain_names import is_name
from bridgehead.dns.messages.replies import Answer
from bridgehead.dns.messages.upstream_replies import map_value_name_untrusted, plain_records_untrusted
from bridgehead.dns.messages.wire import Query


class _Reversal(NamedTuple):
    """The rewriting of the answer for one rule that has matched.

    `before` and `after` are the names or, for `suffix`, the suffixes that the rule exchanged. With `is_auto` they are
    exchanged back, in names and values; a name below `after` becomes one below `before`.
    """

    before: str
    after: str
    is_suffix: bool
    is_auto: bool
    answers: tuple[tuple[AnswerRule, re.Pattern[str]], ...]

    def apply(self, name: str, field: str) -> str:
        """Return the new text of a name; `field` is "name" or "value", for owners and values of records."""
        if self.is_auto:
            is_below = name.endswith(self.after) if self.is_suffix else f".{name}".endswith(f".{self.after}")
            if is_below:
                name = name[: len(name) - len(self.after)] + self.before
        for rule, pattern in self.answers:
            if rule.field == field and (found := pattern.search(name)) is not None:
                name = _fill_groups(rule.replacement, found)
        return name


class Rewriting(NamedTuple):
    """A query that rules have rewritten. `asked` is the client's, `answered` is answered instead."""

    asked: Query
    answered: Query
    reversals: tuple[_Reversal, ...]  # of the rules that matched, in their order

    @property
    def has_rules_for_answers(self) -> bool:
        return any(reversal.is_auto or reversal.answers for reversal in self.reversals)

    def restore(self, name: bytes, field: str) -> bytes:
        """Return what a name of the answer becomes, in wire form; the name itself if no rule matches."""
        if name == self.answered.name and field == "name":
            return self.asked.name
        text = old = wire.decode_name(name) + "."
        if "\\" in text:
            return name  # an escaped byte, which rules cannot contain
        for reversal in reversed(self.reversals):
            fresh = reversal.apply(text, field)
            text = fresh if is_name(fresh[:-1]) else text
        return name if text == old else wire.encode_name(text[:-1])


class _Rule(NamedTuple):
    """A rule, and the patterns of its regular expressions."""

    rule: RewriteRule
    pattern: re.Pattern[str] | None
    answers: tuple[tuple[AnswerRule, re.Pattern[str]], ...]


def _closed(name: str) -> str:
    return name if name.endswith(".") else f"{name}."


class Rewriter:
    """Rules in their order. The first rule that matches is the last one applied, unless it has `continue`."""

    def __init__(self, rules: Iterable[RewriteRule]) -> None:
        self._rules = tuple(
            _Rule(
                rule,
                re.compile(rule.pattern) if rule.kind == "regex" else None,
                tuple((answer, re.compile(answer.pattern)) for answer in rule.answers),
            )
            for rule in rules
        )

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
            for rule, _, _ in self._rules
        )

    def apply(self, query: Query, *, in_zone: bool) -> Rewriting | None:
        """Return the query to answer instead; None when no rule matches. `in_zone`: a cluster name."""
        text = wire.decode_name(query.name) + "."
        if "\\" in text:
            return None  # an escaped byte, which rules cannot contain
        reversals = []
        for rule, pattern, answers in self._rules:
            if in_zone and rule.for_others:
                continue
            fresh = _rewritten(rule, pattern, text)
            if fresh is None or not is_name(fresh[:-1]):
                continue
            is_suffix = rule.kind == "suffix"
            before, after = (rule.pattern, rule.replacement) if is_suffix else (text, fresh)
            reversals.append(_Reversal(before, after, is_suffix, rule.is_auto, answers))
            text = fresh
            if rule.is_last:
                break
        name = wire.encode_name(text[:-1])
        if name == query.name and not any(reversal.answers for reversal in reversals):
            return None
        return Rewriting(query, wire.with_name(query, name), tuple(reversals))


def _rewritten(rule: RewriteRule, pattern: re.Pattern[str] | None, name: str) -> str | None:
    """Return the new name; None when the rule does not match."""
    if pattern is not None:
        found = pattern.search(name)
        if found is None:
            return None
        return _fill_groups(rule.replacement, found)
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


def _fill_groups(replacement: str, found: re.Match[str]) -> str:
    """Return the replacement with {1} replaced by the first group, and so on."""
    return re.sub(r"\{(\d+)\}", lambda group: found[int(group[1])] or "", replacement).lower()


def renamed_untrusted(answer: Answer, rewriting: Rewriting) -> Answer:
    """Return the answer to the rewritten query as an answer to the client's, without AD. Raises BadPacket."""
    asked, answered, _ = rewriting
    answer = answer._replace(head=answer.head[:1] + bytes((answer.head[1] & ~wire.AD,)) + answer.head[2:])
    if answer.stride > 0 or not answer.body:
        return answer  # address records, whose names are pointers to the question
    has_rules = rewriting.has_rules_for_answers
    writer = replies.Writer(asked.name)
    for owner, kind, ttl, data in plain_records_untrusted(answer, answered.question, sections=range(3)):
        if has_rules:
            owner = rewriting.restore(owner, "name")
            data = map_value_name_untrusted(kind, data, lambda name: rewriting.restore(name, "value"))
        elif owner == answered.name:
            owner = asked.name
        writer.add_plain(owner, kind, ttl, data)
    return Answer(answer.head, bytes(writer.body), 0)
