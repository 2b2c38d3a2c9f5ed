"""What any command does when its standard output does not take what it writes.

A full disk (`>/dev/full`) ends it with one line. A reader that went away (`| head`) is no fault: the command ends with
1 and says nothing, as click has it. One that was closed from the beginning (`>&-`) takes everything.
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
    """Standard output did not take what was written. Other files' errors are their writers' to tell."""


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputFailed(error.errno, error.strerror) from error


@contextmanager
def reporting_output_errors() -> Iterator[None]:
    """Around a whole command: writes what is left at its end; `OutputFailed` becomes one line and exit code 1."""
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
    """Replace the standard output that Python made; one that somebody put in its place stays."""
    made = sys.__stdout__
    if sys.stdout is None:
        # Has the number of the closed one, which no other file shall get by chance.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    if made is None or sys.stdout is not made:
        return
    made.flush()
    raw = _Output(made.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=made.encoding,
        errors=made.errors,
        line_buffering=made.line_buffering,
        write_through=getattr(made, "write_through", False),
    )


def _forget_output() -> None:
    """What is left unwritten would be tried again, and complained of, when Python ends."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
