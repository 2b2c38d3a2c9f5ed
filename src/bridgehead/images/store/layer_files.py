"""The files of a layer, made one after another from the entries of its archive.

The archive is not trusted. Every path is resolved by the kernel with the layer as its root (openat2(2),
RESOLVE_IN_ROOT), so that neither `..` nor any link leads out of it; the last component is never followed. Devices are
not made: a container has its own /dev.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable
from typing import Final

from bridgehead.images.errors import BadImage
from bridgehead.network import syscalls

from . import entries, implied_directories, tar_headers, whiteouts
from .tar_stream import Member

_RESOLVE: Final = syscalls.RESOLVE_IN_ROOT | syscalls.RESOLVE_NO_MAGICLINKS
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY
_OWN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH: Final = 200  # directories; deeper ones could not be removed any more
_OPEN_DIRECTORIES: Final = 32  # archives return to directories that they were in a moment ago
_MAX_TIMES: Final = 100_000  # directories; what bounds the memory for a layer of a million of them
_NO_ID: Final = 0xFFFF_FFFF  # (uid_t) -1, which lets chown(2) change nothing
_DEVICES: Final = (tar_headers.CHARACTER_DEVICE, tar_headers.BLOCK_DEVICE)


class LayerFiles:
    """Makes entries below the descriptor `root`. `current` is the path of the last one.

    `skipped_devices` and `foreign_owners` (entries of ids that do not exist here) are counts. Methods raise `BadImage`,
    OSError, and ValueError for paths that no file can have.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._depth = _count_parents(root)
        self._open: dict[str, int] = {}  # directories by their paths, the least recently used first
        self._is_moved = False  # paths of open directories can lead elsewhere now
        self._times: dict[str, int] = {}  # of directories, which are set when nothing is made in them any more
        self._has_whiteouts = False
        self._has_implied = False
        self.skipped_devices = 0
        self.foreign_owners = 0
        self.current = ""

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def finish(self) -> None:
        """Complete the layer, after its last entry."""
        self._set_times()
        if self._has_whiteouts:
            whiteouts.mark_present(self._root)
        if self._has_implied:
            implied_directories.mark(self._root)

    def _set_times(self) -> None:
        """Set the times of the directories that were made. Files that are made in them later change them."""
        for path, time in self._times.items():
            with contextlib.suppress(OSError, OverflowError):
                directory = syscalls.open_beneath(self._root, path, os.O_RDONLY | os.O_DIRECTORY, _RESOLVE)
                try:
                    os.utime(directory, ns=(time, time))
                finally:
                    os.close(directory)
        self._times.clear()

    def add(self, member: Member, data: Iterable[memoryview]) -> None:
        """Make one entry. `data` is its content, without the holes of a sparse file."""
        header = member.header
        self.current = header.name[:200]
        entry = entries.target_of(header.name)
        if entry.kind == entries.IGNORED:
            return
        if entry.kind == entries.FILE and not entry.name:
            if header.kind == tar_headers.DIRECTORY:
                self._set_attributes(self._root, member)
            return
        if header.kind in _DEVICES:
            self.skipped_devices += 1
            return
        if self._is_moved:
            self.close()
            self._is_moved = False
        parent = self._open_parent(entry.directory)
        if entry.kind == entries.OPAQUE:
            whiteouts.hide_all(parent)
        elif entry.kind == entries.WHITEOUT:
            whiteouts.hide(parent, entry.name)
            self._has_whiteouts = True
        elif header.kind == tar_headers.DIRECTORY:
            self._make_directory(parent, entry, member)
        else:
            try:
                self._make(member, data, parent, entry.name)
            except FileExistsError:
                self._remove_earlier(parent, entry.name)
                self._make(member, data, parent, entry.name)

    def _make(self, member: Member, data: Iterable[memoryview], parent: int, name: str) -> None:
        """Raises FileExistsError, before anything of `data` is used, when an earlier entry has the name."""
        header = member.header
        if header.kind == tar_headers.SYMBOLIC_LINK:
            os.symlink(header.link, name, dir_fd=parent)
            self._set_owner(member, name, parent)
            with contextlib.suppress(OSError, OverflowError):
                os.utime(name, ns=(header.mtime, header.mtime), dir_fd=parent, follow_symlinks=False)
        elif header.kind == tar_headers.HARD_LINK:
            self._link(header.link, parent, name)
        elif header.kind == tar_headers.FIFO:
            os.mkfifo(name, 0o600, dir_fd=parent)
            fifo = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            try:
                self._set_attributes(fifo, member)
            finally:
                os.close(fifo)
        else:
            file = os.open(name, _NEW_FILE, 0o600, dir_fd=parent)
            try:
                _write(file, member, data)
                self._set_attributes(file, member)
            finally:
                os.close(file)

    def _link(self, target: str, parent: int, name: str) -> None:
        parts = entries.clean_path(target)
        if not parts:
            raise BadImage("a layer has a hard link to its root")
        directory = syscalls.open_beneath(self._root, "/".join(parts[:-1]) or ".", _DIRECTORY, _RESOLVE)
        try:
            os.link(parts[-1], name, src_dir_fd=directory, dst_dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(directory)

    def _make_directory(self, parent: int, entry: entries.Target, member: Member) -> None:
        is_hidden = False
        try:
            os.mkdir(entry.name, 0o755, dir_fd=parent)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(entry.name, dir_fd=parent, follow_symlinks=False).st_mode):
                is_hidden = whiteouts.is_whiteout(parent, entry.name)  # lower layers' directory must not show through
                self._remove_earlier(parent, entry.name)
                os.mkdir(entry.name, 0o755, dir_fd=parent)
        directory = os.open(entry.name, _OWN_DIRECTORY, dir_fd=parent)
        try:
            self._set_attributes(directory, member)
            if self._has_implied:  # perhaps this directory was, until now
                implied_directories.unmark(directory)
            if is_hidden:
                whiteouts.hide_all(directory)
        finally:
            os.close(directory)
        if len(self._times) >= _MAX_TIMES:
            self._set_times()
        self._times[f"{entry.directory}/{entry.name}"] = member.header.mtime

    def _remove_earlier(self, parent: int, name: str) -> None:
        """Remove what an earlier entry made under that name."""
        try:
            os.unlink(name, dir_fd=parent)
        except IsADirectoryError:
            shutil.rmtree(name, dir_fd=parent)
        self._is_moved = True

    def _open_parent(self, path: str) -> int:
        """Open the directory of an entry, and make it if it is missing."""
        if path.count("/") >= _MAX_DEPTH:
            raise BadImage(f"a layer has more than {_MAX_DEPTH} nested directories")
        found = self._open.pop(path, -1)
        if found < 0:
            if len(self._open) >= _OPEN_DIRECTORIES:
                os.close(self._open.pop(next(iter(self._open))))
            found = self._open_directory(path)
        self._open[path] = found
        return found

    def _open_directory(self, path: str) -> int:
        try:
            found = syscalls.open_beneath(self._root, path, _DIRECTORY, _RESOLVE)
        except (FileNotFoundError, NotADirectoryError):
            outer, _, name = path.rpartition("/")
            parent = self._open_directory(outer or ".")
            try:
                _make_parent(parent, name)
                implied_directories.mark(parent, name)
                self._has_implied = True
            finally:
                os.close(parent)
            found = syscalls.open_beneath(self._root, path, _DIRECTORY, _RESOLVE)
        if _count_parents(found) - self._depth > _MAX_DEPTH:
            os.close(found)
            raise BadImage(f"a layer has more than {_MAX_DEPTH} nested directories")
        return found

    def _set_attributes(self, fd: int, member: Member) -> None:
        header = member.header
        is_owned = self._set_owner(member, fd)
        # After the owner, whose change clears the set-user-ID bit. A program of an owner who does not exist here must
        # not run as root instead.
        os.fchmod(fd, header.mode if is_owned else header.mode & ~(stat.S_ISUID | stat.S_ISGID))
        if member.records:
            for name, value in entries.extended_attributes(member.records).items():
                with contextlib.suppress(OSError):  # this file system or user namespace lacks it
                    os.setxattr(fd, name, value)
        with contextlib.suppress(OSError, OverflowError):
            os.utime(fd, ns=(header.mtime, header.mtime))

    def _set_owner(self, member: Member, file: int | str, parent: int | None = None) -> bool:
        """Set the owner, where the user namespace has such ids; else the file is root's. Returns whether it was set."""
        header = member.header
        try:
            if _NO_ID in (header.uid & _NO_ID, header.gid & _NO_ID):
                raise OverflowError
            if isinstance(file, int):
                os.fchown(file, header.uid, header.gid)
            else:
                os.chown(file, header.uid, header.gid, dir_fd=parent, follow_symlinks=False)
        except (OSError, OverflowError) as error:
            if isinstance(error, OSError) and error.errno not in (errno.EINVAL, errno.EPERM):
                raise
            self.foreign_owners += 1
            return False
        return True


