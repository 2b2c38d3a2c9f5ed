"""Exit codes: one table in the code, from which the commands and the documentation do not differ."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from bridgehead.cli import exit_codes
from bridgehead.cli.lab_options import reporting_errors
from bridgehead.lab.errors import AlreadyRunning, LabError, NotRunning, StartFailed, Unsupported

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "exit-codes.md").read_text("utf-8")
COMMANDS = sorted((ROOT / "src" / "bridgehead" / "cli").glob("*.py"))


def test_the_page_has_the_table() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE)
    assert {int(code): text for code, text in rows} == dict(exit_codes.EXIT_CODES)


def exits(tree: ast.AST) -> Iterator[int]:
    """Yield the exit codes that are written as numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = {"fail": node.args[2:], "Exit": node.args, "SystemExit": node.args, "_exit": node.args}.get(
                name, ()
            )
            yield from (each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, int))


def test_exits_are_found() -> None:
    text = "fail('x', 'y', 2)\nraise typer.Exit(1)\nraise SystemExit(4)\nos._exit(126)\nraise typer.Exit(code)"
    assert list(exits(ast.parse(text))) == [2, 1, 4, 126]


@pytest.mark.parametrize("path", [*COMMANDS, ROOT / "src/bridgehead/lab/enter.py"], ids=lambda path: path.stem)
def test_commands_have_no_other_exit_codes(path: Path) -> None:
    assert set(exits(ast.parse(path.read_text("utf-8")))) <= set(exit_codes.EXIT_CODES)


@pytest.mark.parametrize(
    ("error", "name", "code"),
    [
        (Unsupported("no nft"), "Unsupported", 3),
        (AlreadyRunning("it runs"), "AlreadyRunning", 1),
        (NotRunning("it ended"), "NotRunning", 1),
        (StartFailed("etcd"), "StartFailed", 1),
        (LabError("port 6443"), "Failed", 1),
        (PermissionError(13, "Permission denied", "/x"), "Failed", 1),
        (KeyboardInterrupt(), "Interrupted", 130),
    ],
)
def test_each_error_has_a_code_for_programs_and_an_exit_code(error: BaseException, name: str, code: int) -> None:
    assert (exit_codes.error_code_of(error), exit_codes.exit_code_of(error)) == (name, code)
    assert f"| `{name}` |" in PAGE


def test_an_error_of_others_does_not_reach_the_terminal_raw() -> None:
    assert exit_codes.describe(LabError("no\x1b[2J\u202eimage")) == "no?[2J?image"
    assert exit_codes.describe(FileNotFoundError(2, "No such file", "a\x1b]0;x\x07")) == "a?]0;x?: No such file"
    assert exit_codes.describe("one\n\ttwo") == "one\n        two"
    assert len(exit_codes.describe(100 * f"{10_000 * 'x'}\n")) < 200_000


def test_a_lab_error_is_printed_without_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), reporting_errors():
        raise LabError('couldn\'t parse image name "x\x1b[2J"')
    assert capsys.readouterr().err == 'bridgehead: couldn\'t parse image name "x?[2J"\n'
