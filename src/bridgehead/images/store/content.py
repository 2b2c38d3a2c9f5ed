"""Files of a content store.

    blobs/sha256/HEX     indexes, manifests, configurations and compressed layers, by digest, as they were received
    layers/NAME/         unpacked layers, in the form of overlayfs; NAME is the beginning of the diff_id's digits
    names/HEX.json       images by name (`ImageRecord`); HEX is the SHA-256 of the name
    ingest/              what is being written; it is renamed when it is complete and verified
    lock                 shared by all processes that write, exclusive for the removal of what no image needs

All content is named by its digest, so several processes can write at the same time. Readers need no lock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from bridgehead.images import manifests
from bridgehead.images.disk_usage import DiskUsage
from bridgehead.images.errors import StoreFailed
from bridgehead.images.manifests import Descriptor, ImageConfig

from .disk import check_room, check_space, create_file, disk_failure, sync_file, sync_file_system
from .image_record import ImageRecord
from .partial_blobs import Partial, has_content, lock_partial

# 96 bits: no second layer with the same name can be found, and 125 names fit into the options of one mount (4096).
_LAYER_DIGITS: Final = 24
_CHUNK: Final = 1 << 20


class ContentStore:
    """The store in the directory `root`. Methods raise `StoreFailed` where the disk fails."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # Reading.

    def blob_path(self, digest: str) -> Path:
        algorithm, _, digits = manifests.check_digest(digest).partition(":")
        return self.root / "blobs" / algorithm / digits

    def layer_path(self, diff_id: str) -> Path:
        return self.root / "layers" / manifests.check_digest(diff_id).partition(":")[2][:_LAYER_DIGITS]

    def has_blob(self, descriptor: Descriptor) -> bool:
        try:
            return self.blob_path(descriptor.digest).stat().st_size == descriptor.size
        except OSError:
            return False

    def read_blob(self, digest: str) -> bytes:
        try:
            return self.blob_path(digest).read_bytes()
        except OSError as error:
            raise StoreFailed(f"cannot read {digest}: {error.strerror}") from error

    def find(self, name: str) -> ImageRecord | None:
        """Return the image with this name (`Reference.key`), None if there is none or its files are gone."""
        try:
            record = msgspec.json.decode(self._name_path(name).read_bytes(), type=ImageRecord)
        except (OSError, msgspec.MsgspecError):
            return None
        return record if all(self.layer_path(layer).is_dir() for layer in record.root_layers) else None

    def read_config(self, record: ImageRecord) -> ImageConfig:
        """Raises `ImageError`."""
        return manifests.parse_config(self.read_blob(record.config), len(record.layers))

    def records(self) -> list[ImageRecord]:
        """Return all images, by name."""
        found = []
        for path in (self.root / "names").glob("*.json"):
            with contextlib.suppress(OSError, msgspec.MsgspecError):  # removed meanwhile
                found.append(msgspec.json.decode(path.read_bytes(), type=ImageRecord))
        return sorted(found, key=lambda record: record.name)

    def disk_usage(self) -> DiskUsage:
        try:
            disk = os.statvfs(self.root)
        except OSError as error:
            raise disk_failure(error) from error
        return DiskUsage(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize)

    def last_used(self, name: str) -> float:
        """Return the time at which an image was pulled or used last, in seconds since the epoch; 0 without an image."""
        try:
            return self._name_path(name).stat().st_mtime
        except OSError:
            return 0.0

    # Writing.

    def mark_used(self, name: str, at: float) -> None:
        """Record that an image was used at a time (seconds since the epoch), if there is one with this name."""
        if 0 < self.last_used(name) < at:
            with contextlib.suppress(OSError):
                os.utime(self._name_path(name), (at, at))

    def check_room(self, size: int) -> None:
        """Raises `StoreFailed` when the disk has no room for `size` more bytes."""
        check_room(self.disk_usage(), size)

    @contextlib.contextmanager
    def writing(self, *, waits: bool = True) -> Iterator[None]:
        """Hold the store's lock, which other writers share: nothing that is written is removed as unneeded.

        Blocks while a collection has the store, or without `waits` raises BlockingIOError.
        """
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self.locked(fcntl.LOCK_SH | (0 if waits else fcntl.LOCK_NB)))
            except BlockingIOError:
                raise
            except OSError as error:
                raise disk_failure(error) from error
            yield

    @contextlib.contextmanager
    def open_partial(self, digest: str) -> Iterator[Partial]:
        """Open the file to which a blob is downloaded. A process that is not the first has a file for itself."""
        algorithm, _, digits = manifests.check_digest(digest).partition(":")
        path = self._ingest() / f"{algorithm}-{digits}"
        try:
            with contextlib.ExitStack() as opened:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                opened.callback(os.close, fd)
                if not lock_partial(fd, path):
                    path, fd = opened.enter_context(self._new_file("blob"))
                yield Partial(path, fd, algorithm)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                path.unlink(missing_ok=True)  # what fills the disk is not kept for a later attempt
            raise disk_failure(error) from error

    def add_blob(self, content: bytes) -> str:
        """Add a small blob; returns its digest."""
        digest = manifests.digest_of(content)
        self._write_file(self.blob_path(digest), content)
        return digest

    def add_stream(self, file: BinaryIO) -> Descriptor:
        """Add a blob of any size; returns its digest and size."""
        try:
            with self._new_file("blob") as (path, fd):
                partial = Partial(path, fd, "sha256")
                while data := file.read(_CHUNK):
                    partial.write(data)
                descriptor = Descriptor(digest=partial.digest, size=partial.size)
                partial.commit(descriptor, self.blob_path(descriptor.digest))
        except OSError as error:
            raise disk_failure(error) from error
        return descriptor

    @contextlib.contextmanager
    def scratch_file(self, read: Callable[[], bytes]) -> Iterator[BinaryIO]:
        """Yield a temporary file with what `read` returns until that is b"". Raises what `read` does."""
        path = self.new_name("scratch")
        try:
            fd = create_file(path)
            path.unlink()
        except OSError as error:
            raise disk_failure(error) from error
        with open(fd, "w+b") as file:
            while data := read():
                try:
                    check_space(fd, len(data))
                    file.write(data)
                except OSError as error:
                    raise disk_failure(error) from error
            file.seek(0)
            yield file

    def adopt(self, name: str, descriptor: Descriptor) -> bool:
        """Make a file in `ingest`, which may be the user's, a blob; returns whether it is what the digest promises.

        The file's name in `ingest` is gone then. Blocks.
        """
        path, target = self._ingest() / Path(name).name, self.blob_path(descriptor.digest)
        try:
            is_right = has_content(path, descriptor)
            if is_right:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.rename(path, target)
            path.unlink(missing_ok=True)  # also a second link to the blob, which rename(2) leaves
        except OSError as error:
            raise disk_failure(error) from error
        return is_right

    def discard_damaged(self, descriptor: Descriptor) -> bool:
        """Remove a blob that is not what its digest promises; returns whether there was one. Blocks."""
        path = self.blob_path(descriptor.digest)
        try:
            if has_content(path, descriptor):
                return False
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise disk_failure(error) from error
        return True

    def add_pulled(self, record: ImageRecord) -> None:
        """Add the record of a pull. Pods that could use the same content under the name before still can."""
        self.add_record(record.with_users_of(self.find(record.name)))

    def add_record(self, record: ImageRecord) -> None:
        """Add an image whose files the store has, in the place of an earlier one with the same name."""
        try:
            sync_file(self.blob_path(record.config))  # without its configuration, no container of an image starts
        except OSError as error:
            raise disk_failure(error) from error
        self._write_file(self._name_path(record.name), msgspec.json.encode(record))

    def remove_record(self, name: str) -> bool:
        """Remove a name; returns whether it was there. The content stays until `garbage_collection.collect`."""
        try:
            self._name_path(name).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise disk_failure(error) from error
        return True

    @contextlib.contextmanager
    def new_layer(self, diff_id: str) -> Iterator[Path]:
        """Yield an empty directory, which becomes the layer when the block ends without an exception.

        Its files are on the disk then: nobody verifies a layer that has its name, so a machine that crashes must not
        leave an incomplete one.
        """
        target = self.layer_path(diff_id)
        directory = self.new_name("layer")
        try:
            directory.mkdir(0o755)
        except OSError as error:
            raise disk_failure(error) from error
        try:
            directory.chmod(0o755)  # whatever the umask is
            yield directory
            sync_file_system(directory)
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):  # another process was faster
                try:
                    os.rename(directory, target)
                except OSError as error:
                    if error.errno != errno.ENOTEMPTY:
                        raise
        except OSError as error:
            raise disk_failure(error) from error
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def wait_unused(self, bound: float) -> None:
        """Wait until no process writes to the store, for `bound` seconds at most."""
        deadline = time.monotonic() + bound
        while time.monotonic() < deadline:
            try:
                with self.locked(fcntl.LOCK_EX | fcntl.LOCK_NB):
                    return
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:  # there is no store
                return

    def _name_path(self, name: str) -> Path:
        return self.root / "names" / f"{hashlib.sha256(name.encode()).hexdigest()}.json"

    def _ingest(self) -> Path:
        directory = self.root / "ingest"
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise disk_failure(error) from error
        return directory

    def new_name(self, kind: str) -> Path:
        """Return an unused path for what is being written or removed."""
        # Not by `tempfile`, which makes paths absolute: the puller may not pass the way to its working directory.
        return self._ingest() / f"{kind}-{secrets.token_hex(8)}"

    @contextlib.contextmanager
    def _new_file(self, kind: str) -> Iterator[tuple[Path, int]]:
        """Yield the path and the descriptor of a new file, which is removed at the end unless it was renamed."""
        path = self.new_name(kind)
        fd = create_file(path)
        try:
            yield path, fd
        finally:
            os.close(fd)
            path.unlink(missing_ok=True)

    def _write_file(self, path: Path, content: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._new_file("file") as (temporary, fd):
                check_space(fd, len(content))
                with open(fd, "wb", closefd=False) as file:
                    file.write(content)
                os.fchmod(fd, 0o644)
                os.fsync(fd)
                os.rename(temporary, path)
        except OSError as error:
            raise disk_failure(error) from error

    @contextlib.contextmanager
    def locked(self, how: int) -> Iterator[None]:
        """Hold the store's lock, by flock(2). Raises OSError."""
        fd = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, how)
            yield
        finally:
            os.close(fd)
