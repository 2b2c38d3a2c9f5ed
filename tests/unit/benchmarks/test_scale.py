"""The synthetic clusters of the benchmark: their numbers, and the options that bound a run."""

from __future__ import annotations

import pytest
from benchmarks import scale
from benchmarks.scale_cluster import Cluster, service_address


def test_pods_and_services_of_the_largest_cluster() -> None:
    cluster = Cluster(5_000)
    assert (cluster.pods, cluster.services) == (150_000, 44_000)
    assert len({cluster.pod_address(pod) for pod in range(cluster.pods)}) == cluster.pods
    assert len({service_address(service) for service in range(cluster.services)}) == cluster.services


def test_each_pod_belongs_to_one_service_and_one_node() -> None:
    cluster = Cluster(7)
    selected = [pod for service in range(cluster.services) for pod in cluster.pods_of(service)]
    assert sorted(selected) == list(range(cluster.pods))
    nodes = [cluster.node_of(pod) for pod in selected]
    assert {nodes.count(node) for node in range(cluster.nodes)} == {30}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--nodes 5001", "--nodes: 1 to 5000"),
        ("--nodes 10 --nodes 0", "--nodes: 1 to 5000"),
        ("--seconds 601", "--seconds: 1 to 600"),
        ("--changes 1001", "--changes: 1 to 1000"),
        ("--operations 9", "--operations: 10 to 10000"),
        ("--watching 0", "--watching: from 1 on"),
    ],
)
def test_runs_are_bounded(arguments: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        scale._parse(arguments.split())
    assert expected in capsys.readouterr().err


def test_sizes_may_be_chosen() -> None:
    assert [each.nodes for each in scale._parse([])] == [100, 1_000, 5_000]
    assert scale._parse(["--nodes", "20", "--seconds", "10"]) == [scale.Options(20, seconds=10)]
