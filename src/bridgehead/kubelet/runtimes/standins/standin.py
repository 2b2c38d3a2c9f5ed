"""What a stand-in declares about itself; `table` lists them, `images` finds them, the container set-up uses them."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec


def _nothing() -> None:
    pass


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What a built-in program is started with, inside its container.

    It calls `started` when it can be asked and told to end: a container without probes is ready from then on, and its
    first process hears no signal without a handler.
    """

    argv: tuple[str, ...]
    tag: str
    hostname: str
    started: Callable[[], None] = _nothing


# Runs until it is told to stop (SIGTERM) and returns the exit code.
Program = Callable[[Launch], int]


class StandIn(msgspec.Struct, frozen=True, kw_only=True):
    """A stand-in for images whose path ends in one of `paths` and whose tag matches `tags`.

    `programs` are built in: the container's first process becomes one when its program is named so. Every other program
    is the host's. `files` are put into the container's root (absolute path -> content). `busybox` puts the host's
    BusyBox applets in front of PATH where the host has one.
    """

    name: str
    description: str
    paths: tuple[str, ...]
    tags: re.Pattern[str]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    working_dir: str = "/"
    programs: dict[str, Program] = {}
    files: dict[str, str] = {}
    busybox: bool = False
