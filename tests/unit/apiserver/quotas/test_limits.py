"""Default requests and limits of a LimitRange, and its bounds."""

import pytest

from bridgehead.apiserver.quotas.limits import ANNOTATION, set_defaults, violations


def limit_range(**limit):
    return {"spec": {"limits": [{"type": "Container", **limit}]}}


def pod(*resources):
    return {
        "metadata": {},
        "spec": {"containers": [{"name": f"c{i}", "resources": r} for i, r in enumerate(resources)]},
    }


def test_containers_get_what_they_leave_open():
    obj = pod({}, {"requests": {"cpu": "50m"}, "limits": {"cpu": "60m", "memory": "1Gi"}})
    set_defaults(limit_range(defaultRequest={"cpu": "100m", "memory": "200Mi"}, default={"cpu": "300m"}), obj)
    first, second = (container["resources"] for container in obj["spec"]["containers"])
    assert first == {"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": {"cpu": "300m"}}
    assert second == {"requests": {"cpu": "50m", "memory": "200Mi"}, "limits": {"cpu": "60m", "memory": "1Gi"}}
    assert obj["metadata"]["annotations"][ANNOTATION] == (
        "LimitRanger plugin set: cpu, memory request for container c0; cpu limit for container c0; "
        "memory request for container c1"
    )


def test_a_pod_that_states_everything_is_not_annotated():
    obj = pod({"requests": {"cpu": "1"}})
    set_defaults(limit_range(defaultRequest={"cpu": "100m"}), obj)
    assert "annotations" not in obj["metadata"]


BOUNDS = [
    ({"min": {"cpu": "100m"}}, {}, "minimum cpu usage per Container is 100m.  No request is specified"),
    ({"min": {"cpu": "100m"}}, {"requests": {"cpu": "50m"}},
     "minimum cpu usage per Container is 100m, but request is 50m"),
    ({"max": {"memory": "1Gi"}}, {}, "maximum memory usage per Container is 1Gi.  No limit is specified"),
    ({"max": {"memory": "1Gi"}}, {"limits": {"memory": "2Gi"}},
     "maximum memory usage per Container is 1Gi, but limit is 2Gi"),
    ({"maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
     "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"),
    ({"maxLimitRequestRatio": {"cpu": "2"}}, {"limits": {"cpu": "3"}},
     "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"),
    ({"max": {"cpu": "2"}, "min": {"cpu": "1"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, None),
]  # fmt: skip


@pytest.mark.parametrize(("limit", "resources", "text"), BOUNDS)
def test_containers_stay_within_bounds(limit, resources, text):
    assert violations(limit_range(**limit), "pods", pod(resources)) == ([text] if text else [])


def test_a_pod_stays_within_bounds_as_a_whole():
    limit = {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}}
    one = {"limits": {"cpu": "1500m"}}
    assert violations(limit, "pods", pod(one)) == []
    assert violations(limit, "pods", pod(one, one)) == ["maximum cpu usage per Pod is 2, but limit is 3"]


def test_claims_stay_within_bounds():
    limit = {
        "spec": {"limits": [{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}]}
    }
    claim = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    assert violations(limit, "persistentvolumeclaims", claim) == [
        "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
    ]
