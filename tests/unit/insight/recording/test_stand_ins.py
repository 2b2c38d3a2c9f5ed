"""Pods of a replay that run: which ones, with what, and how Services find them."""

from __future__ import annotations

from typing import Any

from bridgehead.insight.recording.comparison import frontends_of, with_recorded_addresses
from bridgehead.insight.recording.format import EndEntry, Entry, ObjectEntry, Recording
from bridgehead.insight.recording.replay_plan import Action, Plan, State, plan_replay
from bridgehead.insight.recording.stand_ins import ADDRESSES_ANNOTATION, READY_GATE, recorded_addresses
from bridgehead.objects.core import Node, Pod, PodIP, PodStatus
from bridgehead.objects.kinds import ENDPOINT_SLICES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey, ObjectMeta

from .objects import HEADER, Json, added, endpoint_slice, node, pod, service

CONTROLLER = "endpointslice-controller.k8s.io"


def plan_of(*entries: Entry, most_pods: int = 10, nodes: tuple[str, ...] = ("node1",)) -> Plan:
    recording = Recording(HEADER, (added(node()), *entries, EndEntry(at=9.0)), 9.0)
    return plan_replay(recording, nodes, (), (), most_pods)


def changed(obj: Json, at: float, change: Any = "modified") -> ObjectEntry:
    return ObjectEntry(at=at, change=change, object=obj)


def pods_of(plan: Plan) -> list[Action]:
    return [action for action in plan.actions if action.kind is PODS]


def slice_of(*pods: str, **labels: str) -> Json:
    """Return the slice that Kubernetes' controller writes for these pods."""
    obj = endpoint_slice("web", "default", "worker-a", *(f"10.244.1.{number}" for number in range(5, 5 + len(pods))))
    obj["metadata"]["labels"] |= {"endpointslice.kubernetes.io/managed-by": CONTROLLER, **labels}
    for endpoint, name in zip(obj["endpoints"], pods, strict=True):
        endpoint["targetRef"] = {"kind": "Pod", "name": name, "namespace": "default"}
    return obj


def test_only_names_and_ports_of_a_pod_run():
    hostile = pod(
        hostNetwork=True,
        hostPID=True,
        volumes=[{"name": "root", "hostPath": {"path": "/"}}],
        serviceAccountName="admin",
        initContainers=[{"name": "evil", "image": "evil"}],
        hostname="web-1",
    )
    hostile["spec"]["containers"] = [
        {"image": "evil", "command": ["evil"], "securityContext": {"privileged": True}, "ports": ports}
        for ports in (
            [{"name": "http", "containerPort": 8080, "hostPort": 8080}],
            [{"name": "dns", "containerPort": 53, "protocol": "UDP"}, {"containerPort": 7, "protocol": "SCTP"}],
        )
    ]
    hostile["metadata"] |= {"ownerReferences": [{"kind": "Node"}], "finalizers": ["evil/stays"]}

    (action,) = pods_of(plan_of(added(hostile), added(slice_of("web-1"))))

    assert action.body == {
        "metadata": {
            "name": "web-1",
            "namespace": "default",
            "labels": {"app": "web"},
            "annotations": {ADDRESSES_ANNOTATION: "10.244.1.5"},
        },
        "spec": {
            "nodeName": "node1",
            "hostname": "web-1",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "readinessGates": [{"conditionType": READY_GATE}],
            "containers": [
                {
                    "name": "stand-in",
                    "image": "registry.k8s.io/e2e-test-images/agnhost:2.53",
                    "args": ["porter"],
                    "env": [
                        {"name": "SERVE_PORT_8080", "value": "web-1"},
                        {"name": "SERVE_UDP_PORT_53", "value": "web-1"},
                    ],
                    "ports": [
                        {"name": "http", "containerPort": 8080},
                        {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                        {"containerPort": 7, "protocol": "SCTP"},
                    ],
                }
            ],
        },
    }


def test_ports_of_endpoints_are_served_although_no_container_names_them():
    bare = pod(containers=[{"name": "web"}])

    (action,) = pods_of(plan_of(added(bare), added(slice_of("web-1"))))

    assert action.body is not None
    assert action.body["spec"]["containers"][0]["env"] == [{"name": "SERVE_PORT_8080", "value": "web-1"}]


def test_a_pod_is_ready_when_the_recorded_one_was_and_terminates_with_it():
    starting, unready, ready, terminating = pod(), pod(), pod(), pod()
    starting["status"] = {"phase": "Pending"}
    unready["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    plan = plan_of(
        added(starting), changed(unready, 1.0), changed(ready, 2.0), changed(terminating, 3.0),
        changed(terminating, 4.0), changed(terminating, 5.0, "deleted"),
    )  # fmt: skip

    steps = [(a.at, a.status and a.status["conditions"][0]["status"], a.grace) for a in pods_of(plan)]
    assert steps == [
        (0.0, "False", 0), (1.0, "False", 0), (2.0, "True", 0), (3.0, "True", 0), (3.0, None, 3600), (4.0, "True", 0),
        (5.0, None, 0),
    ]  # fmt: skip
    body = pods_of(plan)[0].body
    assert body is not None
    assert body["spec"]["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": 3600}}}
    assert plan.pods == {}


