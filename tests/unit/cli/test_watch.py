"""Runs of `watch` that change files themselves, and edits by the user meanwhile."""

from __future__ import annotations

import pytest

from bridgehead.cli.watch import Row


@pytest.mark.parametrize(
    ("runs", "ends"),
    [
        (3 * [{"dist"}], 3),
        ([{"dist", "a.py"}, {"dist", "b.py"}, {"dist", "c.py"}, {"dist"}], 4),
        ([{"a.py"}, {"b.py"}, {"c.py"}], None),
        ([{"dist", "a.py"}, {"dist"}, {"dist"}], 3),
        ([{f"dist/{number}"} for number in range(10)], 10),
    ],
    ids=["itself", "edits-beside", "edits", "one-edit", "names-of-each-run"],
)
def test_a_row_ends_when_only_the_runs_change_files(runs: list[set[str]], ends: int | None) -> None:
    row = Row()
    found = [number for number, changed in enumerate(runs, 1) if row.is_endless(changed)]
    assert found == ([] if ends is None else [ends])


def test_the_row_names_what_every_run_changed() -> None:
    row = Row()
    for changed in ({"dist", "a.py"}, {"dist"}):
        row.is_endless(changed)
    assert row.common == {"dist"}
