"""The store in a file, against a real disk: restarts, crashes, foreign and damaged files, a full disk."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from bridgehead.storage import AlreadyExists, Change, Facts, Key, Store, StoreBroken, StoreDamaged, TooOld
from bridgehead.storage.sqlite import Database, SqliteStore

pytestmark = pytest.mark.integration

DEADLINE = 60.0


def pod(name: str) -> Key:
    return Key("pods", "default", name)


async def put(store: Store, name: str, size: int = 0, **facts: Any) -> int:
    value = {"metadata": {"name": name}, "text": "x" * size}
    return (await store.create(pod(name), value, Facts(**facts))).revision


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    await store.close()


# --- restart ---------------------------------------------------------------------------------------------


async def test_a_restart_keeps_all_data(path: Path) -> None:
    store = SqliteStore(path)
    await put(store, "b", labels={"app": "web"}, fields={"spec.nodeName": "n"}, claims=frozenset({"ip/1"}))
    await put(store, "a")
    await store.update(pod("a"), {"metadata": {"name": "a"}, "n": 2}, Facts(), expected=2)
    await put(store, "gone", claims=frozenset({"ip/2"}))
    await store.delete(pod("gone"))
    before = store.list("pods")
    await store.close()

    store = SqliteStore(path)
    try:
        assert store.list("pods") == before
        assert store.revision == 5
        assert (store.is_claimed("ip/1"), store.is_claimed("ip/2")) == (True, False)
        with pytest.raises(TooOld):
            store.watch("pods", since=4)
        watch = store.watch("pods", since=5)
        assert await put(store, "c") == 6
        async with asyncio.timeout(DEADLINE):
            assert [change.record.key.name for change in await anext(watch)] == ["c"]
    finally:
        await store.close()


async def test_the_file_is_accessible_to_its_owner_only(store: SqliteStore, path: Path) -> None:
    await put(store, "secret")
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


# --- crash -----------------------------------------------------------------------------------------------

_WRITER = """
import asyncio, sys
from bridgehead.storage import Facts, Key
from bridgehead.storage.sqlite import SqliteStore

async def writer(store, n):
    for i in range(1_000_000):
        name = f"p{n}-{i}"
        value = {"metadata": {"name": name}, "text": "x" * 500}
        record = await store.create(Key("pods", "default", name), value, Facts(claims=frozenset({name})))
        print(name, record.revision, flush=True)

async def main():
    store = SqliteStore(sys.argv[1])
    await asyncio.gather(*(writer(store, n) for n in range(20)))