def test_pods_that_end_are_deleted():
    done = pod()
    done["status"]["phase"] = "Succeeded"

    plan = plan_of(added(pod()), changed(done, 1.0), changed(done, 2.0, "deleted"))

    assert [(action.at, action.body is None) for action in pods_of(plan)] == [(0.0, False), (1.0, True)]


def test_pods_without_an_address_or_a_node_of_the_lab_are_objects():
    pending = pod("pending")
    pending["status"] = {"phase": "Pending"}

    plan = plan_of(added(pending), added(pod("elsewhere", node="worker-b")), added(pod("system", "kube-system")))

    assert [action.body["spec"]["schedulerName"] for action in pods_of(plan) if action.body] == [
        "bridgehead-replay"
    ] * 2
    assert plan.objects_only == 1
    assert plan.pods == {}


def test_only_so_many_pods_run_at_a_time():
    plan = plan_of(
        added(pod("a")), added(pod("b")), changed(pod("a"), 1.0, "deleted"), changed(pod("c"), 2.0, "added"),
        most_pods=1,
    )  # fmt: skip

    assert plan.pods == {ObjectKey("default", "c"): True}
    assert plan.objects_only == 1


def test_services_find_pods_that_run_by_their_selectors():
    plan = plan_of(added(service()), added(pod()), added(slice_of("web-1")))

    (its_service,) = (action for action in plan.actions if action.kind is SERVICES)
    assert its_service.body is not None
    assert its_service.body["spec"]["selector"] == {"app": "web"}
    assert not [action for action in plan.actions if action.kind is ENDPOINT_SLICES]
    assert plan.final.slices.keys() == {ObjectKey("default", "web-abcde")}


def test_endpoints_of_pods_that_have_ended_need_no_stand_in():
    ending = slice_of("web-1", "gone")
    ending["endpoints"][1]["conditions"] = {"ready": False, "serving": False, "terminating": True}

    plan = plan_of(added(service()), added(pod()), added(ending), changed(slice_of("web-1"), 1.0))

    assert not [action for action in plan.actions if action.kind is ENDPOINT_SLICES]


def test_services_with_other_endpoints_have_the_recorded_slices():
    plan = plan_of(added(service()), added(pod()), added(pod("web-2")), added(slice_of("web-1", "web-2")), most_pods=1)

    its_service, its_slice = (action for action in plan.actions if action.kind in (SERVICES, ENDPOINT_SLICES))
    assert its_service.body is not None
    assert "selector" not in its_service.body["spec"]
    assert its_slice.pods == (ObjectKey("default", "web-1"), None)


def test_addresses_of_slices_by_hand_are_those_of_pods():
    by_hand = endpoint_slice("web", "default", "worker-a", "10.244.1.5", "192.0.2.1")

    plan = plan_of(added(service(selector={})), added(pod()), added(by_hand))

    assert plan.actions[-1].pods == (ObjectKey("default", "web-1"), None)


def test_frontends_are_compared_with_recorded_addresses():
    plan = plan_of(added(service()), added(pod()), added(slice_of("web-1")))
    replayed = Pod(
        metadata=ObjectMeta(name="web-1", annotations={ADDRESSES_ANNOTATION: "10.244.1.5,fd00::5"}),
        status=PodStatus(pod_ips=(PodIP(ip="10.244.9.9"), PodIP(ip="fd00:9::9"))),
    )
    addresses = recorded_addresses([replayed])
    assert addresses == {"10.244.9.9": "10.244.1.5", "fd00:9::9": "fd00::5"}
    in_lab = plan_of(added(service()), added(endpoint_slice("web", "default", "worker-a", "10.244.9.9"))).final
    where = Node(metadata=ObjectMeta(name="node1"))

    same = with_recorded_addresses(State(in_lab.services, in_lab.slices), addresses)

    assert frontends_of(same, where) == frontends_of(plan.final, where)
    assert frontends_of(in_lab, where) != frontends_of(plan.final, where)
