"""A pod stays in its pod: attempts to leave it, in a lab of root and in one of an ordinary user.

The attempts are in `escape_table` and `escape_programs`; they are all made once for each lab, and each is a test here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import escape_scenarios, escape_table
from .escape_table import Row
from .escape_world import Fortress, make_fortress


@pytest.fixture(scope="module", params=["root", "ordinary user"])
def fortress(request: pytest.FixtureRequest) -> Iterator[Fortress]:
    with make_fortress(request.param) as made:
        yield made


ROWS: list[Row] = [
    *escape_table.attempts(),
    *escape_table.containers(),
    *(scenario for _, scenario in escape_scenarios.SCENARIOS.values()),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_attempt(fortress: Fortress, row: Row) -> None:
    problems = fortress.judge(row)
    assert not problems, f"{'; '.join(problems)}\n{fortress.seen[row.name].text[:3000]}"


def test_nothing_is_left_on_the_machine(fortress: Fortress) -> None:
    assert fortress.escaped - fortress.known == set()
    assert fortress.damaged() == []


def test_lab_can_be_removed(fortress: Fortress) -> None:
    """Whatever pods have left in their volumes."""
    down = fortress.lab.command("down", "--delete")
    assert down.returncode == 0, down.stderr
    assert not (fortress.lab.state_dir / "nodes").exists()


def test_table_is_long_enough() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) >= 60
