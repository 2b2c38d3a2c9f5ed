"""The size of an emptyDir in memory."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.kubelet.volumes.memory_size import memory_size
from bridgehead.objects.core import EmptyDirVolume
from tests.unit.kubelet.pod_factory import make_pod

GIB = 1 << 30
LIMITED = {"name": "a", "resources": {"limits": {"memory": "1Gi"}}}


@pytest.mark.parametrize(
    ("containers", "size_limit", "size"),
    [
        ([LIMITED, LIMITED], None, 2 * GIB),
        ([LIMITED, {"name": "b"}], None, 8 * GIB),
        ([LIMITED], "512Mi", GIB // 2),
        ([LIMITED], "3Gi", GIB),
        ([LIMITED], 0, GIB),
        ([{"name": "a", "resources": {"limits": {"memory": "9Gi"}}}], "10Gi", 8 * GIB),
    ],
)
def test_the_least_bound_counts(containers: list[dict[str, Any]], size_limit: str | int | None, size: int) -> None:
    volume = EmptyDirVolume(medium="Memory", size_limit=size_limit)
    assert memory_size(volume, make_pod(containers=containers), {"memory": "8Gi"}) == size
