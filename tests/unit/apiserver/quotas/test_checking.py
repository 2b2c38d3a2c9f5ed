"""The use that objects make of quotas, and the refusal of those that do not fit."""

import pytest

from bridgehead.apiserver.quotas.checking import QuotaRefused, check_quota, count_quota, counted_resources
from tests.unit.apiserver.resources.steps import from_yaml

NOW = 1_800_000_000.0


def pod(requests=None, limits=None, **spec):
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}], **spec}}


def quota(hard, used=None, **spec):
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") | (used or {})}
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": status}


def used(hard, resource, *objects, **spec):
    return count_quota({"spec": {"hard": hard, **spec}}, {resource: objects}, NOW)["used"]


USAGES = {
    "containers run together, init containers before them": (
        "pods",
        """
        spec:
          containers: [{resources: {requests: {cpu: 100m}}}, {resources: {requests: {cpu: 200m}, limits: {cpu: 1}}}]
          initContainers: [{resources: {requests: {cpu: 250m, memory: 1Gi}}}]
        """,
        {"cpu": "300m", "requests.cpu": "300m", "limits.cpu": "1", "requests.memory": "1Gi", "pods": "1",
         "count/pods": "1"},
    ),
    "sidecars run all the time": (
        "pods",
        """
        spec:
          containers: [{resources: {requests: {cpu: 1}}}]
          initContainers:
          - {restartPolicy: Always, resources: {requests: {cpu: 2}}}
          - {resources: {requests: {cpu: 3}}}
          overhead: {cpu: 500m}
        """,
        {"cpu": "5500m"},
    ),
    "a pod may state its resources as a whole": (
        "pods", "spec: {resources: {requests: {cpu: 3}}, containers: [{resources: {requests: {cpu: 1}}}]}",
        {"cpu": "3"}),
    "a pod that has ended is an object only": (
        "pods", "{status: {phase: Succeeded}, spec: {containers: [{resources: {requests: {cpu: 1}}}]}}",
        {"cpu": "0", "pods": "0", "count/pods": "1"}),
    "a pod that should be gone is an object only": (
        "pods", '{metadata: {deletionTimestamp: "2027-01-15T07:00:00Z", deletionGracePeriodSeconds: 30}}',
        {"pods": "0", "count/pods": "1"}),
    "extended resources": (
        "pods", "spec: {containers: [{resources: {requests: {example.com/gpu: 2}}}]}",
        {"requests.example.com/gpu": "2"}),
    "a node port": (
        "services", "spec: {type: NodePort, ports: [{port: 80}, {port: 81}]}",
        {"services": "1", "services.nodeports": "2", "services.loadbalancers": "0", "count/services": "1"}),
    "a load balancer without node ports": (
        "services", "spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}",
        {"services.nodeports": "0", "services.loadbalancers": "1"}),
    "a claim": (
        "persistentvolumeclaims", "spec: {storageClassName: gold, resources: {requests: {storage: 10Gi}}}",
        {"requests.storage": "10Gi", "gold.storageclass.storage.k8s.io/requests.storage": "10Gi",
         "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
         "tin.storageclass.storage.k8s.io/persistentvolumeclaims": "0"}),
    "a ConfigMap": ("configmaps", "{}", {"configmaps": "1", "count/configmaps": "1"}),
    "a custom resource": ("widgets.example.com", "{}", {"count/widgets.example.com": "1"}),
}  # fmt: skip


@pytest.mark.parametrize("name", USAGES)
def test_objects_use_what_kubernetes_counts(name):
    resource, obj, expected = USAGES[name]
    assert used(dict.fromkeys(expected, "100"), resource, from_yaml(obj)) == expected


def test_amounts_are_added_up_and_keep_their_form():
    pods = [pod({"memory": "256Mi", "cpu": "100m"}), pod({"memory": "768Mi", "cpu": "900m"})]
    assert used({"memory": "2Gi", "cpu": "2"}, "pods", *pods) == {"memory": "1Gi", "cpu": "1"}


