"""Semantic versions.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `apiserver/pkg/cel/library/semverlib.go`, semver.org 2.0.0.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass

from bridgehead.apiserver.cel.costs import TEXT_PARSING
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.types import opaque
from bridgehead.apiserver.go_values import quoted

_DIGITS = frozenset(string.digits)
_LETTERS = frozenset(string.ascii_letters + string.digits + "-")


@dataclass(frozen=True, slots=True)
class Semver:
    """`order` sorts versions; build metadata does not count."""

    major: int
    minor: int
    patch: int
    order: tuple[object, ...]
    cel_type = opaque("kubernetes.Semver")


def _normalized(text: str) -> str:
    """Return a version without "v" and leading zeros, with three numbers. Raises ValueError."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in _DIGITS else "0" + stripped
    if len(parts) < 3 and re.search("[+-]", parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return ".".join((*parts, "0", "0")[: max(3, len(parts))])


def parse_version(text: str, normalize: bool = False) -> Semver:
    """Return a version. Raises ValueError, with the text of the package that Kubernetes uses."""
    text = _normalized(text) if normalize else text
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) < 3:
        raise ValueError("No Major.Minor.Patch elements found")
    major, minor = _number("major", parts[0]), _number("minor", parts[1])
    rest, plus, build = parts[2].partition("+")
    rest, hyphen, release = rest.partition("-")
    patch = _number("patch", rest)
    identifiers = [_identifier(one) for one in release.split(".")] if hyphen else []
    for one in build.split(".") if plus else ():
        if not one:
            raise ValueError("Build meta data is empty")
        if not _LETTERS.issuperset(one):
            raise ValueError(f"Invalid character(s) found in build meta data {quoted(one)}")
    # A version sorts after its pre-releases, numbers before text.
    return Semver(major, minor, patch, (major, minor, patch, not identifiers, tuple(identifiers)))


def _number(name: str, text: str) -> int:
    if not _DIGITS.issuperset(text):
        raise ValueError(f"Invalid character(s) found in {name} number {quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f"{name.capitalize()} number must not contain leading zeroes {quoted(text)}")
    return _uint64(text)


def _identifier(text: str) -> tuple[int, int, str]:
    if not text:
        raise ValueError("Prerelease is empty")
    if _DIGITS.issuperset(text):
        if len(text) > 1 and text[0] == "0":
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {quoted(text)}")
        return 0, _uint64(text), ""
    if not _LETTERS.issuperset(text):
        raise ValueError(f"Invalid character(s) found in prerelease {quoted(text)}")
    return 1, 0, text


def _uint64(digits: str) -> int:
    if not digits:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    if len(digits) > 20 or int(digits) >= 2**64:
        raise ValueError(f"strconv.ParseUint: parsing {quoted(digits)}: value out of range")
    return int(digits)


def _semver(text: str, normalize: bool = False) -> Semver:
    try:
        return parse_version(text, normalize)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        parse_version(text, normalize)
    except ValueError:
        return False
    return True


def _int64(number: int) -> int:
    """Return the bits of a 64-bit number as a signed one, as Go converts it."""
    return number if number < 2**63 else number - 2**64


def _compare(one: Semver, other: Semver) -> int:
    return (one.order > other.order) - (one.order < other.order)


_S, _PARSE = "kubernetes.Semver", TEXT_PARSING

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "semver": (overload(f"(string) -> {_S}", _semver, _PARSE), overload(f"(string, bool) -> {_S}", _semver, _PARSE)),
    "isSemver": (
        overload("(string) -> bool", _is_semver, _PARSE),
        overload("(string, bool) -> bool", _is_semver, _PARSE),
    ),
    "major": (overload(f"{_S}.() -> int", lambda one: _int64(one.major)),),
    "minor": (overload(f"{_S}.() -> int", lambda one: _int64(one.minor)),),
    "patch": (overload(f"{_S}.() -> int", lambda one: _int64(one.patch)),),
    "isGreaterThan": (overload(f"{_S}.({_S}) -> bool", lambda one, other: one.order > other.order),),
    "isLessThan": (overload(f"{_S}.({_S}) -> bool", lambda one, other: one.order < other.order),),
    "compareTo": (overload(f"{_S}.({_S}) -> int", _compare),),
}
