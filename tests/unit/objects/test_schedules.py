"""Cron schedules."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.objects.schedules import parse_schedule, parse_zone

BERLIN = ZoneInfo("Europe/Berlin")


def next_times(schedule: str, begin: str, count: int = 1, zone: ZoneInfo | None = None) -> list[str]:
    moment = datetime.fromisoformat(begin).replace(tzinfo=zone or UTC).timestamp()
    found = []
    for _ in range(count):
        following = parse_schedule(schedule).next_after(moment, zone or UTC)
        assert following is not None
        moment = following
        found.append(datetime.fromtimestamp(moment, zone or UTC).strftime("%Y-%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("* * * * *", ["2026-02-27 23:59", "2026-02-28 00:00"]),
        ("*/20 * * * *", ["2026-02-28 00:00", "2026-02-28 00:20"]),
        ("5-10/5,30 3 * * *", ["2026-02-28 03:05", "2026-02-28 03:10"]),
        ("0 0 31 * *", ["2026-03-31 00:00", "2026-05-31 00:00"]),
        ("0 12 * feb-mar mon", ["2026-03-02 12:00", "2026-03-09 12:00"]),
        ("0 0 13 * fri", ["2026-03-06 00:00", "2026-03-13 00:00"]),  # either, if both are restricted
        ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("30/15 8 ? * ?", ["2026-02-28 08:30", "2026-02-28 08:45"]),
        ("@weekly", ["2026-03-01 00:00", "2026-03-08 00:00"]),
        ("@hourly", ["2026-02-28 00:00", "2026-02-28 01:00"]),
        ("@every 1h30m", ["2026-02-28 01:28", "2026-02-28 02:58"]),
    ],
)
def test_next_times(schedule, expected):
    assert next_times(schedule, "2026-02-27T23:58:30", 2) == expected


def test_a_time_zone_with_changing_clocks():
    assert next_times("30 2 * * *", "2026-03-28T03:00", 2, BERLIN) == ["2026-03-30 02:30", "2026-03-31 02:30"]
    assert next_times("0 9 * * *", "2026-10-24T10:00", 2, BERLIN) == ["2026-10-25 09:00", "2026-10-26 09:00"]


def test_a_schedule_that_never_comes():
    assert parse_schedule("0 0 30 2 *").next_after(0.0) is None


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("", "expected exactly 5 fields, found 0"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", "failed to parse int from x"),
        ("@noon", "unrecognized descriptor: @noon"),
        ("@every soon", "failed to parse duration @every soon"),
    ],
)
def test_invalid_schedules(schedule, reason):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared
        parse_schedule(schedule)
    assert reason in str(caught.value)


def test_unknown_zones():
    for name in ("Nowhere/City", "../etc/passwd", "/etc/localtime", ""):
        with pytest.raises(ValueError, match="unknown time zone"):
            parse_zone(name)


@given(st.text(alphabet="0123456789*/-,? adefijlmnoprstuvy@", max_size=20))
def test_any_text_is_a_schedule_or_has_a_reason(text):
    try:
        schedule = parse_schedule(text)
    except ValueError:
        return
    following = schedule.next_after(1_800_000_000.0)
    assert following is None or following > 1_800_000_000
