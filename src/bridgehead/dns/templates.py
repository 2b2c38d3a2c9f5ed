"""`template`: answers made of the question itself, as CoreDNS' plugin of that name gives them. Pure.

`corefile.py` reads them, `responder.py` asks them before it looks anywhere else. Known are answers of addresses, texts
and pointers under the name that was asked, with the fields of the question and of the match in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from . import wire
from .corefile_text import Directive
from .errors import ConfigInvalid
from .records import Data, address_sets, as_domain, is_name, is_within
from .wire import Answer, Query

_FIELD = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}")
_ANSWER = re.compile(r"\{\{-?\s*\.Name\s*-?\}\}\s+(?:(\d+)\s+)?(?:IN\s+)?(A|AAAA|TXT|PTR)\s+(\S.*)", re.IGNORECASE)
_FIELDS = {".Name", ".Zone", ".Type", ".Class"}
_OF_MATCH = re.compile(r"\.Group\.(\w+)|index \.Group \"(\w+)\"|index \.Match (\d+)")


@dataclass(frozen=True)
class Line:
    """One record of the answer. `data` has fields like {{ .Group.ip }}."""

    kind: str
    ttl: int
    data: str


@dataclass(frozen=True)
class Template:
    """Answers questions of a type ("ANY": of all) in `zones` whose name fits one of the patterns.

    What fits none does not exist, unless it is in `falls_through`. Zones are lower-case without their last dot, "" is
    everything. One that is `for_others` was written beside the cluster's server block, and means no name of it.
    """

    kind: str
    zones: tuple[str, ...]
    patterns: tuple[str, ...] = (".*",)
    rcode: int = wire.NOERROR
    lines: tuple[Line, ...] = ()
    falls_through: tuple[str, ...] = ()
    for_others: bool = False

    @property
    def is_denial(self) -> bool:
        """Whether every question in its zones gets one and the same code."""
        return (self.kind, self.patterns, self.lines) == ("ANY", (".*",), ())


def read_template(directive: Directive, zones: tuple[str, ...], *, for_others: bool) -> Template:
    """`template CLASS TYPE [ZONE...]` and its block; `zones` are the server block's. Raises ConfigInvalid."""
    where = f"Corefile, line {directive.line}: template"
    class_, kind, *own = (*directive.arguments, "", "")[: max(2, len(directive.arguments))]
    if class_.upper() not in ("ANY", "IN") or kind.upper() not in wire.TYPES | {"ANY": 0}:
        raise ConfigInvalid(f"{where} IN|ANY TYPE [ZONE...]")
    patterns: list[str] = []
    lines: list[Line] = []
    through: tuple[str, ...] = ()
    code = "NOERROR"
    for option in directive.block:
        where = f"Corefile, line {option.line}: template"
        match option.name:
            case "match" if option.arguments:
                patterns += option.arguments
            case "answer" if len(option.arguments) == 1:
                lines.append(_read_line(option.arguments[0], where))
            case "rcode" if len(option.arguments) == 1 and option.arguments[0].upper() in wire.RCODE_NAMES:
                code = option.arguments[0].upper()
            case "fallthrough":
                through = tuple(map(as_domain, option.arguments)) or ("",)
            case _:
                raise ConfigInvalid(
                    f'{where} takes match, answer "...", rcode and fallthrough, not {" ".join(option.words)}'
                )
    _check_patterns(patterns or [".*"], lines, where)
    if not (lines or any(option.name == "rcode" for option in directive.block)):
        raise ConfigInvalid(f"{where} has neither an answer nor a rcode")
    return Template(
        kind.upper(),
        tuple(map(as_domain, own)) or zones,
        tuple(patterns) or (".*",),
        wire.RCODE_NAMES.index(code),
        tuple(lines),
        through,
        for_others,
    )


def _read_line(text: str, where: str) -> Line:
    found = _ANSWER.fullmatch(text.strip())
    if found is None:
        raise ConfigInvalid(f"{where} answers only `{{{{ .Name }}}} [TTL] [IN] A|AAAA|TXT|PTR DATA`, not {text!r}")
    ttl, kind, data = found.groups()
    return Line(kind.upper(), int(ttl or 3600), data.strip())


