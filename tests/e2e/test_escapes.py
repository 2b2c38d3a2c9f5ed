"""A pod stays in its pod: attempts to leave it, in a lab of root and in one of an ordinary user.

The attempts are in `escape_table` and `escape_programs`; they are all made once for each lab, and each is a test here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import escape_scenarios, escape_table
from .escape_table import Row
from .escape_world import EscapeLab, make_escape_lab


@pytest.fixture(scope="module", params=["root", "ordinary user"])
def escape_lab(request: pytest.FixtureRequest) -> Iterator[EscapeLab]:
    with make_escape_lab(request.param) as made:
        yield made


ROWS: list[Row] = [
    *escape_table.attempts(),
    *escape_table.containers(),
    *(scenario for _, scenario in escape_scenarios.SCENARIOS.values()),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_escape_attempt_fails(escape_lab: EscapeLab, row: Row) -> None:
    problems = escape_lab.judge(row)
    assert not problems, f"{'; '.join(problems)}\n{escape_lab.seen[row.name].text[:3000]}"


def test_escape_attempts_leave_no_files_on_the_machine(escape_lab: EscapeLab) -> None:
    assert escape_lab.escaped - escape_lab.known == set()
    assert escape_lab.damaged() == []


def test_a_lab_can_be_deleted_after_the_escape_attempts(escape_lab: EscapeLab) -> None:
    """Files that pods left in their volumes do not prevent the deletion."""
    down = escape_lab.lab.command("down", "--delete")
    assert down.returncode == 0, down.stderr
    assert not (escape_lab.lab.state_dir / "nodes").exists()


def test_the_table_of_escapes_has_many_attempts_and_no_duplicate() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) >= 60
