"""The cache of blobs that labs share."""

from __future__ import annotations

import errno
import io
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.images.errors import BadImage
from bridgehead.images.manifests import digest_of
from bridgehead.images.store import blob_cache
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
        cache.add(DIGEST.upper(), 1, io.BytesIO())
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


def test_what_is_no_unused_blob_stays(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    cache = BlobCache(root)
    assert add(cache, tmp_path)
    [shared] = root.iterdir()
    (root / "directory").mkdir()
    (root / "link").symlink_to(shared)
    for name in (".new-copying", ".new-abandoned"):
        (root / name).write_bytes(b"x")
    for path in (shared, root / "directory", root / ".new-abandoned"):
        os.utime(path, (0, 0))
    cache.trim(0)
    assert {path.name for path in root.iterdir()} == {"directory", "link", ".new-copying"}


def test_two_labs_that_trim_at_once_do_not_stop_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    for name in ("a", "b"):
        (root / name).write_bytes(b"x")
        os.utime(root / name, (0, 0))
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: ["gone", *listdir(path)])
    BlobCache(root).trim(0)
    assert listdir(root) == []


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int, __: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(blob_cache, "check_space", refuse)
    with pytest.raises(OSError, match="no space"):
        add(BlobCache(tmp_path / "cache"), tmp_path)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("kind", ["writable", "link", "foreign"])
def test_a_directory_that_others_could_change_is_no_cache(
    tmp_path: Path, ingest: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "cache"
    cache = BlobCache(root)
    assert add(cache, tmp_path)
    if kind == "writable":
        root.chmod(0o777)
    elif kind == "link":
        root.rename(tmp_path / "elsewhere")
        root.symlink_to(tmp_path / "elsewhere")
    else:
        other = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)
    assert cache.lend(DIGEST, len(CONTENT), ingest) == ""
    with pytest.raises(OSError):  # noqa: PT011  (EPERM, ENOTDIR for the link)
        add(cache, tmp_path)
    with pytest.raises(OSError):  # noqa: PT011
        cache.trim(0)
    monkeypatch.undo()
    assert len(list(root.iterdir())) == 1
