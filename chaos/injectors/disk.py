"""A full disk: ballast in the file system of the lab's state, which a run makes small and its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator

from chaos.faults import Fault

from .target import NotPossible, Target, World


@contextlib.asynccontextmanager
async def full_disk(world: World, fault: Fault) -> AsyncIterator[Target]:
    if world.disk is None:
        raise NotPossible("the lab's state has no file system of its own: only root may mount one")
    ballast = world.disk / f"ballast-{round(fault.at * 1000)}"
    target = Target()
    try:
        with ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                _fill(file.fileno(), size)
        yield target
    finally:
        ballast.unlink()


def _fill(fd: int, size: int) -> None:
    """Write blocks until the file system is full."""
    with contextlib.suppress(OSError):
        while os.write(fd, bytes(size)):
            pass
