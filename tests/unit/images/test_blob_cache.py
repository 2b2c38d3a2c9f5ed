"""The cache of blobs that labs share."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.images.documents import digest_of
from bridgehead.images.errors import BadImage
from bridgehead.images.store.blob_cache import BlobCache

CONTENT = b"a layer" * 1000
DIGEST = digest_of(CONTENT)


@pytest.fixture
def ingest(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "ingest").mkdir()
    descriptor = os.open(tmp_path / "ingest", os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def add(cache: BlobCache, directory: Path, digest: str = DIGEST, content: bytes = CONTENT) -> bool:
    path = directory / "blob"
    path.write_bytes(content)
    with open(path, "rb") as file:
        return cache.add(digest, len(content), file)


def test_what_one_lab_adds_another_gets_as_a_link(tmp_path: Path, ingest: int) -> None:
    cache = BlobCache(tmp_path / "cache")
    assert cache.lend(DIGEST, len(CONTENT), ingest) == ""
    assert add(cache, tmp_path)
    names = [cache.lend(DIGEST, len(CONTENT), ingest) for _ in range(2)]
    [shared] = (tmp_path / "cache").iterdir()
    for name in names:
        lent = tmp_path / "ingest" / name
        assert lent.samefile(shared)
        assert (lent.read_bytes(), lent.stat().st_mode & 0o777) == (CONTENT, 0o444)
    assert cache.lend(DIGEST, len(CONTENT) + 1, ingest) == ""


def test_only_what_a_digest_promises_is_shared(tmp_path: Path, ingest: int) -> None:
    cache = BlobCache(tmp_path / "cache")
    assert not add(cache, tmp_path, content=CONTENT + b"more")
    assert not add(cache, tmp_path, content=b"")
    assert list((tmp_path / "cache").iterdir()) == []
    for digest in ("sha256:../../etc/passwd", "md5:1", ""):
        with pytest.raises(BadImage):
            add(cache, tmp_path, digest)
        with pytest.raises(BadImage):
            cache.lend(digest, 1, ingest)
    with pytest.raises(BadImage):
        cache.add(DIGEST.upper(), 1, io.BytesIO())  # type: ignore[arg-type]
    # A link in the cache leads to a file that nobody asked for.
    (tmp_path / "secret").write_bytes(CONTENT)
    (tmp_path / "cache" / DIGEST.replace(":", "-")).symlink_to(tmp_path / "secret")
    assert cache.lend(DIGEST, len(CONTENT), ingest) == ""


def test_blobs_without_a_lab_go_after_a_while(tmp_path: Path, ingest: int) -> None:
    cache = BlobCache(tmp_path / "cache")
    assert cache.trim(0) == 0
    assert add(cache, tmp_path)
    lent = tmp_path / "ingest" / cache.lend(DIGEST, len(CONTENT), ingest)
    [shared] = (tmp_path / "cache").iterdir()
    os.utime(shared, (0, 0))
    assert cache.trim(0) == 0  # a lab has it
    lent.unlink()
    os.utime(shared, (time.time() + 100, time.time() + 100))
    assert cache.trim(3600) == 0
    os.utime(shared, (0, 0))
    assert cache.trim(3600) >= len(CONTENT)
    assert list((tmp_path / "cache").iterdir()) == []
