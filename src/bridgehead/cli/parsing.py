"""Parsers for option values that are neither text, number nor flag. `--help` shows the function's name as the type."""

from __future__ import annotations

from pathlib import Path


def path(text: str | Path) -> Path:
    """Return the path of a file or directory that need not exist.

    Without a parser, typer builds a pydantic validator whenever such an option is given. In a lab, whose parts are
    forks of one process, each part would then copy a third of a MiB.
    """
    return Path(text)


def parse_flag(text: str) -> bool | None:
    """Return the value of a flag as Go's strconv.ParseBool reads it; None for other text."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    return False if text in ("0", "f", "F", "false", "FALSE", "False") else None


def level(text: str | int) -> int:
    """Return the log verbosity. `-v=2`, the form of Go's programs, arrives as `=2`. Raises ValueError."""
    return int(str(text).removeprefix("="))


def host_port(text: str, default_port: int) -> tuple[str, int]:
    """Parse `10.0.0.1:80`, `:80`, `[::1]:80` or `10.0.0.1`. Raises ValueError."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        number = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _, number = text.partition(":")
    else:
        host, number = text, ""
    number = number or str(default_port)
    if not (number.isascii() and number.isdecimal()) or int(number) > 65535:
        raise ValueError(f"{text!r} is not an address with a port")
    return host, int(number)
