"""Processes of this node, as /proc has them: the node's PID namespace has no others.

Source: proc_pid_stat(5), proc_pid_smaps(5), proc_pid_io(5), proc_pid_net(5).
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

import msgspec

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_KIB: Final = 1024
# Processes that are read at most; the rest is left out.
MAX_PROCESSES: Final = 20_000


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process. `namespace` is the inode of its mount namespace; 0: unknown.

    Times are seconds, sizes bytes. `user_seconds` and `system_seconds` include children that it has waited for.
    `resident` counts pages that several processes share in proportion; `anonymous` are those that no file backs.
    Processes that the kernel lets nobody inspect are a lab's built-in servers and parts: their namespace and transfers
    are unknown, and their shared pages count as a whole.
    """

    pid: int
    parent: int
    started: int  # clock ticks since the boot, by which a reused PID is another process
    namespace: int = 0
    user_seconds: float = 0.0
    system_seconds: float = 0.0
    threads: int = 1
    resident: int = 0
    anonymous: int = 0
    swapped: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of a network interface, in both directions."""

    name: str
    received_bytes: int
    received_packets: int
    received_errors: int
    received_dropped: int
    sent_bytes: int
    sent_packets: int
    sent_errors: int
    sent_dropped: int


def scan() -> list[Process]:
    """Return all processes, without those that end meanwhile."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                found.append(_read(name))
            if len(found) >= MAX_PROCESSES:
                break
    return found


def _read(pid: str) -> Process:
    parent, user, system, threads, started = parse_stat(_text(f"/proc/{pid}/stat"))
    transfers, namespace = {}, 0
    try:
        namespace = os.stat(f"/proc/{pid}/ns/mnt").st_ino
        memory = parse_fields(_text(f"/proc/{pid}/smaps_rollup"))
        transfers = parse_fields(_text(f"/proc/{pid}/io"))
    except OSError:
        sizes = parse_fields(_text(f"/proc/{pid}/status"))
        anonymous, others = sizes.get("RssAnon", 0), sizes.get("RssFile", 0) + sizes.get("RssShmem", 0)
        memory = {"Pss": anonymous + others, "Pss_Anon": anonymous, "SwapPss": sizes.get("VmSwap", 0)}
    return Process(
        pid=int(pid),
        parent=parent,
        started=started,
        namespace=namespace,
        user_seconds=user,
        system_seconds=system,
        threads=threads,
        resident=memory.get("Pss", 0),
        anonymous=memory.get("Pss_Anon", 0),
        swapped=memory.get("SwapPss", 0),
        read_bytes=transfers.get("read_bytes", 0),
        written_bytes=transfers.get("write_bytes", 0),
    )


def parse_stat(text: str) -> tuple[int, float, float, int, int]:
    """Return parent, user and system time (seconds, with those of children), threads and start. Raises ValueError."""
    fields = text.rpartition(")")[2].split()  # from the 3rd on, after the name, which can contain any character
    if len(fields) < 20:
        raise ValueError("not a stat file")
    user, system, children_user, children_system = (int(field) for field in fields[11:15])
    return (
        int(fields[1]),
        (user + children_user) / _TICKS,
        (system + children_system) / _TICKS,
        int(fields[17]),
        int(fields[19]),
    )


def parse_fields(text: str) -> dict[str, int]:
    """Parse lines such as `Pss: 12 kB` and `read_bytes: 4096`; sizes become bytes."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        number, _, unit = rest.strip().partition(" ")
        if number.isdecimal() and name.isidentifier():
            found[name] = int(number) * (_KIB if unit == "kB" else 1)
    return found


def read_interfaces(pid: int) -> list[Interface]:
    """Return the network interfaces of a process, without the loopback; none if it has ended."""
    try:
        return parse_interfaces(_text(f"/proc/{pid}/net/dev"))
    except OSError:
        return []


def parse_interfaces(text: str) -> list[Interface]:
    """Parse /proc/PID/net/dev."""
    found = []
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        numbers = [int(field) for field in rest.split()]
        if name.strip() == "lo" or len(numbers) < 12:
            continue
        found.append(
            Interface(
                name=name.strip(),
                received_bytes=numbers[0],
                received_packets=numbers[1],
                received_errors=numbers[2],
                received_dropped=numbers[3],
                sent_bytes=numbers[8],
                sent_packets=numbers[9],
                sent_errors=numbers[10],
                sent_dropped=numbers[11],
            )
        )
    return found


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
