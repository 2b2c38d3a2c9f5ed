"""Changes of files below directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bridgehead.cli.watched_tree import WatchedTree
from bridgehead.lab.errors import LabError
from bridgehead.network import syscalls


def changes(tree: WatchedTree, top: Path) -> set[str]:
    return {str(Path(path).relative_to(top)) for path in tree.read()}


def test_what_happens_to_files_is_seen_once(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("1")
    with WatchedTree([tmp_path], []) as tree:
        assert tree.read() == set()
        (tmp_path / "src" / "a.py").read_text()
        assert tree.read() == set(), "to read a file is no change"
        (tmp_path / "src" / "a.py").write_text("2")
        assert changes(tree, tmp_path) == {"src/a.py"}
        assert tree.read() == set()
        (tmp_path / "new.py").write_text("")
        (tmp_path / "new.py").rename(tmp_path / "src" / "a.py")  # as editors save
        assert changes(tree, tmp_path) == {"new.py", "src/a.py"}
        (tmp_path / "src" / "a.py").unlink()
        assert changes(tree, tmp_path) == {"src/a.py"}


def test_directories_that_come_and_go_are_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    (elsewhere / "deep" / "file").write_text("")
    top = tmp_path / "top"
    top.mkdir()
    with WatchedTree([top], []) as tree:
        elsewhere.rename(top / "moved")  # with its files
        assert changes(tree, top) == {"moved/deep/file"}
        (top / "moved" / "deep" / "file").write_text("1")
        assert changes(tree, top) == {"moved/deep/file"}
        shutil.rmtree(top / "moved")
        assert "moved" in changes(tree, top)
        (top / "moved").mkdir()
        (top / "moved" / "again").write_text("")
        assert changes(tree, top) == {"moved/again"}


def test_ignored_files_do_not_count(tmp_path: Path) -> None:
    for name in (".git", "node_modules", "dist"):
        (tmp_path / name).mkdir()
    with WatchedTree([tmp_path], ["dist", "*.log", f"{tmp_path}/docs/*"]) as tree:
        (tmp_path / "docs").mkdir()
        tree.read()
        for name in (".git/index", "node_modules/x.js", "dist/app", "a.log", ".a.py.swp", "b~", "docs/page.md"):
            (tmp_path / name).write_text("")
        assert tree.read() == set()
        (tmp_path / "a.py").write_text("")
        assert changes(tree, tmp_path) == {"a.py"}


def test_a_single_file_is_watched_without_those_beside_it(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("")
    with WatchedTree([tmp_path / "Dockerfile"], []) as tree:
        (tmp_path / "other").write_text("")
        (tmp_path / "directory").mkdir()
        assert tree.read() == set()
        (tmp_path / "Dockerfile").write_text("FROM scratch")
        assert changes(tree, tmp_path) == {"Dockerfile"}


def test_changes_close_together_are_one(tmp_path: Path) -> None:
    with WatchedTree([tmp_path], []) as tree:
        (tmp_path / "a").write_text("")
        (tmp_path / "b").write_text("")
        assert {Path(path).name for path in tree.wait(0.01, 1)} == {"a", "b"}


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="nowhere does not exist"):
        WatchedTree([tmp_path / "nowhere"], [])


def test_what_comes_between_the_list_of_a_directory_and_its_watch_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_watch = syscalls.add_watch

    def slowly(queue: int, path: str, events: int) -> int:
        if path == str(tmp_path):
            (tmp_path / "late").mkdir()
        return add_watch(queue, path, events)

    monkeypatch.setattr(syscalls, "add_watch", slowly)
    with WatchedTree([tmp_path], []) as tree:
        tree.read()
        (tmp_path / "late" / "file").write_text("")
        assert changes(tree, tmp_path) == {"late/file"}


def test_directories_that_came_while_the_queue_was_full_are_found(tmp_path: Path) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text("ascii"))
    if most > 1 << 16:
        pytest.skip("this machine's queue of events is too long to fill")
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_text("")
    with WatchedTree([tmp_path], []) as tree:
        for number in range(most):
            files[number % 2].chmod(0o600)  # two in turn: the kernel joins equal events
        (tmp_path / "late").mkdir()
        assert "more files than the kernel lists" in tree.read()
        (tmp_path / "late" / "file").write_text("")
        assert changes(tree, tmp_path) == {"late/file"}


def test_a_directory_that_is_made_anew_is_watched_again(tmp_path: Path) -> None:
    top = tmp_path / "dist"
    top.mkdir()
    with WatchedTree([top], []) as tree:
        for remove in (shutil.rmtree, lambda path: path.rename(tmp_path / "old")):
            remove(top)
            assert changes(tree, tmp_path) == {"dist"}
            top.mkdir()
            (top / "deep").mkdir()
            (top / "deep" / "file").write_text("")
            assert {Path(path).name for path in tree.wait(0.01, 30)} == {"dist", "file"}
            (top / "deep" / "file").write_text("1")
            assert changes(tree, top) == {"deep/file"}


def test_a_directory_that_stays_away_is_an_error(tmp_path: Path) -> None:
    top = tmp_path / "dist"
    top.mkdir()
    with WatchedTree([top], []) as tree:
        top.rmdir()
        with pytest.raises(LabError, match="dist was removed"):
            tree.wait(0.01, 0.05)
