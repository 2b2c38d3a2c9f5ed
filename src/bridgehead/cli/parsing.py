"""How options of the parts are read that are more than text, a number or a flag. Help names them like the function."""

from __future__ import annotations

from pathlib import Path


def path(text: str | Path) -> Path:
    """A file or directory, there or not.

    For what is declared as a Path and has no parser, typer makes validators of pydantic's whenever one is given. In a
    lab, whose parts are forks of one process, that copies a third of a MiB in each of them.
    """
    return Path(text)


def level(text: str | int) -> int:
    """How much is logged. `-v=2`, as Go's programs have it, comes here as `=2`. Raises ValueError."""
    return int(str(text).removeprefix("="))
