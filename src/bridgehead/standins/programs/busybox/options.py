"""Options of a command line as getopt_long reads them, with its error messages.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import getopt
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class BadOption(Exception):
    """The message is getopt's; the usage follows it."""


class BadNumber(Exception):
    """The message is BusyBox's."""


class ParsedOptions(NamedTuple):
    """Options in their order (letter, value), and the operands."""

    options: list[tuple[str, str]]
    operands: list[str]


def parse_options(argv: Sequence[str], letters: str, names: Mapping[str, str]) -> ParsedOptions:
    """`letters` as for getopt; `names` are long options with the letters to which they correspond, with "=" at the end
    for those with a value. Raises `BadOption`."""
    try:
        found, rest = getopt.gnu_getopt(list(argv), letters, list(names))
    except getopt.GetoptError as error:
        raise BadOption(_describe(error)) from None
    options = []
    for option, value in found:
        name = option.lstrip("-")
        letter = name if not option.startswith("--") else names[name] if name in names else names[f"{name}="]
        options.append((letter, value))
    return ParsedOptions(options, rest)


def _describe(error: getopt.GetoptError) -> str:
    is_long = len(error.opt) > 1
    if "requires argument" in error.msg:
        return (
            f"option '--{error.opt}' requires an argument"
            if is_long
            else f"option requires an argument -- '{error.opt}'"
        )
    return f"unrecognized option '--{error.opt}'" if is_long else f"invalid option -- '{error.opt}'"


def parse_number(text: str, lowest: int, highest: int) -> int:
    """Raises `BadNumber`."""
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) > 0xFFFFFFFF:
        raise BadNumber(f"invalid number '{text}'")
    if not lowest <= int(text) <= highest:
        raise BadNumber(f"number {text} is not in {lowest}..{highest} range")
    return int(text)
