"""Copies of directories of images."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bridgehead.kubelet.runtimes.isolation.tree_copy import copy_directory

MOMENT = 1_600_000_000


def test_a_copy_has_all_that_belongs_to_the_files(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "sub" / "program").write_text("#!/bin/sh\n")
    (source / "sub" / "program").chmod(0o4755)
    os.link(source / "sub" / "program", source / "again")
    (source / "dangling").symlink_to("/nowhere")
    os.mkfifo(source / "queue")
    (source / "queue").chmod(0o622)
    source.chmod(0o1777)
    for path in (source / "dangling", source / "again", source / "sub", source):
        os.utime(path, (MOMENT, MOMENT), follow_symlinks=False)
    target.mkdir()

    copy_directory(str(source), str(target))

    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == [
        "again", "dangling", "queue", "sub", "sub/empty", "sub/program",
    ]  # fmt: skip
    assert stat.S_IMODE(target.stat().st_mode) == 0o1777
    assert stat.S_IMODE((target / "again").stat().st_mode) == 0o4755
    assert (target / "again").samefile(target / "sub" / "program")
    assert os.readlink(target / "dangling") == "/nowhere"
    assert stat.S_ISFIFO((target / "queue").stat().st_mode)
    assert stat.S_IMODE((target / "queue").stat().st_mode) == 0o622
    copied = (target, target / "sub", target / "sub" / "program", target / "dangling")
    assert {path.lstat().st_mtime for path in copied} == {MOMENT}


def test_attributes_are_copied_except_those_of_overlayfs(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    try:
        os.setxattr(source, "user.author", b"somebody")
    except OSError:
        pytest.skip("this file system has no extended attributes of users")
    os.setxattr(source, "user.overlay.opaque", b"y")
    copy_directory(str(source), str(target))
    assert {name for name in os.listxattr(target) if name.startswith("user.")} == {"user.author"}


def test_directories_are_copied_over_each_other_as_an_overlay_shows_them(tmp_path: Path) -> None:
    lower, upper, target = tmp_path / "lower", tmp_path / "upper", tmp_path / "target"
    for name in ("kept", "opaque/old", "dir/file", "link-target/file"):
        (lower / name).parent.mkdir(parents=True, exist_ok=True)
        (lower / name).write_text("lower")
    (lower / "link").symlink_to("link-target")
    os.link(lower / "kept", lower / "again")
    for name in ("opaque/new", "kept/file", "link/file"):
        (upper / name).parent.mkdir(parents=True, exist_ok=True)
        (upper / name).write_text("upper")
    (upper / "dir").write_text("upper")
    try:
        os.setxattr(upper / "opaque", "user.overlay.opaque", b"y")
    except OSError:
        pytest.skip("this file system has no extended attributes of users")
    target.mkdir()
    for layer in (lower, upper):
        copy_directory(str(layer), str(target))
    assert {str(path.relative_to(target)): path.read_text() for path in target.rglob("*") if path.is_file()} == {
        "again": "lower", "dir": "upper", "kept/file": "upper", "link/file": "upper", "link-target/file": "lower",
        "opaque/new": "upper",
    }  # fmt: skip
    assert not (target / "link").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="whiteouts are devices, which root of a user namespace makes")
def test_a_whiteout_removes_what_was_copied(tmp_path: Path) -> None:
    lower, upper, target = tmp_path / "lower", tmp_path / "upper", tmp_path / "target"
    (lower / "dir" / "sub").mkdir(parents=True)
    (lower / "file").touch()
    for directory in (upper, target):
        directory.mkdir()
    for name in ("dir", "file", "nothing"):
        os.mknod(upper / name, stat.S_IFCHR, os.makedev(0, 0))
    for layer in (lower, upper):
        copy_directory(str(layer), str(target))
    assert os.listdir(target) == []


def test_holes_stay_holes(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    with open(source / "file", "wb") as file:
        file.seek(8 << 20)
        file.write(b"data" * 1000)
        file.truncate(64 << 20)
    (source / "empty").touch()
    copy_directory(str(source), str(target))
    assert (target / "file").read_bytes() == (source / "file").read_bytes()
    assert (target / "file").stat().st_blocks == (source / "file").stat().st_blocks
    assert (target / "empty").stat().st_size == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owners_are_kept(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "file").touch()
    (source / "link").symlink_to("file")
    for number, path in enumerate((source, source / "file", source / "link"), 1000):
        os.chown(path, number, number + 100, follow_symlinks=False)
    copy_directory(str(source), str(target))
    owners = [(path.lstat().st_uid, path.lstat().st_gid) for path in (target, target / "file", target / "link")]
    assert owners == [(1000, 1100), (1001, 1101), (1002, 1102)]


def test_something_that_is_no_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "target").mkdir()
    with pytest.raises(NotADirectoryError):
        copy_directory(str(tmp_path / "file"), str(tmp_path / "target"))