def test_resources_that_nobody_serves_are_not_counted():
    hard = {"count/widgets.example.com": "1", "pods": "1"}
    assert counted_resources({"spec": {"hard": hard}}) == {"widgets.example.com", "pods"}
    assert used(hard, "pods") == {"pods": "0"}


SCOPES = {
    "Terminating": (pod(activeDeadlineSeconds=5), pod()),
    "NotTerminating": (pod(), pod(activeDeadlineSeconds=5)),
    "BestEffort": (pod(), pod({"cpu": "1"})),
    "NotBestEffort": (pod({"cpu": "1"}), pod()),
    "PriorityClass": (pod(priorityClassName="a"), pod()),
    "CrossNamespacePodAffinity": (
        pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["b"]}]}}),
        pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "b"}]}}),
    ),
}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_selects_pods(scope):
    inside, outside = SCOPES[scope]
    assert used({"pods": "9"}, "pods", inside, inside, outside, scopes=[scope]) == {"pods": "2"}


@pytest.mark.parametrize(
    ("operator", "values", "count"),
    [("In", ["high"], 1), ("NotIn", ["high"], 2), ("Exists", [], 2), ("DoesNotExist", [], 1)],
)
def test_a_scope_selector_selects_priority_classes(operator, values, count):
    pods = [pod(priorityClassName="high"), pod(priorityClassName="low"), pod()]
    requirement = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    counted = used({"pods": "9"}, "pods", *pods, scopeSelector={"matchExpressions": [requirement]})
    assert counted == {"pods": str(count)}


def refusal(a_quota, obj, resource="pods", old=None):
    with pytest.raises(QuotaRefused) as refused:
        check_quota(a_quota, resource, obj, old or {}, NOW)
    return str(refused.value)


def test_an_object_that_fits_is_counted():
    hard = {"pods": "2", "requests.cpu": "1", "secrets": "1"}
    charged = check_quota(quota(hard, {"pods": "1"}), "pods", pod({"cpu": "600m"}), {}, NOW)
    assert charged == {"pods": "2", "requests.cpu": "600m", "secrets": "0"}


def test_an_object_that_does_not_fit_is_refused():
    text = refusal(quota({"pods": "5", "cpu": "1"}, {"pods": "5", "cpu": "500m"}), pod({"cpu": "600m"}))
    assert text == "exceeded quota: q, requested: cpu=600m,pods=1, used: cpu=500m,pods=5, limited: cpu=1,pods=5"


def test_the_containers_of_a_limited_pod_must_state_their_amounts():
    text = refusal(quota({"limits.memory": "1Gi", "cpu": "1", "ephemeral-storage": "1"}), pod())
    assert text == "failed quota: q: must specify cpu for: c; limits.memory for: c"


def test_a_quota_that_is_not_counted_yet_refuses():
    fresh = {"metadata": {"name": "q"}, "spec": {}, "status": {"hard": {"pods": "1", "count/pods": "2"}}}
    assert refusal(fresh, pod()) == "status unknown for quota: q, resources: count/pods,pods"


def test_a_change_is_charged_with_its_increase():
    ports = [{"port": 80}, {"port": 81}]
    old, new = ({"spec": {"type": one, "ports": ports}} for one in ("ClusterIP", "NodePort"))
    limited = quota({"services": "1", "services.nodeports": "2"}, {"services": "1"})
    assert check_quota(limited, "services", new, old, NOW) == {"services": "1", "services.nodeports": "2"}
    assert check_quota(limited, "services", old, new, NOW) is None
    assert refusal(quota({"services.nodeports": "1"}), new, "services", old) == (
        "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1"
    )


def test_other_objects_do_not_concern_a_quota():
    assert check_quota(quota({"pods": "0"}), "secrets", {"metadata": {}}, {}, NOW) is None
    assert check_quota(quota({"pods": "0"}, scopes=["Terminating"]), "pods", pod(), {}, NOW) is None
