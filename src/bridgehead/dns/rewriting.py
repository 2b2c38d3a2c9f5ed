"""`rewrite name`: questions answered as if another name had been asked for. Pure.

`corefile.py` reads the rules (CoreDNS' plugin `rewrite`, its rules for names), `responder.py` applies them before
anything else. An answer always carries the name that was asked for, which CoreDNS does with `answer auto`: clients drop
answers about other names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from . import wire
from .errors import ConfigInvalid
from .foreign import plain_records_untrusted
from .records import is_name
from .wire import Answer, Query

KINDS = ("exact", "prefix", "suffix", "substring", "regex")


@dataclass(frozen=True)
class Rule:
    """Names here are lower-case and, where they are whole or the end of one, with their last dot.

    `replacement` of a regex is the whole new name; {1} is its first group. A rule that is `for_others` was written
    beside the cluster's server block, and means no name of the cluster.
    """

    kind: str
    pattern: str
    replacement: str
    is_last: bool = True
    for_others: bool = False


def make_rule(kind: str, pattern: str, replacement: str, *, is_last: bool, for_others: bool = False) -> Rule:
    """Raises ConfigInvalid."""
    if kind == "regex":
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise ConfigInvalid(f"rewrite name regex {pattern!r}: {error}") from error
        wanted = [int(number) for number in re.findall(r"\{(\d+)\}", replacement)]
        if any(number > groups for number in wanted):
            raise ConfigInvalid(f"rewrite name regex {pattern!r}: {replacement!r} names a group that it has not")
        return Rule(kind, pattern, _closed(replacement), is_last, for_others)
    pattern, replacement = pattern.lower(), replacement.lower()
    if kind in ("exact", "suffix"):
        pattern, replacement = _closed(pattern), _closed(replacement)
    return Rule(kind, pattern, replacement, is_last, for_others)


def _closed(name: str) -> str:
    return name if name.endswith(".") else f"{name}."


class Rewriter:
    """Rules in their order. The first that fits is the last that is applied, unless it says `continue`."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple((rule, re.compile(rule.pattern) if rule.kind == "regex" else None) for rule in rules)

    def touches(self, domain: str) -> bool:
        """Whether any rule may fit a name in this domain, which may be written with its last dot or without."""
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

    def apply(self, query: Query, *, is_ours: bool) -> Query:
        """The question to answer in its place; the same when no rule fits. `is_ours`: about a name of the cluster."""
        text = wire.decode_name(query.name) + "."
        if "\\" in text:
            return query  # no name that anybody writes into a rule
        for rule, pattern in self._rules:
            if is_ours and rule.for_others:
                continue
            fresh = _rewritten(rule, pattern, text)
            if fresh is None or not is_name(fresh[:-1]):
                continue
            text = fresh
            if rule.is_last:
                break
        name = wire.encode_name(text[:-1])
        return query if name == query.name else wire.with_name(query, name)


def _rewritten(rule: Rule, pattern: re.Pattern[str] | None, name: str) -> str | None:
    """None when the rule does not fit."""
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
    """The answer to one question as the answer to another, which nobody has found authentic. Raises BadPacket."""
    answer = answer._replace(head=answer.head[:1] + bytes((answer.head[1] & ~wire.AD,)) + answer.head[2:])
    if answer.stride > 0 or not answer.body:
        return answer  # rows of addresses, which point to the question for their name
    writer = wire.Writer(asked.name)
    for owner, kind, ttl, data in plain_records_untrusted(answer, answered.question, sections=3):
        writer.add_plain(asked.name if owner == answered.name else owner, kind, ttl, data)
    return Answer(answer.head, bytes(writer.body), 0)
