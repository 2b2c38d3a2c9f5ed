"""Status messages of a forked process, and the program that it becomes."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from bridgehead.kubelet.runtimes.spawn.program_start import FAILED, USER, SetupFailure, find_program, report
from bridgehead.standins import standin


def test_only_reasons_are_cut() -> None:
    """The user of a container may have thousands of groups."""
    long = "1" * 50_000
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with sender, receiver:
        for kind, size in ((USER, len(long)), (FAILED, 4096)):
            report(sender, kind, long)
            assert receiver.recv(1 << 20) == kind + long[:size].encode()


def test_a_path_of_the_image_leads_to_the_hosts_busybox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Images of BusyBox have all applets in /bin, and the host has few of them there."""
    applet = tmp_path / "no-such-applet-here"
    applet.write_text("#!/bin/sh\n")
    applet.chmod(0o755)
    monkeypatch.setattr(standin, "BUSYBOX_TOOLS", str(tmp_path))
    assert find_program("/bin/no-such-applet-here", {}, "/") == str(applet)
    for name in ("/bin/none-of-that-name", "/opt/no-such-applet-here"):
        with pytest.raises(SetupFailure, match="no such file or directory"):
            find_program(name, {}, "/")
