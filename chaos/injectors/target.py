"""Common types of injectors: the lab, and the target of a fault."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from chaos.faults import Fault
from chaos.lab import NODES, Lab


class NotPossible(Exception):
    """A fault that cannot be injected now, and why: its process waits to be started, this machine has no such thing."""


@dataclass(frozen=True)
class World:
    """The lab of a run. `disk` is the file system of its state, None when it has none of its own."""

    lab: Lab
    mode: str
    disk: Path | None


@dataclass(frozen=True)
class Target:
    """The target of a fault: a node, "" for the cluster; a Service, "" for any. Made just before the fault begins."""

    node: str = ""
    service: str = ""
    since: float = field(default_factory=time.monotonic)


# The fault's cause is there inside the block. Raises `NotPossible` and what the lab's commands raise.
Injector = Callable[[World, Fault], AbstractAsyncContextManager[Target]]


def pick_node(fault: Fault) -> str:
    return NODES[fault.pick % len(NODES)]