def _check_patterns(patterns: list[str], lines: list[Line], where: str) -> None:
    for pattern in patterns:
        try:
            groups = re.compile(pattern)
        except re.error as error:
            raise ConfigInvalid(f"{where} match {pattern!r}: {error}") from error
        for line in lines:
            for field in _FIELD.findall(line.data):
                found = _OF_MATCH.fullmatch(field)
                if found is None and field not in _FIELDS:
                    raise ConfigInvalid(f"{where} with {{{{ {field} }}}}, which is not known here")
                group = "0" if found is None else found[1] or found[2] or found[3]
                if group not in groups.groupindex and not (group.isdecimal() and int(group) <= groups.groups):
                    raise ConfigInvalid(f"{where} match {pattern!r} has no group {group}")


class Templates:
    """In their order; the first that fits answers. `ra`: what replies say of recursion."""

    def __init__(self, templates: Iterable[Template], *, ra: bool) -> None:
        self._templates = [
            (template, tuple(re.compile(pattern) for pattern in template.patterns)) for template in templates
        ]
        self._ra = ra

    def touches(self, domain: str) -> bool:
        """Whether one may answer for names in this domain."""
        return any(
            not template.for_others
            and any(is_within(domain, zone) or is_within(zone, domain) for zone in template.zones)
            for template, _ in self._templates
        )

    def answer(self, query: Query, *, is_ours: bool) -> Answer | None:
        """None: it is left to others. `is_ours`: about a name of the cluster."""
        kind = wire.TYPE_NAMES.get(query.type, "")
        name = wire.decode_name(query.name)
        for template, patterns in self._templates:
            zone = _zone_of(name, template.zones)
            if zone is None or template.kind not in ("ANY", kind) or (is_ours and template.for_others):
                continue
            for pattern in patterns:
                found = pattern.search(f"{name}.")
                if found is not None:
                    fields = {".Name": f"{name}.", ".Zone": f"{zone}.", ".Type": kind, ".Class": "IN"}
                    return self._filled(template, query, kind, fields, found)
            if _zone_of(name, template.falls_through) is None:
                return Answer(wire.head(wire.NXDOMAIN, 0, ra=self._ra), b"", 0)
        return None

    def _filled(
        self, template: Template, query: Query, kind: str, fields: Mapping[str, str], found: re.Match[str]
    ) -> Answer:
        lines = [line for line in template.lines if line.kind == kind]
        data = [_data(kind, _fill(line.data, fields, found)) for line in lines]
        known = tuple(value for value in data if value is not None)
        if len(known) < len(data):
            return Answer(wire.head(wire.SERVFAIL, 0, ra=self._ra), b"", 0)
        if not known or template.rcode != wire.NOERROR:
            return Answer(wire.head(template.rcode, 0, ra=self._ra), b"", 0)
        return wire.compile_answer(query.name, kind, {kind: known}, min(line.ttl for line in lines), {}, ra=self._ra)


def _zone_of(name: str, zones: Iterable[str]) -> str | None:
    """The longest of the zones that the name is in."""
    return max((zone for zone in zones if is_within(name, zone)), key=len, default=None)


def _fill(text: str, fields: Mapping[str, str], found: re.Match[str]) -> str:
    def value(field: re.Match[str]) -> str:
        of_match = _OF_MATCH.fullmatch(field[1])
        if of_match is None:
            return fields[field[1]]
        group = of_match[1] or of_match[2] or of_match[3]
        return found[int(group) if group.isdecimal() else group] or ""

    return _FIELD.sub(value, text)


def _data(kind: str, text: str) -> Data | None:
    """What the record holds; None for what it cannot hold."""
    if kind in ("A", "AAAA"):
        return next(iter(address_sets((text,)).get(kind, ())), None)
    if kind == "TXT":
        text = text.strip('"')
        return text if text.isascii() and len(text) < 256 else None
    name = as_domain(text)
    return name if is_name(name) else None
