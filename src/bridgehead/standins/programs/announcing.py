"""The start of a stand-in's log: that it is one, and what it does not do; also configuration that is mounted later."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

from bridgehead.network import syscalls
from bridgehead.network.uapi.inotify import IN_CREATE, IN_MOVED_TO
from bridgehead.standins.standin import Setup

from .disclosures import (
    Abilities,
    describe_configuration,
    describe_start,
    find_configuration_mounts,
)

# Called with a descriptor and what to call when it is readable.
Watch = Callable[[int, Callable[[], None]], None]


def announce(setup: Setup, abilities: Abilities, watch: Watch | None = None) -> None:
    """Write the lines to standard error. With `watch`, also a line when files appear in a configuration mount."""
    lines = describe_start(setup, abilities)
    for mount in find_configuration_mounts(setup, abilities):
        mounted = _ConfigurationMount(mount)
        if watch is not None:
            mounted.follow(watch)  # first, so that no file appears unseen
        lines += mounted.describe_new()
    _write(lines)


class _ConfigurationMount:
    """A mounted file or directory, and the files in it that the log has named."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._named: set[str] = set()

    def describe_new(self) -> list[str]:
        """Return a line for the files that the log has not named yet, if there are any."""
        if not os.path.isdir(self._path):
            return [describe_configuration(self._path, ())]
        names = _visible_files(self._path)
        new = [name for name in names if name not in self._named]
        self._named |= set(new)
        return [describe_configuration(self._path, new)] if new else []

    def follow(self, watch: Watch) -> None:
        if not os.path.isdir(self._path):
            return
        with contextlib.suppress(OSError):  # no inotify instance is left: only what is there now is named
            queue = syscalls.watch_inode(self._path, IN_CREATE | IN_MOVED_TO)
            watch(queue, lambda: self._observe(queue))

    def _observe(self, queue: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(queue, 4096):
                pass
        _write(self.describe_new())


def _visible_files(directory: str) -> list[str]:
    """The names in a directory, without those of the kubelet's atomic writer (`..data`)."""
    try:
        return sorted(name for name in os.listdir(directory) if not name.startswith(".."))
    except OSError:
        return []


def _write(lines: list[str]) -> None:
    with contextlib.suppress(OSError):  # the log's reader has gone: continue serving
        for line in lines:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
