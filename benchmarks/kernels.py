"""The shapes of a benchmark, measured one after the other: on this machine's kernel, or on one brought along.

A benchmark's module has a tuple `Shape`, and `measure(shape)` that returns figures or raises RuntimeError with a reason
for people. `datapath.py` and `proxy_sync.py` are such. Shapes that need a kernel that this machine may lack are
measured in user-mode-linux (`tests/guest.py`), an ordinary process on one processor: their figures compare only with
others from there. In the guest, this module runs as

    python -m benchmarks.kernels MODULE SHAPE...

each SHAPE the fields as JSON, and writes a `Measurement` for each, one JSON object per line.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from tests import guest

from benchmarks.progress import log

# Time limit for one shape: ten thousand Services take a busy machine a while.
SECONDS_OF_A_SHAPE = 150

Shape = TypeVar("Shape", bound=tuple[Any, ...])


class Measurement(NamedTuple):
    """The results of a shape, or the reason why there are none."""

    measured: dict[str, Any] | None
    reason: str = ""
    kernel: str = ""  # its release


def measure_here(
    measure: Callable[[Shape], dict[str, Any]], shapes: Sequence[Shape]
) -> Iterator[tuple[Shape, Measurement]]:
    for shape in shapes:
        log(str(shape))
        yield shape, _measure(measure, shape)


def measure_in_guest(module: str, shapes: Sequence[Shape]) -> Iterator[tuple[Shape, Measurement]]:
    """Measure in the guest, as `measure_here` does with the module's `measure`. If the guest ends early, the rest has
    its last output."""
    reason = guest.what_is_missing()
    with contextlib.ExitStack() as closing:
        messages: Iterator[dict[str, Any]] = iter(())
        if not reason and shapes:
            arguments = ["-m", "benchmarks.kernels", module, *(json.dumps(shape) for shape in shapes)]
            limit = SECONDS_OF_A_SHAPE
            running = guest.Guest(arguments, seconds=limit * len(shapes), silence_seconds=limit)
            messages = closing.enter_context(contextlib.closing(running)).messages()
        for shape in shapes:
            log(f"{shape}, in the guest")
            if not reason:
                try:
                    yield shape, Measurement(**next(messages))
                    continue
                except guest.GuestEnded as error:
                    reason = f"the guest ended: {str(error)[-200:]}"
            yield shape, Measurement(None, reason)


def _measure(measure: Callable[[Shape], dict[str, Any]], shape: Shape) -> Measurement:
    try:
        return Measurement(measure(shape), kernel=platform.release())
    except RuntimeError as error:
        return Measurement(None, str(error), platform.release())


def main(name: str, shapes: Sequence[str]) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    with open(os.environ[guest.REPORTS_VARIABLE], "w", buffering=1, encoding="ascii") as reports:
        for shape in shapes:
            found = _measure(module.measure, module.Shape(*json.loads(shape)))
            reports.write(json.dumps(found._asdict()) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
