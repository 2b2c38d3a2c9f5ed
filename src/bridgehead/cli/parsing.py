"""Parsers for option values that are neither text, number nor flag. `--help` shows the function's name as the type."""

from __future__ import annotations

from pathlib import Path


def path(text: str | Path) -> Path:
    """Return the path of a file or directory that need not exist.

    Without a parser, typer builds a pydantic validator whenever such an option is given. In a lab, whose parts are
    forks of one process, each part would then copy a third of a MiB.
    """
    return Path(text)


def level(text: str | int) -> int:
    """Return the log verbosity. `-v=2`, the form of Go's programs, arrives as `=2`. Raises ValueError."""
    return int(str(text).removeprefix("="))
