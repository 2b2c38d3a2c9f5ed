"""Blobs of a content store that several processes write to."""

from __future__ import annotations

import fcntl
import io
import os
from pathlib import Path

import pytest

from bridgehead.images.errors import StoreFailed
from bridgehead.images.manifests import Descriptor, digest_of
from bridgehead.images.store import garbage_collection, unpacking
from bridgehead.images.store.content import ContentStore
from bridgehead.images.store.image_record import ImageRecord
from bridgehead.images.store.unpacking import Unpacked
from tests.image_files import layer_of

CONTENT = b"a layer"
LAYER = Descriptor(digest=digest_of(CONTENT), size=len(CONTENT))


def test_a_blob_that_another_process_completes_meanwhile_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ContentStore(tmp_path)
    with store.open_partial(LAYER.digest) as partial:
        partial.write(CONTENT)
    blob = store.blob_path(LAYER.digest)
    blob.parent.mkdir(parents=True)
    [ingested] = (tmp_path / "ingest").iterdir()
    lock = fcntl.flock

    def lock_after_the_other(fd: int, how: int) -> None:
        if ingested.exists():
            os.rename(ingested, blob)
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", lock_after_the_other)
    with store.open_partial(LAYER.digest) as partial:
        partial.restart()
        assert blob.read_bytes() == CONTENT
        partial.write(CONTENT)
        partial.commit(LAYER, blob)
    assert blob.read_bytes() == CONTENT
    assert list((tmp_path / "ingest").iterdir()) == []


def test_an_interrupted_blob_goes_on_where_it_ended(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    with store.open_partial(LAYER.digest) as partial:
        partial.write(CONTENT[:3])
        with store.open_partial(LAYER.digest) as other:  # a second process begins anew
            other.resume()
            assert other.size == 0
            assert len(list((tmp_path / "ingest").iterdir())) == 2
        assert len(list((tmp_path / "ingest").iterdir())) == 1
    with store.open_partial(LAYER.digest) as partial:
        partial.resume()
        assert partial.size == 3
        partial.write(CONTENT[3:])
        partial.commit(LAYER, store.blob_path(LAYER.digest))
    assert store.has_blob(LAYER)


class BrokenFile(io.BytesIO):
    """A file whose disk fails after the first bytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell():
            raise OSError(5, "Input/output error")
        return super().read(3)


def test_a_file_that_cannot_be_read_leaves_nothing(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    with pytest.raises(StoreFailed, match="input/output error"):
        store.add_stream(BrokenFile(CONTENT))
    assert list((tmp_path / "ingest").iterdir()) == []


def test_a_store_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="no such file or directory"), ContentStore(tmp_path / "none").writing():
        pass


def test_what_a_killed_process_wrote_is_removed_but_for_downloads(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    with store.open_partial(LAYER.digest) as partial:
        partial.write(CONTENT[:3])
    kept = list((tmp_path / "ingest").iterdir())
    (store.new_name("layer") / "etc").mkdir(parents=True)
    (store.new_name("blob")).write_bytes(CONTENT)
    with store.writing():
        garbage_collection.remove_unfinished(store)  # another process may be writing them
    assert len(list((tmp_path / "ingest").iterdir())) == 3
    garbage_collection.remove_unfinished(store)
    assert list((tmp_path / "ingest").iterdir()) == kept


def test_no_collection_takes_files_of_a_layer_that_is_being_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pull that wanted the layer can have been cancelled, and then does not hold the store's lock any more."""
    store, layer = ContentStore(tmp_path), layer_of([("etc/motd", "hello")])
    store.add_blob(layer.content)
    unpack = unpacking.unpack

    def unpack_during_a_collection(blob: Path, diff_id: str, target: Path) -> Unpacked:
        assert garbage_collection.collect(store) is None
        return unpack(blob, diff_id, target)

    monkeypatch.setattr(unpacking, "unpack", unpack_during_a_collection)
    unpacking.add_layer(store, layer.digest, layer.diff_id)
    assert (store.layer_path(layer.diff_id) / "etc/motd").read_text() == "hello"


def test_a_blob_that_the_disk_has_damaged_is_removed(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    assert not store.discard_damaged(LAYER)
    store.add_blob(CONTENT)
    assert not store.discard_damaged(LAYER)
    blob = store.blob_path(LAYER.digest)
    blob.write_bytes(bytes(len(CONTENT)))
    assert store.has_blob(LAYER)  # of the right size
    assert store.discard_damaged(LAYER)
    assert not store.has_blob(LAYER)


def test_no_image_is_recorded_without_its_configuration(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    with pytest.raises(StoreFailed, match="no such file"):
        store.add_record(ImageRecord(name="app", digest="", manifest=LAYER.digest, config=LAYER.digest))
    assert store.records() == []


def test_a_writer_that_does_not_wait_for_a_collection_fails(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    with store.locked(fcntl.LOCK_EX), pytest.raises(BlockingIOError), store.writing(waits=False):
        pass
    with store.writing(), store.writing(waits=False):
        pass


def test_a_file_that_is_adopted_twice_leaves_no_second_name(tmp_path: Path) -> None:
    """Two pulls of one layer get two links to the file that labs share."""
    store = ContentStore(tmp_path)
    (tmp_path / "ingest").mkdir()
    (tmp_path / "ingest" / "first").write_bytes(CONTENT)
    os.link(tmp_path / "ingest" / "first", tmp_path / "ingest" / "second")
    assert store.adopt("first", LAYER)
    assert store.adopt("second", LAYER)
    assert list((tmp_path / "ingest").iterdir()) == []
    assert store.blob_path(LAYER.digest).stat().st_nlink == 1
    (tmp_path / "ingest" / "wrong").write_bytes(b"other")
    assert not store.adopt("wrong", LAYER)
    assert list((tmp_path / "ingest").iterdir()) == []
