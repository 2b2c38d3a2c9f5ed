"""docs/walkthroughs.md names tests that exist, and every test that is named after a walkthrough."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "walkthroughs.md").read_text("utf-8")


def named() -> list[tuple[str, Path, str]]:
    """Return the row, the file and the function of each test on the page."""
    found = []
    for row in re.findall(r"^\| (W\d+) \|.*$", PAGE, re.MULTILINE):
        line = re.findall(rf"^\| {row} \|.*$", PAGE, re.MULTILINE)[0]
        for path, function in re.findall(r"`([\w/]+\.py)::(\w+)`", line):
            found.append((row, TESTS.parent / path if "/" in path else TESTS / "e2e" / path, function))
    return found


def test_every_walkthrough_has_a_row() -> None:
    assert re.findall(r"^\| (W\d+) \|", PAGE, re.MULTILINE) == [f"W{number}" for number in range(1, 61)]


def test_named_tests_exist() -> None:
    for _, path, function in named():
        assert re.search(rf"^(async )?def {function}\(", path.read_text("utf-8"), re.MULTILINE), (path, function)


def test_tests_of_walkthroughs_are_named() -> None:
    pages = {(row, path, function) for row, path, function in named()}
    for path in sorted(TESTS.rglob("test_*.py")):
        for function, numbers in re.findall(r"^(?:async )?def (test_((?:w\d+_)+)\w+)\(", path.read_text("utf-8"), re.M):
            for number in re.findall(r"\d+", numbers):
                assert (f"W{number}", path, function) in pages, (number, path, function)
