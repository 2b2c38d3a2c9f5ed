"""Options and error handling that the lab's commands share."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bridgehead.lab import state_directories
from bridgehead.lab.errors import LabError
from bridgehead.lab.plan import LabFiles
from bridgehead.lab.state_directories import DEFAULT_NAME

from .exit_codes import describe, exit_code_of
from .options import Option, for_typer, row

_NAME = Option(
    help=f"Name of the lab; several labs can run at the same time. Default: {DEFAULT_NAME}.", envvar="BRIDGEHEAD_NAME"
)
_STATE_DIR = Option(
    help="Directory of the lab's state, closed to other users. Default: ~/.local/state/bridgehead/NAME."
)
# Types of the two options in the signature of a command that has few others.
Name = Annotated[str | None, for_typer("name", str, _NAME)]
StateDir = Annotated[Path | None, for_typer("state_dir", Path, _STATE_DIR)]

__all__ = [
    "DEFAULT_NAME",
    "Name",
    "StateDir",
    "find_lab",
    "name_row",
    "options_of",
    "own_command",
    "reporting_errors",
    "state_dir_row",
    "with_own_command",
]


def name_row() -> Any:
    return row(None, _NAME)


def state_dir_row() -> Any:
    return row(None, _STATE_DIR)


def find_lab(name: str | None, state_dir: Path | None) -> LabFiles:
    """Return the files of the lab that a command is for, which need not exist. Raises `LabError` as `find_files`.

    If neither is given and other labs than the default one run, a line on standard error names the lab that is taken.
    """
    files = state_directories.find_files(name or DEFAULT_NAME, state_dir)
    if name is None and state_dir is None:
        others = sorted(set(state_directories.list_running()) - {DEFAULT_NAME})
        if others:
            sys.stderr.write(
                f'bridgehead: this is for the lab "{DEFAULT_NAME}"; --name or BRIDGEHEAD_NAME chooses another one that '
                f"runs: {', '.join(others)}\n"
            )
    return files


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Print a `LabError`, or the error of a file, as one line, and exit with the error's code."""
    try:
        yield
    except LabError as error:
        sys.stderr.write(f"bridgehead: {with_own_command(describe(error))}\n")
        raise typer.Exit(exit_code_of(error)) from error
    except OSError as error:
        if error.filename is None:  # of standard output, which all commands report alike
            raise
        sys.stderr.write(f"bridgehead: {describe(error)}\n")
        raise typer.Exit(exit_code_of(error)) from error


def with_own_command(text: str) -> str:
    """Return a message whose commands have the path by which this user called Bridgehead."""
    if Path(sys.argv[0]).name != "bridgehead":
        return text
    return text.replace("`bridgehead ", f"`{own_command()} ")


def own_command() -> str:
    """Return the command to call Bridgehead again: the bare name if it is in PATH, else the path."""
    called = Path(sys.argv[0])
    found = shutil.which("bridgehead")
    if found and Path(found).resolve() == called.resolve():
        return "bridgehead"
    return shlex.quote(os.path.relpath(called) if called.is_relative_to(Path.cwd()) else str(called))


def options_of(name: str | None, state_dir: Path | None) -> str:
    """Return the options that select this lab again, as typed in a shell; "" for the default lab."""
    options = "" if name in (None, DEFAULT_NAME) else f" --name {name}"
    return f"{options} --state-dir {shlex.quote(str(state_dir))}" if state_dir else options
