"""Backups and their restoration."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridgehead.storage import Facts, Key, StoreBroken, StoreDamaged, TooOld
from bridgehead.storage.backups import back_up, restore
from bridgehead.storage.sqlite import SqliteStore


def ignore(done: int, total: int) -> None:
    assert 0 <= done <= total


async def put(store: SqliteStore, name: str, **facts: Any) -> None:
    await store.create(Key("pods", "default", name), {"metadata": {"name": name}}, Facts(**facts))


def files(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store" / "state.db"


async def names(path: Path) -> list[str]:
    store = SqliteStore(path)
    found = [record.key.name for record in store.list("pods")]
    await store.close()
    return found


async def test_a_store_in_use_is_copied_as_of_one_moment(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    store = SqliteStore(path)
    await put(store, "a", claims=frozenset({"ip/1"}))
    wrote = await asyncio.to_thread(back_up, path, copy, ignore)
    await put(store, "later")
    assert (wrote.objects, wrote.revision, wrote.size_bytes) == (1, 1, copy.stat().st_size)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert files(tmp_path) == ["copy", "store"], "one file, no journal"
    again = await asyncio.to_thread(back_up, path, copy, ignore)
    assert again.objects == 2, "an older backup is replaced"
    await store.close()


async def test_a_backup_taken_during_writes_has_each_commit_whole(path: Path, tmp_path: Path) -> None:
    store = SqliteStore(path)
    done = asyncio.Event()

    async def write() -> None:
        number = 0
        while not done.is_set():
            await put(store, f"p{number:05}")
            number += 1

    writing = asyncio.create_task(write())
    for number in range(10):
        copied = await asyncio.to_thread(back_up, path, tmp_path / f"{number}", ignore)
        assert copied.objects == copied.revision
        assert await names(tmp_path / f"{number}") == [f"p{one:05}" for one in range(copied.objects)]
    done.set()
    await writing
    await store.close()


async def test_a_restored_store_has_the_objects_and_only_new_revisions(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    store = SqliteStore(path)
    await put(store, "kept", claims=frozenset({"ip/1"}))
    back_up(path, copy, ignore)
    await put(store, "lost")
    with pytest.raises(StoreBroken, match="in use by another process: stop it"):
        restore(copy, path, ignore)
    last = store.revision
    await store.close()
    done = restore(copy, path, ignore)
    assert done.kept == path.with_name("state.db.old")
    assert await names(done.kept) == ["kept", "lost"]
    store = SqliteStore(path)
    assert [record.key.name for record in store.list("pods")] == ["kept"]
    assert store.is_claimed("ip/1")
    assert store.revision == done.revision > last
    with pytest.raises(TooOld):
        store.watch("pods", since=last)
    await put(store, "new")
    await store.close()
    assert await names(path) == ["kept", "new"]


async def test_the_journal_of_a_killed_store_does_not_reach_the_restored_one(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    store = SqliteStore(path)
    await put(store, "kept")
    back_up(path, copy, ignore)
    await put(store, "lost")
    killed = tmp_path / "killed" / "state.db"
    killed.parent.mkdir()
    for suffix in ("", "-wal"):  # as a kill leaves them
        killed.with_name(killed.name + suffix).write_bytes(path.with_name(path.name + suffix).read_bytes())
    await store.close()
    done = restore(copy, killed, ignore)
    assert done.kept is not None
    assert await names(killed) == ["kept"]
    assert await names(done.kept) == ["kept", "lost"]


async def test_a_store_is_restored_where_none_is(path: Path, tmp_path: Path) -> None:
    store = SqliteStore(path)
    await put(store, "a")
    await store.close()
    back_up(path, tmp_path / "copy", ignore)
    new = tmp_path / "new.db"
    assert restore(tmp_path / "copy", new, ignore).kept is None
    assert await names(new) == ["a"]


def _spoil_revision(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE store SET revision = 0")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5000])


@pytest.mark.parametrize("spoil", [_spoil_revision, _cut])
async def test_a_damaged_backup_is_refused_and_the_store_kept(
    spoil: Callable[[Path], None], path: Path, tmp_path: Path
) -> None:
    store = SqliteStore(path)
    for number in range(100):
        await put(store, f"p{number}")
    await store.close()
    copy = tmp_path / "copy"
    back_up(path, copy, ignore)
    spoil(copy)
    with pytest.raises(StoreDamaged, match=str(copy)):
        restore(copy, path, ignore)
    assert files(path.parent) == ["state.db", "state.db.lock"]
    assert len(await names(path)) == 100


async def test_a_damaged_store_is_not_backed_up(path: Path, tmp_path: Path) -> None:
    store = SqliteStore(path)
    await put(store, "a")
    await store.close()
    _spoil_revision(path)
    with pytest.raises(StoreDamaged, match=r"state\.db is damaged"):
        back_up(path, tmp_path / "copy", ignore)
    assert not (tmp_path / "copy").exists()


async def test_what_is_no_backup_is_neither_read_nor_replaced(path: Path, tmp_path: Path) -> None:
    await SqliteStore(path).close()
    other = tmp_path / "letter"
    other.write_text("x" * 3000)
    with pytest.raises(StoreBroken, match="exists and is not a backup"):
        back_up(path, other, ignore)
    with pytest.raises(StoreBroken, match="letter is damaged, or not a backup"):
        restore(other, tmp_path / "new", ignore)
    assert files(tmp_path) == ["letter", "store"], "a lock is left"
    with pytest.raises(StoreBroken, match="is the store itself"):
        back_up(path, path, ignore)
    with pytest.raises(StoreBroken, match="is the store itself"):
        restore(path, path, ignore)
    with pytest.raises(StoreBroken, match="there is no backup"):
        restore(tmp_path / "none", path, ignore)
    with pytest.raises(StoreBroken, match="there is no store"):
        back_up(tmp_path / "none", tmp_path / "copy", ignore)
    with pytest.raises(StoreBroken, match="No such file or directory"):
        back_up(path, tmp_path / "none" / "copy", ignore)
    with pytest.raises(StoreBroken, match="is not a file"):
        back_up(path, tmp_path, ignore)
    assert other.read_text() == "x" * 3000


async def test_a_full_disk_is_reported_with_the_name_of_the_backup(path: Path, tmp_path: Path) -> None:
    await SqliteStore(path).close()

    def fill(done: int, total: int) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise error

    with pytest.raises(StoreBroken, match=f"{tmp_path / 'copy'} is full: free some space"):
        back_up(path, tmp_path / "copy", fill)
    assert files(tmp_path) == ["store"]
