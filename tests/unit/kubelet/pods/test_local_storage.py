"""Evictions for the use of local storage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bridgehead.kubelet.directory_use import COPY, COPY_SIZE, measure_copies, measure_directory
from bridgehead.kubelet.pods.local_storage import StorageUse, describe_excess, is_limited, sized_volumes
from tests.unit.kubelet.pod_factory import make_pod

MIB = 1 << 20


def limited(*limits: str, **spec: Any) -> Any:
    containers = [
        {"name": f"c{number}", "resources": {"limits": {"ephemeral-storage": limit} if limit else {}}}
        for number, limit in enumerate(limits)
    ]
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}, {"name": "m", "emptyDir": {"medium": "Memory"}}]
    return make_pod(containers=containers, **{"volumes": volumes, **spec})


@pytest.mark.parametrize(
    ("limits", "volumes", "containers", "message"),
    [
        (("2Mi",), {"v": MIB}, {"c0": MIB}, ""),
        (("2Mi",), {"v": MIB + 1}, {}, 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '),
        (
            ("2Mi", "1000k"),
            {},
            {"c0": 2 * MIB, "c1": MIB},
            "Pod ephemeral local storage usage exceeds the total limit of containers 3097152. ",
        ),
        (
            ("2Mi",),
            {"v": MIB},
            {"c0": MIB + 1},
            "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ",
        ),
        (("2Mi", "2Mi"), {}, {"c0": 2 * MIB + 1}, 'Container c0 exceeded its local ephemeral storage limit "2Mi". '),
        (("2Mi", ""), {"v": 1}, {"c0": MIB, "c1": MIB - 1}, ""),
        # A container without a limit counts for the pod, and adds nothing to the pod's limit.
        (
            ("2Mi", ""),
            {"v": 1},
            {"c0": 0, "c1": 2 * MIB},
            "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ",
        ),
        (
            ("1M", "1Mi"),
            {},
            {"c0": 3 * MIB},
            "Pod ephemeral local storage usage exceeds the total limit of containers 2048576. ",
        ),
        (
            ("1M", "1M"),
            {},
            {"c0": 3 * MIB},
            "Pod ephemeral local storage usage exceeds the total limit of containers 2M. ",
        ),
        (("1000k", "2M"), {}, {"c0": MIB}, 'Container c0 exceeded its local ephemeral storage limit "1M". '),
        (("", ""), {"v": 1}, {"c0": 90 * MIB}, ""),
        # 0 is a limit of the pod, and none of a container.
        (("0",), {}, {"c0": 1}, "Pod ephemeral local storage usage exceeds the total limit of containers 0. "),
        (("0",), {}, {"c0": 0}, ""),
        (("0", "1Mi"), {}, {"c0": MIB}, ""),
        (
            ("0", "1Mi"),
            {},
            {"c0": MIB + 1},
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
        ),
    ],
)
def test_why_a_pod_is_evicted(
    limits: tuple[str, ...], volumes: dict[str, int], containers: dict[str, int], message: str
) -> None:
    assert describe_excess(limited(*limits), StorageUse(volumes=volumes, containers=containers)) == message


def test_limits_of_sidecars_and_init_containers_are_of_the_pod_only() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"limits": {"ephemeral-storage": "1Ki"}}}
    made = limited("", initContainers=[sidecar, {"name": "i"}], volumes=[])
    assert is_limited(made)
    total = "Pod ephemeral local storage usage exceeds the total limit of containers 1Ki. "
    assert describe_excess(made, StorageUse(containers={"s": 1025})) == total
    larger = {"name": "i", "resources": {"limits": {"ephemeral-storage": "3Ki"}}}
    made = limited("1Ki", initContainers=[sidecar, larger], volumes=[])
    assert describe_excess(made, StorageUse(containers={"s": 4 << 10})) == ""
    assert "limit of containers 4Ki" in describe_excess(made, StorageUse(containers={"s": 4097}))


def test_pods_without_limits_are_not_measured() -> None:
    assert is_limited(limited(""))
    assert is_limited(limited("1Mi", volumes=[]))
    assert not is_limited(limited("", volumes=[{"name": "e", "emptyDir": {}}]))
    assert not is_limited(limited("", volumes=[{"name": "e", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]))
    assert sized_volumes(limited("")) == ["v"]


def test_an_empty_dir_of_size_zero_has_no_limit() -> None:
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": "0"}}]
    assert not is_limited(limited("", volumes=volumes))
    assert describe_excess(limited("", volumes=volumes), StorageUse(volumes={"v": 1})) == ""
    assert is_limited(limited("0", volumes=volumes))


def test_static_and_critical_pods_are_not_measured() -> None:
    assert is_limited(limited("1Mi", priority=1_999_999_999))
    assert not is_limited(limited("1Mi", priority=2_000_000_000))
    assert not is_limited(limited("1Mi", annotations={"kubernetes.io/config.source": "file"}))


def test_a_directory_is_measured_by_what_it_occupies(tmp_path: Path) -> None:
    assert measure_directory(tmp_path / "none") == 0
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "file").write_bytes(b"x" * MIB)
    os.link(tmp_path / "deep" / "er" / "file", tmp_path / "again")
    (tmp_path / "link").symlink_to("/usr")
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 30)
    assert MIB <= measure_directory(tmp_path) < 2 * MIB


def test_a_bounded_number_of_entries_is_measured(tmp_path: Path) -> None:
    for name in "abcdef":
        (tmp_path / name).write_bytes(b"x")
    assert 0 < measure_directory(tmp_path, 3) == measure_directory(tmp_path) // 2


def test_a_copy_of_an_image_counts_by_what_was_added_to_it(tmp_path: Path) -> None:
    copy = tmp_path / "0" / COPY
    copy.mkdir(parents=True)
    (copy / "image").write_bytes(bytes(MIB))
    (tmp_path / "0" / COPY_SIZE).write_text(str(measure_directory(copy)))
    assert measure_copies(tmp_path) == 0
    (copy / "new").write_bytes(bytes(MIB))
    assert measure_copies(tmp_path) == MIB
    (copy / "image").unlink()
    (copy / "new").unlink()
    assert measure_copies(tmp_path) == measure_copies(tmp_path / "none") == 0
