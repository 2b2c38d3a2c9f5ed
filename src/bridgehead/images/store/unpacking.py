"""Unpacking of a layer into a directory, in the form in which overlayfs takes it as a lower directory.

The archive is not trusted. Every path is resolved by the kernel with the directory as its root (openat2(2),
RESOLVE_IN_ROOT), so that neither `..` nor any link leads out of it; the last component is never followed. Devices are
not made: a container has its own /dev. Source: OCI image specification, "Image Layer Filesystem Changeset"; the
kernel's overlayfs documentation (whiteouts, opaque directories, `userxattr`).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, BinaryIO, Final, cast

import msgspec

from bridgehead.images.errors import BadImage, StoreFailed
from bridgehead.network import syscalls

from . import entries
from .compression import LayerReader
from .content import ContentStore, check_space

log = logging.getLogger(__name__)

_RESOLVE: Final = syscalls.RESOLVE_IN_ROOT | syscalls.RESOLVE_NO_MAGICLINKS
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY
# The attribute in a user namespace, where nobody may set "trusted." ones; mounts have the option "userxattr".
_OPAQUE_XATTR: Final = "user.overlay.opaque"
_MAX_DEPTH: Final = 200  # directories; deeper ones could not be removed any more
_CHECK_EVERY: Final = 64 << 20  # bytes
_CHUNK: Final = 1 << 20
_BLOCK: Final = 1 << 18
_MAX_EXTENSION: Final = 1 << 20  # bytes; Go's archive/tar, and so containerd, has the same bound
_EXTENSIONS: Final = frozenset(
    (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
)


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The most that one layer may have. The disk's free space is a bound of its own."""

    size: int = 64 << 30  # bytes, uncompressed
    entries: int = 4_000_000


_BOUNDS: Final = Bounds()


class Unpacked(msgspec.Struct, kw_only=True):
    """The result of unpacking. `skipped_devices` and `foreign_owners` (ids that do not exist here) count entries."""

    entries: int = 0
    size: int = 0
    skipped_devices: int = 0
    foreign_owners: int = 0


def unpack(blob: Path, diff_id: str, target: Path, bounds: Bounds = _BOUNDS) -> Unpacked:
    """Unpack the layer in the file `blob` into the empty directory `target`. `diff_id` is its digest when uncompressed.

    Raises `BadImage`, `StoreFailed`; the caller then removes `target`.
    """
    result = Unpacked()
    root = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    unchecked = 0

    def count(size: int) -> None:
        nonlocal unchecked
        result.size += size
        unchecked += size
        if result.size > bounds.size:
            raise BadImage(f"the layer has more than {bounds.size} bytes")
        if unchecked > _CHECK_EVERY:
            unchecked = 0
            check_space(root, _CHECK_EVERY)

    unpacker = _Unpacker(root, result, count)
    try:
        with open(blob, "rb") as file:
            reader = LayerReader(file, diff_id.partition(":")[0], count)
            # "r|": a stream, which is read once from its beginning to its end.
            with tarfile.open(
                fileobj=cast(IO[bytes], reader), mode="r|", bufsize=_BLOCK, errorlevel=2, tarinfo=_Member
            ) as archive:
                for member in archive:
                    result.entries += 1
                    if result.entries > bounds.entries:
                        raise BadImage(f"the layer has more than {bounds.entries} entries")
                    unpacker.add(archive, member)
                    archive.members.clear()  # type: ignore[attr-defined]  # otherwise all of them stay in memory
            reader.drain()
        unpacker.finish()
    except tarfile.TarError as error:
        raise BadImage(f"the layer is not a tar archive: {error}") from error
    except (ValueError, OverflowError, EOFError) as error:
        raise BadImage(f"the layer has an invalid entry: {error}") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS):
            raise StoreFailed(f"cannot unpack the layer: {error.strerror}") from error
        raise BadImage(f"the layer has an entry that cannot be made: {error.strerror}: {unpacker.current!r}") from error
    finally:
        unpacker.close()
        os.close(root)
    if reader.digest != diff_id:
        raise BadImage(f"the layer is {reader.digest} when it is unpacked, not {diff_id}")
    return result


