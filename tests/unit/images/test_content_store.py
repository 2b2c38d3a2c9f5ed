"""Blobs of a content store that several processes write to."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from bridgehead.images.documents import Descriptor, digest_of
from bridgehead.images.store.content import ContentStore

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
            assert other.size == 0
    with store.open_partial(LAYER.digest) as partial:
        assert partial.size == 3
        partial.write(CONTENT[3:])
        partial.commit(LAYER, store.blob_path(LAYER.digest))
    assert store.has_blob(LAYER)
