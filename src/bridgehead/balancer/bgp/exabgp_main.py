"""The program of an ExaBGP child process: ExaBGP's server, which ends with the speaker.

Usage: python -m bridgehead.balancer.bgp.exabgp_main PARENT CONFIGURATION. PARENT is the speaker's process id. The file
of the configuration is removed at the end, since nobody else does after the speaker's sudden end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

from bridgehead.network.syscalls import set_parent_death_signal


def main() -> None:
    parent = int(sys.argv.pop(1))
    set_parent_death_signal(signal.SIGTERM)
    if os.getppid() != parent:  # the speaker ended before the line above
        return
    from exabgp.application import server

    try:
        server.main()
    finally:
        remove_configuration(Path(sys.argv[1]))


def remove_configuration(path: Path) -> None:
    """Remove the file and its directory; absent ones are success."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with contextlib.suppress(FileNotFoundError):
        path.parent.rmdir()


if __name__ == "__main__":
    main()