def add_layer(store: ContentStore, digest: str, diff_id: str) -> None:
    """Unpack the layer in the blob `digest` to the store, which may have it. Blocks. Raises `ImageError`; nothing is
    left behind then."""
    if store.layer_path(diff_id).is_dir():
        return
    with store.new_layer(diff_id) as directory:
        unpacked = unpack(store.blob_path(digest), diff_id, directory)
    if unpacked.skipped_devices:
        log.info("layer %s: %d devices were not made", diff_id, unpacked.skipped_devices)
    if unpacked.foreign_owners:
        log.warning(
            "layer %s: %d files belong to users or groups that this lab does not have, and are root's instead; it has"
            " them with newuidmap (Debian: apt-get install uidmap) and a range in /etc/subuid and /etc/subgid",
            diff_id,
            unpacked.foreign_owners,
        )


class _Member(tarfile.TarInfo):
    """An entry. Long names and PAX headers are bounded, because `tarfile` reads them into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        member = super().frombuf(buf, encoding, errors)
        if member.type in _EXTENSIONS and member.size > _MAX_EXTENSION:
            raise BadImage(f"the layer has a header of {member.size} bytes, more than {_MAX_EXTENSION}")
        return member


class _Unpacker:
    """Makes the entries of one archive below the descriptor `root`. `current` is the path of the last one.

    `count` is called with the numbers of bytes that are written, but are not in the archive: holes of sparse files.
    """

    def __init__(self, root: int, result: Unpacked, count: Callable[[int], None]) -> None:
        self._root = root
        self._result = result
        self._count = count
        self._parent = ("", -1)  # the last directory that an entry was in, and its descriptor
        self._times: dict[str, float] = {}  # of directories, which are set when nothing is made in them any more
        self.current = ""

    def close(self) -> None:
        if self._parent[1] >= 0:
            os.close(self._parent[1])
            self._parent = ("", -1)

    def finish(self) -> None:
        for path, time in self._times.items():
            with contextlib.suppress(OSError):
                directory = syscalls.open_beneath(self._root, path, os.O_RDONLY | os.O_DIRECTORY, _RESOLVE)
                try:
                    os.utime(directory, (time, time))
                finally:
                    os.close(directory)

    def add(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self.current = member.name[:200]
        entry = entries.target_of(member.name)
        if entry.kind == entries.IGNORED:
            return
        if entry.kind == entries.FILE and not entry.name:
            if member.isdir():
                self._set_attributes(self._root, member)
            return
        if member.ischr() or member.isblk():
            self._result.skipped_devices += 1
            return
        parent = self._open_parent(entry.directory)
        if entry.kind == entries.OPAQUE:
            os.setxattr(f"/proc/self/fd/{parent}", _OPAQUE_XATTR, b"y")
        elif entry.kind == entries.WHITEOUT:
            with contextlib.suppress(FileExistsError):  # a whiteout hides what lower layers have, not this one's file
                os.mknod(entry.name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=parent)
        elif member.isdir():
            self._make_directory(parent, entry, member)
        else:
            self._remove_earlier(parent, entry.name)
            self._make(archive, member, parent, entry.name)

    def _make(self, archive: tarfile.TarFile, member: tarfile.TarInfo, parent: int, name: str) -> None:
        if member.issym():
            os.symlink(member.linkname, name, dir_fd=parent)
            self._set_owner(member, name, parent)
            with contextlib.suppress(OSError):
                os.utime(name, (member.mtime, member.mtime), dir_fd=parent, follow_symlinks=False)
        elif member.islnk():
            self._link(member.linkname, parent, name)
        elif member.isfifo():
            os.mkfifo(name, 0o600, dir_fd=parent)
            fifo = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            try:
                self._set_attributes(fifo, member)
            finally:
                os.close(fifo)
        elif member.isreg():
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(name, flags, 0o600, dir_fd=parent)
            try:
                source = archive.extractfile(member)
                if source is not None:
                    with open(file, "wb", closefd=False) as target:
                        on_written = self._count if member.issparse() else _ignore
                        _copy(cast(BinaryIO, source), target, member, on_written)
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

    def _make_directory(self, parent: int, entry: entries.Target, member: tarfile.TarInfo) -> None:
        try:
            os.mkdir(entry.name, 0o755, dir_fd=parent)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(entry.name, dir_fd=parent, follow_symlinks=False).st_mode):
                os.unlink(entry.name, dir_fd=parent)
                os.mkdir(entry.name, 0o755, dir_fd=parent)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        directory = os.open(entry.name, flags, dir_fd=parent)
        try:
            self._set_attributes(directory, member)
        finally:
            os.close(directory)
        self._times[f"{entry.directory}/{entry.name}"] = member.mtime

    @staticmethod
    def _remove_earlier(parent: int, name: str) -> None:
        """Remove what an earlier entry made under that name."""
        try:
            os.unlink(name, dir_fd=parent)
        except FileNotFoundError:
            pass
        except IsADirectoryError:
            shutil.rmtree(name, dir_fd=parent)

    def _open_parent(self, path: str) -> int:
        """Open the directory of an entry, and make it if it is missing."""
        if path.count("/") >= _MAX_DEPTH:
            raise BadImage(f"a layer has more than {_MAX_DEPTH} nested directories")
        if self._parent[0] != path:
            self.close()
            self._parent = (path, self._open_directory(path))
        return self._parent[1]

    def _open_directory(self, path: str) -> int:
        try:
            found = syscalls.open_beneath(self._root, path, _DIRECTORY, _RESOLVE)
        except FileNotFoundError:
            outer, _, name = path.rpartition("/")
            parent = self._open_directory(outer or ".")
            try:
                os.mkdir(name, 0o755, dir_fd=parent)
            finally:
                os.close(parent)
            found = syscalls.open_beneath(self._root, path, _DIRECTORY, _RESOLVE)
        if os.readlink(f"/proc/self/fd/{found}").count("/") - self._depth > _MAX_DEPTH:
            os.close(found)
            raise BadImage(f"a layer has more than {_MAX_DEPTH} nested directories")
        return found

    @property
    def _depth(self) -> int:
        return os.readlink(f"/proc/self/fd/{self._root}").count("/")

    def _set_attributes(self, fd: int, member: tarfile.TarInfo) -> None:
        is_owned = self._set_owner(member, fd)
        mode = stat.S_IMODE(member.mode)
        # After the owner, whose change clears the set-user-ID bit. A program of an owner who does not exist here must
        # not run as root instead.
        os.fchmod(fd, mode if is_owned else mode & ~(stat.S_ISUID | stat.S_ISGID))
        for name, value in entries.extended_attributes(member.pax_headers).items():
            with contextlib.suppress(OSError):  # this file system or user namespace lacks it
                os.setxattr(fd, name, value)
        with contextlib.suppress(OSError, OverflowError):
            os.utime(fd, (member.mtime, member.mtime))

    def _set_owner(self, member: tarfile.TarInfo, file: int | str, parent: int | None = None) -> bool:
        """Set the owner, where the user namespace has such ids; else the file is root's. Returns whether it was set."""
        try:
            if isinstance(file, int):
                os.fchown(file, member.uid, member.gid)
            else:
                os.chown(file, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
        except (OSError, OverflowError) as error:
            if isinstance(error, OSError) and error.errno not in (errno.EINVAL, errno.EPERM):
                raise
            self._result.foreign_owners += 1
            return False
        return True


def _ignore(size: int) -> None:
    """The callback for a file all of whose bytes are counted when they are read."""


def _copy(source: BinaryIO, target: BinaryIO, member: tarfile.TarInfo, on_written: Callable[[int], None]) -> None:
    copied = 0
    while data := source.read(_CHUNK):
        on_written(len(data))
        target.write(data)
        copied += len(data)
    if copied != member.size:
        raise BadImage(f"the layer ends inside of {member.name[:200]!r}")
