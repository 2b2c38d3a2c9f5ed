"""Errors of standard output, the same for all commands.

A full disk (`>/dev/full`) ends the command with one line. A reader that has gone (`| head`) is no error: the command
exits with 1 and prints nothing, as click does. A standard output that was closed from the start (`>&-`) discards all.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class OutputFailed(OSError):
    """A write to standard output failed. Errors of other files are handled where they are written."""


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputFailed(error.errno, error.strerror) from error


@contextmanager
def reporting_output_errors() -> Iterator[None]:
    """Flush standard output at the end of a command; `OutputFailed` becomes one line and exit code 1."""
    _watch()
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OutputFailed as error:
        _forget_output()
        if error.errno != errno.EPIPE:
            with suppress(OSError):
                sys.stderr.write(f"bridgehead: cannot write to standard output: {error.strerror}\n")
        raise SystemExit(1) from error


def _watch() -> None:
    """Replace Python's own standard output; a replacement that a caller installed stays."""
    made = sys.__stdout__
    if sys.stdout is None:
        # Takes the closed descriptor's number, so that no other file gets it by chance.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    if made is None or sys.stdout is not made:
        return
    made.flush()
    raw = _Output(made.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=made.encoding,
        # Text of logs and names that the locale cannot write is escaped, as it is on standard error.
        errors="backslashreplace" if made.errors == "strict" else made.errors,
        line_buffering=made.line_buffering,
        write_through=getattr(made, "write_through", False),
    )


def _forget_output() -> None:
    """Discard buffered output; otherwise Python would write it again at exit, and report the error."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
