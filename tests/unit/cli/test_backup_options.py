"""`bridgehead backup` and `bridgehead restore`, of a lab by name and of a store by its path."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from bridgehead import cli
from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabConfig
from bridgehead.storage import Facts, Key, open_store


def run(*argv: str) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main(list(argv))
    return end.value.code if isinstance(end.value.code, int) else 0


def write_store(path: Path, name: str) -> None:
    async def write() -> None:
        store = open_store(f"sqlite://{path}")
        await store.create(Key("pods", "default", name), {"metadata": {"name": name}}, Facts())
        await store.close()

    asyncio.run(write())


def names(path: Path) -> list[str]:
    async def read() -> list[str]:
        store = open_store(f"sqlite://{path}")
        found = [record.key.name for record in store.list("pods")]
        await store.close()
        return found

    return asyncio.run(read())


@pytest.mark.parametrize("scheme", ["", "sqlite://"])
def test_a_store_by_its_path(scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, copy = tmp_path / "state.db", tmp_path / "copy"
    write_store(store, "a")
    assert run("backup", str(copy), f"--store={scheme}{store}") == 0
    assert capsys.readouterr().out.startswith(f"Wrote {copy}: 1 objects, revision 1, ")
    write_store(store, "b")
    assert run("restore", str(copy), f"--store={scheme}{store}") == 0
    assert capsys.readouterr().out.endswith(f" The former store is {store}.old.\n")
    assert names(store) == ["a"]
    assert names(Path(f"{store}.old")) == ["a", "b"]


def test_a_lab_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    copy = tmp_path / "copy"
    for command in ("backup", "restore"):
        assert run(command, str(copy), "--name=none") == 1
        assert 'there is no lab "none"' in capsys.readouterr().err
    files = state_directories.find_files("mine", None)
    files.store.parent.mkdir(parents=True)
    files.config.write_bytes(msgspec.json.encode(LabConfig(name="mine", nodes=1, port=6443)))
    write_store(files.store, "a")
    assert run("backup", str(copy), "--name=mine") == 0
    capsys.readouterr()
    held = state_directories.lock(files)
    try:
        assert run("restore", str(copy), "--name=mine") == 1
        assert "is running: stop it first with `" in capsys.readouterr().err
    finally:
        os.close(held)
    assert run("restore", str(copy), "--name=mine") == 0
    assert names(files.store) == ["a"]


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("backup", str(tmp_path / "copy"), f"--store={tmp_path}/none") == 1
    assert capsys.readouterr().err == f"bridgehead: there is no store {tmp_path}/none\n"
