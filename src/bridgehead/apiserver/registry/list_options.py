"""Options of reads: those that exclude each other, and the resourceVersion.

Pure: no I/O, no clock, no randomness. Source: apimachinery/pkg/apis/internalversion/validation (ValidateListOptions).
"""

from __future__ import annotations

import json

from bridgehead.apiserver.errors import bad_request, invalid
from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.http.request_info import Query, parse_int, parse_uint

EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"
_MATCH = "resourceVersionMatch"


def check_list_options(query: Query) -> None:
    """Raise a 400 for numbers that cannot be parsed, a 422 for options of a list that exclude each other."""
    _check_numbers(query)
    options = Field(query)
    match, version = options.at(_MATCH), query.get("resourceVersion")
    if match:
        if not version:
            match.forbidden(f"{_MATCH} is forbidden unless resourceVersion is provided")
        _validate_match(match, query, (EXACT, NOT_OLDER_THAN, ""))
        if match.value == EXACT and version == "0":
            match.forbidden(f'{_MATCH} "exact" is forbidden for resourceVersion "0"')
    if "sendInitialEvents" in query:
        options.at("sendInitialEvents").forbidden("sendInitialEvents is forbidden for list")
    _refuse(options.errors)


def check_watch_options(query: Query) -> None:
    """Raise a 400 for numbers that cannot be parsed, a 422 for options of a watch that exclude each other."""
    _check_numbers(query)
    match, sends = Field(query).at(_MATCH), "sendInitialEvents" in query
    if sends and match.value != NOT_OLDER_THAN:
        match.forbidden(f"sendInitialEvents requires setting {_MATCH} to {NOT_OLDER_THAN}")
    if match:
        if not sends:
            match.forbidden(f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided")
        _validate_match(match, query, (NOT_OLDER_THAN,))
    _refuse(match.errors)


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


def _validate_match(match: Field, query: Query, supported: tuple[str, ...]) -> None:
    if query.get("continue"):
        match.forbidden(f"{_MATCH} is forbidden when continue is provided")
    match.must_be_one_of(supported)


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
