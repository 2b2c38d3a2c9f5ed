"""The directive `template`: answers that are built from the question.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bridgehead.dns.answering.template import FIELD, FIELD_NAMES, MATCH_FIELD
from bridgehead.dns.config import Template, TemplateRecord
from bridgehead.dns.corefile.draft import (
    Draft,
    ServerBlock,
    Spec,
    Table,
    WrongArguments,
    bounded,
    fallthrough_zones,
    one_argument,
    one_of,
    read_line,
)
from bridgehead.dns.corefile.parser import Directive
from bridgehead.dns.messages import wire
from bridgehead.dns.messages.domain_names import as_zones

_ANSWER = re.compile(
    r"\{\{-?\s*\.Name\s*-?\}\}\s+(?:(\d+)\s+)?(?:IN\s+)?(A|AAAA|CNAME|TXT|PTR)\s+(\S.*)", re.IGNORECASE
)


@dataclass
class TemplateBlock:
    """The lines of one `template` directive."""

    patterns: list[str] = field(default_factory=list)
    records: list[TemplateRecord] = field(default_factory=list)
    rcode: int | None = None
    falls_through: tuple[str, ...] = ()


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `template CLASS TYPE [ZONE...]` and its lines. Without zones, those of the server block count."""
    class_, kind, *own_zones = (*directive.arguments, "", "")[: max(2, len(directive.arguments))]
    if class_.upper() not in ("ANY", "IN") or kind.upper() not in (*wire.TYPES, "ANY"):
        raise WrongArguments
    lines = TemplateBlock()
    for option in directive.block:
        read_line(draft, lines, option, OPTIONS)
    _check_fields(directive, lines)
    if not lines.records and lines.rcode is None:
        raise directive.invalid("template has neither an answer nor an rcode")
    template = Template(
        kind.upper(),
        as_zones(own_zones) or block.zones,
        tuple(lines.patterns) or (".*",),
        wire.NOERROR if lines.rcode is None else lines.rcode,
        tuple(lines.records),
        lines.falls_through,
        for_others=not block.is_cluster,
    )
    if not template.is_denial or template.zones != block.zones:
        draft.set(templates=(*draft.config.templates, template))
        draft.template_blocks.append(block)
    elif block.is_cluster:
        raise directive.invalid(
            "template would deny every name of the cluster; name zones, or give it a server block of its own"
        )
    else:
        draft.denied += [(zone, template.rcode) for zone in block.zones]  # before any other directive for the zone


def _check_fields(directive: Directive, template: TemplateBlock) -> None:
    """Raise ConfigInvalid for a field that is unknown, or whose group a pattern does not have."""
    for pattern in map(re.compile, template.patterns or [".*"]):
        for record in template.records:
            for text in FIELD.findall(record.data):
                match = MATCH_FIELD.fullmatch(text)
                if match is None and text not in FIELD_NAMES:
                    raise directive.invalid(f"template with {{{{ {text} }}}}, which is not known here")
                group = "0" if match is None else match[1] or match[2] or match[3]
                if group not in pattern.groupindex and not (group.isdecimal() and int(group) <= pattern.groups):
                    raise directive.invalid(f"template match {pattern.pattern!r} has no group {group}")


def _match(draft: Draft, template: TemplateBlock, option: Directive) -> None:
    if not option.arguments:
        raise WrongArguments
    for pattern in option.arguments:
        try:
            re.compile(pattern)
        except re.error as error:
            raise option.invalid(f"template match {pattern!r}: {error}") from error
    template.patterns += option.arguments


def _answer(draft: Draft, template: TemplateBlock, option: Directive) -> None:
    match = _ANSWER.fullmatch(one_argument(option).strip())
    if match is None:
        raise WrongArguments
    ttl, kind, data = match.groups()
    template.records.append(TemplateRecord(kind.upper(), bounded(option, ttl or "3600"), data.strip()))


def _rcode(draft: Draft, template: TemplateBlock, option: Directive) -> None:
    name = one_of(option, one_argument(option).upper(), wire.RCODE_NAMES)
    template.rcode = wire.RCODE_NAMES.index(name)


def _fallthrough(draft: Draft, template: TemplateBlock, option: Directive) -> None:
    template.falls_through = fallthrough_zones(option)


OPTIONS: Table[TemplateBlock] = {
    "match": Spec("match REGEX...", "the names that are answered", _match),
    "answer": Spec('answer "{{ .Name }} [TTL] [IN] A|AAAA|CNAME|TXT|PTR DATA"', "a record of the answer", _answer),
    "rcode": Spec("rcode CODE", "the response code", _rcode),
    "fallthrough": Spec("fallthrough [ZONE...]", "zones whose other names have answers elsewhere", _fallthrough),
}

TEMPLATE = Spec("template IN|ANY TYPE [ZONE...]", "answers that are built from the question", _read, has_options=True)
