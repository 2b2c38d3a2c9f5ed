"""Times of objects as Go reads and writes them: `Time` in whole seconds, `MicroTime` with six digits, both in UTC.

Pure: no I/O, no clock, no randomness.
Source: apimachinery/pkg/apis/meta/v1/time.go, micro_time.go; Go's time/format.go (`parse`).
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple


class _Number(NamedTuple):
    """A number of a time: Go's text for it in a layout, its name in errors, and its bounds."""

    layout: str
    pattern: re.Pattern[str]
    name: str
    least: int
    most: int


_TWO = re.compile("[0-9]{2}")
_NUMBERS = (
    _Number("2006", re.compile("[0-9]{4}"), "year", 0, 9999),
    _Number("01", _TWO, "month", 1, 12),
    _Number("02", _TWO, "day", 0, 99),  # the month decides
    _Number("15", re.compile("[0-9]{1,2}"), "hour", 0, 23),
    _Number("04", _TWO, "minute", 0, 59),
    _Number("05", _TWO, "second", 0, 59),
)
_SEPARATORS = ("", "-", "-", "T", ":", ":")  # before the numbers
_MICRO, _ZONE = ".000000", "Z07:00"
_SECONDS = "".join(text for pair in zip(_SEPARATORS, (one.layout for one in _NUMBERS), strict=True) for text in pair)
_FRACTION, _SIX_DIGITS = re.compile("[.,][0-9]+"), re.compile("[.,][0-9]{6}")
_OFFSET = re.compile("([+-])([0-9]{2}):([0-9]{2})")


@lru_cache(maxsize=256)  # objects that are written together have the same times, and each write has them again
def canonical_time(text: str, *, micro: bool = False) -> str:
    """Return a time as it is stored; `micro`: a MicroTime. Raises ValueError with Go's text.

    A time whose year in UTC is none from 1 to 9999 stays as it is.
    """
    reader = _Reader(text, f"{_SECONDS}{_MICRO if micro else ''}{_ZONE}")
    year, month, day, hour, minute, second = reader.numbers()
    microseconds = reader.microseconds(micro=micro)
    offset = reader.offset()
    reader.end()
    if not 1 <= day <= calendar.monthrange(year or 4, month)[1]:  # the year 0 has a leap day, as the year 4
        raise reader.out_of_range("day")
    try:
        moment = datetime(year, month, day, hour, minute, second, microseconds, UTC) - offset
    except (ValueError, OverflowError):
        return text
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds" if micro else "seconds") + "Z"


class _Reader:
    def __init__(self, text: str, layout: str) -> None:
        self._text = self._rest = text
        self._layout = layout

    def numbers(self) -> list[int]:
        found = []
        for separator, number in zip(_SEPARATORS, _NUMBERS, strict=True):
            if not self._rest.startswith(separator):
                raise self._unreadable(separator)
            self._rest = self._rest[len(separator) :]
            value = int(self._match(number.pattern, number.layout)[0])
            if not number.least <= value <= number.most:
                raise self.out_of_range(number.name)
            found.append(value)
        return found

    def microseconds(self, *, micro: bool) -> int:
        """Read a fraction of a second: six digits of a MicroTime, any number of digits, or none, of a Time."""
        if micro:
            return int(self._match(_SIX_DIGITS, _MICRO)[0][1:])
        if _FRACTION.match(self._rest):
            self._match(_FRACTION, "")
        return 0

    def offset(self) -> timedelta:
        if self._rest.startswith("Z"):
            self._rest = self._rest[1:]
            return timedelta(0)
        sign, hours, minutes = self._match(_OFFSET, _ZONE).groups()
        for name, value, most in (("hour", hours, 24), ("minute", minutes, 60)):
            if int(value) > most:
                raise self.out_of_range(f"time zone offset {name}")
        return timedelta(hours=int(hours), minutes=int(minutes)) * (1 if sign == "+" else -1)

    def end(self) -> None:
        if self._rest:
            raise ValueError(f"parsing time {_quoted(self._text)}: extra text: {_quoted(self._rest)}")

    def out_of_range(self, name: str) -> ValueError:
        return ValueError(f"parsing time {_quoted(self._text)}: {name} out of range")

    def _match(self, pattern: re.Pattern[str], layout: str) -> re.Match[str]:
        found = pattern.match(self._rest)
        if found is None:
            raise self._unreadable(layout)
        self._rest = self._rest[found.end() :]
        return found

    def _unreadable(self, layout: str) -> ValueError:
        given, rest = _quoted(self._text), _quoted(self._rest)
        return ValueError(f'parsing time {given} as "{self._layout}": cannot parse {rest} as "{layout}"')


def _quoted(text: str) -> str:
    """Quote a text as Go's package time does: other bytes than those of printable ASCII by their numbers."""
    return f'"{"".join(map(_escaped, text.encode("utf-8", "surrogatepass")))}"'


def _escaped(byte: int) -> str:
    if byte in b'"\\':
        return f"\\{byte:c}"
    return chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}"
