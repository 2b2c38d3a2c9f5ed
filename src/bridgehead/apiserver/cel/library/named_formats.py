"""Named formats of strings.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `apiserver/pkg/cel/library/format.go`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date

from bridgehead.apiserver.cel.costs import Cost, exactly
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.types import opaque
from bridgehead.apiserver.cel.values import NONE, Optional
from bridgehead.objects.names import (
    check_dns1035_label,
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_value,
    check_qualified_name,
)

from .times import parse_timestamp
from .urls import parse_request_uri

_UUID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Return the check of a prefix of generated names: a trailing dash is masked, as `generateName` allows it."""
    return lambda text: check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _valid_unless(parse: Callable[[str], object], message: str) -> Callable[[str], list[str]]:
    def check(text: str) -> list[str]:
        try:
            parse(text)
        except (ValueError, binascii.Error, EvaluationError) as error:
            return [message or str(error)]
        return []

    return check


def _uuid(text: str) -> None:
    if _UUID.fullmatch(text) is None:
        raise ValueError(text)


def _base64(text: str) -> None:
    if not text:
        raise ValueError(text)
    base64.b64decode(text, validate=True)


def _date(text: str) -> None:
    if len(text) != 10:
        raise ValueError(text)
    date.fromisoformat(text)


@dataclass(frozen=True, slots=True)
class NamedFormat:
    name: str
    check: Callable[[str], list[str]]
    regex_size: int
    cel_type = opaque("kubernetes.NamedFormat")


_FORMATS = {
    name: NamedFormat(name, check, size)
    for name, check, size in (
        ("dns1123Label", check_dns1123_label, 30),
        ("dns1123Subdomain", check_dns1123_subdomain, 60),
        ("dns1035Label", check_dns1035_label, 30),
        ("qualifiedName", check_qualified_name, 60),
        ("dns1123LabelPrefix", _prefix(check_dns1123_label), 30),
        ("dns1123SubdomainPrefix", _prefix(check_dns1123_subdomain), 60),
        ("dns1035LabelPrefix", _prefix(check_dns1035_label), 30),
        ("labelValue", check_label_value, 40),
        ("uri", _valid_unless(parse_request_uri, ""), 1000),
        ("uuid", _valid_unless(_uuid, "does not match the UUID format"), 100),
        ("byte", _valid_unless(_base64, "invalid base64"), 100),
        ("date", _valid_unless(_date, "invalid date"), 150),
        ("datetime", _valid_unless(parse_timestamp, "invalid datetime"), 150),
    )
}


def _named(name: str) -> Optional:
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _validate(format: NamedFormat, text: str) -> Optional:
    errors = format.check(text)
    return Optional(errors) if errors else NONE


def _constant(format: NamedFormat) -> tuple[Overload, ...]:
    return (overload("() -> kubernetes.NamedFormat", lambda: format),)


# The longest pattern of a format, as estimates take it.
_LONGEST_PATTERN = exactly(128)
_COST = Cost(
    lambda named, text: -(-(1 + len(text)) // 10) * -(-named.regex_size // 4),
    lambda operands: (operands[1].size.tenths().times(_LONGEST_PATTERN.quarters()), None),
)

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "format.named": (overload("(string) -> optional(kubernetes.NamedFormat)", _named),),
    "validate": (overload("kubernetes.NamedFormat.(string) -> optional(list(string))", _validate, _COST),),
    **{f"format.{name}": _constant(named) for name, named in _FORMATS.items()},
}
