"""Starts keepalived as a process that ends with the speaker.

Usage: python -m bridgehead.balancer.vrrp.keepalived_main PARENT PROGRAM ARGUMENT... PARENT is the speaker's process id.
"""

from __future__ import annotations

import os
import signal
import sys

from bridgehead.network.syscalls import set_parent_death_signal


def main() -> None:
    set_parent_death_signal(signal.SIGTERM)
    if os.getppid() == int(sys.argv[1]):  # else the speaker ended before the line above
        os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
