"""Use of resources: files of /proc, and sums by container."""

from __future__ import annotations

import os

import pytest

from bridgehead.kubelet.metrics.process_scan import (
    Process,
    parse_fields,
    parse_interfaces,
    parse_stat,
    read_interfaces,
    scan,
)
from bridgehead.kubelet.metrics.resource_usage import NODE, UsageTracker

TICKS = os.sysconf("SC_CLK_TCK")
STAT = f"7 (a ) b) S 3 7 7 0 -1 4194560 1 2 3 4 {TICKS} {2 * TICKS} {3 * TICKS} {4 * TICKS} 20 0 5 0 9001 1 1"
NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo ...|bytes    packets errs drop fifo colls carrier ...
    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0
  eth0: 100 2 3 4 0 0 0 0 200 5 6 7 0 0 0 0
"""


def test_a_stat_file_is_parsed() -> None:
    assert parse_stat(STAT) == (3, 4.0, 6.0, 5, 9001)
    with pytest.raises(ValueError, match="not a stat file"):
        parse_stat("7 (a) S")


def test_sizes_become_bytes() -> None:
    text = "Pss:      12 kB\nSwapPss:  0 kB\nread_bytes: 4096\n55d0-7ffe ---p 00000000 00:00 0 [rollup]\n"
    assert parse_fields(text) == {"Pss": 12288, "SwapPss": 0, "read_bytes": 4096}


def test_interfaces_are_parsed_without_the_loopback() -> None:
    [eth0] = parse_interfaces(NET_DEV)
    assert (eth0.name, eth0.received_bytes, eth0.received_dropped, eth0.sent_packets, eth0.sent_errors) == (
        *("eth0", 100, 4, 5),
        6,
    )


def test_this_process_is_found() -> None:
    [own] = [process for process in scan() if process.pid == os.getpid()]
    assert own.parent == os.getppid()
    assert own.namespace == os.stat("/proc/self/ns/mnt").st_ino
    assert own.resident > own.anonymous > 0
    assert read_interfaces(2**22 + 1) == []


def process(pid: int, seconds: float, *, parent: int = 1, namespace: int = 0, **more: int) -> Process:
    return Process(pid=pid, parent=parent, started=pid, namespace=namespace, user_seconds=seconds, **more)


def test_processes_belong_to_the_container_of_their_ancestor() -> None:
    processes = [process(1, 1.0, parent=0), process(7, 8.0, parent=6), process(6, 4.0, parent=5), process(5, 2.0)]
    found = UsageTracker().update(processes, {5: "web", 30: "gone"})
    assert (found["web"].cpu_seconds, found["web"].processes) == (14.0, 3)
    assert (found["gone"].cpu_seconds, found["gone"].processes) == (0.0, 0)
    assert found[NODE].cpu_seconds == 15.0


def test_a_command_in_a_container_belongs_to_it_by_its_mount_namespace() -> None:
    processes = [process(5, 2.0, namespace=20), process(9, 1.0, namespace=20), process(8, 1.0, namespace=30)]
    found = UsageTracker().update(processes, {5: "web"})
    assert (found["web"].processes, found[NODE].processes) == (2, 3)


def test_a_circle_of_parents_ends() -> None:
    """PIDs may be reused while they are read."""
    assert UsageTracker().update([process(5, 1.0, parent=6), process(6, 1.0, parent=5)], {})[NODE].processes == 2


def test_counters_keep_what_ended_processes_used() -> None:
    tracker, containers = UsageTracker(), {5: "web"}
    command = process(7, 1.0, namespace=20)
    tracker.update([process(5, 2.0, namespace=20), process(6, 4.0, parent=5, read_bytes=9), command], containers)
    # 7, which another process started in the container, has ended; so has 6, and its parent has its time.
    found = tracker.update([process(5, 6.5)], containers)["web"]
    assert (found.cpu_seconds, found.read_bytes) == (7.5, 9)
    # 8 ends without its parent having waited for it.
    assert tracker.update([process(5, 6.5), process(8, 3.0, parent=5)], containers)["web"].cpu_seconds == 10.5
    assert tracker.update([process(5, 6.5)], containers)["web"].cpu_seconds == 10.5


def test_a_reused_pid_is_another_process() -> None:
    tracker, containers = UsageTracker(), {5: "web"}
    tracker.update([process(5, 2.0)], containers)
    reused = Process(pid=5, parent=1, started=99, user_seconds=1.0)
    assert tracker.update([reused], containers)["web"].cpu_seconds == 3.0


def test_a_container_that_is_gone_is_forgotten() -> None:
    tracker = UsageTracker()
    tracker.update([process(5, 2.0)], {5: "web"})
    tracker.update([], {})
    assert tracker.update([process(5, 0.5)], {5: "web"})["web"].cpu_seconds == 0.5
