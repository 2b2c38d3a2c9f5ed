"""The directives `hosts`, `rewrite` and `template`: answers for names beside the cluster's.

Pure: no I/O, no clock, no randomness. The caller's `Sources` reads hosts files.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field

from bridgehead.dns.answering.templates import FIELD, FIELD_NAMES, MATCH_FIELD
from bridgehead.dns.config import (
    REWRITE_KINDS,
    AnswerRule,
    HostEntry,
    Hosts,
    RewriteRule,
    Template,
    TemplateRecord,
)
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.messages import wire
from bridgehead.dns.messages.names import as_domains, as_zones, is_in_any, is_name

from .draft import (
    Draft,
    ServerBlock,
    Spec,
    Table,
    WrongArguments,
    bounded,
    did_you_mean,
    fallthrough_zones,
    no_argument,
    number,
    one_argument,
    one_of,
    read_line,
    seconds,
)
from .text import Directive

# --- hosts -------------------------------------------------------------------------------------------------------


@dataclass
class HostsBlock:
    """The lines of one `hosts` directive."""

    entries: list[HostEntry] = field(default_factory=list)
    ttl: int = 3600
    has_reverse: bool = True
    falls_through: tuple[str, ...] = ()
    passes_types: Directive | None = None  # the line


def read_hosts(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `hosts [FILE [ZONE...]]` and the file. Without zones, those of the server block count."""
    path, *own_zones = directive.arguments or ("/etc/hosts",)
    zones = as_zones(own_zones) or block.zones
    hosts = HostsBlock()
    for line in directive.block:
        entry = None if line.name in HOSTS_OPTIONS else parse_entry(line.tokens)
        if entry is not None:
            hosts.entries.append(entry)
        elif line.name in HOSTS_OPTIONS:
            read_line(draft, hosts, line, HOSTS_OPTIONS)
        else:
            draft.reject(line, f"{line.text!r} in hosts", did_you_mean(line.name, HOSTS_OPTIONS))
    outside = [name for _, names in hosts.entries for name in names if not is_in_any(name, zones)]
    if outside:
        draft.remark(directive, f"{', '.join(outside)}: not in a zone of these hosts")
    try:
        hosts.entries += parse_hosts(draft.sources.read(path))
    except OSError as error:
        draft.remark(directive, f"{path}: {error.strerror}")
    if "" in zones and "" not in hosts.falls_through:
        raise directive.invalid("hosts without `fallthrough` would deny every other name")
    if hosts.passes_types is not None and not hosts.falls_through:
        raise hosts.passes_types.invalid("fallthrough_unsupported without fallthrough")
    draft.denied += [(zone, wire.SERVFAIL) for zone in zones if not is_in_any(zone, hosts.falls_through)]
    entries = [(address, tuple(name for name in names if is_in_any(name, zones))) for address, names in hosts.entries]
    found = Hosts(
        tuple((address, names) for address, names in entries if names),
        hosts.ttl,
        hosts.has_reverse,
        hosts.falls_through if hosts.passes_types is not None else (),
    )
    draft.set(hosts=(*draft.config.hosts, found))
    draft.host_blocks.append(block)


def parse_hosts(text: str) -> tuple[HostEntry, ...]:
    """Parse a hosts file (hosts(5)). Invalid lines are left out, as the C library does."""
    found = (parse_entry(tuple(line.partition("#")[0].split())) for line in text.splitlines())
    return tuple(entry for entry in found if entry is not None)


def parse_entry(fields: tuple[str, ...]) -> HostEntry | None:
    """Parse an address and its names; invalid names are left out. Returns None without an address or a valid name."""
    if not fields:
        return None
    try:
        address = ipaddress.ip_address(fields[0])
    except ValueError:
        return None
    names = tuple(name for name in as_domains(fields[1:]) if is_name(name))
    if not names or getattr(address, "scope_id", None):
        return None
    return str(address), names


def _hosts_ttl(draft: Draft, hosts: HostsBlock, option: Directive) -> None:
    hosts.ttl = number(option)


def _no_reverse(draft: Draft, hosts: HostsBlock, option: Directive) -> None:
    hosts.has_reverse = False


def _hosts_fallthrough(draft: Draft, hosts: HostsBlock, option: Directive) -> None:
    hosts.falls_through = fallthrough_zones(option)


def _hosts_reload(draft: Draft, hosts: HostsBlock, option: Directive) -> None:
    one_argument(option)
    if seconds(option) == 0:
        draft.reject(option, "reload 0 in hosts", "changes of the file are always noticed")


def _fallthrough_unsupported(draft: Draft, hosts: HostsBlock, option: Directive) -> None:
    no_argument(option)
    hosts.passes_types = option


HOSTS_OPTIONS: Table[HostsBlock] = {
    "ttl": Spec("ttl SECONDS", "TTL of the records", _hosts_ttl),
    "no_reverse": Spec("no_reverse", "no PTR records", _no_reverse),
    "fallthrough": Spec("fallthrough [ZONE...]", "zones whose other names are asked of upstreams", _hosts_fallthrough),
    "fallthrough_unsupported": Spec(
        "fallthrough_unsupported", "questions for other types are asked of upstreams, too", _fallthrough_unsupported
    ),
    "reload": Spec("reload DURATION", "a change is noticed within a second, sooner than any interval", _hosts_reload),
}

# --- rewrite -----------------------------------------------------------------------------------------------------


def read_rewrite(draft: Draft, block: ServerBlock, directive: Directive) -> None:
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


# --- template ----------------------------------------------------------------------------------------------------

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


def read_template(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `template CLASS TYPE [ZONE...]` and its lines. Without zones, those of the server block count."""
    class_, kind, *own_zones = (*directive.arguments, "", "")[: max(2, len(directive.arguments))]
    if class_.upper() not in ("ANY", "IN") or kind.upper() not in (*wire.TYPES, "ANY"):
        raise WrongArguments
    lines = TemplateBlock()
    for option in directive.block:
        read_line(draft, lines, option, TEMPLATE_OPTIONS)
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


def _template_fallthrough(draft: Draft, template: TemplateBlock, option: Directive) -> None:
    template.falls_through = fallthrough_zones(option)


TEMPLATE_OPTIONS: Table[TemplateBlock] = {
    "match": Spec("match REGEX...", "the names that are answered", _match),
    "answer": Spec('answer "{{ .Name }} [TTL] [IN] A|AAAA|CNAME|TXT|PTR DATA"', "a record of the answer", _answer),
    "rcode": Spec("rcode CODE", "the response code", _rcode),
    "fallthrough": Spec(
        "fallthrough [ZONE...]", "zones whose other names have answers elsewhere", _template_fallthrough
    ),
}


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
