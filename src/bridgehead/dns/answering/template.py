"""`template`: answers that are built from the query (source: CoreDNS' plugin).

Pure: no I/O, no clock, no randomness.

`responder.py` asks templates before the zone. Answers are A, AAAA, CNAME, TXT and PTR records at the name that was
asked for; their data may have fields of the query and of the match. `resolver.py` follows the aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from bridgehead.dns.config import Template
from bridgehead.dns.messages import replies, wire
from bridgehead.dns.messages.domain_names import as_domain, is_name, is_within
from bridgehead.dns.messages.record_sets import Data, address_sets
from bridgehead.dns.messages.replies import Answer
from bridgehead.dns.messages.wire import Query

# A field as it is written, the fields of the query, and those of the match.
FIELD = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}")
FIELD_NAMES = {".Name", ".Zone", ".Type", ".Class"}
MATCH_FIELD = re.compile(r"\.Group\.(\w+)|index \.Group \"(\w+)\"|index \.Match (\d+)")


class Templates:
    """Templates in their order; the first that applies answers. `ra`: the flag RA of replies."""

    def __init__(self, templates: Iterable[Template], *, ra: bool) -> None:
        self._templates = [
            (template, tuple(re.compile(pattern) for pattern in template.patterns)) for template in templates
        ]
        self._ra = ra

    def touches(self, domain: str) -> bool:
        """Whether any template may apply to a name in this domain."""
        return any(
            not template.for_others
            and any(is_within(domain, zone) or is_within(zone, domain) for zone in template.zones)
            for template, _ in self._templates
        )

    def answer(self, query: Query, *, in_zone: bool) -> Answer | None:
        """Return the answer; None if no template applies. `in_zone`: a name of the cluster."""
        kind = wire.TYPE_NAMES.get(query.type, "")
        name = wire.decode_name(query.name)
        for template, patterns in self._templates:
            zone = _zone_of(name, template.zones)
            if zone is None or template.kind not in ("ANY", kind) or (in_zone and template.for_others):
                continue
            for pattern in patterns:
                found = pattern.search(f"{name}.")
                if found is not None:
                    fields = {".Name": f"{name}.", ".Zone": f"{zone}.", ".Type": kind, ".Class": "IN"}
                    return self._fill_records(template, query, kind, fields, found)
            if _zone_of(name, template.falls_through) is None:
                return Answer(replies.head(wire.SERVFAIL, 0, aa=False, ra=self._ra), b"", 0)
        return None

    def _fill_records(
        self, template: Template, query: Query, kind: str, fields: Mapping[str, str], found: re.Match[str]
    ) -> Answer:
        lines = [line for line in template.records if line.kind == kind]
        if not lines:  # an alias is the answer to every type, and has no other records beside it
            lines = [line for line in template.records if line.kind == "CNAME"][:1]
            kind = "CNAME"
        data = [_data(kind, _fill(line.data, fields, found)) for line in lines]
        known = tuple(value for value in data if value is not None)
        if len(known) < len(data):
            return Answer(replies.head(wire.SERVFAIL, 0, ra=self._ra), b"", 0)
        if not known or template.rcode != wire.NOERROR:
            return Answer(replies.head(template.rcode, 0, ra=self._ra), b"", 0)
        return replies.compile_answer(query.name, kind, {kind: known}, min(line.ttl for line in lines), {}, ra=self._ra)


def _zone_of(name: str, zones: Iterable[str]) -> str | None:
    """Return the longest zone that has the name."""
    return max((zone for zone in zones if is_within(name, zone)), key=len, default=None)


def _fill(text: str, fields: Mapping[str, str], found: re.Match[str]) -> str:
    def value(field: re.Match[str]) -> str:
        of_match = MATCH_FIELD.fullmatch(field[1])
        if of_match is None:
            return fields[field[1]]
        group = of_match[1] or of_match[2] or of_match[3]
        return found[int(group) if group.isdecimal() else group] or ""

    return FIELD.sub(value, text)


def _data(kind: str, text: str) -> Data | None:
    """Return the data of a record; None for a text that the type cannot have."""
    if kind in ("A", "AAAA"):
        return next(iter(address_sets((text,)).get(kind, ())), None)
    if kind == "TXT":
        text = text.strip('"')
        return text if text.isascii() and len(text) < 256 else None
    name = as_domain(text)
    return name if is_name(name) else None
