"""Removal of what no image needs, and of images that no container uses.

Source: the kubelet's image garbage collection (`image_gc_manager`): the least recently used images first, none that is
younger than a minimum age, until enough is free. A layer that a container uses stays, whether an image needs it or not.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bridgehead.images import manifests
from bridgehead.images.errors import BadImage, StoreFailed

from . import layer_locks
from .content import ContentStore
from .disk import disk_failure
from .image_record import ImageRecord

_BLOCK: Final = 512  # bytes of st_blocks
_DOWNLOADS: Final = ("sha256-", "sha512-")  # names in ingest/; see `ContentStore.open_partial`


class Removed(NamedTuple):
    """Layers and blobs that were removed: their number, and the bytes that they had on the disk."""

    files: int = 0
    size: int = 0


def collect(store: ContentStore) -> Removed | None:
    """Remove what no image needs and no container uses, and what earlier processes left behind.

    Returns None, and removes nothing, while other processes write to the store. Raises `StoreFailed`.
    """
    with _alone(store) as is_alone:
        return _collect(store) if is_alone else None


def free_space(store: ContentStore, wanted: int, minimum_age: float) -> Removed | None:
    """Remove images until `wanted` bytes are free that were not before, as far as there are unused images.

    `minimum_age` (seconds): images that were pulled or used later stay. Returns None, and removes nothing, while other
    processes write to the store. Raises `StoreFailed`.
    """
    with _alone(store) as is_alone:
        if not is_alone:
            return None
        removed = _collect(store)
        until = time.time() - minimum_age
        for last_used, records in _by_use(store):
            if removed.size >= wanted or last_used > until:
                break
            if any(record.is_pinned for record in records):
                continue
            if all(layer_locks.is_used(store.layer_path(layer)) for layer in records[0].layers):
                continue  # a container of this image, or nothing that another image would not keep
            for record in records:
                store.remove_record(record.name)
            more = _collect(store)
            removed = Removed(removed.files + more.files, removed.size + more.size)
        return removed


def remove_unfinished(store: ContentStore) -> None:
    """Remove what a process that was killed was writing, but not downloads, which go on where they ended.

    Removes nothing while other processes write to the store. Raises `StoreFailed`.
    """
    with _alone(store) as is_alone:
        if is_alone:
            for path in (store.root / "ingest").glob("*"):
                if not path.name.startswith(_DOWNLOADS):
                    _remove(path)


@contextlib.contextmanager
def _alone(store: ContentStore) -> Iterator[bool]:
    """Hold the store's exclusive lock; yields False when another process has the store."""
    try:
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(store.locked(fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True
    except OSError as error:
        raise disk_failure(error) from error


def _by_use(store: ContentStore) -> list[tuple[float, Sequence[ImageRecord]]]:
    """Return the images, each with all of its names, and the times of their last use; the earliest first."""
    images: dict[str, list[ImageRecord]] = {}
    for record in store.records():
        images.setdefault(record.config, []).append(record)
    return sorted(
        ((max(store.last_used(record.name) for record in records), records) for records in images.values()),
        key=lambda found: found[0],
    )


def _collect(store: ContentStore) -> Removed:
    records = store.records()
    blobs = {store.blob_path(digest) for record in records for digest in _needed(store, record)}
    layers = {store.layer_path(layer) for record in records for layer in record.root_layers}
    count = size = 0
    for path in (store.root / "ingest").glob("*"):
        size += _remove(path)
    for path in (store.root / "blobs").glob("*/*"):
        if path not in blobs:
            count += 1
            size += _remove(path)
    for path in (store.root / "layers").glob("*"):
        if path not in layers and (moved := _take_away(store, path)) is not None:
            count += 1
            size += _remove(moved)
    return Removed(count, size)


def _take_away(store: ContentStore, layer: Path) -> Path | None:
    """Move a layer to where no container finds it; returns the new path, None if a container uses it."""
    with layer_locks.removing(layer) as is_free:
        if not is_free:
            return None
        target = store.new_name("removed")
        layer.rename(target)
    return target


def _needed(store: ContentStore, record: ImageRecord) -> set[str]:
    needed = {record.manifest, record.config, *filter(None, (record.digest,))}
    with contextlib.suppress(StoreFailed, BadImage):
        manifest = manifests.parse_document(store.read_blob(record.manifest))
        if isinstance(manifest, manifests.Manifest):
            needed |= {layer.digest for layer in manifest.layers}
    return needed


def _remove(path: Path) -> int:
    """Remove a file or directory; returns the bytes that it had on the disk."""
    size = 0
    if path.is_dir() and not path.is_symlink():
        for directory, _, files, descriptor in os.fwalk(path, follow_symlinks=False, onerror=None):
            del directory
            for name in files:
                with contextlib.suppress(OSError):
                    found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    size += found.st_blocks * _BLOCK if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 else 0
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            size = found.st_blocks * _BLOCK if found.st_nlink == 1 else 0  # the user's other labs share it
            path.unlink()
    return size
