"""Atomic update and owners of a volume's files."""

from __future__ import annotations

import errno
import os

import pytest

from bridgehead.kubelet.volumes.atomic_writer import write_files
from bridgehead.kubelet.volumes.directories import make_open_directory
from bridgehead.kubelet.volumes.projected_volumes import File


def stat_of(path):
    status = path.lstat()
    return status.st_mode & 0o7777, status.st_uid, status.st_gid


def test_files_and_directories_get_their_owner(tmp_path):
    """The ids are those of this process: others need privileges, and may not exist in a user namespace."""
    user, group = os.getuid(), os.getgid()
    files = {"d/e": File(b"1", 0o440, user, group)}
    assert write_files(tmp_path / "v", files, group)
    data = tmp_path / "v" / "..data" / ""
    assert stat_of(data / "d" / "e") == (0o440, user, group)
    assert stat_of(tmp_path / "v") == (0o2777, user, group)
    for directory in (data.resolve(), data / "d"):
        assert stat_of(directory) == (0o2755, user, group)
    assert not write_files(tmp_path / "v", files, group)
    assert write_files(tmp_path / "v", {"d/e": File(b"1", 0o400, user)}, group)


def test_an_owner_outside_the_user_namespace_is_refused(tmp_path, monkeypatch):
    def chown(*args, **options):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "chown", chown)
    with pytest.raises(ValueError, match="cannot be owned by group 9: the cluster runs in a user namespace"):
        make_open_directory(tmp_path / "v", 9)
    assert not (tmp_path / "v").exists()


def read(directory):
    return {p.name: p.read_bytes() for p in directory.iterdir() if not p.name.startswith("..")}


def test_files_are_replaced_atomically(tmp_path):
    assert write_files(tmp_path, {"a": File(b"1", 0o644), "b": File(b"2", 0o600)})
    first = os.readlink(tmp_path / "..data")
    assert read(tmp_path) == {"a": b"1", "b": b"2"}
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
    assert not write_files(tmp_path, {"a": File(b"1", 0o644), "b": File(b"2", 0o600)})
    assert write_files(tmp_path, {"a": File(b"3", 0o644)})
    assert os.readlink(tmp_path / "..data") != first
    assert read(tmp_path) == {"a": b"3"}
    assert not (tmp_path / first).exists()
    assert write_files(tmp_path, {"d/e": File(b"4", 0o644)})
    assert (tmp_path / "d" / "e").read_bytes() == b"4"
