"""Stop signals of images and containers."""

from __future__ import annotations

import signal

import pytest

from bridgehead.kubelet.runtimes.service.runtime_service import parse_signal


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", signal.SIGTERM),
        ("SIGQUIT", signal.SIGQUIT),
        ("quit", signal.SIGQUIT),
        ("3", signal.SIGQUIT),
        ("SIGRTMIN+3", signal.SIGRTMIN + 3),
        ("RTMAX-1", signal.SIGRTMAX - 1),
        ("SIGRTMAX+1", signal.SIGTERM),
        ("SIGNONE", signal.SIGTERM),
        ("0", signal.SIGTERM),
        ("999", signal.SIGTERM),
        ("+3", signal.SIGTERM),
        ("SIG QUIT", signal.SIGTERM),
        ("9" * 5000, signal.SIGTERM),
        ("٣", signal.SIGTERM),
    ],
)
def test_stop_signals_are_parsed(text: str, number: int) -> None:
    assert parse_signal(text) == number
