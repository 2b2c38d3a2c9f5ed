"""Contents of cgroup files: limits of a container as files, and parsers of what the kernel reports.

Pure: no I/O, no clock, no randomness. Limits become files as with Kubernetes' kubelet and runc: memory.max with
memory.oom.group, no swap, cpu.max over 100 ms, cpu.weight from the request, pids.max.
Source: Documentation/admin-guide/cgroup-v2.rst; kubernetes pkg/kubelet/cm/helpers_linux.go and
pkg/kubelet/kuberuntime; opencontainers/cgroups ConvertCPUSharesToCgroupV2Value.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterator
from typing import Final

from bridgehead.kubelet.runtimes.runtime import Limits

CONTROLLERS: Final = ("memory", "cpu", "pids")
_CPU_PERIOD: Final = 100_000  # us
_MIN_QUOTA: Final = 1_000  # us, the kernel's
_MIN_SHARES, _MAX_SHARES = 2, 1 << 18  # of cgroup v1, in which the kubelet counts
_MIN_WEIGHT, _MAX_WEIGHT = 1, 10_000
# Files that not every kernel has: memory.swap.max only with swap, memory.oom.group since Linux 4.19.
OPTIONAL_FILES: Final = {"memory.swap.max", "memory.oom.group"}


def plan_files(limits: Limits, controllers: frozenset[str]) -> dict[str, str]:
    """The files of a container's cgroup and their contents."""
    files: dict[str, str] = {}
    if "memory" in controllers:
        # If the kernel killed one process only, a container could remain that neither works nor restarts.
        files["memory.oom.group"] = "1"
        if limits.memory is not None:
            files["memory.max"] = str(limits.memory)
            files["memory.swap.max"] = "0"
    if "cpu" in controllers:
        files["cpu.weight"] = str(weight_of(limits.cpu_request_millis))
        if limits.cpu_millis is not None:
            files["cpu.max"] = f"{quota_of(limits.cpu_millis)} {_CPU_PERIOD}"
    if "pids" in controllers and limits.pids is not None:
        files["pids.max"] = str(limits.pids)
    return files


def weight_of(millis: int) -> int:
    """cpu.weight for a CPU request in thousandths of a processor; 1000 gives 100, the default of every cgroup.

    The kubelet converts the request to shares of cgroup v1, and runc (1.3.2 and later) converts shares to a weight.
    """
    shares = min(max(millis * 1024 // 1000, _MIN_SHARES), _MAX_SHARES)
    if shares <= _MIN_SHARES:
        return _MIN_WEIGHT
    if shares >= _MAX_SHARES:
        return _MAX_WEIGHT
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


def quota_of(millis: int) -> int:
    """The quota of cpu.max for a CPU limit in thousandths of a processor: microseconds for each period."""
    return max(millis * _CPU_PERIOD // 1000, _MIN_QUOTA)


def parse_events(text: str) -> dict[str, int]:
    """Parse a flat-keyed file such as cgroup.events: names and numbers."""
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def parse_own_path(text: str) -> str | None:
    """The path of the process's cgroup in the v2 hierarchy, from the text of /proc/self/cgroup."""
    return next((line[3:] for line in text.splitlines() if line.startswith("0::")), None)


def parse_mounts(text: str) -> list[tuple[str, str]]:
    """(Mount point, root in the hierarchy) of each cgroup v2 mount, from the text of /proc/self/mountinfo."""
    found = []
    for line in text.splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("cgroup2 "):
            root, point = fields.split()[3:5]
            found.append((_unescape(point), _unescape(root)))
    return found


def _unescape(path: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, character)
    return path


def visible_paths(path: str, mounts: list[tuple[str, str]]) -> Iterator[str]:
    """Paths at which the cgroup `path` may be visible, the latest mount first: it may cover earlier ones."""
    for point, root in reversed(mounts):
        if root == "/":
            yield posixpath.normpath(f"{point}/{path}")
        elif path == root or path.startswith(f"{root}/"):
            yield posixpath.normpath(f"{point}/{path[len(root) :]}")
