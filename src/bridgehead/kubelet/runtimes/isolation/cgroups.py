"""Limits of containers by cgroup v2, where a part of the hierarchy is delegated to this process.

Two sides use this module:

- The starter of a lab prepares a part of the machine's hierarchy and delegates it to the lab's user
  (`prepare_delegation`), puts the lab's first process into it, and removes it after the lab's end
  (`remove_delegation`).
- A container runtime finds it (`find_delegated`) and makes cgroups for pods and their containers.

    /sys/fs/cgroup/bridgehead-NAME/      delegated; has controllers for its children, and so no processes itself
        processes/                       all processes of the lab that are not in containers
        RUNTIME-POD/CONTAINER/           limits (see `container_cgroups`)

A runtime that was started alone, for example by a systemd unit with Delegate=yes, makes this tree in its own cgroup.
Source: Documentation/admin-guide/cgroup-v2.rst, "Delegation".
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from typing import Final, NamedTuple

from bridgehead.network import syscalls

from .cgroup_files import (
    CONTROLLERS,
    parse_mounts,
    parse_own_path,
    visible_paths,
)
from .cgroup_tree import kill_all, members, read, remove, remove_empty, write
from .container_cgroups import Delegation

PREFIX: Final = "bridgehead-"
PROCESSES: Final = "processes"
# The files that a delegatee may write, for kernels without /sys/kernel/cgroup/delegate (before Linux 4.15).
_DELEGATED_FILES: Final = ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control")
_NOT_DELEGATED: Final = (
    "no part of the cgroup v2 hierarchy is delegated to this user; "
    "`systemd-run --user --scope -p Delegate=yes` before the command does that"
)


def find_delegated() -> Delegation | str:
    """The delegation to this process, or the reason why there is none, in one sentence.

    If the process is alone in a cgroup that is delegated to it, it is moved into a child of that cgroup.
    """
    try:
        own = _own_directory()
        _check_controllers(_ancestors(own)[-1])
        parent, name = posixpath.split(own)
        if name == PROCESSES and _is_delegated(parent):
            return _make_delegation(parent)
        if _adopt(own, PROCESSES) is not None:
            return _make_delegation(own)
    except _Missing as reason:
        return str(reason)
    except OSError as error:
        return f"cgroup v2 cannot be used: {error.strerror}: {error.filename}"
    return "no part of the cgroup v2 hierarchy is delegated to this process"


def explain_no_limits() -> str:
    """Return the reason why containers of this user can have no limits, in one sentence, or "". Changes nothing.

    A process that is alone in its cgroup could still have a part of the hierarchy, which only trying shows.
    """
    try:
        candidates = _ancestors(_own_directory())
        _check_controllers(candidates[-1])
        return "" if any(map(_is_delegated, candidates)) else _NOT_DELEGATED
    except _Missing as reason:
        return str(reason)
    except OSError as error:
        return f"cgroup v2 cannot be used: {error.strerror}: {error.filename}"


class Prepared(NamedTuple):
    """A part of the machine's hierarchy for a lab. Methods raise OSError."""

    directory: str

    def enter(self) -> None:
        """Move the calling process into the lab's cgroup, before it enters a user namespace."""
        write(f"{self.directory}/{PROCESSES}/cgroup.procs", "0")

    def show(self, target: str) -> None:
        """Bind the lab's part of the hierarchy to `target`, which is made. `find_delegated` finds it there.

        For a mount namespace in which /sys, with the whole hierarchy, will be covered.
        """
        os.makedirs(target, exist_ok=True)
        syscalls.mount(self.directory, target, flags=syscalls.MS_BIND)


def prepare_delegation(name: str, user: int, group: int) -> Prepared | str:
    """Make a cgroup for the lab `name` and delegate it to `user` and `group`; or return the reason why there is none.

    An empty cgroup of an earlier lab of that name is replaced. Root's labs have it at the top of the hierarchy. For
    other users it is next to the process's own cgroup if they may write there, or in it if the process is alone in it,
    as with `systemd-run --user --scope -p Delegate=yes`.
    """
    try:
        directory = f"{_find_parent()}/{PREFIX}{name}"
        if not remove_empty(directory):
            return f"the cgroup {directory} still has processes: is it another lab's, of this name?"
        os.mkdir(directory)
        try:
            os.mkdir(f"{directory}/{PROCESSES}")
            _enable_controllers(directory)
            if (user, group) != (os.geteuid(), os.getegid()):
                _delegate(directory, user, group)
                _delegate(f"{directory}/{PROCESSES}", user, group)
        except OSError:
            remove(directory)
            raise
    except _Missing as reason:
        return str(reason)
    except OSError as error:
        return f"cgroup v2 cannot be used: {error.strerror}: {error.filename}"
    return Prepared(directory)


