"""The pause container's program: do nothing, reap what is orphaned, end when told so."""

from __future__ import annotations

import signal

from bridgehead.kubelet.runtimes.standins.standin import Launch


def pause(launch: Launch) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    launch.started()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0
