"""The report of `make coverage`."""

from __future__ import annotations

import json

import pytest

from tests.branch_report import Counted, main, read, report
from tests.pure_modules import PURE_MODULES, SOURCE

A, B = "src/bridgehead/a.py", "src/bridgehead/b.py"
PASSED = "tests take 100.0 % of the branches of 2 pure modules; the floor is 95 %"


def counted(taken: int, every: int) -> Counted:
    branches = [(number, number + 1) for number in range(every)]
    return Counted(is_imported=True, every=set(branches), taken=set(branches[:taken]))


def test_branches_of_all_processes_together(tmp_path):
    (tmp_path / "1.json").write_text(json.dumps({A: [[[1, 2]], [[1, 3], [4, 0]]]}))
    (tmp_path / "2.json").write_text(json.dumps({A: [[[1, 3]], [[1, 2], [4, 0]]]}))
    found = read(tmp_path, [A, B])
    assert found == {A: Counted(True, {(1, 2), (1, 3), (4, 0)}, {(1, 2), (1, 3)}), B: Counted()}
    assert found[A].missing == {(4, 0)}


@pytest.mark.parametrize(
    ("found", "wanted", "lines", "has_passed"),
    [
        ({A: counted(4, 4), B: counted(0, 0)}, "", [PASSED], True),
        (
            {A: counted(2, 4), B: counted(96, 96)},
            "/a",
            [
                f"{A}: 2 -> 3, 3 -> 4",
                "tests take 98.0 % of the branches of 2 pure modules; the floor is 95 %",
            ],
            True,
        ),
        ({A: counted(4, 4), B: counted(1, 1)}, "b.py", [f"{B}: every branch is taken", PASSED], True),
        (
            {A: counted(8, 10), B: counted(96, 100)},
            "",
            [
                "tests take 94.5 % of the branches of 2 pure modules; the floor is 95 %",
                "modules below the floor (scripts/coverage MODULE lists the branches that a module lacks):",
                f"  {A}: 80 %, 2 branches missing",
            ],
            False,
        ),
        (
            {A: counted(4, 4), B: Counted()},
            "",
            [
                PASSED,
                f"no test imports {B}",
                "modules below the floor (scripts/coverage MODULE lists the branches that a module lacks):",
            ],
            False,
        ),
    ],
    ids=["all taken", "above the floor, with a list", "nothing to list", "below the floor", "not imported"],
)
def test_the_report(found, wanted, lines, has_passed):
    assert report(found, wanted) == (lines, has_passed)


def test_without_any_count_the_floor_is_not_reached(tmp_path, capsys):
    """The plugin was loaded after the modules."""
    assert main(str(tmp_path)) == 1
    assert f"no test imports {PURE_MODULES[0].relative_to(SOURCE.parent)}" in capsys.readouterr().out