def remove_delegation(directory: str) -> bool:
    """Kill what is left of a lab that has ended and remove its cgroup. False: a process has not ended.

    Does nothing if the cgroup is gone. Raises OSError, and ValueError for a directory that `prepare_delegation` did not
    make.
    """
    _check_name(directory)
    if os.path.isdir(directory):
        kill_all(directory)
    return remove_empty(directory)


def remove_unused_delegation(directory: str) -> bool:
    """Remove an empty delegation; kill nothing, since another lab of the name may use it."""
    _check_name(directory)
    return remove_empty(directory)


def _check_name(directory: str) -> None:
    if not posixpath.basename(directory).startswith(PREFIX):
        raise ValueError(f"not the cgroup of a lab: {directory}")


class _Missing(Exception):
    """No usable part of the hierarchy; the message is one sentence."""


def _own_directory() -> str:
    path = parse_own_path(read("/proc/self/cgroup"))
    mounts = parse_mounts(read("/proc/self/mountinfo"))
    if path is None or not mounts:
        raise _Missing("this machine has no cgroup v2")
    for candidate in visible_paths(path, mounts):
        if os.path.exists(f"{candidate}/cgroup.procs"):
            return candidate
    raise _Missing("the cgroup of this process cannot be seen in any cgroup v2 file system")


def _find_parent() -> str:
    """The directory in which labs may have cgroups with controllers. Raises `_Missing`, OSError."""
    own = _own_directory()
    candidates = _ancestors(own)
    _check_controllers(candidates[-1])
    if os.geteuid() == 0:
        # Candidates begin at the top: root's own cgroup, such as a session's, may be removed with the session.
        candidates.reverse()
    elif (parent := _adopt(own, f"{PREFIX}up")) is not None:
        return parent
    for parent in candidates:
        if _is_delegated(parent):
            if _is_root(parent):
                _enable_controllers(parent)
            if _enabled_controllers(parent):
                return parent
    if os.geteuid() == 0 and (parent := _adopt(own, f"{PREFIX}up")) is not None:
        return parent
    raise _Missing(_NOT_DELEGATED)


def _ancestors(directory: str) -> list[str]:
    """The cgroup and its visible ancestors, the topmost last."""
    found = [directory]
    while not _is_root(found[-1]) and os.path.exists(f"{posixpath.dirname(found[-1])}/cgroup.procs"):
        found.append(posixpath.dirname(found[-1]))
    return found


def _check_controllers(top: str) -> None:
    if not set(read(f"{top}/cgroup.controllers").split()).intersection(CONTROLLERS):
        raise _Missing("this machine's cgroup v2 has no controllers for memory, cpu and pids (are they in cgroup v1?)")


def _adopt(own: str, leaf: str) -> str | None:
    """Make the process's own cgroup usable for children: the process moves into the child `leaf`.

    None unless the cgroup is delegated to the process and has no other process.
    """
    if _is_root(own) or not _is_delegated(own) or members(own) != [os.getpid()]:
        return None
    os.makedirs(f"{own}/{leaf}", exist_ok=True)
    write(f"{own}/{leaf}/cgroup.procs", "0")
    _enable_controllers(own)
    return own if _enabled_controllers(own) else None


def _is_root(directory: str) -> bool:
    """Whether the cgroup is the root of the hierarchy, which alone may have both processes and controllers."""
    return not os.path.exists(f"{directory}/cgroup.type")


def _is_delegated(directory: str) -> bool:
    """Whether the process may make children of the cgroup and move its processes between them."""
    return all(
        os.access(path, os.W_OK, effective_ids=True)
        for path in (directory, f"{directory}/cgroup.procs", f"{directory}/cgroup.subtree_control")
    )


def _enabled_controllers(directory: str) -> frozenset[str]:
    """Return those of `CONTROLLERS` that the children of a cgroup have."""
    return frozenset(read(f"{directory}/cgroup.subtree_control").split()).intersection(CONTROLLERS)


def _enable_controllers(directory: str) -> None:
    """Enable for the children of a cgroup as many of `CONTROLLERS` as possible."""
    available = read(f"{directory}/cgroup.controllers").split()
    for name in CONTROLLERS:
        if name in available and name not in _enabled_controllers(directory):
            with contextlib.suppress(OSError):  # cpu, for example, while a real-time process runs
                write(f"{directory}/cgroup.subtree_control", f"+{name}")


def _make_delegation(directory: str) -> Delegation:
    controllers = _enabled_controllers(directory)
    if not controllers:
        raise _Missing("the cgroup delegated to this process has no controllers for memory, cpu and pids")
    return Delegation(directory, controllers)


def _delegate(directory: str, user: int, group: int) -> None:
    try:
        names: tuple[str, ...] = tuple(read("/sys/kernel/cgroup/delegate").split())
    except OSError:
        names = _DELEGATED_FILES
    os.chown(directory, user, group)
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.chown(f"{directory}/{name}", user, group)
