"""The declaration of a stand-in, and its programs by name. `table` lists all stand-ins."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

# Directories in a container with programs of the host's BusyBox: all of them, and those of images of network tools.
BUSYBOX_TOOLS: Final = "/usr/lib/busybox"
NETWORK_TOOLS: Final = "/usr/lib/network-tools"


def _nothing() -> None:
    pass


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """Declarations of a pod for a container, beside its command. A stand-in may do less with them than the image.

    `image` is the image's name as in the pod, `ports` are its `containerPort`s ("80/TCP"), `variables` the names in
    `env` and `envFrom`, and `mounts` the paths at which volumes are mounted.
    """

    image: str = ""
    ports: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a built-in program, and the variables of its environment.

    The program calls `started` when it serves and handles signals: from then on a container without probes is ready,
    and the kernel delivers a signal to the first process of a PID namespace only if it has a handler.
    """

    argv: tuple[str, ...]
    tag: str
    hostname: str
    environment: Mapping[str, str] = {}
    setup: Setup = Setup()
    started: Callable[[], None] = _nothing


# Runs until SIGTERM and returns the exit code.
Program = Callable[[Launch], int]


def load_program(name: str) -> Program:
    """Import the module of a program and return its function. "redis.serve": `serve` in `programs.redis`."""
    module, _, function = name.rpartition(".")
    program: Program = getattr(importlib.import_module(f"bridgehead.standins.programs.{module}"), function)
    return program


class StandIn(msgspec.Struct, frozen=True, kw_only=True):
    """A stand-in for images whose path ends in one of `paths` and whose tag matches `tags`.

    `programs` are built in, by name as for `load_program`: a container whose command has that name runs the function. A
    path in `entrypoint` is a file in the container, so that a shell and `exec` can start it, too. All other programs
    are the host's. `files` are written into the container's root (absolute path -> content). `tools` come first in
    PATH: all applets of the host's BusyBox, or those that images of network tools have from it.
    """

    name: str
    description: str
    paths: tuple[str, ...]
    tags: re.Pattern[str]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    working_dir: str = "/"
    programs: dict[str, str] = {}
    files: dict[str, str] = {}
    tools: Literal["", "busybox", "network"] = ""
