"""Owners of volumes of a pod with users of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.kubelet.volumes import atomic_writer, directories
from bridgehead.kubelet.volumes.projected_volumes import File, owned_files
from bridgehead.kubelet.volumes.volume_owners import volume_owner
from tests.unit.kubelet.pod_factory import make_pod


@pytest.mark.parametrize(
    ("context", "id_base", "owner"),
    [
        ({}, 0, (None, None)),
        ({"fsGroup": 2000}, 0, (None, 2000)),
        ({}, 65536, (65536, None)),
        ({"fsGroup": 0}, 65536, (65536, 65536)),
        ({"fsGroup": 2000}, 65536, (65536, 67536)),
    ],
)
def test_the_directories_of_a_volume_belong_to_the_pods_root_and_group(context, id_base, owner):
    assert volume_owner(make_pod(context), id_base) == owner


def test_the_files_of_a_volume_belong_to_the_pods_users():
    files = {"a": File(b"1", 0o644), "b": File(b"2", 0o600, 1000, 2000)}
    assert owned_files(files, 0) == files
    assert owned_files(files, 131072) == {
        "a": File(b"1", 0o644, 131072, 131072),
        "b": File(b"2", 0o600, 132072, 133072),
    }


@pytest.mark.parametrize(("group", "owner"), [(None, (65536, 65536)), (67536, (65536, 67536))])
def test_only_files_of_an_fs_group_get_the_group_of_their_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int | None, owner: tuple[int, int]
) -> None:
    given: list[tuple[int | None, int | None]] = []
    for module in (atomic_writer, directories):
        monkeypatch.setattr(module, "set_owner", lambda path, user, group: given.append((user, group)))
    directories.make_open_directory(tmp_path / "open", group, 65536)
    atomic_writer.write_files(tmp_path / "files", {"d/a": File(b"1", 0o644, *owner)}, group, 65536)
    assert set(given) == {owner}
    for path in (tmp_path / "open", tmp_path / "files", tmp_path / "files/..data/d"):
        assert bool(path.stat().st_mode & 0o2000) == (group is not None)
