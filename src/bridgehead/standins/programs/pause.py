"""The stand-in for the pause image: wait for SIGTERM or SIGINT; the kernel reaps orphans."""

from __future__ import annotations

import signal

from bridgehead.standins.standin import Launch

from .announcing import announce
from .disclosures import Abilities


def pause(launch: Launch) -> int:
    role = "a program that does nothing until SIGTERM"
    announce(launch.setup, Abilities(role=role, ignored_arguments=launch.argv[1:]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps orphans
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    launch.started()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0
