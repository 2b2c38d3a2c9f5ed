"""Access of fsGroup to the files of a volume. The group is this process's own; others need privileges."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bridgehead.kubelet.volumes.chown import grant_access


def modes(directory: Path) -> dict[str, int]:
    paths = (directory, *directory.rglob("*"))
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in paths if not path.is_symlink()}


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "outside").touch(0o600)
    directory = tmp_path / "volume"
    (directory / "inner").mkdir(0o700, parents=True)
    (directory / "inner" / "file").touch(0o400)
    (directory / "program").touch(0o711)
    (directory / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(directory / "pipe", 0o600)
    directory.chmod(0o700)
    return directory


def test_the_group_may_write_everywhere_and_links_are_not_followed(volume: Path) -> None:
    grant_access(volume, os.getgid(), "Always")
    assert modes(volume) == {"volume": 0o2770, "inner": 0o2770, "file": 0o660, "program": 0o771, "pipe": 0o660}
    assert stat.S_IMODE((volume.parent / "outside").stat().st_mode) == 0o600


def test_the_root_decides_if_the_policy_wants_that(volume: Path) -> None:
    grant_access(volume, os.getgid(), "OnRootMismatch")
    assert modes(volume)["file"] == 0o660
    (volume / "inner" / "file").chmod(0o400)
    grant_access(volume, os.getgid(), "OnRootMismatch")
    assert modes(volume)["file"] == 0o400
    grant_access(volume, os.getgid(), "Always")
    assert modes(volume)["file"] == 0o660
