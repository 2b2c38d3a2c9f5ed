"""Challenges of a registry: the header `WWW-Authenticate`.

Pure: no I/O, no clock, no randomness. Source: RFC 9110, section 11; the Docker registry's token authentication.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER = re.compile(rf'({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))')
_SCHEME = re.compile(rf"({_TOKEN})(?=\s|,|$)")


class Challenge(msgspec.Struct, frozen=True):
    """`scheme` is in lower case ("bearer", "basic"), and so are the names of the parameters."""

    scheme: str
    parameters: dict[str, str] = {}


def parse_challenges(headers: Iterable[str]) -> list[Challenge]:
    """Parse all challenges of an answer, in their order. Other text is skipped."""
    found: list[Challenge] = []
    for header in headers:
        position = 0
        while position < len(header):
            if header[position] in ", \t":
                position += 1
            elif (parameter := _PARAMETER.match(header, position)) and found:
                name, quoted, plain = parameter.groups()
                value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
                found[-1].parameters.setdefault(name.lower(), value)
                position = parameter.end()
            elif scheme := _SCHEME.match(header, position):
                found.append(Challenge(scheme[1].lower(), {}))
                position = scheme.end()
            else:
                position += 1
    return found
