"""emptyDir and hostPath volumes."""

from __future__ import annotations

import os

import pytest

from bridgehead.kubelet.volumes.directories import check_host_path, make_open_directory
from bridgehead.objects.core import HostPathVolume


def stat_of(path):
    status = path.lstat()
    return status.st_mode & 0o7777, status.st_uid, status.st_gid


def test_an_existing_directory_is_not_changed(tmp_path):
    directory = tmp_path / "volumes" / "v"
    make_open_directory(directory, None)
    assert stat_of(directory)[0] == 0o777
    directory.chmod(0o700)
    make_open_directory(directory, None)
    assert stat_of(directory)[0] == 0o700
    make_open_directory(tmp_path / "volumes" / "w", os.getgid())
    assert stat_of(tmp_path / "volumes" / "w") == (0o2777, os.getuid(), os.getgid())
    assert sorted(path.name for path in (tmp_path / "volumes").iterdir()) == ["v", "w"]


@pytest.mark.parametrize(
    ("type", "name", "message"),
    [
        ("", "dir", None),
        ("", "made", None),
        ("Directory", "dir", None),
        ("Directory", "file", "is not a directory"),
        ("Directory", "none", "is not a directory"),
        ("DirectoryOrCreate", "made/deep", None),
        ("File", "file", None),
        ("File", "dir", "is not a file"),
        ("FileOrCreate", "made", None),
        ("FileOrCreate", "none/file", "open /.*/none/file: no such file or directory"),
        ("Socket", "file", "is not a socket file"),
        ("CharDevice", "file", "is not a character device"),
        ("BlockDevice", "file", "is not a block device"),
        ("Nonsense", "file", "is an invalid volume type"),
    ],
)
def test_host_path_types_are_checked(tmp_path, type, name, message):
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").touch()
    path = HostPathVolume(path=str(tmp_path / name), type=type)
    if message is None:
        assert check_host_path(path) == tmp_path / name
        assert (tmp_path / name).exists()
    else:
        with pytest.raises(ValueError, match=message):
            check_host_path(path)
