"""System calls that Python 3.11 does not offer: namespaces, mounts and what goes with them.

The flags that callers pass are here too, as `os` has those of open(2). Every function raises OSError with the name of
the call. Source: unshare(2), setns(2), mount(2), open_tree(2), move_mount(2), mount_setattr(2), openat2(2),
pivot_root(2), syncfs(2), prctl(2), capset(2), keyctl(2), inotify(7), fork(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping

from .uapi.capability import _LINUX_CAPABILITY_VERSION_3
from .uapi.fcntl import AT_EMPTY_PATH, AT_FDCWD, AT_RECURSIVE
from .uapi.inotify import IN_ATTRIB
from .uapi.keyctl import KEYCTL_JOIN_SESSION_KEYRING
from .uapi.mount import (
    MOUNT_ATTR_IDMAP,
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_RDONLY,
    MOVE_MOUNT_F_EMPTY_PATH,
    MOVE_MOUNT_T_EMPTY_PATH,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    OPEN_TREE_CLOEXEC,
    OPEN_TREE_CLONE,
)
from .uapi.nsfs import NS_GET_PARENT
from .uapi.openat2 import RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS
from .uapi.prctl import (
    PR_CAPBSET_DROP,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_NAME,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
)
from .uapi.sched import CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS
from .uapi.sys_mount import MNT_DETACH
from .uapi.syscall import (
    SYS_capset,
    SYS_keyctl,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_open_tree,
    SYS_openat2,
    SYS_pivot_root,
)

__all__ = [
    "CLONE_NEWIPC",
    "CLONE_NEWNET",
    "CLONE_NEWNS",
    "CLONE_NEWPID",
    "CLONE_NEWUSER",
    "CLONE_NEWUTS",
    "IN_ATTRIB",
    "MNT_DETACH",
    "MOUNT_ATTR_NODEV",
    "MOUNT_ATTR_NOEXEC",
    "MOUNT_ATTR_NOSUID",
    "MOUNT_ATTR_RDONLY",
    "MS_BIND",
    "MS_NODEV",
    "MS_NOEXEC",
    "MS_NOSUID",
    "MS_PRIVATE",
    "MS_RDONLY",
    "MS_REC",
    "RESOLVE_BENEATH",
    "RESOLVE_IN_ROOT",
    "RESOLVE_NO_MAGICLINKS",
    "RESOLVE_NO_SYMLINKS",
    "add_watch",
    "attach_mount",
    "clone_mount",
    "drop_bounding_capabilities",
    "fork_plainly",
    "join_session_keyring",
    "mount",
    "open_beneath",
    "open_parent_namespace",
    "open_watches",
    "pivot_root",
    "set_capabilities",
    "set_child_subreaper",
    "set_dumpable",
    "set_hostname",
    "set_mount_attributes",
    "set_no_new_privileges",
    "set_parent_death_signal",
    "set_process_name",
    "setns",
    "sync_file_system",
    "umount",
    "unshare",
    "watch_inode",
]

_OPENAT2_ATTEMPTS = 1000
_MOST_CAPABILITIES = 64  # that the data of capset(2) has room for
_PROCESS_NAME_BYTES = 15  # TASK_COMM_LEN of linux/sched.h, without the NUL
_ARG_START, _ARG_END = 45, 46  # indices in /proc/PID/stat after the name: fields 48 and 49 of proc_pid_stat(5)

_libc = ctypes.CDLL(None, use_errno=True)
_libc_with_interpreter = ctypes.PyDLL(None, use_errno=True)  # calls keep the interpreter's lock


def _check(result: int, call: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def _number_here(numbers: Mapping[str, int], call: str) -> int:
    """Return the number of a system call on this architecture. Raises OSError with ENOSYS."""
    number = numbers.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"{call}: unknown on {os.uname().machine}")
    return number


def fork_plainly() -> int:
    """Fork as `os.fork` does, but without the handlers that modules have registered (`os.register_at_fork`).

    They make locks anew, of `threading` and `logging` for example, which nothing holds in a process with one thread,
    and seed the shared generator of `random`. The caller must have one thread, and the child must not use that
    generator.
    """
    pid = int(_libc_with_interpreter.fork())
    _check(pid, "fork")
    return pid


def unshare(flags: int) -> None:
    """Enter new namespaces of the types in `flags` (CLONE_NEW*)."""
    _check(_libc.unshare(flags), "unshare")


def setns(namespace: int | str, kind: int = 0) -> None:
    """Enter a namespace, given as a file descriptor or the path of its file."""
    if isinstance(namespace, int):
        _check(_libc.setns(namespace, kind), "setns")
        return
    fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(fd, kind), f"setns {namespace}")
    finally:
        os.close(fd)


def open_parent_namespace(namespace: int) -> int:
    """Return a descriptor of the parent of the user or PID namespace with the descriptor `namespace`."""
    result = _libc.ioctl(namespace, NS_GET_PARENT)
    _check(result, "ioctl(NS_GET_PARENT)")
    return int(result)


def mount(source: str, target: str, filesystem: str = "", flags: int = 0, data: str = "") -> None:
    _check(
        _libc.mount(source.encode(), target.encode(), filesystem.encode() or None, flags, data.encode() or None),
        f"mount {source} on {target}",
    )


def umount(target: str, flags: int = 0) -> None:
    _check(_libc.umount2(target.encode(), flags), f"umount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    number = _number_here(SYS_pivot_root, "pivot_root")
    _check(_libc.syscall(number, new_root.encode(), put_old.encode()), f"pivot_root {new_root}")


def open_watches() -> int:
    """Return a non-blocking descriptor of an inotify(7) queue."""
    fd = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    _check(fd, "inotify_init1")
    return int(fd)


def add_watch(queue: int, path: str, events: int) -> int:
    """Add a file, or a directory with the files in it, to an inotify queue, for `events` (IN_*). Return its number."""
    number = _libc.inotify_add_watch(queue, os.fsencode(path), events)
    _check(number, f"inotify_add_watch {path}")
    return int(number)


def watch_inode(path: str, events: int) -> int:
    """Return a non-blocking descriptor of an inotify(7) queue for `events` (IN_*) of one file."""
    fd = open_watches()
    try:
        add_watch(fd, path, events)
    except OSError:
        os.close(fd)
        raise
    return fd


def set_hostname(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), "sethostname")


def set_child_subreaper() -> None:
    """Become the parent of orphaned descendants."""
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def set_parent_death_signal(signal: int) -> None:
    """Receive `signal` when the parent thread ends."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def set_dumpable(is_dumpable: bool) -> None:
    """Set whether processes of the same user may read this one's memory.

    A change of user resets it to False, exec to True.
    """
    _check(_libc.prctl(PR_SET_DUMPABLE, int(is_dumpable), 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


def set_no_new_privileges() -> None:
    """Let no later exec grant privileges, neither by set-user-ID nor by file capabilities."""
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")


def set_process_name(name: str, title: str = "") -> None:
    """Set what `ps` and `top` show: `name`, cut to 15 bytes by the kernel, and `title` as the command line.

    A forked process has its parent's command line at the same addresses; the title is cut to what fits there.
    """
    _check(_libc.prctl(PR_SET_NAME, name.encode()[:_PROCESS_NAME_BYTES], 0, 0, 0), "prctl(PR_SET_NAME)")
    # The fields after the name, which may contain anything.
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    if 0 < start < end - 2:
        # If the last byte is not NUL, the kernel takes the memory for a title, which ends with its first NUL.
        text = (title or name).encode()[: end - start - 2]
        ctypes.memmove(start, text.ljust(end - start - 1, b"\0") + b" ", end - start)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


def set_mount_attributes(
    tree: int | str, attributes: int, *, user_namespace: int | None = None, recursive: bool = True
) -> None:
    """Set `attributes` (MOUNT_ATTR_*) of a mount and all below it, given as a path or as the descriptor of its root.

    Unlike a remount, the call keeps flags that a user namespace locked. With `user_namespace` (a descriptor) the mount,
    which must not be attached yet, shows owners as that namespace maps them.
    """
    if user_namespace is not None:
        attributes |= MOUNT_ATTR_IDMAP
    wanted = _MountAttributes(attributes, 0, 0, user_namespace or 0)
    by_path = isinstance(tree, str)
    _check(
        _libc.syscall(
            SYS_mount_setattr,
            AT_FDCWD if by_path else tree,
            str(tree).encode() if by_path else b"",
            (AT_RECURSIVE if recursive else 0) | (0 if by_path else AT_EMPTY_PATH),
            ctypes.byref(wanted),
            ctypes.sizeof(wanted),
        ),
        f"mount_setattr {tree}" if by_path else "mount_setattr",
    )


def clone_mount(tree: int | str, *, recursive: bool = True) -> int:
    """Copy the mount at a path or a descriptor, and return the copy's descriptor, for `attach_mount`."""
    by_path = isinstance(tree, str)
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (AT_RECURSIVE if recursive else 0)
    result = _libc.syscall(
        SYS_open_tree,
        AT_FDCWD if by_path else tree,
        str(tree).encode() if by_path else b"",
        flags if by_path else flags | AT_EMPTY_PATH,
    )
    _check(result, f"open_tree {tree}" if by_path else "open_tree")
    return int(result)


def attach_mount(mount: int, target: int) -> None:
    """Attach a copy of `clone_mount` on top of the directory or file with the descriptor `target`."""
    _check(
        _libc.syscall(SYS_move_mount, mount, b"", target, b"", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH),
        "move_mount",
    )


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def sync_file_system(descriptor: int) -> None:
    """Write what is not on the disk yet of the file system that the descriptor's file is in. Blocks."""
    _check(_libc.syncfs(descriptor), "syncfs")


def open_beneath(directory: int, path: str, flags: int, resolve: int, mode: int = 0) -> int:
    """Open `path` relative to the descriptor `directory` with the restrictions `resolve` (RESOLVE_*), close-on-exec.

    Raises OSError with EXDEV when RESOLVE_BENEATH is set and the path leads out. EAGAIN means that something was
    renamed in the meantime, so the kernel could not be sure; the call is repeated a bounded number of times.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    for _ in range(_OPENAT2_ATTEMPTS):
        result = _libc.syscall(SYS_openat2, directory, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if result >= 0 or ctypes.get_errno() != errno.EAGAIN:
            break
    _check(result, f"openat2 {path}")
    return int(result)


def drop_bounding_capabilities(kept: frozenset[int]) -> None:
    """Take all capabilities but `kept` (their numbers, capabilities(7)) from programs that are executed later."""
    for number in range(_MOST_CAPABILITIES):
        if number not in kept and _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            if ctypes.get_errno() == errno.EINVAL:
                break  # the kernel knows no more
            _check(-1, "prctl(PR_CAPBSET_DROP)")


def set_capabilities(kept: frozenset[int]) -> None:
    """Have the capabilities `kept` and no others, permitted and effective; none is inheritable."""
    number = _number_here(SYS_capset, "capset")
    mask = sum(1 << capability for capability in kept)
    header = (ctypes.c_uint32 * 2)(_LINUX_CAPABILITY_VERSION_3, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    _check(_libc.syscall(number, ctypes.byref(header), ctypes.byref(data)), "capset")


def join_session_keyring() -> None:
    """Replace the inherited session keyring by a new, empty one."""
    number = SYS_keyctl.get(os.uname().machine)
    if number is not None:
        _check(_libc.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None), "keyctl(KEYCTL_JOIN_SESSION_KEYRING)")
