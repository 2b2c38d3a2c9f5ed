"""How a part that cannot go on ends: one line on standard error and exit code 1, or 2 for a wrong command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


def fail(part: str, reason: object, code: int = 1) -> NoReturn:
    """End `bridgehead PART`, and say why."""
    text = str(reason)
    if isinstance(reason, OSError) and reason.strerror:
        text = f"{reason.filename}: {reason.strerror}" if reason.filename else reason.strerror
    sys.stderr.write(f"bridgehead {part}: {text}\n")
    raise SystemExit(code)


@contextmanager
def reporting_failures(part: str, *kinds: type[Exception]) -> Iterator[None]:
    """Let errors of these kinds end the part. Of those that came together, out of one task group, the first is told."""
    failure: BaseException | None = None
    try:
        yield
    except* kinds as group:
        failure = group
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    if failure is not None:
        fail(part, failure)
