"""The lock of a lab's gateway, which holds it while it runs. While it is free, the machine has nothing of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Final

from bridgehead.lab.errors import LabError
from bridgehead.lab.lock_files import is_locked
from bridgehead.lab.plan import LabFiles

_END_SECONDS: Final = 10.0  # in which a gateway ends after its lab
_PAUSE_SECONDS: Final = 0.02


def lock(files: LabFiles) -> int:
    """Take the lock, once the gateway of the lab's last run has ended, and return its descriptor. Raises `LabError`."""
    deadline = time.monotonic() + _END_SECONDS
    try:
        descriptor = os.open(files.gateway_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise LabError(f"cannot write to {files.root}: {error.strerror}") from error
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        if time.monotonic() > deadline:
            os.close(descriptor)
            raise LabError(f"the gateway of the lab's last run has not ended; see {files.log('gateway')}")
        time.sleep(_PAUSE_SECONDS)


def is_running(files: LabFiles) -> bool:
    """Return whether the lab's gateway runs."""
    try:
        return is_locked(files.gateway_lock)
    except OSError:
        return False


def wait_ended(files: LabFiles) -> None:
    """Wait until the gateway of a lab that has ended has removed what it had on the machine."""
    deadline = time.monotonic() + _END_SECONDS
    while is_running(files) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
