"""Paths below a directory that pods may change at any time, resolved on the directory's descriptor by openat2(2).

A container can replace a directory by a link while another container is set up, so a path that was checked by name may
lead elsewhere when it is used by name. Here every step starts from a descriptor, and the kernel keeps it beneath a
volume (links that lead out are errors) or in a container's root (links are resolved in that root, as after chroot(2)).
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from typing import Final

from bridgehead.network import syscalls

_BENEATH: Final = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_MAGICLINKS
_IN_ROOT: Final = syscalls.RESOLVE_IN_ROOT | syscalls.RESOLVE_NO_MAGICLINKS


class EscapesVolume(OSError):
    """The path leads out of the volume."""


def open_beneath(directory: int, path: str, *, keeps_owner: bool = False) -> int:
    """An O_PATH descriptor of `path` beneath `directory`; a directory is made if nothing is there.

    Directories that are made get the mode of `directory`, as those that a kubelet makes for a subPath, and with
    `keeps_owner` its owner. Raises `EscapesVolume`, OSError.
    """
    try:
        found = os.fstat(directory)
        owner = (found.st_uid, found.st_gid) if keeps_owner else None
        return _open_or_make(directory, path, _BENEATH, stat.S_IMODE(found.st_mode), owner)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP):
            raise EscapesVolume(error.errno, "it leads out of the volume") from error
        raise


def open_source(path: str, *, links: bool) -> int:
    """An O_PATH descriptor of an absolute path of the node. Without `links`, a symbolic link in it is an error (ELOOP).

    Raises OSError.
    """
    if links:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_in_root(root, path, links=False)
    finally:
        os.close(root)


def open_in_root(root: int, path: str, *, links: bool = True) -> int:
    """An O_PATH descriptor of `path` as a process with the root directory `root` resolves it.

    Without `links` a symbolic link in the path is an error (ELOOP). Raises OSError.
    """
    return syscalls.open_beneath(root, path, os.O_PATH, _resolve(links))


def make_directory_in_root(root: int, path: str, *, links: bool = True) -> int:
    """Open a directory as `open_in_root` does; directories are made if nothing is there."""
    return _open_or_make(root, path, _resolve(links), 0o755)


def make_file_in_root(root: int, path: str, *, links: bool = True) -> int:
    """Open a file as `open_in_root` does; an empty one is made if nothing is there, with the directories that it lies
    in."""
    try:
        return open_in_root(root, path, links=links)
    except FileNotFoundError:
        directory, name = posixpath.split(posixpath.normpath(path))
        parent = make_directory_in_root(root, directory, links=links)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o644, dir_fd=parent))
        finally:
            os.close(parent)
        return open_in_root(root, path, links=links)


def _resolve(links: bool) -> int:
    return _IN_ROOT if links else _IN_ROOT | syscalls.RESOLVE_NO_SYMLINKS


def _open_or_make(directory: int, path: str, resolve: int, mode: int, owner: tuple[int, int] | None = None) -> int:
    try:
        return syscalls.open_beneath(directory, path, os.O_PATH, resolve)
    except FileNotFoundError:
        outer, name = posixpath.split(posixpath.normpath(path))
        parent = _open_or_make(directory, outer or ".", resolve, mode, owner)
        try:
            os.mkdir(name, mode, dir_fd=parent)
            made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            if owner is not None:
                os.fchown(made, *owner)
            os.fchmod(made, mode)  # whatever the umask is
            os.close(made)
        except FileExistsError:
            pass  # made meanwhile, or a dangling link: the next attempt succeeds or fails
        finally:
            os.close(parent)
        return syscalls.open_beneath(directory, path, os.O_PATH, resolve)
