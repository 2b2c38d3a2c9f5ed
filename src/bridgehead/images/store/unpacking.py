"""Unpacking of a layer into a directory, in the form in which overlayfs takes it as a lower directory.

The archive is not trusted: `layer_files` makes what it has, and everything is bounded. Source: OCI image specification,
"Image Layer Filesystem Changeset".
"""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.images.errors import BadImage, StoreFailed

from .compression import LayerReader, ReadAhead
from .content import ContentStore
from .disk import check_space
from .layer_files import LayerFiles
from .tar_stream import TarStream

log = logging.getLogger(__name__)

_CHECK_EVERY: Final = 64 << 20  # bytes
_DISK_FAILURES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The most that one layer may have. The disk's free space is a bound of its own."""

    size: int = 64 << 30  # bytes, of the uncompressed archive, and of all files together with their holes
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
    root = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    files = LayerFiles(root)
    meter = _Meter(root, bounds.size)
    entries = size = 0
    try:
        with open(blob, "rb") as file:
            reader = LayerReader(file, diff_id.partition(":")[0], meter.count)
            with ReadAhead(reader.read) as ahead:
                archive = TarStream(ahead.read)
                for member in archive:
                    entries += 1
                    size += member.size
                    if entries > bounds.entries:
                        raise BadImage(f"the layer has more than {bounds.entries} entries")
                    if size > bounds.size:
                        raise _too_large(bounds.size)
                    files.add(member, archive.data())
                while ahead.read():  # the digest covers what follows the end of the archive
                    pass
        files.finish()
    except (ValueError, OverflowError) as error:
        raise BadImage(f"the layer has an invalid entry: {error}") from error
    except OSError as error:
        if error.errno in _DISK_FAILURES:
            raise StoreFailed(f"cannot unpack the layer: {(error.strerror or str(error)).lower()}") from error
        raise BadImage(f"the layer has an entry that cannot be made: {error.strerror}: {files.current!r}") from error
    finally:
        files.close()
        os.close(root)
    if reader.digest != diff_id:
        raise BadImage(f"the layer is {reader.digest} when it is unpacked, not {diff_id}")
    return Unpacked(
        entries=entries, size=size, skipped_devices=files.skipped_devices, foreign_owners=files.foreign_owners
    )


class _Meter:
    """Counts the bytes of an archive as they are decompressed. `disk` is a descriptor."""

    def __init__(self, disk: int, bound: int) -> None:
        self._disk = disk
        self._bound = bound
        self._size = 0
        self._unchecked = 0

    def count(self, size: int) -> None:
        """Raises `BadImage` beyond the bound, OSError (ENOSPC) when the disk gets full."""
        self._size += size
        self._unchecked += size
        if self._size > self._bound:
            raise _too_large(self._bound)
        if self._unchecked > _CHECK_EVERY:
            self._unchecked = 0
            check_space(self._disk, _CHECK_EVERY)


def _too_large(bound: int) -> BadImage:
    return BadImage(f"the layer has more than {bound} bytes")


def add_layer(store: ContentStore, digest: str, diff_id: str) -> None:
    """Unpack the layer in the blob `digest` to the store, which may have it. Blocks. Raises `ImageError`; nothing is
    left behind then."""
    if store.layer_path(diff_id).is_dir():
        return
    # The store's lock is held here again: a pull that is cancelled does not end the thread that unpacks for it, and a
    # collection meanwhile would remove some of the layer's files.
    with store.writing(), store.new_layer(diff_id) as directory:
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
