"""The writes of a replay: proxies have the same to program, and nothing of the recording runs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.facts.network_state import NetworkState
from bridgehead.insight.recording import replay_plan
from bridgehead.insight.recording.comparison import (
    compare_kernels,
    differences,
    frontends_of,
    last_states,
    recorded_mode,
)
from bridgehead.insight.recording.format import (
    EndEntry,
    InvalidRecording,
    NetworkEntry,
    ObjectEntry,
    Recording,
    decode,
)
from bridgehead.insight.recording.replay_plan import Plan, TooLarge, plan_replay, recorded_nodes
from bridgehead.insight.rulesets.entries import RulesMode
from bridgehead.objects.core import Node, NodeAddress, NodeStatus
from bridgehead.objects.endpoint_slices import MANAGED_BY_LABEL
from bridgehead.objects.meta import ObjectKey, ObjectMeta

from .objects import HEADER, added, end, endpoint_slice, node, pod, recording_of, service

OCCUPIED = ("10.0.0.0/24", "10.244.0.0/16", "10.96.0.0/12")
NODE1 = Node(
    metadata=ObjectMeta(name="node1"),
    status=NodeStatus(addresses=(NodeAddress(type="InternalIP", address="10.0.0.201"),)),
)


def plan_of(*objects: dict[str, Any], existing: tuple[ObjectKey, ...] = (), nodes: int = 3, most_pods: int = 0) -> Plan:
    recording = decode([recording_of(*map(added, objects), end())])
    return plan_replay(recording, [f"node{number}" for number in range(1, nodes + 1)], existing, OCCUPIED, most_pods)


def test_nothing_runs_of_a_pod_that_is_an_object_only():
    hostile = pod(
        hostNetwork=True,
        hostPID=True,
        volumes=[{"name": "root", "hostPath": {"path": "/"}}],
        serviceAccountName="admin",
        nodeName="worker-a",
        initContainers=[{"name": "evil", "image": "evil"}],
    )
    hostile["spec"]["containers"][0] |= {
        "command": ["evil"],
        "securityContext": {"privileged": True},
        "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "0.0.0.0"}],
    }
    hostile["metadata"] |= {"ownerReferences": [{"kind": "Node", "name": "node1"}], "annotations": {"evil": "evil"}}
    hostile["metadata"]["finalizers"] = ["evil/stays"]

    (action,) = plan_of(hostile).actions

    assert action.body == {
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "schedulerName": "bridgehead-replay",
            "automountServiceAccountToken": False,
            "containers": [
                {"name": "recorded-1", "image": "registry.k8s.io/pause:3.10", "ports": [{"containerPort": 80}]}
            ],
        },
    }
    assert action.status is not None
    assert action.status["podIP"] == "10.244.1.5"
    assert action.status["conditions"] == [{"type": "Ready", "status": "True"}]


def test_services_without_stand_ins_have_their_addresses_and_no_selector():
    recorded = endpoint_slice()
    recorded["metadata"]["labels"][MANAGED_BY_LABEL] = "endpointslice-controller.k8s.io"

    its_service, its_slice = plan_of(node(), service(), recorded).actions[1:]

    assert its_service.body is not None
    assert its_slice.body is not None
    assert "selector" not in its_service.body["spec"]
    assert its_service.body["spec"]["clusterIPs"] == ["10.96.3.4"]
    assert its_service.body["metadata"]["annotations"] == {"bridgehead/recorded-selector": "app=web"}
    assert its_slice.body["metadata"]["labels"] == {
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "bridgehead-replay",
    }
    assert "ownerReferences" not in its_slice.body["metadata"]
    assert its_slice.body["endpoints"][0]["nodeName"] == "node1"


def test_nodes_that_the_lab_lacks_stay_elsewhere():
    plan = plan_of(node("a"), node("b"), endpoint_slice("web", "default", "b"), nodes=1)

    assert plan.nodes == {"a": "node1"}
    last = plan.actions[-1].body
    assert last is not None
    assert last["endpoints"][0]["nodeName"] == "b"


def test_the_objects_of_the_lab_itself_stay():
    dns = service("kube-dns", "kube-system", "10.96.0.10")

    plan = plan_of(
        dns,
        endpoint_slice("kube-dns", "kube-system"),
        pod("coredns-1", "kube-system"),
        existing=(ObjectKey("kube-system", "kube-dns"),),
    )

    assert plan.actions == ()


@pytest.mark.parametrize(
    ("cidrs", "is_taken"),
    [(["10.43.0.0/16"], True), (["10.96.0.0/16"], False), (["10.0.0.0/8"], False), ([7], False), (["x"], False)],
)
def test_ranges_of_services_are_added_beside_those_of_the_lab(cidrs, is_taken):
    cidr = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "more"}}

    assert bool(plan_of({**cidr, "spec": {"cidrs": cidrs}}).actions) == is_taken


def test_a_plan_leaves_what_was_there_at_the_end():
    first, gone, changed = service(), service("old", ip="10.96.3.5"), service(ip="10.96.3.4")
    changed["spec"]["ports"][0]["port"] = 81
    recording = Recording(
        HEADER,
        (
            added(first),
            added(gone),
            added(endpoint_slice()),
            ObjectEntry(at=1.0, change="modified", object=changed),
            ObjectEntry(at=2.0, change="deleted", object=gone),
            EndEntry(at=3.0),
        ),
        3.0,
    )

    frontends = frontends_of(plan_replay(recording, ["node1"], (), OCCUPIED, 0).final, NODE1)

    assert [(str(key), each.owner) for key, each in frontends.items()] == [("10.96.3.4:81/tcp", "default/web:http")]
    assert [each.address for each in next(iter(frontends.values())).backends] == ["10.244.1.5"]


def test_a_difference_names_the_backends():
    was = frontends_of(plan_of(service(), endpoint_slice("web", "default", "a", "10.244.1.5")).final, NODE1)
    now = frontends_of(plan_of(service(), endpoint_slice("web", "default", "a", "10.244.1.6")).final, NODE1)

    assert list(differences(was, was)) == []
    assert list(differences(was, now)) == [
        "10.96.3.4:80/tcp (default/web:http): the replay lacks 10.244.1.5:8080, has 10.244.1.6:8080 in addition"
    ]
    assert list(differences(was, {})) == ["10.96.3.4:80/tcp (default/web:http) is only in the recording"]


def iptables(*backends: str, name: str = "default/web:http") -> NetworkState:
    """Return the rules of a Service as iptables-save prints them."""
    lines = ["*nat", ":KUBE-SERVICES - [0:0]", ":KUBE-SVC-WEB - [0:0]"]
    lines += [f":KUBE-SEP-{number} - [0:0]" for number in range(len(backends))]
    lines.append(
        f'-A KUBE-SERVICES -d 10.96.3.4/32 -p tcp -m comment --comment "{name} cluster IP" -m tcp --dport 80'
        " -j KUBE-SVC-WEB"
    )
    for number, backend in enumerate(backends):
        lines.append(f'-A KUBE-SVC-WEB -m comment --comment "{name} -> {backend}" -j KUBE-SEP-{number}')
        lines.append(
            f'-A KUBE-SEP-{number} -p tcp -m comment --comment "{name}" -m tcp -j DNAT --to-destination {backend}'
        )
    return NetworkState(iptables={4: "\n".join((*lines, "COMMIT", "")).encode()})


def test_kernels_are_compared_by_destination_and_backends():
    one, two = iptables("10.244.1.5:8080"), iptables("10.244.1.5:8080", "10.244.2.7:8080")

    assert compare_kernels(two, two, (), {}).differences == ()
    assert compare_kernels(two, two, (), {}).destinations == 1
    assert compare_kernels(one, two, (), {}).differences == (
        "10.96.3.4:80/tcp (default/web:http): the recorded kernel has 10.244.1.5:8080,"
        " the replay has 10.244.1.5:8080, 10.244.2.7:8080",
    )
    assert compare_kernels(one, two, {"default/web"}, {}).differences == ()
    assert compare_kernels(one, iptables("10.244.7.7:8080"), (), {"10.244.7.7": "10.244.1.5"}).differences == ()
    assert compare_kernels(one, NetworkState(), (), {}).why_not == "the replay has no rules of a service proxy"


def test_the_last_rules_of_a_node_count():
    states = iptables("10.244.1.5:8080"), iptables("10.244.1.6:8080")
    entries = [NetworkEntry(at=float(number), node="a", state=state) for number, state in enumerate(states)]

    assert last_states(decode([recording_of(*entries, end(5.0))])) == {"a": states[1]}


def test_too_many_objects_make_no_lab(monkeypatch):
    monkeypatch.setattr(replay_plan, "MOST_OBJECTS", 2)

    plan_of(service("a"), service("b"))
    with pytest.raises(TooLarge):
        plan_of(service("a"), service("b"), service("c"))


def test_policies_are_objects_and_workloads_are_not_rebuilt():
    policy, ingress, deployment = (
        {"apiVersion": version, "kind": kind, "metadata": {"name": "web", "namespace": "default"}, "spec": {"a": 1}}
        for version, kind in (
            ("networking.k8s.io/v1", "NetworkPolicy"),
            ("networking.k8s.io/v1", "Ingress"),
            ("apps/v1", "Deployment"),
        )
    )

    actions = plan_of(policy, ingress, deployment).actions

    assert [action.kind.plural for action in actions] == ["networkpolicies", "ingresses"]
    assert [action.body["spec"] for action in actions if action.body] == [{"a": 1}, {"a": 1}]


def test_the_mode_of_the_recorded_proxies_is_that_of_their_rules():
    rules = NetworkEntry(at=0.0, node="a", state=iptables("10.244.1.5:8080"))

    assert recorded_mode(decode([recording_of(rules, end())])) is RulesMode.IPTABLES
    assert recorded_mode(decode([recording_of(end())])) is None


FIELDS = ("ports", "containers", "name", "endpoints", "addresses", "conditions", "labels", "cidrs", "port", "status")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 70000) | st.sampled_from(("", "web", "10.0.0.1", "\x1b[31m")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)
KINDS = st.sampled_from(
    (
        ("v1", "Service", "default"),
        ("v1", "Pod", "default"),
        ("v1", "Node", ""),
        ("discovery.k8s.io/v1", "EndpointSlice", "default"),
        ("networking.k8s.io/v1", "ServiceCIDR", ""),
    )
)


@given(st.lists(st.tuples(KINDS, JSON, JSON, JSON), max_size=4), st.integers(0, 2))
def test_any_objects_have_a_plan(parts, most_pods):
    objects = []
    for (version, kind, namespace), labels, spec, status in parts:
        metadata = {"name": "web", "labels": labels} | ({"namespace": namespace} if namespace else {})
        obj = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "status": status}
        objects.append(obj | {"endpoints": spec, "ports": status, "addressType": "IPv4"})
    try:
        recording = decode([recording_of(*map(added, objects), end())])
    except InvalidRecording:
        return

    plan = plan_replay(recording, ["node1"], (), OCCUPIED, most_pods)

    assert set(recorded_nodes(recording)) >= plan.nodes.keys()
    msgspec.json.encode([action.body for action in plan.actions])
    frontends_of(plan.final, NODE1)
