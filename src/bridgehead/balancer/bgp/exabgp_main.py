"""The program of an ExaBGP child process: ExaBGP's server, which ends with the speaker.

Usage: python -m bridgehead.balancer.bgp.exabgp_main PARENT CONFIGURATION. PARENT is the speaker's process id.
"""

from __future__ import annotations

import os
import signal
import sys

from bridgehead.network.syscalls import set_parent_death_signal


def main() -> None:
    parent = int(sys.argv.pop(1))
    set_parent_death_signal(signal.SIGTERM)
    if os.getppid() != parent:  # the speaker ended before the line above
        return
    from exabgp.application import server

    server.main()


if __name__ == "__main__":
    main()
