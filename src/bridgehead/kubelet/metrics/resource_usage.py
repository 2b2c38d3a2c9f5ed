"""Use of resources by containers and the node, from the processes that a scan finds.

Pure: no I/O, no clock, no randomness. If the kernel gives a lab no cgroup controllers, processes are all there is to
measure. Counters never fall: the use of a process is kept when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from .process_scan import Process


class Usage(msgspec.Struct, kw_only=True):
    """Sums over processes: seconds of processor time, bytes of memory now, bytes that were read and written."""

    user_seconds: float = 0.0
    system_seconds: float = 0.0
    resident: int = 0
    anonymous: int = 0
    swapped: int = 0
    processes: int = 0
    threads: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    @property
    def cpu_seconds(self) -> float:
        return self.user_seconds + self.system_seconds

    def add(self, process: Process) -> None:
        self.user_seconds += process.user_seconds
        self.system_seconds += process.system_seconds
        self.resident += process.resident
        self.anonymous += process.anonymous
        self.swapped += process.swapped
        self.processes += 1
        self.threads += process.threads
        self.read_bytes += process.read_bytes
        self.written_bytes += process.written_bytes


NODE = ""  # the key of all processes together


class UsageTracker:
    """Sums by the id of a container, and of all processes of the node (`NODE`)."""

    def __init__(self) -> None:
        self._last: dict[str, dict[tuple[int, int], Process]] = {}
        self._ended: dict[str, Usage] = {}
        self._shown: dict[str, Usage] = {}

    def update(self, processes: Iterable[Process], containers: Mapping[int, str]) -> dict[str, Usage]:
        """Return the usage of each container and of the node. `containers` are ids by the PID of the first process.

        Containers that are not among `containers` are forgotten.
        """
        found_now = {process.pid: process for process in processes}
        now: dict[str, dict[tuple[int, int], Process]] = {NODE: {}, **{key: {} for key in containers.values()}}
        for pid, key in _members(found_now, containers).items():
            process = found_now[pid]
            now[key][pid, process.started] = process
        for pid, process in found_now.items():
            now[NODE][pid, process.started] = process
        found = {key: self._sum(key, its) for key, its in now.items()}
        self._last, self._shown = now, found
        self._ended = {key: ended for key, ended in self._ended.items() if key in now}
        return found

    def _sum(self, key: str, processes: Mapping[tuple[int, int], Process]) -> Usage:
        ended = self._ended.setdefault(key, Usage())
        parents = {process.pid for process in self._last.get(key, {}).values()}
        for identity, process in self._last.get(key, {}).items():
            if identity in processes:
                continue
            # The processor time of a child is its parent's from the moment on at which the parent has waited for it.
            if process.parent not in parents:
                ended.user_seconds += process.user_seconds
                ended.system_seconds += process.system_seconds
            ended.read_bytes += process.read_bytes
            ended.written_bytes += process.written_bytes
        total = Usage(
            user_seconds=ended.user_seconds,
            system_seconds=ended.system_seconds,
            read_bytes=ended.read_bytes,
            written_bytes=ended.written_bytes,
        )
        for process in processes.values():
            total.add(process)
        before = self._shown.get(key)
        if before is not None:  # a parent that did not wait for a child has not got its time
            total.user_seconds = max(total.user_seconds, before.user_seconds)
            total.system_seconds = max(total.system_seconds, before.system_seconds)
        return total


def _members(processes: Mapping[int, Process], containers: Mapping[int, str]) -> dict[int, str]:
    """Return the containers of processes, by PID: that of an ancestor, or of another process in the mount namespace.

    A command of `kubectl exec` is no descendant of the container's first process, but shares its mount namespace.
    """
    members = {pid: key for pid, key in containers.items() if pid in processes}
    for pid in processes:
        chain = []
        while pid not in members and (process := processes.get(pid)) is not None and pid not in chain:
            chain.append(pid)
            pid = process.parent
        if pid in members:
            members.update(dict.fromkeys(chain, members[pid]))
    namespaces = {processes[pid].namespace: key for pid, key in members.items() if processes[pid].namespace}
    others = {pid: namespaces.get(process.namespace) for pid, process in processes.items() if pid not in members}
    return members | {pid: key for pid, key in others.items() if key is not None}
