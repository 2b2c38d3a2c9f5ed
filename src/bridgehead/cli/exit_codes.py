"""Exit codes of `bridgehead`, the same for all commands, and the exit of a part that cannot continue.

docs/exit-codes.md has the table below, and a test holds both together.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NoReturn

from bridgehead.lab.errors import AlreadyRunning, NotRunning, StartFailed, Unsupported

SUCCESS: Final = 0
FAILURE: Final = 1
WRONG_COMMAND_LINE: Final = 2
UNSUPPORTED: Final = 3
CANNOT_ENTER: Final = 126
NO_SUCH_PROGRAM: Final = 127
KILLED: Final = 128  # and the number of the signal
INTERRUPTED: Final = 130  # 128 and SIGINT, as shells have it

EXIT_CODES: Final[Mapping[int, str]] = {
    SUCCESS: "The command did what it was asked to do. `up` in the foreground: Ctrl-C or SIGTERM stopped the lab.",
    FAILURE: "The command failed, and one line on standard error has the reason. Of commands that examine: something is"
    " wrong (`doctor`, `trace`), does not run (`status`), or is not so in time (`wait`).",
    WRONG_COMMAND_LINE: "The command line is wrong; nothing was done.",
    UNSUPPORTED: "This machine lacks what a lab needs (namespaces, nftables, etcd for `--store etcd`); the line on"
    " standard error names it. A test suite can skip its tests.",
    CANNOT_ENTER: "`exec`, `shell`: the command cannot be executed, or the lab cannot be entered.",
    NO_SUCH_PROGRAM: "`exec`, `shell`: there is no such program.",
    KILLED: "128 + N: signal N ended the command of `exec` or `shell`, or the command itself.",
    INTERRUPTED: "Ctrl-C, before the command had its result. `up` has stopped the lab that it was starting.",
}
_LONGEST: Final = 5000  # characters of a line of an error: longer than a path can be, PATH_MAX
_MOST_LINES: Final = 20
# Codes of the errors in `up --json`, by the class of the error; the last row is for all others.
_ERROR_CODES: Final[Mapping[type[BaseException], str]] = {
    AlreadyRunning: "AlreadyRunning",
    NotRunning: "NotRunning",
    Unsupported: "Unsupported",
    StartFailed: "StartFailed",
    KeyboardInterrupt: "Interrupted",
    BaseException: "Failed",
}


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a command that ends by this error."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return UNSUPPORTED if isinstance(error, Unsupported) else FAILURE


def error_code_of(error: BaseException) -> str:
    """Return the error's code for programs."""
    return next(code for kind, code in _ERROR_CODES.items() if isinstance(error, kind))


def describe(error: object) -> str:
    """Return the text that reports an error, without the program's name; nearly always a line.

    Servers, archives and other programs may have written parts of it: terminal escapes lose their effect.
    """
    from bridgehead.insight.findings import printable  # here: only commands that fail load it

    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return "\n".join(printable(line.expandtabs(), _LONGEST) for line in text.splitlines()[:_MOST_LINES])


def fail(part: str, reason: object, code: int = FAILURE) -> NoReturn:
    """Print the reason and exit `bridgehead PART`."""
    sys.stderr.write(f"bridgehead {part}: {describe(reason)}\n")
    raise SystemExit(code)


@contextmanager
def reporting_failures(part: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds into the exit of the part. The first error of an exception group is printed."""
    failure: BaseException | None = None
    try:
        yield
    except* kinds as group:
        failure = group
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    if failure is not None:
        fail(part, failure)
