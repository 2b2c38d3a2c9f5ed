"""The few system calls that Python 3.11 does not offer: namespaces, mounts and what goes with them.

Source: unshare(2), setns(2), mount(2), open_tree(2), move_mount(2), mount_setattr(2), openat2(2), pivot_root(2),
prctl(2), inotify(7). Every function raises OSError with the call's name.
"""

from __future__ import annotations

import ctypes
import errno
import os

# Without libc's header files the numbers are ours to know; they are the same on every architecture.
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

IN_ATTRIB = 0x4

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8
_MOUNT_ATTR_IDMAP = 0x100000

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RESOLVE_IN_ROOT = 0x10

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_NS_GET_PARENT = 0xB702
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
# pivot_root has no wrapper in glibc.
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}

# The same number everywhere, as for every call since Linux 5.0.
_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_OPENAT2 = 437
_SYS_MOUNT_SETATTR = 442
_OPEN_TREE_CLONE = 1
_OPEN_TREE_CLOEXEC = os.O_CLOEXEC
_AT_EMPTY_PATH = 0x1000
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_MOVE_MOUNT_T_EMPTY_PATH = 0x40
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91, "riscv64": 91}
_SYS_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}
_KEYCTL_JOIN_SESSION_KEYRING = 1
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_CAPABILITY_VERSION_3 = 0x20080522
_OPEN_ATTEMPTS = 1000

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, call: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces that `flags` (CLONE_NEW*) name for new ones."""
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
    """A descriptor of the namespace above the user or PID namespace that `namespace` is a descriptor of."""
    result = _libc.ioctl(namespace, _NS_GET_PARENT)
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
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"pivot_root: unknown on {os.uname().machine}")
    _check(_libc.syscall(number, new_root.encode(), put_old.encode()), f"pivot_root {new_root}")


def watch_inode(path: str, events: int) -> int:
    """The descriptor of an inotify(7) queue that tells of `events` (IN_*) at one file. It does not block."""
    fd = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    _check(fd, "inotify_init1")
    try:
        _check(_libc.inotify_add_watch(fd, path.encode(), events), f"inotify_add_watch {path}")
    except OSError:
        os.close(fd)
        raise
    return int(fd)


def set_hostname(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), "sethostname")


def set_child_subreaper() -> None:
    """Become the parent of orphaned descendants."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def set_parent_death_signal(signal: int) -> None:
    """Receive `signal` when the parent thread ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def set_dumpable(is_dumpable: bool) -> None:
    """Whether processes of the same user may read this one's memory. A change of user resets it to no, exec to yes."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, int(is_dumpable), 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


def set_no_new_privileges() -> None:
    """From here on no exec grants privileges: neither set-user-ID nor file capabilities."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")


def set_process_name(name: str, title: str = "") -> None:
    """What `ps` and `top` show: `name`, cut to 15 bytes by the kernel, and `title` as the command line.

    A forked process has its parent's command line, at the same place; the title is cut to what fits there.
    """
    _check(_libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0), "prctl(PR_SET_NAME)")
    # The fields after the name, which may contain anything, from the 3rd on: proc_pid_stat(5).
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end - 2:
        # Without a NUL as its last byte the kernel takes the place for a title, which ends with its first NUL.
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

    Unlike a remount it leaves flags that a user namespace locked alone. With `user_namespace` (a descriptor) the mount,
    which must not be attached yet, shows owners as that namespace maps them.
    """
    if user_namespace is not None:
        attributes |= _MOUNT_ATTR_IDMAP
    wanted = _MountAttributes(attributes, 0, 0, user_namespace or 0)
    by_path = isinstance(tree, str)
    _check(
        _libc.syscall(
            _SYS_MOUNT_SETATTR,
            _AT_FDCWD if by_path else tree,
            str(tree).encode() if by_path else b"",
            (_AT_RECURSIVE if recursive else 0) | (0 if by_path else _AT_EMPTY_PATH),
            ctypes.byref(wanted),
            ctypes.sizeof(wanted),
        ),
        f"mount_setattr {tree}" if by_path else "mount_setattr",
    )


def clone_mount(tree: int | str, *, recursive: bool = True) -> int:
    """A copy of the mount at a path or a descriptor, attached nowhere yet: its descriptor (for `attach_mount`)."""
    by_path = isinstance(tree, str)
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | (_AT_RECURSIVE if recursive else 0)
    result = _libc.syscall(
        _SYS_OPEN_TREE,
        _AT_FDCWD if by_path else tree,
        str(tree).encode() if by_path else b"",
        flags if by_path else flags | _AT_EMPTY_PATH,
    )
    _check(result, f"open_tree {tree}" if by_path else "open_tree")
    return int(result)


def attach_mount(mount: int, target: int) -> None:
    """Attach what `clone_mount` made on top of the directory or file that the descriptor `target` is open on."""
    _check(
        _libc.syscall(_SYS_MOVE_MOUNT, mount, b"", target, b"", _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH),
        "move_mount",
    )


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(directory: int, path: str, flags: int, resolve: int, mode: int = 0) -> int:
    """Open `path` relative to the descriptor `directory`, as `resolve` (RESOLVE_*) says. The descriptor closes at exec.

    EXDEV: with RESOLVE_BENEATH the path leads out. EAGAIN: the kernel could not be sure, because something was renamed
    in the meantime; it is asked again, a bounded number of times.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    for _ in range(_OPEN_ATTEMPTS):
        result = _libc.syscall(_SYS_OPENAT2, directory, path.encode(), ctypes.byref(how), ctypes.sizeof(how))
        if result >= 0 or ctypes.get_errno() != errno.EAGAIN:
            break
    _check(result, f"openat2 {path}")
    return int(result)


def drop_bounding_capabilities(kept: frozenset[int]) -> None:
    """Take all capabilities but `kept` (their numbers, capabilities(7)) from what is executed from here on."""
    for number in range(64):
        if number not in kept and _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            if ctypes.get_errno() == errno.EINVAL:
                break  # past the last one that this kernel knows
            _check(-1, "prctl(PR_CAPBSET_DROP)")


def set_capabilities(kept: frozenset[int]) -> None:
    """Have the capabilities `kept` and no others, permitted and effective; none is inheritable."""
    machine = os.uname().machine
    if machine not in _SYS_CAPSET:
        raise OSError(errno.ENOSYS, f"capset: unknown on {machine}")
    mask = sum(1 << capability for capability in kept)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    _check(_libc.syscall(_SYS_CAPSET[machine], ctypes.byref(header), ctypes.byref(data)), "capset")


def join_session_keyring() -> None:
    """Leave the session keyring that was inherited for a new, empty one."""
    number = _SYS_KEYCTL.get(os.uname().machine)
    if number is not None:
        _check(_libc.syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None), "keyctl(KEYCTL_JOIN_SESSION_KEYRING)")
