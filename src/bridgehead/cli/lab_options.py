"""The options that the lab's commands share, and how their errors end a command."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from bridgehead.lab.errors import LabError
from bridgehead.lab.registry import DEFAULT_NAME

Name = Annotated[
    str, typer.Option("--name", envvar="BRIDGEHEAD_NAME", help="The lab's name; several may run beside each other.")
]
StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        help="Where it keeps its state; no other user may read it. Default: ~/.local/state/bridgehead/NAME.",
    ),
]

__all__ = ["DEFAULT_NAME", "Name", "StateDir", "options_of", "own_command", "reporting_errors"]


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Turn a `LabError` into its one line and exit code 1."""
    try:
        yield
    except LabError as error:
        # What it says to type, as this user has to type it.
        text = str(error)
        if Path(sys.argv[0]).name == "bridgehead":
            text = text.replace("`bridgehead ", f"`{own_command()} ")
        sys.stderr.write(f"bridgehead: {text}\n")
        raise typer.Exit(1) from error


def own_command() -> str:
    """How the user can call us again, as they would type it: the bare name if their PATH has it."""
    called = Path(sys.argv[0])
    found = shutil.which("bridgehead")
    if found and Path(found).resolve() == called.resolve():
        return "bridgehead"
    return shlex.quote(os.path.relpath(called) if called.is_relative_to(Path.cwd()) else str(called))


def options_of(name: str, state_dir: Path | None) -> str:
    """The options that name this lab again, as they would be typed; "" for the default one."""
    options = "" if name == DEFAULT_NAME else f" --name {name}"
    return f"{options} --state-dir {shlex.quote(str(state_dir))}" if state_dir else options
