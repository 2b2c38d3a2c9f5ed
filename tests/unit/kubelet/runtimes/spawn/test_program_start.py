"""Status messages of a forked process."""

from __future__ import annotations

import socket

from bridgehead.kubelet.runtimes.spawn.program_start import FAILED, USER, report


def test_only_reasons_are_cut() -> None:
    """The user of a container may have thousands of groups."""
    long = "1" * 50_000
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with sender, receiver:
        for kind, size in ((USER, len(long)), (FAILED, 4096)):
            report(sender, kind, long)
            assert receiver.recv(1 << 20) == kind + long[:size].encode()