def _make_parent(directory: int, name: str) -> None:
    """Make a directory, also in the place of a whiteout, which hides what lower layers have, but not this layer's own
    files. Raises OSError (ENOTDIR) when anything else is there."""
    try:
        os.mkdir(name, 0o755, dir_fd=directory)
    except FileExistsError:
        if not whiteouts.is_whiteout(directory, name):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    else:
        return
    os.unlink(name, dir_fd=directory)
    os.mkdir(name, 0o755, dir_fd=directory)
    whiteouts.hide_all(directory, name)


def _write(file: int, member: Member, data: Iterable[memoryview]) -> None:
    """Write the content of a file; what a sparse file does not have stays a hole."""
    if len(member.regions) == 1 and member.size == member.header.size:
        for view in data:
            _write_all(file, view)
        return
    regions = iter(member.regions)
    left = 0
    for view in data:
        rest = view
        while rest:
            if not left:
                offset, left = next(regions)
                os.lseek(file, offset, os.SEEK_SET)
            _write_all(file, rest[:left])
            rest, left = rest[left:], max(left - len(rest), 0)
    os.ftruncate(file, member.size)


def _write_all(file: int, data: memoryview) -> None:
    while data:
        data = data[os.write(file, data) :]


def _count_parents(directory: int) -> int:
    return os.readlink(f"/proc/self/fd/{directory}").count("/")
