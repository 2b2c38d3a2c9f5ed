"""File with the pod addresses that were allocated last; a restarted kubelet continues after them.

Without it, a kubelet that restarts soon after pods have ended could give their addresses to other pods while proxies
and connection tracking still know the old owners. The CNI plugin host-local keeps a file `last_reserved_ip` for this.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

_FILE = "last-pod-addresses"


def read_last_addresses(root: Path) -> tuple[str, ...]:
    """Return the addresses that were allocated last, one for each range; () in a new root directory."""
    try:
        return tuple((root / _FILE).read_text("ascii").split())
    except (OSError, UnicodeDecodeError):
        return ()


def write_last_addresses(root: Path, addresses: Sequence[str]) -> None:
    """Replace the file. A full disk is only logged: pods can run without it."""
    temporary = root / f".{_FILE}"
    try:
        temporary.write_text("\n".join(addresses), "ascii")
        temporary.replace(root / _FILE)
    except OSError as error:
        log.warning("cannot write %s: %s", root / _FILE, error.strerror)
