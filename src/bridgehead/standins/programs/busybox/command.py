"""Behaviour that all commands share: signals, and the order of output and error messages."""

from __future__ import annotations

import signal
import sys


def use_default_signals() -> None:
    """Let SIGINT and SIGPIPE end this process without a traceback, as they end BusyBox (`wget -O- URL | head`)."""
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


def report(program: str, message: str) -> int:
    """Write an error message after all output; returns the exit code 1. Without a program, the message is a usage."""
    sys.stdout.flush()
    sys.stderr.write(f"{program}: {message}\n" if program else message)
    sys.stderr.flush()
    return 1
