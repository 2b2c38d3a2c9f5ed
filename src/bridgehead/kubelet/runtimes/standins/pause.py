"""The stand-in for the pause image: wait for SIGTERM or SIGINT; the kernel reaps orphans."""

from __future__ import annotations

import signal

from bridgehead.kubelet.runtimes.standins.standin import Launch


def pause(launch: Launch) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps orphans
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    launch.started()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0
