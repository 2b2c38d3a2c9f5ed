"""Cgroups of pods and of their containers, in the part of the hierarchy that is delegated to a container runtime.

    DELEGATED/RUNTIME-POD/              limits of the pod as a whole; has controllers for its children
    DELEGATED/RUNTIME-POD/CONTAINER/    limits of one container; has the processes

`cgroups` finds the delegation. Source: Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from typing import Final, NamedTuple

from bridgehead.kubelet.runtimes.runtime import Limits, RuntimeFailure

from .cgroup_files import CONTROLLERS, OPTIONAL_FILES, parse_events, plan_files
from .cgroup_tree import kill_all, read, remove, remove_empty, write

_PREFIX_DIGITS: Final = 12
_numbers = itertools.count(1)


class Cgroup:
    """A cgroup with limits, of which `controllers` are there. Methods raise OSError."""

    def __init__(self, directory: str, controllers: frozenset[str]) -> None:
        self.directory = directory
        self._controllers = controllers

    def write_limits(self, limits: Limits) -> None:
        """Set the limits; those that are None stay as they are."""
        for file, value in self._plan(limits).items():
            with contextlib.suppress(FileNotFoundError) if file in OPTIONAL_FILES else contextlib.nullcontext():
                write(f"{self.directory}/{file}", value)

    def _plan(self, limits: Limits) -> dict[str, str]:
        return plan_files(limits, self._controllers)

    def update(self, limits: Limits) -> None:
        """Change limits. Raises RuntimeFailure for less memory than is in use, at which the kernel kills."""
        if limits.memory is not None and "memory" in self._controllers:
            used = int(read(f"{self.directory}/memory.current"))
            if used > limits.memory:
                raise RuntimeFailure(
                    f"attempting to set a memory limit ({limits.memory}) below the current usage ({used})"
                )
        self.write_limits(limits)

    def kill(self) -> None:
        """Kill all processes in the cgroup and below it."""
        kill_all(self.directory)

    def remove(self) -> bool:
        """Remove the cgroup; False if a process in it has not ended yet."""
        return remove(self.directory)


class ContainerCgroup(Cgroup):
    """The cgroup of one container. Methods raise OSError."""

    def open_procs(self) -> int:
        """A descriptor of cgroup.procs: a process that writes "0" to it joins, and so do its later children."""
        return os.open(f"{self.directory}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def oom_kills(self) -> int:
        """The number of processes that the kernel has killed for lack of memory; 0 without the controller."""
        with contextlib.suppress(FileNotFoundError):
            return parse_events(read(f"{self.directory}/memory.events")).get("oom_kill", 0)
        return 0


class PodCgroup(Cgroup):
    """The cgroup of one pod, in which those of its containers are. Methods raise OSError."""

    def _plan(self, limits: Limits) -> dict[str, str]:
        # The kernel kills one container for lack of the pod's memory, not all of them.
        return {name: value for name, value in super()._plan(limits).items() if name != "memory.oom.group"}

    def make(self, name: str, limits: Limits) -> ContainerCgroup:
        """Make the cgroup of a container with limits, or use the one that exists. No cgroup is left after an error."""
        cgroup = ContainerCgroup(f"{self.directory}/{name}", self._controllers)
        _make(cgroup, limits)
        return cgroup


def _make(cgroup: Cgroup, limits: Limits) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(cgroup.directory)
    try:
        cgroup.write_limits(limits)
    except OSError:
        cgroup.remove()
        raise


class Delegation(NamedTuple):
    """The directory in which this process may make cgroups, and the controllers that these have.

    The name of each cgroup begins with `prefix`, which differs for each runtime.
    """

    directory: str
    controllers: frozenset[str]
    prefix: str = ""

    def for_runtime(self, root_dir: str) -> Delegation:
        """This delegation with the prefix of the runtime that has this directory, now and after a restart."""
        digest = hashlib.sha256(os.path.abspath(root_dir).encode()).hexdigest()
        return self._replace(prefix=f"{digest[:_PREFIX_DIGITS]}-")

    def remove_leftovers(self) -> None:
        """Kill and remove all cgroups of an earlier run of the runtime. Does nothing without a prefix.

        Cgroups whose processes do not end in time are left to the next run. Raises OSError.
        """
        names = [name for name in os.listdir(self.directory) if self.prefix and name.startswith(self.prefix)]
        left = [f"{self.directory}/{name}" for name in names if os.path.isdir(f"{self.directory}/{name}")]
        for directory in left:
            kill_all(directory)
        for directory in left:
            remove_empty(directory)

    def make_pod(self, uid: str, limits: Limits) -> PodCgroup:
        """Make a cgroup for a pod. Raises OSError; no cgroup is left then.

        Each has another name: one of an earlier sandbox of the pod, whose processes end, is removed later.
        """
        pod = PodCgroup(f"{self.directory}/{self.prefix}pod{uid}.{next(_numbers)}", self.controllers)
        _make(pod, limits)
        try:
            write(f"{pod.directory}/cgroup.subtree_control", " ".join(f"+{name}" for name in self.controllers))
        except OSError:
            pod.remove()
            raise
        return pod

    def lacking(self, limits: Limits) -> tuple[str, ...]:
        """The controllers that these limits need and that are missing."""
        needed = {
            "memory": limits.memory is not None,
            "cpu": limits.cpu_millis is not None,
            "pids": limits.pids is not None,
        }
        return tuple(name for name in CONTROLLERS if needed[name] and name not in self.controllers)
