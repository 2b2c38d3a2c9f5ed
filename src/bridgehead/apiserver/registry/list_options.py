"""Options of reads: those that exclude each other, and the resourceVersion.

Pure: no I/O, no clock, no randomness. Source: apimachinery/pkg/apis/internalversion/validation (ValidateListOptions).
"""

from __future__ import annotations

import json

from bridgehead.apiserver.errors import bad_request, invalid
from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.http.paths import Query, parse_int, parse_uint
from bridgehead.apiserver.resources.shared import field

EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"
_MATCH = "resourceVersionMatch"


def check_list_options(query: Query) -> None:
    """Raise a 400 for numbers that cannot be parsed, a 422 for options of a list that exclude each other."""
    _check_numbers(query)
    match, version = query.get(_MATCH, ""), query.get("resourceVersion", "")
    errors: list[FieldError] = []
    if match:
        if not version:
            errors.append(field.forbidden(_MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided"))
        errors += _match_errors(match, query, (EXACT, NOT_OLDER_THAN, ""))
        if match == EXACT and version == "0":
            errors.append(field.forbidden(_MATCH, f'{_MATCH} "exact" is forbidden for resourceVersion "0"'))
    if "sendInitialEvents" in query:
        errors.append(field.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    _refuse(errors)


def check_watch_options(query: Query) -> None:
    """Raise a 400 for numbers that cannot be parsed, a 422 for options of a watch that exclude each other."""
    _check_numbers(query)
    match, sends = query.get(_MATCH, ""), "sendInitialEvents" in query
    errors: list[FieldError] = []
    if sends and match != NOT_OLDER_THAN:
        errors.append(field.forbidden(_MATCH, f"sendInitialEvents requires setting {_MATCH} to {NOT_OLDER_THAN}"))
    if match:
        if not sends:
            why = f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided"
            errors.append(field.forbidden(_MATCH, why))
        errors += _match_errors(match, query, (NOT_OLDER_THAN,))
    _refuse(errors)


def parse_number(query: Query, name: str) -> int:
    """Return the option `name`, an integer; 0 without it. Raises a 400."""
    try:
        return parse_int(query.get(name, "0"))
    except ValueError as error:
        raise bad_request(str(error)) from None


def _check_numbers(query: Query) -> None:
    """Raise a 400 for a number that cannot be parsed, also one that the request does not use: all are decoded first."""
    for name in ("limit", "timeoutSeconds"):
        parse_number(query, name)


def _match_errors(match: str, query: Query, supported: tuple[str, ...]) -> list[FieldError]:
    errors = []
    if query.get("continue"):
        errors.append(field.forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
    if match not in supported:
        errors.append(field.not_supported(_MATCH, match, supported))
    return errors


def _refuse(errors: list[FieldError]) -> None:
    if errors:
        raise invalid("meta.k8s.io", "ListOptions", "", errors)


def parse_resource_version(query: Query) -> int | None:
    """Return the query's resourceVersion, None without one. Raises a 400."""
    text = query.get("resourceVersion", "")
    if not text:
        return None
    try:
        return parse_uint(text)
    except ValueError as error:
        value = json.dumps(text, ensure_ascii=False)
        why = f"invalid resource version: resourceVersion: Invalid value: {value}: {error}"
        raise bad_request(why) from None
