"""Cron schedules: five fields or a macro, in a time zone.

Pure: no I/O, no clock, no randomness. (zoneinfo reads the tz database, which is a constant.) Source: crontab(5), and
github.com/robfig/cron v3, which Kubernetes uses: `?` is `*`, `@every 1h` counts from the last time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: number for number, name in enumerate(_DAY_NAMES)}
# Name, lowest and highest value, and names of values, of each field.
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _DAYS),
)
_LONGEST_YEARS = 5  # without a time for so long, a schedule has none at all (February 30)
_UNITS = {"h": 3600, "m": 60, "s": 1}


@dataclass(frozen=True)
class Schedule:
    """Times in minutes, hours, days, months and days of the week; or `every`, an interval in seconds."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    any_day: bool = True  # the day of the month is `*`: then only the day of the week counts
    any_weekday: bool = True
    every: int = 0

    def next_after(self, moment: float, zone: tzinfo = UTC) -> float | None:
        """Return the first time after `moment`, in epoch seconds; None if there is none within five years."""
        if self.every:
            return float(int(moment) + self.every)
        local = datetime.fromtimestamp(moment, zone).replace(second=0, microsecond=0, tzinfo=None)
        local += timedelta(minutes=1)
        last_year = local.year + _LONGEST_YEARS
        while local.year <= last_year:
            if local.month not in self.months:
                local = (local.replace(day=1, hour=0, minute=0) + timedelta(days=32)).replace(day=1)
            elif not self._has_day(local):
                local = local.replace(hour=0, minute=0) + timedelta(days=1)
            elif local.hour not in self.hours:
                local = local.replace(minute=0) + timedelta(hours=1)
            elif local.minute not in self.minutes:
                local += timedelta(minutes=1)
            else:
                found = local.replace(tzinfo=zone).timestamp()
                # A time that a change of clocks skips maps to one that is not on the schedule.
                if datetime.fromtimestamp(found, zone).replace(tzinfo=None) == local and found > moment:
                    return found
                local += timedelta(minutes=1)
        return None

    def _has_day(self, local: datetime) -> bool:
        is_day, is_weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return is_day and is_weekday if self.any_day or self.any_weekday else is_day or is_weekday


def parse_schedule(text: str) -> Schedule:
    """Parse a schedule without a time zone. Raises ValueError with the reason."""
    text = text.strip()
    if text.startswith("@every "):
        return Schedule(every=_parse_interval(text.removeprefix("@every ").strip()))
    if text.startswith("@") and text not in _MACROS:
        raise ValueError(f"unrecognized descriptor: {text}")
    parts = _MACROS.get(text, text).split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]")
    minutes, hours, days, months, weekdays = (
        _parse_field(part, *field) for part, field in zip(parts, _FIELDS, strict=True)
    )
    return Schedule(
        minutes, hours, days, months, weekdays, any_day=parts[2][0] in "*?", any_weekday=parts[4][0] in "*?"
    )


def parse_zone(name: str) -> ZoneInfo:
    """Return a time zone of the tz database. Raises ValueError."""
    from zoneinfo import ZoneInfo  # only here: it loads the build's configuration, 10 ms and 1 MiB

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name}") from None


def _parse_field(text: str, name: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        first, dash, last = span.partition("-")
        if span in ("*", "?"):
            begin, end = low, high
        else:
            begin = _parse_value(first, name, names)
            end = _parse_value(last, name, names) if dash else high if slash else begin
        step = _parse_value(step_text, name, {}) if slash else 1
        if begin < low:
            raise ValueError(f"beginning of range ({begin}) below minimum ({low}): {part}")
        if end > high:
            raise ValueError(f"end of range ({end}) above maximum ({high}): {part}")
        if begin > end:
            raise ValueError(f"beginning of range ({begin}) beyond end of range ({end}): {part}")
        if step == 0:
            raise ValueError(f"step of range should be a positive number: {part}")
        found.update(range(begin, end + 1, step))
    return frozenset(found)


def _parse_value(text: str, name: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise ValueError(f"failed to parse int from {text} ({name})")
    return int(text)


def _parse_interval(text: str) -> int:
    """Parse `1h30m` to seconds; at least one."""
    total, digits = 0, ""
    for letter in text:
        if letter.isascii() and letter.isdigit():
            digits += letter
        elif letter in _UNITS and 0 < len(digits) <= 9:
            total, digits = total + int(digits) * _UNITS[letter], ""
        else:
            raise ValueError(f"failed to parse duration @every {text}")
    if digits or not total:
        raise ValueError(f"failed to parse duration @every {text}")
    return total
