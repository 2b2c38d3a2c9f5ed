"""The pods that end for a critical one."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.pods.node_fit import find_shortages
from bridgehead.kubelet.pods.preemption import NoVictims, choose_victims
from bridgehead.kubelet.pods.static_manifest import SOURCE
from tests.unit.kubelet.pod_factory import requesting

CAPACITY = {"cpu": "2", "memory": "1Gi", "pods": "3", "ephemeral-storage": "1Gi"}
CRITICAL = 2_000_000_000


def other(name, qos_class="Burstable", *, cpu="0", memory="0", **more):
    return requesting(name, qos_class=qos_class, requests={"cpu": cpu, "memory": memory}, **more)


@pytest.mark.parametrize(
    ("others", "victims"),
    [
        # A pod that frees enough, before two that free it together.
        ([other("a", cpu="300m"), other("b", cpu="300m"), other("c", cpu="600m")], ["c"]),
        # If several pods free enough, the one that requests least.
        ([other("a", cpu="900m"), other("b", cpu="700m")], ["b"]),
        ([other("a", cpu="700m", memory="2Mi"), other("b", cpu="900m", memory="1Mi")], ["b"]),
        ([other("a", cpu="400m"), other("b", cpu="300m"), other("c", cpu="100m")], ["a", "b"]),
        # A guaranteed pod only if the others do not free enough, and then no more of the others than needed.
        ([other("a", "Guaranteed", cpu="600m"), other("b", cpu="600m")], ["b"]),
        ([other("a", "Guaranteed", cpu="500m"), other("b", cpu="100m"), other("c", "BestEffort")], ["b", "a"]),
        ([other("a", "Guaranteed", cpu="600m"), other("b", cpu="100m")], ["a"]),
        # Critical pods end only for those of a higher priority.
        ([other("a", cpu="600m", priority=CRITICAL), other("b", cpu="900m")], ["b"]),
        ([other("a", cpu="600m", annotations={SOURCE: "file"}), other("b", cpu="900m")], ["b"]),
    ],
)
def test_other_pods_end_for_a_critical_pod(others, victims):
    critical = requesting("critical", requests={"cpu": "600m"}, priority=CRITICAL)
    shortages = find_shortages(critical, others, {"cpu": sum_of_cpu(others)})
    assert [victim.metadata.name for victim in choose_victims(critical, others, shortages)] == victims


def sum_of_cpu(pods):
    return f"{sum(int(one.spec.containers[0].resources.requests['cpu'].removesuffix('m')) for one in pods)}m"


def test_a_critical_pod_ends_one_of_a_lower_priority():
    low, high = other("low", cpu="1", priority=CRITICAL), other("high", cpu="1", priority=CRITICAL + 1000)
    assert choose_victims(high, [low], find_shortages(high, [low], {"cpu": "1"})) == [low]


def test_a_pod_without_requests_counts_against_the_number_of_pods():
    others = [other(name, "BestEffort") for name in "abc"]
    critical = requesting("critical", priority=CRITICAL)
    assert len(choose_victims(critical, others, find_shortages(critical, others, CAPACITY))) == 1


def test_no_pod_ends_in_vain():
    critical = requesting("critical", requests={"cpu": "3", "memory": "1Gi"}, priority=CRITICAL)
    others = [other("a", cpu="1")]
    with pytest.raises(NoVictims) as caught:
        choose_victims(critical, others, find_shortages(critical, others, CAPACITY))
    assert str(caught.value) == "no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]"
