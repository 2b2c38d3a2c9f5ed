"""File with the pod addresses that were allocated last; a restarted kubelet continues after them.

Without it, a kubelet that restarts soon after pods have ended could give their addresses to other pods while proxies
and connection tracking still know the old owners. The CNI plugin host-local keeps a file `last_reserved_ip` for this.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

_FILE = "last-pod-addresses"
_WIDTH = 128  # characters, more than two addresses have


def read_last_addresses(root: Path) -> tuple[str, ...]:
    """Return the addresses that were allocated last, one for each range; () in a new root directory."""
    try:
        return tuple((root / _FILE).read_text("ascii").split())
    except (OSError, UnicodeDecodeError):
        return ()


def write_last_addresses(root: Path, addresses: Sequence[str]) -> None:
    """Overwrite the file. A full disk is only logged: pods can run without it.

    The content always has the same length, so that one write replaces it. File systems write the data of a file that
    replaces or truncates another one to the disk at once, which the kubelet would wait for with each new pod.
    """
    content = "\n".join(addresses).ljust(_WIDTH).encode("ascii")
    try:
        file = os.open(root / _FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(file, content)
        finally:
            os.close(file)
    except OSError as error:
        log.warning("cannot write %s: %s", root / _FILE, error.strerror)
