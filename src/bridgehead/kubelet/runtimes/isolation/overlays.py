"""Overlays: the mount, and the question whether this kernel lets a node have one over given directories.

overlayfs is refused where the kernel lacks it or forbids it in user namespaces (before Linux 5.11, EPERM), and over
some file systems (EINVAL): those that ignore case, and those that are overlays over overlays already. Source: the
kernel's documentation of overlayfs.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Collection, Sequence
from typing import Final

from bridgehead.kubelet.runtimes.isolation import mounting
from bridgehead.kubelet.runtimes.isolation.rootfs import RootFailure
from bridgehead.network import syscalls

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


def find_refusals(lowers: Sequence[str], base: str) -> dict[str, str]:
    """Return for each of the directories `lowers` why no container can have an overlay over it, "" if it can.

    A forked process tries it, in a mount namespace of its own, as containers do: with a tmpfs for what is written, at
    the empty directory `base`. The caller must have no other threads.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, bytes(_try(lowers, base)))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answers:
        # Without an answer containers fail for another reason, and name it.
        numbers = answers.read().ljust(len(lowers), b"\0")
    os.waitpid(pid, 0)
    return {
        lower: _describe(OSError(number, "")) if number in _REFUSALS else ""
        for lower, number in zip(lowers, numbers, strict=True)
    }


def _try(lowers: Sequence[str], base: str) -> list[int]:
    """Return the errno of an overlay over each directory, 0 for success. Mounts in this process's new namespace."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", base, "tmpfs", syscalls.MS_NODEV, "mode=755")
    numbers = []
    for number, lower in enumerate(lowers):
        root, upper, work = (f"{base}/{name}{number}" for name in ("root", "upper", "work"))
        for directory in (root, upper, work):
            os.mkdir(directory)
        try:
            _mount([lower], root, f"upperdir={upper},workdir={work},userxattr")
            numbers.append(0)
        except OSError as error:
            numbers.append(error.errno or 0)
    return numbers


def _mount(lowers: Collection[str], target: str, options: str) -> None:
    directory = ""
    if len(lowers) > 1:
        # All are layers of one store. Relative names, because all options have to fit into one page; and what is
        # opaque in a layer says so by an attribute that a user namespace can set.
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
