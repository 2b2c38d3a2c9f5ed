"""Resource limits and OOM scores of containers."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.containers.resource_limits import oom_score_adj, plan_limits
from bridgehead.kubelet.runtimes.runtime import Limits
from tests.unit.kubelet.pod_factory import make_pod

GIB = 1 << 30


def limited(limits=None, requests=None, qos_class="Burstable", **spec):
    resources = {"limits": limits or {}, "requests": requests or {}}
    return make_pod(qos_class=qos_class, containers=[{"name": "app", "resources": resources}], **spec)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (limited(qos_class="BestEffort"), Limits(pids=9, oom_score_adj=1000)),
        (
            limited({"memory": "1Gi", "cpu": "1500m"}, {"memory": "512Mi", "cpu": "0.25"}),
            Limits(memory=GIB, cpu_millis=1500, cpu_request_millis=250, pids=9, oom_score_adj=875),
        ),
        (
            limited({"memory": "1Gi", "cpu": 2}, qos_class="Guaranteed"),
            Limits(memory=GIB, cpu_millis=2000, cpu_request_millis=2000, pids=9, oom_score_adj=-997),
        ),
        (
            limited({"cpu": 2}, resources={"limits": {"memory": "1Gi", "cpu": 4}}),
            Limits(memory=GIB, cpu_millis=2000, cpu_request_millis=2000, pids=9, oom_score_adj=999),
        ),
        (
            limited(resources={"limits": {"memory": "1Gi", "cpu": 4}}),
            Limits(memory=GIB, cpu_millis=4000, pids=9, oom_score_adj=999),
        ),
        (limited({"memory": "0", "cpu": "0"}), Limits(pids=9, oom_score_adj=999)),
        (limited({"cpu": "0.1m"}), Limits(cpu_millis=1, cpu_request_millis=1, pids=9, oom_score_adj=999)),
    ],
)
def test_limits_follow_requests_and_limits(made, expected):
    assert plan_limits(made, made.spec.containers[0], {"memory": "4Gi"}, 9) == expected


@pytest.mark.parametrize(
    ("made", "score"),
    [
        (limited(requests={"memory": "1"}), 999),
        (limited(requests={"memory": "4Gi"}), 3),
        (limited(requests={"memory": "9Gi"}), 3),
        (limited(qos_class="BestEffort", priorityClassName="system-node-critical"), -997),
    ],
)
def test_oom_scores_match_kubernetes(made, score):
    assert oom_score_adj(made, made.spec.containers[0], 4 * GIB) == score


def test_a_sidecar_has_the_oom_score_of_the_main_containers():
    init = [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}]
    made = limited(requests={"memory": "2Gi"}, initContainers=init)
    scores = [oom_score_adj(made, container, 4 * GIB) for container in made.spec.init_containers]
    assert scores == [500, 999]
