"""Reasons why a text is no IP address, as Go's package net/netip writes them.

They are only looked for after `ipaddress` has rejected a text.

Pure: no I/O, no clock, no randomness. Source: Go's net/netip, `ParseAddr`.
"""

from __future__ import annotations

import string

from bridgehead.apiserver.go_values import quoted

_HEX = frozenset(string.hexdigits)
_GROUPS = 8


class _Problem(Exception):
    """A reason, and its place: `rest` is the part of the text from there on, "" for no place."""

    def __init__(self, why: str, rest: str = "") -> None:
        super().__init__(f"{why} (at {quoted(rest)})" if rest else why)


def address_error(text: str) -> str:
    """Return the error of a text that is no IP address."""
    return f"ParseAddr({quoted(text)}): {_reason(text)}"


def _reason(text: str) -> str:
    first = next((character for character in text if character in ".:%"), "")
    if first == "%":
        return "missing IPv6 address"
    try:
        if first == ".":
            _check_ipv4(text)
        elif first:
            _check_ipv6(text)
    except _Problem as problem:
        return str(problem)
    return "unable to parse IP"


def _check_ipv4(text: str) -> None:
    octet = ""
    dots = 0
    for index, character in enumerate(text):
        if "0" <= character <= "9":
            if octet == "0":
                raise _Problem("IPv4 field has octet with leading zero")
            octet += character
            if int(octet) > 255:
                raise _Problem("IPv4 field has value >255")
        elif character == ".":
            if index in (0, len(text) - 1) or text[index - 1] == ".":
                raise _Problem("IPv4 field must have at least one digit", text[index:])
            if dots == 3:
                raise _Problem("IPv4 address too long")
            dots += 1
            octet = ""
        else:
            raise _Problem("unexpected character", text[index:])
    if dots < 3:
        raise _Problem("IPv4 address too short")


def _check_ipv6(text: str) -> None:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _Problem("zone must be a non-empty string")
    has_gap = rest.startswith("::")
    rest = rest[2:] if has_gap else rest
    groups = 0
    while rest and groups < _GROUPS:
        digits = _leading_digits(rest)
        if rest[digits : digits + 1] == ".":
            if not has_gap and groups != _GROUPS - 2:
                raise _Problem("embedded IPv4 address must replace the final 2 fields of the address", rest)
            if groups > _GROUPS - 2:
                raise _Problem("too many hex fields to fit an embedded IPv4 at the end of the address", rest)
            _check_ipv4(rest)
            rest = ""
            groups += 2
            break
        groups += 1
        rest = rest[digits:]
        if not rest:
            break
        if rest[0] != ":":
            raise _Problem("unexpected character, want colon", rest)
        if rest == ":":
            raise _Problem("colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if has_gap:
                raise _Problem("multiple :: in address", rest)
            has_gap = True
            rest = rest[1:]
    if rest:
        raise _Problem("trailing garbage after address", rest)
    if groups < _GROUPS and not has_gap:
        raise _Problem("address string too short")
    if groups == _GROUPS and has_gap:
        raise _Problem("the :: must expand to at least one field of zeros")


def _leading_digits(rest: str) -> int:
    """Return how many hexadecimal digits `rest` begins with: one to four."""
    digits = next((index for index, character in enumerate(rest) if character not in _HEX), len(rest))
    if not digits:
        raise _Problem("each colon-separated field must have at least one digit", rest)
    if digits > 4:
        raise _Problem("each group must have 4 or less digits", rest)
    return digits
