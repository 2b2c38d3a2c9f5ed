"""Copies of directories with all that belongs to their files: owners, modes, times, extended attributes, hard links and
holes.

Called while a container's root is built, for directories of images, which nobody changes meanwhile. Devices are left
out, as when layers are unpacked. Source: containerd's `fs.CopyDir`; the kernel's overlayfs documentation (whiteouts,
opaque directories, `userxattr`).
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bridgehead.images.store import whiteouts
from bridgehead.images.store.file_attributes import copy_attributes, get_attribute
from bridgehead.kubelet.nofollow import remove_tree
from bridgehead.network import syscalls

from . import mounting
from .rootfs import RootFailure

_CHUNK: Final = 1 << 20
# The kernel does not copy between these two files; a program can.
_CANNOT_COPY: Final = (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM)


def copy_directory(source: str, target: str) -> None:
    """Copy the content and the attributes of the directory `source` to the directory `target`, over what is there.

    A whiteout in `source` removes a file of `target`, an opaque directory all that is in it, so that layers that are
    copied over each other become what their overlay shows. Raises OSError, also where `source` is no directory.
    """
    _copy_content(source, target, {})


def show_copy(layers: Iterable[str], directory: str, shown: str) -> None:
    """Copy layers, the lowest first, to a new directory, and mount that at the directory `shown`.

    Raises `RootFailure`.
    """
    try:
        remove_tree(Path(directory))  # of a start that was not completed
        os.makedirs(directory)
    except OSError as error:
        raise RootFailure(f"failed to make a directory for a copy of the image: {mounting.describe(error)}") from error
    mounting.mount(directory, shown, "", syscalls.MS_BIND)
    syscalls.set_mount_attributes(shown, syscalls.MOUNT_ATTR_NODEV)
    copy_layers(layers, directory)


def copy_layers(layers: Iterable[str], directory: str) -> None:
    """Copy layers, the lowest first, to a directory. Raises `RootFailure`."""
    try:
        for layer in layers:
            copy_directory(layer, directory)
    except OSError as error:
        raise RootFailure(f"failed to copy the image: {mounting.describe(error)}") from error


def _copy_content(source: str, target: str, links: dict[tuple[int, int], str]) -> None:
    """`links`: device and inode of each copied file with several names -> the first copy."""
    with os.scandir(source) as entries:
        for entry in entries:
            _copy_entry(entry.path, f"{target}/{entry.name}", entry.stat(follow_symlinks=False), links)
    copy_attributes(source, target, os.stat(source))


def _copy_entry(source: str, target: str, found: os.stat_result, links: dict[tuple[int, int], str]) -> None:
    if stat.S_ISDIR(found.st_mode):
        _make_directory(target, is_empty=whiteouts.is_opaque(source))
        _copy_content(source, target, links)
        return
    _remove(target)
    if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode) or _is_whiteout_file(source, found):
        return
    if found.st_nlink > 1:
        first = links.setdefault((found.st_dev, found.st_ino), target)
        if first != target:
            os.link(first, target, follow_symlinks=False)
            return
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(found.st_mode):
        _copy_file(source, target)
    else:
        os.mknod(target, stat.S_IFMT(found.st_mode) | 0o600)
    copy_attributes(source, target, found)


def _make_directory(path: str, *, is_empty: bool) -> None:
    """Make a directory in the place of anything else. An earlier one stays unless it is to be empty."""
    try:
        os.mkdir(path)
    except FileExistsError:
        if stat.S_ISDIR(os.lstat(path).st_mode) and not is_empty:
            return
        _remove(path)
        os.mkdir(path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except IsADirectoryError:
        shutil.rmtree(path)


def _is_whiteout_file(path: str, found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and not found.st_size and get_attribute(path, whiteouts.WHITEOUT) is not None


def _copy_file(source: str, target: str) -> None:
    """Copy the data of a file; what is a hole stays one. File systems that can share blocks do (copy_file_range(2))."""
    with open(source, "rb", buffering=0) as reading, open(target, "xb", buffering=0) as writing:
        for begin, end in _regions(reading.fileno()):
            _copy_region(reading.fileno(), writing.fileno(), begin, end)
        writing.truncate(os.fstat(reading.fileno()).st_size)


def _regions(descriptor: int) -> Iterable[tuple[int, int]]:
    """Yield where a file has data: offsets of beginnings and ends."""
    end = 0
    while True:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole follows
                return
            raise
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        yield begin, end


def _copy_region(reading: int, writing: int, begin: int, end: int) -> None:
    while begin < end:
        try:
            copied = os.copy_file_range(reading, writing, end - begin, begin, begin)
        except OSError as error:
            if error.errno not in _CANNOT_COPY:
                raise
            copied = os.pwrite(writing, os.pread(reading, min(end - begin, _CHUNK), begin), begin)
        if not copied:
            raise OSError(errno.EIO, "the file became shorter")
        begin += copied
