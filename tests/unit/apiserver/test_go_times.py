"""Times as Go reads and writes them. The expected texts are those of Go's package time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.go_times import canonical_time

SECONDS, MICRO = "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-28T21:00:00Z", "2026-11-28T21:00:00Z"),
        ("2026-11-28T21:00:00.999999999Z", "2026-11-28T21:00:00Z"),
        ("2026-11-28T21:00:00,5Z", "2026-11-28T21:00:00Z"),
        ("2026-11-28T21:00:00+05:30", "2026-11-28T15:30:00Z"),
        ("2026-11-28T21:00:00-24:60", "2026-11-29T22:00:00Z"),
        ("2026-11-28T1:00:00Z", "2026-11-28T01:00:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("0000-02-29T00:00:00Z", "0000-02-29T00:00:00Z"),
    ],
)
def test_times_are_stored_in_utc_and_whole_seconds(text: str, expected: str) -> None:
    assert canonical_time(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-28T21:00:00.000001Z", "2026-11-28T21:00:00.000001Z"),
        ("2026-11-28T21:00:00.500000+01:00", "2026-11-28T20:00:00.500000Z"),
    ],
)
def test_micro_times_are_stored_in_utc_with_six_digits(text: str, expected: str) -> None:
    assert canonical_time(text, micro=True) == expected


@pytest.mark.parametrize(
    ("text", "micro", "error"),
    [
        ("", False, f'as "{SECONDS}": cannot parse "" as "2006"'),
        ("now", False, f'as "{SECONDS}": cannot parse "now" as "2006"'),
        ("2026-1-28T21:00:00Z", False, f'as "{SECONDS}": cannot parse "1-28T21:00:00Z" as "01"'),
        ("2026-11-28 21:00:00Z", False, f'as "{SECONDS}": cannot parse " 21:00:00Z" as "T"'),
        ("2026-11-28T21:00:00", False, f'as "{SECONDS}": cannot parse "" as "Z07:00"'),
        ("2026-11-28T21:00:00z", False, f'as "{SECONDS}": cannot parse "z" as "Z07:00"'),
        ("2026-11-28T21:00:00Z", True, f'as "{MICRO}": cannot parse "Z" as ".000000"'),
        ("2026-11-28T21:00:00.12345Z", True, f'as "{MICRO}": cannot parse ".12345Z" as ".000000"'),
        ("2026-11-28T21:00:00.1234567Z", True, f'as "{MICRO}": cannot parse "7Z" as "Z07:00"'),
        ("2026-13-28T21:00:00Z", False, ": month out of range"),
        ("2026-02-29T21:00:00Z", False, ": day out of range"),
        ("2026-11-28T24:00:00Z", False, ": hour out of range"),
        ("2026-11-28T23:59:60Z", False, ": second out of range"),
        ("2026-11-28T21:00:00+25:00", False, ": time zone offset hour out of range"),
        ("2026-11-28T21:00:00Zé", False, ': extra text: "\\xc3\\xa9"'),
    ],
)
def test_errors_are_those_of_go(text: str, micro: bool, error: str) -> None:
    with pytest.raises(ValueError, match=f'^parsing time ".*{re.escape(error)}$'):
        canonical_time(text, micro=micro)


@given(
    st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)),
    st.integers(-23 * 60, 23 * 60),
    st.booleans(),
)
def test_any_time_of_any_zone_is_the_same_moment(moment: datetime, minutes: int, micro: bool) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    found = canonical_time(zoned.isoformat(timespec="microseconds"), micro=micro)
    assert datetime.fromisoformat(found) == (zoned if micro else zoned.replace(microsecond=0))
    assert datetime.fromisoformat(found).utcoffset() == UTC.utcoffset(None)
    assert canonical_time(found, micro=micro) == found
