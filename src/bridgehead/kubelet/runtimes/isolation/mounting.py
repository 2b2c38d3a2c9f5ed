"""Mounts of a container's root, whose failures name what was mounted."""

from __future__ import annotations

import os

from bridgehead.network import syscalls

from .rootfs import RootFailure


def mount(source: str, target: str, filesystem: str, flags: int, data: str = "") -> None:
    """Mount as mount(2) does. Raises `RootFailure`."""
    try:
        syscalls.mount(source, target, filesystem, flags, data)
    except OSError as error:
        raise RootFailure(f'failed to mount "{source}": {describe(error)}') from error


def describe(error: OSError) -> str:
    """The text of the errno, without the call and its arguments."""
    return os.strerror(error.errno or 0)
