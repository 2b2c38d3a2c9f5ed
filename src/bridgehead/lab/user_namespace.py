"""Creates the lab's user namespace. The ids are chosen in `ids`.

Root without CAP_SYS_ADMIN, as in a container, is treated as an ordinary user is: its labs have root's own id.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bridgehead.network import syscalls
from bridgehead.network.uapi.capability import CAP_SETFCAP, CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN

from . import ids
from .errors import LabError
from .ids import IdMap, IdRange, MapEntry

# The range of labs of a root that has no CAP_SYS_ADMIN: one for all, as an ordinary user's in /etc/subuid.
_LIMITED_ROOT: Final = "root of a container"


def has_capability(number: int) -> bool:
    """Return whether this process has a capability in its user namespace (linux/capability.h)."""
    with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
        [mask] = (int(line.split()[1], 16) for line in status if line.startswith("CapEff:"))
    return bool(mask >> number & 1)


def is_full_root() -> bool:
    """Return whether this process is root and may mount and make namespaces: root of a container often may not."""
    return os.geteuid() == 0 and has_capability(CAP_SYS_ADMIN)


def choose_id_map(key: str, base: int | None) -> tuple[IdMap, int | None]:
    """Return the map for a lab that this user starts, and the first id of its range (None: it has no range of its own).

    `key` is any text that is unique to the lab. `base` is that of the previous run, to which the lab's files belong.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0 and not has_capability(CAP_SYS_ADMIN):
        return _map_limited_root(), None
    if user == 0:
        if base is None:
            base = ids.choose_base(key, _existing_ids(), _taken_ids())
        if base is not None:
            return ids.map_range(base, ids.choose_pod_ids(base, _existing_ids(), _taken_ids())), base
    if shutil.which("newuidmap") is None or shutil.which("newgidmap") is None:
        return ids.map_user(user, group, (), ()), None
    names = [str(user)]
    with contextlib.suppress(KeyError):
        names.append(pwd.getpwuid(user).pw_name)
    return (
        ids.map_user(user, group, _subordinate("/etc/subuid", names), _subordinate("/etc/subgid", names)),
        None,
    )


def _map_limited_root() -> IdMap:
    """Return the map of a root that needs no newuidmap to map ids, if it has the capabilities that this takes."""
    first = ids.choose_base(_LIMITED_ROOT, _existing_ids(), _taken_ids())
    if first is None or not all(map(has_capability, (CAP_SETUID, CAP_SETGID, CAP_SETFCAP))):
        return ids.map_user(0, os.getegid(), (), ())
    others = [IdRange(first, ids.RANGE - 1)]
    return ids.map_user(0, os.getegid(), others, others, is_granted=False)


def _existing_ids() -> list[IdRange]:
    return ids.parse_id_map(Path("/proc/self/uid_map").read_text(encoding="ascii"))


def _taken_ids() -> list[IdRange]:
    users = [IdRange(entry.pw_uid, 1) for entry in pwd.getpwall()]
    return users + _subordinate("/etc/subuid", ()) + _subordinate("/etc/subgid", ())


def _subordinate(path: str, names: Sequence[str]) -> list[IdRange]:
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    existing = _existing_ids()
    granted = ids.parse_subordinate(text, names)
    return [one for one in granted if any(each.contains(one) for each in existing)]


def make(id_map: IdMap) -> int:
    """Create a user namespace and return its descriptor. Raises OSError; `LabError` when newuidmap refuses."""
    asleep, wake = os.pipe()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(wake)
            syscalls.unshare(syscalls.CLONE_NEWUSER)
            os.write(writer, b"!")
            os.read(asleep, 1)
        except OSError as error:
            os.write(writer, str(error.errno).encode())
        finally:
            os._exit(0)
    os.close(asleep)
    os.close(writer)
    try:
        answer = os.read(reader, 16)
        if answer != b"!":
            code = int(answer or b"1")
            raise OSError(code, f"unshare: {os.strerror(code)}")
        if id_map.is_granted:
            _map_by_command("newuidmap", pid, id_map.users)
            _map_by_command("newgidmap", pid, id_map.groups)
        else:
            if not has_capability(CAP_SETGID):
                # An unprivileged process must disable setgroups before it maps groups: user_namespaces(7).
                _write(f"/proc/{pid}/setgroups", "deny")
            _write(f"/proc/{pid}/uid_map", _lines(id_map.users))
            _write(f"/proc/{pid}/gid_map", _lines(id_map.groups))
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(wake)
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _write(path: str, text: str) -> None:
    """Write a file. Raises OSError with the path, also if the kernel refuses the text."""
    try:
        Path(path).write_text(text, encoding="ascii")
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def _lines(entries: Sequence[MapEntry]) -> str:
    return "\n".join(f"{entry.inside} {entry.outside} {entry.size}" for entry in entries)


def _map_by_command(command: str, pid: int, entries: Sequence[MapEntry]) -> None:
    arguments = [str(number) for entry in entries for number in entry]
    done = subprocess.run([command, str(pid), *arguments], capture_output=True, text=True, timeout=10, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()
        raise LabError(
            f"{command} refuses the ids of /etc/subuid and /etc/subgid: {reason[0] if reason else 'no reason'}"
        )


def enter(namespace: int) -> None:
    """Become root of the user namespace, with all capabilities in it and none outside."""
    syscalls.setns(namespace, syscalls.CLONE_NEWUSER)
    with contextlib.suppress(PermissionError):  # an ordinary user has a single group
        os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    # After a change of ids a process is not dumpable: it could not write to its own /proc/self.
    syscalls.set_dumpable(True)


def run_as_root(work: Callable[[], None]) -> None:
    """Run `work` in a child that is root of a user namespace with this user's subordinate ids. Raises OSError."""
    pid = os.fork()
    if pid == 0:
        try:
            enter(make(choose_id_map("", None)[0]))
            work()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