asyncio.run(main())
"""


def write_until_killed(path: Path) -> list[str]:
    """The writes that the writer reported as durable."""
    child = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    lines: list[str] = []
    with child:
        if child.stdout is None:
            raise AssertionError("the writer has no output")
        for line in child.stdout:
            lines.append(line)
            if len(lines) == 300:
                child.kill()
    assert child.returncode == -signal.SIGKILL
    return [line for line in lines if line.endswith("\n")]


@pytest.mark.slow
async def test_acknowledged_writes_survive_a_kill(path: Path) -> None:
    lines = write_until_killed(path)
    acknowledged = {name: int(revision) for name, revision in (line.split() for line in lines)}
    store = SqliteStore(path)
    try:
        there = {record.key.name: record.revision for record in store.list("pods")}
        assert acknowledged.items() <= there.items()
        assert sorted(there.values()) == list(range(1, store.revision + 1))
        assert all(store.is_claimed(name) for name in there)
        assert await put(store, "next") == max(there.values()) + 1
    finally:
        await store.close()


# --- shared commits --------------------------------------------------------------------------------------


async def test_concurrent_writes_share_a_commit(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[int] = []
    started, go_on = threading.Event(), threading.Event()
    commit = Database.commit

    def counted(database: Database, changes: list[Change]) -> None:
        commits.append(len(changes))
        started.set()
        if not go_on.wait(DEADLINE):
            raise AssertionError("nobody let the commit go on")
        commit(database, changes)

    monkeypatch.setattr(Database, "commit", counted)
    first = asyncio.create_task(put(store, "first"))
    await asyncio.to_thread(started.wait, DEADLINE)
    watch = store.watch("pods", since=0)
    others = [asyncio.create_task(put(store, f"p{n}")) for n in range(100)]
    await asyncio.sleep(0)
    assert store.revision == 0, "nothing is visible before it is durable"
    assert not first.done()
    go_on.set()
    await asyncio.gather(first, *others)
    assert commits == [1, 100]
    assert len(await anext(watch)) == 101


async def test_refused_writes_alone_commit_nothing(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await put(store, "a")
    monkeypatch.delattr(Database, "commit")
    with pytest.raises(AlreadyExists):
        await put(store, "a")


async def test_a_failed_commit_fails_all_its_writes_and_is_not_visible(store: SqliteStore) -> None:
    await put(store, "before")
    connection = store._database._connection
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
    outcomes = await asyncio.gather(
        put(store, "a"), put(store, "a"), put(store, "big", size=100_000), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [StoreBroken] * 3
    assert store.revision == 1
    assert store.failure is not None
    assert "is full" in store.failure
    assert [record.key.name for record in store.list("pods")] == ["before"]

    connection.execute("PRAGMA max_page_count = 1000000")
    assert await put(store, "a") == 2
    assert store.failure is None


async def test_a_failed_commit_fails_the_writes_that_follow_it(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, "a")
    started, go_on = threading.Event(), threading.Event()

    def failing(database: Database, changes: list[Change]) -> None:
        started.set()
        if not go_on.wait(DEADLINE):
            raise AssertionError("nobody let the commit go on")
        raise StoreBroken("no space")

    with monkeypatch.context() as patch:
        patch.setattr(Database, "commit", failing)
        first = asyncio.create_task(store.delete(pod("a"), expected=1))
        await asyncio.to_thread(started.wait, DEADLINE)
        again = asyncio.create_task(put(store, "a"))
        shown = asyncio.create_task(store.settle())
        await asyncio.sleep(0)
        latest = store.latest(pod("a"))
        assert latest is not None
        assert latest.revision == 3
        go_on.set()
        outcomes = await asyncio.gather(first, again, shown, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreBroken] * 3
    assert store.latest(pod("a")) == store.get(pod("a"))
    assert (await store.delete(pod("a"), expected=1)).revision == 2


# --- files that are not what they should be --------------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(StoreBroken) as refused:
        SqliteStore(path)
    message = str(refused.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_a_database_of_another_program_is_not_changed(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    assert "another program's database: choose another path" in refusal(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_not_changed(path: Path) -> None:
    path.write_text("dear diary\n" * 1000)
    assert "not a bridgehead store: choose another path" in refusal(path)
    assert path.read_text() == "dear diary\n" * 1000


def test_a_damaged_file_is_reported(path: Path) -> None:
    async def fill() -> None:
        store = SqliteStore(path)
        await asyncio.gather(*(put(store, f"p{n}", size=2000) for n in range(200)))
        await store.close()

    asyncio.run(fill())
    content = bytearray(path.read_bytes())
    for page in range(4096 * 2, len(content), 4096):
        content[page : page + 64] = b"\xa5" * 64
    path.write_bytes(content)
    assert "is damaged" in refusal(path)
    path.write_bytes(bytes(content[:5000]))
    assert "is damaged" in refusal(path)


def damage_nothing_but(*statements: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()

    return damage


def write_at(position: int, content: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(position)
            file.write(content)

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: os.truncate(path, 0),
        lambda path: os.truncate(path, 50),
        lambda path: os.truncate(path, 4096),
        lambda path: os.truncate(path, path.stat().st_size - 1),
        lambda path: os.truncate(path, path.stat().st_size // 8192 * 4096),
        write_at(0, b"\xa5" * 100),
        write_at(100, b"\xa5" * 300),
        write_at(4096 * 3, b"\xa5" * 4096),
        damage_nothing_but("DROP TABLE objects"),
        damage_nothing_but("DROP TABLE store"),
        damage_nothing_but("DROP TABLE objects", "DROP TABLE store"),
        damage_nothing_but("ALTER TABLE objects RENAME COLUMN value TO x"),
        damage_nothing_but("DELETE FROM store"),
        damage_nothing_but("UPDATE store SET revision = 'x'"),
        damage_nothing_but("UPDATE store SET revision = 3"),
        damage_nothing_but("UPDATE objects SET value = x'7b7d' WHERE name = 'p7'"),
        damage_nothing_but("UPDATE objects SET value = x'ff00' WHERE name = 'p7'"),
        damage_nothing_but("UPDATE objects SET value = substr(value, 1, 100) WHERE name = 'p7'"),
        damage_nothing_but("UPDATE objects SET facts = x'00' WHERE name = 'p7'"),
        damage_nothing_but("UPDATE objects SET revision = revision - 1 WHERE name = 'p7'"),
        damage_nothing_but("UPDATE objects SET name = x'00' WHERE name = 'p7'"),
    ],
)
def test_a_damaged_store_is_named_and_not_changed(path: Path, damage: Callable[[Path], None]) -> None:
    async def fill() -> None:
        store = SqliteStore(path)
        await asyncio.gather(*(put(store, f"p{n}", size=2000) for n in range(50)))
        await store.close()

    asyncio.run(fill())
    damage(path)
    before = path.read_bytes()
    message = refusal(path)
    assert "damaged" in message
    assert "restore it from a copy with `bridgehead restore`, or move it away" in message
    assert path.read_bytes() == before


async def put_many(store: Store, prefix: str) -> None:
    for n in range(300):
        await put(store, f"{prefix}{n}", size=20_000)


def spoil(path: Path) -> None:
    """Overwrite all pages but the first ones."""
    for page in range(2, path.stat().st_size // 4096):
        write_at(page * 4096, b"\xa5" * 4096)(path)


async def test_damage_that_is_found_at_run_time_stops_writes(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SqliteStore(path)
    await put_many(store, "p")  # more than SQLite keeps in memory
    await store.close()
    store = SqliteStore(path)
    await asyncio.to_thread(spoil, path)
    with pytest.raises(StoreDamaged, match="restore it from a copy with `bridgehead restore`, or move it away"):
        await put_many(store, "new")
    assert [record for record in caplog.records if "is damaged" in record.message]
    before = await asyncio.to_thread(path.read_bytes)
    with pytest.raises(StoreDamaged):
        await put(store, "later")
    assert await asyncio.to_thread(path.read_bytes) == before
    assert len(store.list("pods")) >= 300, "what was there is served on"
    await store.close()


async def test_a_newer_format_is_refused(path: Path) -> None:
    await SqliteStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "has format 99" in refusal(path)


def test_an_unusable_path_is_refused(tmp_path: Path) -> None:
    assert "No such file or directory" in refusal(tmp_path / "missing" / "state.db")
    assert "check its directory's and its own permissions" in refusal(tmp_path)


async def test_a_file_can_be_open_in_one_store_only(store: SqliteStore, path: Path) -> None:
    await put(store, "a")
    script = "import sys; from bridgehead.storage import open_store; open_store('sqlite://' + sys.argv[1])"
    second = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=DEADLINE
    )
    assert second.returncode == 1
    assert "in use by another process: stop it, or choose another path" in second.stderr.splitlines()[-1]
    assert "in use" in refusal(path)
    assert await put(store, "b") == 2


_FULL_DISK = """
import asyncio, os, sys
from bridgehead.storage import Facts, Key, StoreBroken
from bridgehead.storage.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1] + "/state.db")
    filler = sys.argv[1] + "/filler"
    with open(filler, "wb") as file:
        file.write(bytes(256 * 1024))
    refused = ""
    for n in range(1000):
        try:
            value = {"metadata": {"name": f"p{n}"}, "text": "x" * 5000}
            await store.create(Key("pods", "", f"p{n}"), value, Facts())
        except StoreBroken as error:
            refused = str(error)
            break
    stored = len(store.list("pods"))
    print(refused)
    print(stored == n == store.revision > 0)
    os.unlink(filler)
    await store.create(Key("pods", "", "after"), {"metadata": {"name": "after"}}, Facts())
    await store.close()
    store = SqliteStore(sys.argv[1] + "/state.db")
    print(len(store.list("pods")) == stored + 1)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.needs("unshare", "mount")
def test_a_full_disk_refuses_writes_until_there_is_room(tmp_path: Path) -> None:
    mount = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1"'
    flags = "-m" if os.geteuid() == 0 else "-rm"
    command = ["unshare", flags, "sh", "-ec", mount, "sh", str(tmp_path), sys.executable, _FULL_DISK]
    result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert result.returncode == 0, result.stderr
    message, *facts = result.stdout.splitlines()
    assert message.endswith("is full: free some space and try again")
    assert facts == ["True", "True"]
