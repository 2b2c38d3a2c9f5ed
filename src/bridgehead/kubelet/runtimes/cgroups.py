"""Limits of containers by cgroup v2, where a part of the hierarchy is delegated to us.

Edge. Two sides use it:

- whoever starts a lab prepares a part of the machine's hierarchy and gives it to the lab's user (`prepare_delegation`),
  puts the lab's first process into it, and removes it when the lab has ended (`remove_delegation`);
- a container runtime finds it (`find_delegated`) and makes a group for each container.

    /sys/fs/cgroup/bridgehead-NAME/      given away; has controllers for what is below, and so no processes itself
        processes/                       everything of the lab that is no container
        RUNTIME-CONTAINER/               limits

A runtime that was started by itself, such as by a systemd unit with Delegate=yes, makes the same of the group it is in.
Limits become files as with Kubernetes' kubelet and runc: memory.max with memory.oom.group, no swap, cpu.max over
100 ms, cpu.weight from the request, pids.max.
Source: Documentation/admin-guide/cgroup-v2.rst; kubernetes pkg/kubelet/cm/helpers_linux.go and
pkg/kubelet/kuberuntime; opencontainers/cgroups ConvertCPUSharesToCgroupV2Value.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import math
import os
import posixpath
import signal
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from bridgehead.kubelet.runtimes.runtime import Limits
from bridgehead.network import syscalls

CONTROLLERS: Final = ("memory", "cpu", "pids")
PREFIX: Final = "bridgehead-"
PROCESSES: Final = "processes"
_CPU_PERIOD: Final = 100_000  # us
_LEAST_QUOTA: Final = 1_000  # us, the kernel's
_LEAST_SHARES, _MOST_SHARES = 2, 1 << 18  # of cgroup v1, in which the kubelet counts
_LEAST_WEIGHT, _MOST_WEIGHT = 1, 10_000
# What a delegatee may write, where the kernel does not tell (/sys/kernel/cgroup/delegate, Linux 4.15).
_GIVEN: Final = ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control")
_DIES_SECONDS, _LOOK_SECONDS = 2.0, 0.01
_DIGITS_OF_RUNTIME: Final = 12


class ContainerGroup:
    """The group of one container. Methods raise OSError."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def open_procs(self) -> int:
        """A descriptor; a process that writes "0" to it moves into the group, with its later children."""
        return os.open(f"{self.directory}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def oom_kills(self) -> int:
        """Processes that the kernel has killed because the group was out of memory; 0 without the controller."""
        with contextlib.suppress(FileNotFoundError):
            return parse_events(_read(f"{self.directory}/memory.events")).get("oom_kill", 0)
        return 0

    def kill(self) -> None:
        """End everything in it, and fine if there is nothing."""
        _kill(self.directory)

    def remove(self) -> bool:
        """False: something of it has not ended yet; ask again."""
        return _remove(self.directory)


class Delegation(NamedTuple):
    """The directory in which this process may make groups, and which controllers these have.

    The names of all groups that are made begin with `prefix`, which tells those of one runtime from others'.
    """

    directory: str
    controllers: frozenset[str]
    prefix: str = ""

    def for_runtime(self, root_dir: str) -> Delegation:
        """The same for the runtime that has this directory, and for it when it is started again."""
        digest = hashlib.sha256(os.path.abspath(root_dir).encode()).hexdigest()
        return self._replace(prefix=f"{digest[:_DIGITS_OF_RUNTIME]}-")

    def remove_leftovers(self) -> None:
        """End and remove all groups of the runtime, for whose containers nobody looks any more. Only with a prefix.

        Raises OSError. What does not end in time is left to the next run.
        """
        names = [name for name in os.listdir(self.directory) if self.prefix and name.startswith(self.prefix)]
        left = [f"{self.directory}/{name}" for name in names if os.path.isdir(f"{self.directory}/{name}")]
        for directory in left:
            _kill(directory)
        for directory in left:
            _remove_empty(directory)

    def make(self, name: str, limits: Limits) -> ContainerGroup:
        """A new group, empty; one that is there already is used again. Raises OSError, and then there is none."""
        group = ContainerGroup(f"{self.directory}/{self.prefix}{name}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(group.directory)
        try:
            for file, value in plan_files(limits, self.controllers).items():
                with contextlib.suppress(FileNotFoundError) if file in _OPTIONAL else contextlib.nullcontext():
                    _write(f"{group.directory}/{file}", value)
        except OSError:
            group.remove()
            raise
        return group

    def lacking(self, limits: Limits) -> tuple[str, ...]:
        """The controllers that these limits need and that are not here."""
        needed = {
            "memory": limits.memory is not None,
            "cpu": limits.cpu_millis is not None,
            "pids": limits.pids is not None,
        }
        return tuple(name for name in CONTROLLERS if needed[name] and name not in self.controllers)


def find_delegated() -> Delegation | str:
    """Where this process may make groups, else why it may not, in one sentence.

    Moves the process into a group of its own when it is alone in one that is delegated to it.
    """
    try:
        own = _own_directory()
        _check_controllers(_above(own)[-1])
        above, name = posixpath.split(own)
        if name == PROCESSES and _is_ours(above):
            return _delegation(above)
        if _adopt(own, PROCESSES) is not None:
            return _delegation(own)
    except _Missing as missing:
        return str(missing)
    except OSError as error:
        return f"cgroup v2 cannot be used: {error.strerror}: {error.filename}"
    return "no part of the cgroup v2 hierarchy is delegated to this process"


class Prepared(NamedTuple):
    """A part of the machine's hierarchy for a lab. Methods raise OSError."""

    directory: str

    def enter(self) -> None:
        """Move the calling process there, with its later children; before it enters a user namespace."""
        _write(f"{self.directory}/{PROCESSES}/cgroup.procs", "0")

    def show(self, target: str) -> None:
        """Make it, and nothing else of the hierarchy, visible at `target`, which is made: in a mount namespace that is
        about to cover /sys. `find_delegated` finds it there."""
        os.makedirs(target, exist_ok=True)
        syscalls.mount(self.directory, target, flags=syscalls.MS_BIND)


def prepare_delegation(name: str, user: int, group: int) -> Prepared | str:
    """Make a part of the hierarchy for the lab `name` and give it to that user of the machine; else why not.

    What a lab of the name that was killed has left is removed. As root it is made at the top of the hierarchy, else
    where one's own part of it is: next to one's own group, or in it when nobody else is in there, as with
    `systemd-run --user --scope -p Delegate=yes`.
    """
    try:
        directory = f"{_find_place()}/{PREFIX}{name}"
        if not _remove_empty(directory):
            return f"the cgroup {directory} still has processes: is it another lab's, of this name?"
        os.mkdir(directory)
        try:
            os.mkdir(f"{directory}/{PROCESSES}")
            _enable(directory)
            if (user, group) != (os.geteuid(), os.getegid()):
                _give(directory, user, group)
                _give(f"{directory}/{PROCESSES}", user, group)
        except OSError:
            _remove(directory)
            raise
    except _Missing as missing:
        return str(missing)
    except OSError as error:
        return f"cgroup v2 cannot be used: {error.strerror}: {error.filename}"
    return Prepared(directory)


def remove_delegation(directory: str) -> bool:
    """After the lab has ended: end what is left in it and remove it. Fine if it is gone. False: it still has processes.

    Raises OSError, and ValueError for a directory that `prepare_delegation` did not make.
    """
    _check_name(directory)
    if os.path.isdir(directory):
        _kill(directory)
    return _remove_empty(directory)


def remove_unused_delegation(directory: str) -> bool:
    """As `remove_delegation`, but end nothing: another lab of the name may have it by now."""
    _check_name(directory)
    return _remove_empty(directory)


def _check_name(directory: str) -> None:
    if not posixpath.basename(directory).startswith(PREFIX):
        raise ValueError(f"not the cgroup of a lab: {directory}")


# What is pure.


def plan_files(limits: Limits, controllers: frozenset[str]) -> dict[str, str]:
    """What to write into which file of a container's group."""
    files: dict[str, str] = {}
    if "memory" in controllers:
        # One process that is killed alone would leave a container that neither works nor restarts.
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


_OPTIONAL: Final = {"memory.swap.max", "memory.oom.group"}  # without swap; before Linux 4.19


def weight_of(millis: int) -> int:
    """cpu.weight for a request of thousandths of a processor: 1000 is 100, what everything else on a machine has.

    The kubelet makes it shares of cgroup v1, and runc (1.3.2 and later) makes these a weight.
    """
    shares = min(max(millis * 1024 // 1000, _LEAST_SHARES), _MOST_SHARES)
    if shares <= _LEAST_SHARES:
        return _LEAST_WEIGHT
    if shares >= _MOST_SHARES:
        return _MOST_WEIGHT
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


def quota_of(millis: int) -> int:
    """Microseconds in each period."""
    return max(millis * _CPU_PERIOD // 1000, _LEAST_QUOTA)


def parse_events(text: str) -> dict[str, int]:
    """A file of names and numbers."""
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def parse_own_path(text: str) -> str | None:
    """From /proc/self/cgroup: one's group in the v2 hierarchy."""
    return next((line[3:] for line in text.splitlines() if line.startswith("0::")), None)


def parse_mounts(text: str) -> list[tuple[str, str]]:
    """From /proc/self/mountinfo: (mount point, its root in the hierarchy) of each cgroup v2 file system."""
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


def places_of(path: str, mounts: list[tuple[str, str]]) -> Iterator[str]:
    """Where the group of this path may be seen; a later mount may cover an earlier one."""
    for point, root in reversed(mounts):
        if root == "/":
            yield posixpath.normpath(f"{point}/{path}")
        elif path == root or path.startswith(f"{root}/"):
            yield posixpath.normpath(f"{point}/{path[len(root) :]}")


# What is there.


class _Missing(Exception):
    """Why there is nothing for us, in one sentence."""


def _own_directory() -> str:
    path = parse_own_path(_read("/proc/self/cgroup"))
    mounts = parse_mounts(_read("/proc/self/mountinfo"))
    if path is None or not mounts:
        raise _Missing("this machine has no cgroup v2")
    for place in places_of(path, mounts):
        if os.path.exists(f"{place}/cgroup.procs"):
            return place
    raise _Missing("the cgroup of this process cannot be seen in any cgroup v2 file system")


def _find_place() -> str:
    """The directory for a lab's own, whose children have controllers. Raises `_Missing`, OSError."""
    own = _own_directory()
    above = _above(own)
    _check_controllers(above[-1])
    if os.geteuid() == 0:
        # From the top: the group in which root happens to be, such as a session's, may go with its session.
        above.reverse()
    elif (place := _adopt(own, f"{PREFIX}up")) is not None:
        return place
    for place in above:
        if _is_ours(place):
            if _is_root(place):
                _enable(place)
            if _enabled(place):
                return place
    if os.geteuid() == 0 and (place := _adopt(own, f"{PREFIX}up")) is not None:
        return place
    raise _Missing(
        "no part of the cgroup v2 hierarchy is delegated to this user; "
        "`systemd-run --user --scope -p Delegate=yes` before the command does that"
    )


def _above(directory: str) -> list[str]:
    """It and what can be seen above it, to the top."""
    found = [directory]
    while not _is_root(found[-1]) and os.path.exists(f"{posixpath.dirname(found[-1])}/cgroup.procs"):
        found.append(posixpath.dirname(found[-1]))
    return found


def _check_controllers(top: str) -> None:
    if not set(_read(f"{top}/cgroup.controllers").split()).intersection(CONTROLLERS):
        raise _Missing("this machine's cgroup v2 has no controllers for memory, cpu and pids (are they in cgroup v1?)")


def _adopt(own: str, leaf: str) -> str | None:
    """One's own group for its children, when it is ours and nobody else is in it: we move into a child, `leaf`."""
    if _is_root(own) or not _is_ours(own) or _members(own) != [os.getpid()]:
        return None
    os.makedirs(f"{own}/{leaf}", exist_ok=True)
    _write(f"{own}/{leaf}/cgroup.procs", "0")
    _enable(own)
    return own if _enabled(own) else None


def _is_root(directory: str) -> bool:
    """Of the whole hierarchy, which alone may have processes and controllers."""
    return not os.path.exists(f"{directory}/cgroup.type")


def _is_ours(directory: str) -> bool:
    """Whether we may make groups there and move our processes between them."""
    return all(
        os.access(path, os.W_OK, effective_ids=True)
        for path in (directory, f"{directory}/cgroup.procs", f"{directory}/cgroup.subtree_control")
    )


def _members(directory: str) -> list[int]:
    return [int(word) for word in _read(f"{directory}/cgroup.procs").split()]


def _enabled(directory: str) -> frozenset[str]:
    """What its children have of our controllers."""
    return frozenset(_read(f"{directory}/cgroup.subtree_control").split()).intersection(CONTROLLERS)


def _enable(directory: str) -> None:
    """For its children, as many of our controllers as can be."""
    there = _read(f"{directory}/cgroup.controllers").split()
    for name in CONTROLLERS:
        if name in there and name not in _enabled(directory):
            with contextlib.suppress(OSError):  # cpu, for example, while a real-time process runs
                _write(f"{directory}/cgroup.subtree_control", f"+{name}")


def _delegation(directory: str) -> Delegation:
    controllers = _enabled(directory)
    if not controllers:
        raise _Missing("the cgroup delegated to this process has no controllers for memory, cpu and pids")
    return Delegation(directory, controllers)


def _give(directory: str, user: int, group: int) -> None:
    try:
        names: tuple[str, ...] = tuple(_read("/sys/kernel/cgroup/delegate").split())
    except OSError:
        names = _GIVEN
    os.chown(directory, user, group)
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.chown(f"{directory}/{name}", user, group)


def _kill(directory: str) -> None:
    try:
        _write(f"{directory}/cgroup.kill", "1")  # Linux 5.14
    except FileNotFoundError:
        for path, _, _ in os.walk(directory):
            for pid in _members(path):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _await_empty(directory: str) -> bool:
    """Whether its last process has ended, or does so in a moment."""
    until = time.monotonic() + _DIES_SECONDS
    while parse_events(_read(f"{directory}/cgroup.events"))["populated"]:
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _remove_empty(directory: str) -> bool:
    """Fine if it is gone. False: it still has processes."""
    return not os.path.isdir(directory) or (_await_empty(directory) and _remove(directory))


def _remove(directory: str) -> bool:
    for path, _, _ in os.walk(directory, topdown=False):
        try:
            os.rmdir(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno == errno.EBUSY:
                return False
            raise
    return True


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path: str, value: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(fd)
