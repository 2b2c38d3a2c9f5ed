"""The zygote and its children, in processes of the test."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.kubelet.runtimes.service.child_processes import Child
from bridgehead.kubelet.runtimes.service.reactor import Reactor
from bridgehead.kubelet.runtimes.spawn.zygote import FORK_IN_NODE, Zygote, fork_zygote

pytestmark = pytest.mark.integration


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def zygote() -> Iterator[tuple[Zygote, int]]:
    """The zygote's handle and PID. A child without a job ends."""
    if threading.active_count() > 1:
        pytest.skip("a process with threads cannot fork a zygote")
    before = set(children(os.getpid()))
    handle = Zygote(fork_zygote(lambda *_: os._exit(0)))
    [pid] = set(children(os.getpid())) - before
    yield handle, pid
    handle.close()


def test_a_child_that_cannot_be_supervised_is_reaped(zygote: tuple[Zygote, int], monkeypatch: pytest.MonkeyPatch):
    """The zygote answers requests meanwhile; it never blocks for one process."""
    handle, pid = zygote

    def fail(_: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", fail)
    reactor = Reactor()
    with pytest.raises(OSError, match="Too many open files"):
        Child(reactor, handle, None, [], where=FORK_IN_NODE)  # type: ignore[arg-type]
    assert len(children(pid)) == 1
    deadline = time.monotonic() + 60
    while children(pid):
        assert time.monotonic() < deadline
        reactor.run_once(0.1)
    reactor.close()


def test_a_running_process_is_not_reaped(zygote: tuple[Zygote, int]):
    handle, _ = zygote
    status, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = handle.fork(child_end, FORK_IN_NODE)
    child_end.close()
    assert handle.reap(child) is None
    status.close()
    deadline = time.monotonic() + 60
    while (exited := handle.reap(child)) is None:
        assert time.monotonic() < deadline
    assert exited == 0
    with pytest.raises(ChildProcessError):
        handle.reap(child)


def test_a_program_that_cannot_be_loaded_does_not_end_the_zygote(zygote: tuple[Zygote, int]):
    handle, _ = zygote
    for program in ("redis.serve", "nosuch.serve", "nosuch"):
        handle.load(program)
    assert handle.is_alive
