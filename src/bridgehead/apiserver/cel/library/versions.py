"""Semantic versions.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `apiserver/pkg/cel/library/semverlib.go`, semver.org 2.0.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bridgehead.apiserver.cel.costs import traversal
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.types import opaque

_NUMBER = r"(0|[1-9][0-9]{0,18})"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


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
            parts[index] = stripped if stripped[:1].isdecimal() else "0" + stripped
    if len(parts) < 3 and re.search("[+-]", parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return ".".join((*parts, "0", "0")[: max(3, len(parts))])


def parse_version(text: str, normalize: bool = False) -> Semver:
    """Return a version. Raises ValueError."""
    match = _VERSION.fullmatch(_normalized(text) if normalize else text)
    if match is None:
        raise ValueError("No Major.Minor.Patch elements found" if text.count(".") < 2 else "Invalid character(s) found")
    identifiers = match[4].split(".") if match[4] else []
    if any(one.isdecimal() and len(one) > 1 and one[0] == "0" for one in identifiers):
        raise ValueError("Numeric PreRelease version must not contain leading zeroes")
    # A version sorts after its pre-releases, numbers before text.
    order = tuple((0, int(one[:40]), "") if one.isdecimal() else (1, 0, one) for one in identifiers)
    numbers = [int(match[index]) for index in (1, 2, 3)]
    return Semver(numbers[0], numbers[1], numbers[2], (*numbers, not identifiers, order))


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


def _compare(one: Semver, other: Semver) -> int:
    return (one.order > other.order) - (one.order < other.order)


_S, _PARSE = "kubernetes.Semver", traversal(is_estimated=False)

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "semver": (overload(f"(string) -> {_S}", _semver, _PARSE), overload(f"(string, bool) -> {_S}", _semver, _PARSE)),
    "isSemver": (
        overload("(string) -> bool", _is_semver, _PARSE),
        overload("(string, bool) -> bool", _is_semver, _PARSE),
    ),
    "major": (overload(f"{_S}.() -> int", lambda one: one.major),),
    "minor": (overload(f"{_S}.() -> int", lambda one: one.minor),),
    "patch": (overload(f"{_S}.() -> int", lambda one: one.patch),),
    "isGreaterThan": (overload(f"{_S}.({_S}) -> bool", lambda one, other: one.order > other.order),),
    "isLessThan": (overload(f"{_S}.({_S}) -> bool", lambda one, other: one.order < other.order),),
    "compareTo": (overload(f"{_S}.({_S}) -> int", _compare),),
}
