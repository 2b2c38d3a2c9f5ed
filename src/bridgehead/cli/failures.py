"""Exit of a part that cannot continue: one line on standard error and exit code 1, or 2 for a wrong command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


def fail(part: str, reason: object, code: int = 1) -> NoReturn:
    """Print the reason and exit `bridgehead PART`. A server may have written it: terminal escapes lose their effect."""
    text = str(reason)
    if isinstance(reason, OSError) and reason.strerror:
        text = f"{reason.filename}: {reason.strerror}" if reason.filename else reason.strerror
    shown = "".join(character if character.isprintable() or character in "\n\t" else "?" for character in text)
    sys.stderr.write(f"bridgehead {part}: {shown}\n")
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
