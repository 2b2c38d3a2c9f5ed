"""The directive `rewrite`: names that are answered as if others had been asked for.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re

from bridgehead.dns.config import REWRITE_KINDS, AnswerRule, RewriteRule
from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, Where, did_you_mean
from bridgehead.dns.corefile.parser import Directive
from bridgehead.dns.errors import ConfigInvalid


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `rewrite [continue|stop] name [KIND] FROM TO [ANSWER...]`; lines of a block continue the line.

    ANSWER is `answer auto`, `answer name FROM TO` or `answer value FROM TO`; after the first, `answer` may be left out.
    """
    tokens = [*directive.arguments, *(token for line in directive.block for token in line.tokens)]
    is_last = True
    if tokens[:1] in (["continue"], ["stop"]):
        is_last = tokens.pop(0) == "stop"
    if tokens[:1] != ["name"]:
        draft.reject(directive, " ".join(["rewrite", *tokens[:1]]), did_you_mean("".join(tokens[:1]), ["name"]))
        return
    kind, *rest = tokens[1:] if len(tokens) > 3 and tokens[1] in REWRITE_KINDS else ["exact", *tokens[1:]]
    if len(rest) < 2 or (len(rest) > 2 and rest[2] != "answer"):
        advice = did_you_mean(tokens[1], REWRITE_KINDS) if len(tokens) > 3 else ""
        raise directive.invalid("; ".join(filter(None, ["usage: rewrite name [KIND] FROM TO [ANSWER]", advice])))
    try:
        is_auto, answers = _read_answers(rest[2:])
        rule = make_rule(
            kind, *rest[:2], is_last=is_last, for_others=not block.is_cluster, is_auto=is_auto, answers=answers
        )
    except ConfigInvalid as error:
        raise directive.invalid(str(error)) from error
    draft.set(rewrites=(*draft.config.rewrites, rule))


def _read_answers(tokens: list[str]) -> tuple[bool, tuple[AnswerRule, ...]]:
    """Return whether `answer auto` is there, and the other answers. Raises ConfigInvalid."""
    is_auto, answers = False, []
    while tokens:
        field, *rest = (tokens[1:] if tokens[0] == "answer" else tokens) or [""]
        if field == "name" and rest[:1] == ["auto"] and rest[1:2] in ([], ["answer"]):
            field, rest = "auto", rest[1:]  # as CoreDNS' manual writes it
        if field == "auto":
            is_auto, tokens = True, rest
        elif field in ("name", "value") and len(rest) > 1:
            answers.append(AnswerRule(field, rest[0], _closed_replacement(f"answer {field}", rest[0], rest[1])))
            tokens = rest[2:]
        else:
            raise ConfigInvalid(f"{' '.join(tokens)!r}: write answer auto, answer name FROM TO or answer value FROM TO")
    if is_auto and any(answer.field == "name" for answer in answers):
        raise ConfigInvalid("answer auto and answer name exclude each other")
    return is_auto, tuple(answers)


def make_rule(
    kind: str,
    pattern: str,
    replacement: str,
    *,
    is_last: bool,
    for_others: bool = False,
    is_auto: bool = False,
    answers: tuple[AnswerRule, ...] = (),
) -> RewriteRule:
    """Return the rule, its names lower-case and closed by a dot. Raises ConfigInvalid for a regex that is none.

    As with CoreDNS, the answers of an exact rule are always rewritten back.
    """
    if kind == "regex":
        replacement = _closed_replacement("rewrite name regex", pattern, replacement)
    else:
        pattern, replacement = pattern.lower(), replacement.lower()
    if kind in ("exact", "suffix"):
        pattern, replacement = _closed(pattern), _closed(replacement)
    return RewriteRule(kind, pattern, replacement, is_last, for_others, is_auto or kind == "exact", answers)


def _closed_replacement(what: str, pattern: str, replacement: str) -> str:
    """Return the replacement, closed by a dot. Raises ConfigInvalid if it does not fit the regex `pattern`."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ConfigInvalid(f"{what} {pattern!r}: {error}") from error
    if any(int(group) > groups for group in re.findall(r"\{(\d+)\}", replacement)):
        raise ConfigInvalid(f"{what} {pattern!r} has {groups} groups, fewer than {replacement!r} uses")
    return _closed(replacement)


def _closed(name: str) -> str:
    return name if name.endswith(".") else f"{name}."


REWRITE = Spec(
    "rewrite [continue|stop] name [KIND] FROM TO [answer auto|name FROM TO|value FROM TO...]",
    "answers a name as if another had been asked for",
    _read,
    Where.CLUSTER_OR_ROOT,
    has_options=True,
)
