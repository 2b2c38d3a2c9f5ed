"""Overlays: the mount, and the question whether this kernel lets a node have one over given directories.

overlayfs is refused where the kernel lacks it or forbids it in user namespaces (before Linux 5.11, EPERM), and over
some file systems (EINVAL): those that ignore case, and those that are overlays over overlays already. Source: the
kernel's documentation of overlayfs.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Collection
from pathlib import Path
from typing import Final

from bridgehead.images.store import whiteouts
from bridgehead.network import syscalls

from . import mounting
from .rootfs import RootFailure

_REFUSALS: Final = (errno.EINVAL, errno.EPERM, errno.EACCES, errno.ENODEV, errno.ENOSYS, errno.EOPNOTSUPP)


def mount_overlay(lowers: Collection[str], target: str, options: str = "") -> None:
    """Mount an overlay over `lowers`, the highest first; without `options` it is read-only. Raises `RootFailure`."""
    top = next(iter(lowers))
    try:
        _mount(lowers, target, options)
    except OSError as error:
        raise RootFailure(
            f"failed to mount an overlay on {top}: {_describe(error)} (needed: overlayfs, Linux 5.11 in a user"
            " namespace)"
        ) from error


def find_refusals(store: str, host: str, base: str) -> tuple[str, str]:
    """Return why no container can have an overlay over the layers in the directory `store`, "" if it can, and why not
    over a directory of the host.

    A store on an overlay has whiteouts that are files: there, the kernel has to recognize them (EOPNOTSUPP).
    A forked process tries it, in a mount namespace of its own, as containers do: with a tmpfs for what is written, at
    the empty directory `base`. The caller must have no other threads.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, bytes(_try(store, host, base)))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answers:
        # If there is no answer, containers fail for another reason, and name it.
        numbers = answers.read().ljust(2, b"\0")
    os.waitpid(pid, 0)
    over_store, over_host = (_describe(OSError(number, "")) if number in _REFUSALS else "" for number in numbers)
    return over_store, over_host


def _try(store: str, host: str, base: str) -> tuple[int, int]:
    """Return the errno of an overlay over each directory, 0 for success. Mounts in this process's new namespace."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", base, "tmpfs", syscalls.MS_NODEV, "mode=755")
    over_store = _try_one(store, f"{base}/store", "userxattr")
    if not over_store and _is_overlay(store) and not _finds_whiteout_files(f"{base}/whiteouts"):
        over_store = errno.EOPNOTSUPP
    return over_store, _try_one(host, f"{base}/host")


def _try_one(lower: str, base: str, options: str = "") -> int:
    for name in ("root", "upper", "work"):
        os.makedirs(f"{base}/{name}")
    try:
        _mount([lower], f"{base}/root", f"upperdir={base}/upper,workdir={base}/work,{options}")
    except OSError as error:
        return error.errno or 0
    return 0


def _finds_whiteout_files(base: str) -> bool:
    """Return whether an overlay of this kernel recognizes whiteouts that are files, by one at the new path `base`."""
    for name in ("root", "lower", "upper"):
        os.makedirs(f"{base}/{name}")
    for name in ("lower", "upper"):
        Path(base, name, "file").touch()
    try:
        os.setxattr(f"{base}/upper/file", whiteouts.WHITEOUT, b"")
        os.setxattr(f"{base}/upper", whiteouts.OPAQUE, whiteouts.HAS_WHITEOUTS)
        _mount([f"{base}/upper", f"{base}/lower"], f"{base}/root", "")
    except OSError:
        return False
    return not os.path.exists(f"{base}/root/file")


def _is_overlay(path: str) -> bool:
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        mounts = [line.split(" - ", 1) for line in file]
    return any(what.split()[2] == wanted and kind.split()[0] == "overlay" for what, kind in mounts)


def _mount(lowers: Collection[str], target: str, options: str) -> None:
    directory = ""
    if len(lowers) > 1:
        # All are layers of one store. Names are relative, because all options have to fit into one page; opaque
        # directories of a layer have an attribute that a user namespace can set.
        directory = posixpath.dirname(next(iter(lowers)))
        lowers = [posixpath.relpath(lower, directory) for lower in lowers]
        options += ",userxattr"
    lower = ":".join(map(_escape, lowers))
    before = os.open(".", os.O_PATH | os.O_CLOEXEC)
    try:
        if directory:
            os.chdir(directory)
        data = ",".join(filter(None, (f"lowerdir={lower}", *options.split(","))))
        syscalls.mount("overlay", target, "overlay", syscalls.MS_NODEV, data)
    finally:
        os.fchdir(before)
        os.close(before)


def _describe(error: OSError) -> str:
    return "this kernel has no overlayfs" if error.errno == errno.ENODEV else mounting.describe(error)


def _escape(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
