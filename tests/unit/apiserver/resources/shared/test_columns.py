"""`kubectl get`, column by column."""

from typing import Any

import pytest

from bridgehead.apiserver.resources.shared.columns import format_label_selector, human_duration, since
from tests.unit.apiserver.resources import more_rows
from tests.unit.apiserver.resources.steps import from_yaml, table

NOW = 1_800_000_000.0
TABLE = table()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (1.9, "1s"),
        (119, "119s"),
        (120, "2m"),
        (130, "2m10s"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (11100, "3h5m"),
        (28799, "7h59m"),
        (28800, "8h"),
        (172799, "47h"),
        (172800, "2d"),
        (180000, "2d2h"),
        (691199, "7d23h"),
        (691200, "8d"),
        (63071999, "729d"),
        (63072000, "2y"),
        (63072000 + 86400 * 30, "2y30d"),
        (252288000, "8y"),
        (3153600000, "100y"),
    ],
)
def test_durations_are_formatted_as_by_kubectl(seconds, text):
    assert human_duration(seconds) == text


@pytest.mark.parametrize("timestamp", [None, "", "yesterday", "2026-01-01T00:00:00"])
def test_an_invalid_date_is_unknown(timestamp):
    assert since(timestamp, NOW) == "<unknown>"


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ("", "<none>"),
        ("{matchLabels: {b: x, a: y}}", "a=y,b=x"),
        ("{matchExpressions: [{key: t, operator: In, values: [b, a]}]}", "t in (a,b)"),
        ("{matchExpressions: [{key: t, operator: NotIn, values: [a]}], matchLabels: {z: '1'}}", "t notin (a),z=1"),
        ("{matchExpressions: [{key: b, operator: Exists}, {key: a, operator: DoesNotExist}]}", "!a,b"),
        ("{matchExpressions: [{key: b, operator: Likes}]}", "<error>"),
    ],
)
def test_selectors_are_printed_in_command_line_syntax(selector, text):
    assert format_label_selector(from_yaml(selector)) == text


def row(resource: str, obj, *, wide: bool = True) -> list[Any]:
    return [column.cell(obj, NOW) for column in TABLE[resource].columns if wide or column.priority == 0]


# resource, object (YAML), the row that `kubectl get -o wide` shows
ROWS = {
    **more_rows.ROWS,
    "service": (
        "services",
        """
        metadata: {name: web, creationTimestamp: "2027-01-15T07:55:00Z"}
        spec: {type: ClusterIP, clusterIP: 10.96.1.2, ports: [{port: 80, protocol: TCP}], selector: {app: web}}
        """,
        ["web", "ClusterIP", "10.96.1.2", "<none>", "80/TCP", "5m", "app=web"],
    ),
    "headless service": (
        "services",
        "{metadata: {name: db}, spec: {type: ClusterIP, clusterIP: None}}",
        ["db", "ClusterIP", "None", "<none>", "<none>", "<unknown>", "<none>"],
    ),
    "node port with external addresses": (
        "services",
        """
        metadata: {name: web}
        spec:
          type: NodePort
          clusterIP: 10.96.1.2
          externalIPs: [192.0.2.1, 192.0.2.2]
          ports: [{port: 80, nodePort: 30080, protocol: TCP}, {port: 53, nodePort: 30053, protocol: UDP}]
        """,
        [
            "web",
            "NodePort",
            "10.96.1.2",
            "192.0.2.1,192.0.2.2",
            "80:30080/TCP,53:30053/UDP",
            "<unknown>",
            "<none>",
        ],
    ),
    "load balancer that waits": (
        "services",
        "{metadata: {name: web}, spec: {type: LoadBalancer, clusterIP: 10.96.1.2}}",
        ["web", "LoadBalancer", "10.96.1.2", "<pending>", "<none>", "<unknown>", "<none>"],
    ),
    "load balancer": (
        "services",
        """
        metadata: {name: web}
        spec: {type: LoadBalancer, clusterIP: 10.96.1.2, externalIPs: [192.0.2.9]}
        status: {loadBalancer: {ingress: [{hostname: lb.example.com}, {ip: 10.0.0.7}]}}
        """,
        ["web", "LoadBalancer", "10.96.1.2", "10.0.0.7,lb.example.com,192.0.2.9", "<none>", "<unknown>", "<none>"],
    ),
    "external name": (
        "services",
        "{metadata: {name: db}, spec: {type: ExternalName, externalName: db.example.com}}",
        ["db", "ExternalName", "<none>", "db.example.com", "<none>", "<unknown>", "<none>"],
    ),
    "endpoints": (
        "endpoints",
        """
        metadata: {name: web}
        subsets:
        - addresses: [{ip: 10.244.1.1}, {ip: "fd00::1"}]
          ports: [{port: 80}, {port: 81}]
        - addresses: [{ip: 10.244.1.3}]
          ports: [{port: 90}]
        """,
        ["web", "10.244.1.1:80,[fd00::1]:80,10.244.1.1:81 + 2 more...", "<unknown>"],
    ),
    "endpoints of a headless service without ports": (
        "endpoints",
        "{metadata: {name: web}, subsets: [{addresses: [{ip: 10.244.1.1}]}]}",
        ["web", "10.244.1.1", "<unknown>"],
    ),
    "no endpoints": ("endpoints", "{metadata: {name: web}}", ["web", "<none>", "<unknown>"]),
    "slice": (
        "endpointslices.discovery.k8s.io",
        """
        metadata: {name: web-x}
        addressType: IPv4
        ports: [{name: http, port: 80}, {name: any}]
        endpoints: [{addresses: [10.244.1.1]}, {addresses: [10.244.1.2, 10.244.1.3, 10.244.1.4]}]
        """,
        ["web-x", "IPv4", "80,any", "10.244.1.1,10.244.1.2,10.244.1.3 + 1 more...", "<unknown>"],
    ),
    "empty slice": (
        "endpointslices.discovery.k8s.io",
        "{metadata: {name: web-x}, addressType: IPv4}",
        ["web-x", "IPv4", "<unset>", "<unset>", "<unknown>"],
    ),
    "deployment": (
        "deployments.apps",
        """
        metadata: {name: web}
        spec:
          replicas: 3
          selector: {matchLabels: {app: web}}
          template: {spec: {containers: [{name: a, image: nginx}, {name: b, image: busybox}]}}
        status: {readyReplicas: 2, updatedReplicas: 3, availableReplicas: 1}
        """,
        ["web", "2/3", 3, 1, "<unknown>", "a,b", "nginx,busybox", "app=web"],
    ),
    "replica set": (
        "replicasets.apps",
        "{metadata: {name: web-1}, spec: {replicas: 3}, status: {replicas: 2, readyReplicas: 1}}",
        ["web-1", 3, 2, 1, "<unknown>", "", "", "<none>"],
    ),
    "daemon set": (
        "daemonsets.apps",
        """
        metadata: {name: proxy}
        spec: {template: {spec: {nodeSelector: {os: linux}, containers: [{name: p, image: kube-proxy}]}}}
        status: {desiredNumberScheduled: 3, currentNumberScheduled: 3, numberReady: 2, updatedNumberScheduled: 3,
                 numberAvailable: 2}
        """,
        ["proxy", 3, 3, 2, 3, 2, "os=linux", "<unknown>", "p", "kube-proxy", "<none>"],
    ),
    "node": (
        "nodes",
        """
        metadata: {name: node1, labels: {node-role.kubernetes.io/worker: "", node-role.kubernetes.io/edge: ""}}
        spec: {unschedulable: true}
        status:
          conditions: [{type: Ready, status: "True"}]
          addresses: [{type: Hostname, address: node1}, {type: InternalIP, address: 10.0.0.201}]
          nodeInfo: {kubeletVersion: v1.36.0, osImage: Debian, kernelVersion: 6.1.0, containerRuntimeVersion: ns://1}
        """,
        [
            "node1",
            "Ready,SchedulingDisabled",
            "edge,worker",
            "<unknown>",
            "v1.36.0",
            "10.0.0.201",
            "<none>",
            "Debian",
            "6.1.0",
            "ns://1",
        ],
    ),
    "node that went away": (
        "nodes",
        "{metadata: {name: node1}, status: {conditions: [{type: Ready, status: Unknown}]}}",
        ["node1", "NotReady", "<none>", "<unknown>", "", "<none>", "<none>"] + ["<unknown>"] * 3,
    ),
    "namespace": (
        "namespaces",
        "{metadata: {name: a}, status: {phase: Terminating}}",
        ["a", "Terminating", "<unknown>"],
    ),
    "event": (
        "events",
        """
        metadata: {name: web.1}
        type: Normal
        reason: Pulled
        involvedObject: {kind: Pod, name: web, fieldPath: "spec.containers{web}"}
        source: {component: kubelet, host: node1}
        message: " pulled\\n"
        firstTimestamp: "2027-01-15T07:55:00Z"
        lastTimestamp: "2027-01-15T07:59:00Z"
        count: 3
        """,
        [
            "60s",
            "Normal",
            "Pulled",
            "pod/web",
            "spec.containers{web}",
            "kubelet, node1",
            "pulled",
            "5m",
            3,
            "web.1",
        ],
    ),
    "event of the newer API": (
        "events",
        """
        metadata: {name: web.1}
        involvedObject: {kind: Node}
        reportingComponent: scheduler
        eventTime: "2027-01-15T07:55:00.000000Z"
        series: {count: 7, lastObservedTime: "2027-01-15T07:59:30.000000Z"}
        """,
        ["30s", "", "", "node", "", "scheduler", "", "5m", 7, "web.1"],
    ),
    "config map": (
        "configmaps",
        "{metadata: {name: a}, data: {x: '1', y: '2'}, binaryData: {z: AA==}}",
        ["a", 3, "<unknown>"],
    ),
    "secret": ("secrets", "{metadata: {name: a}, type: Opaque, data: {x: AA==}}", ["a", "Opaque", 1, "<unknown>"]),
    "service account": ("serviceaccounts", "{metadata: {name: default}}", ["default", 0, "<unknown>"]),
    "lease": (
        "leases.coordination.k8s.io",
        "{metadata: {name: node1}, spec: {holderIdentity: node1}}",
        ["node1", "node1", "<unknown>"],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_table_rows_match_kubectl(name):
    resource, text, cells = ROWS[name]
    assert row(resource, from_yaml(text)) == cells


def test_every_resource_has_a_row():
    assert {resource for resource, _, _ in ROWS.values()} | {"pods"} == set(TABLE)


RUNNING = "{ready: true, state: {running: {}}}"
# fields of the pod (YAML): READY, STATUS, RESTARTS
PODS = {
    "waits for a node": ("status: {phase: Pending}", "0/1", "Pending", "0"),
    "is gated": (
        "status: {phase: Pending, conditions: [{type: PodScheduled, reason: SchedulingGated}]}",
        "0/1",
        "SchedulingGated",
        "0",
    ),
    "is being made": (
        "status: {phase: Pending, containerStatuses: [{state: {waiting: {reason: ContainerCreating}}}]}",
        "0/1",
        "ContainerCreating",
        "0",
    ),
    "has no image": (
        "status: {phase: Pending, containerStatuses: [{state: {waiting: {reason: ErrImagePull}}}]}",
        "0/1",
        "ErrImagePull",
        "0",
    ),
    "runs": (f"status: {{phase: Running, containerStatuses: [{RUNNING}]}}", "1/1", "Running", "0"),
    "runs but is not ready": (
        "status: {phase: Running, containerStatuses: [{ready: false, state: {running: {}}}]}",
        "0/1",
        "Running",
        "0",
    ),
    "crashes": (
        """
        status:
          phase: Running
          containerStatuses:
          - restartCount: 3
            state: {waiting: {reason: CrashLoopBackOff}}
            lastState: {terminated: {finishedAt: "2027-01-15T07:55:00Z"}}
        """,
        "0/1",
        "CrashLoopBackOff",
        "3 (5m ago)",
    ),
    "was killed by a signal": (
        "status: {phase: Failed, containerStatuses: [{state: {terminated: {signal: 9, exitCode: 137}}}]}",
        "0/1",
        "Signal:9",
        "0",
    ),
    "ended badly": (
        "status: {phase: Failed, containerStatuses: [{state: {terminated: {exitCode: 2}}}]}",
        "0/1",
        "ExitCode:2",
        "0",
    ),
    "is done": (
        "status: {phase: Succeeded, containerStatuses: [{state: {terminated: {exitCode: 0, reason: Completed}}}]}",
        "0/1",
        "Completed",
        "0",
    ),
    "is half done": (
        f"""
        spec: {{containers: [{{name: a}}, {{name: b}}]}}
        status:
          phase: Running
          containerStatuses: [{{state: {{terminated: {{reason: Completed}}}}}}, {RUNNING}]
        """,
        "1/2",
        "NotReady",
        "0",
    ),
    "is half done and ready": (
        f"""
        spec: {{containers: [{{name: a}}, {{name: b}}]}}
        status:
          phase: Running
          conditions: [{{type: Ready, status: "True"}}]
          containerStatuses: [{{state: {{terminated: {{reason: Completed}}}}}}, {RUNNING}]
        """,
        "1/2",
        "Running",
        "0",
    ),
    "is prepared": (
        """
        spec: {containers: [{name: a}], initContainers: [{name: i}, {name: j}]}
        status:
          phase: Pending
          initContainerStatuses: [{name: i, state: {terminated: {exitCode: 0}}}, {name: j, state: {running: {}}}]
        """,
        "0/1",
        "Init:1/2",
        "0",
    ),
    "is prepared in vain": (
        """
        spec: {containers: [{name: a}], initContainers: [{name: i}]}
        status:
          phase: Pending
          initContainerStatuses: [{name: i, restartCount: 2, state: {waiting: {reason: CrashLoopBackOff}}}]
        """,
        "0/1",
        "Init:CrashLoopBackOff",
        "2",
    ),
    "failed to be prepared": (
        """
        spec: {containers: [{name: a}], initContainers: [{name: i}]}
        status: {phase: Failed, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 1}}}]}
        """,
        "0/1",
        "Init:ExitCode:1",
        "0",
    ),
    "has a sidecar": (
        f"""
        spec: {{containers: [{{name: a}}], initContainers: [{{name: s, restartPolicy: Always}}]}}
        status:
          phase: Running
          initContainerStatuses: [{{name: s, started: true, ready: true, restartCount: 1, state: {{running: {{}}}}}}]
          containerStatuses: [{RUNNING}]
        """,
        "2/2",
        "Running",
        "1",
    ),
    "is going": (
        f"""
        metadata: {{deletionTimestamp: "2027-01-15T07:55:00Z"}}
        status: {{phase: Running, containerStatuses: [{RUNNING}]}}
        """,
        "1/1",
        "Terminating",
        "0",
    ),
    "was done before it was deleted": (
        """
        metadata: {deletionTimestamp: "2027-01-15T07:55:00Z"}
        status: {phase: Succeeded}
        """,
        "0/1",
        "Succeeded",
        "0",
    ),
    "is lost with its node": (
        """
        metadata: {deletionTimestamp: "2027-01-15T07:55:00Z"}
        status: {phase: Running, reason: NodeLost}
        """,
        "0/1",
        "Unknown",
        "0",
    ),
    "was evicted": ("status: {phase: Failed, reason: Evicted}", "0/1", "Evicted", "0"),
}


@pytest.mark.parametrize("name", PODS)
def test_the_status_column_of_a_pod(name):
    text, ready, status, restarts = PODS[name]
    pod = {"spec": {"containers": [{"name": "a"}]}, **from_yaml(text)}
    assert row("pods", pod, wide=False) == ["", ready, status, restarts, "<unknown>"]


def test_the_wide_columns_of_a_pod():
    pod = from_yaml(
        """
        metadata: {name: web}
        spec: {nodeName: node1, readinessGates: [{conditionType: a}, {conditionType: b}]}
        status: {podIP: 10.244.1.2, podIPs: [{ip: 10.244.1.2}], conditions: [{type: b, status: "True"}]}
        """
    )
    assert row("pods", pod)[5:] == ["10.244.1.2", "node1", "<none>", "1/2"]
    assert row("pods", {"metadata": {"name": "web"}})[5:] == ["<none>"] * 4


def test_short_names_and_categories_match_kubernetes():
    facts = {r.id: (r.kind, r.singular, r.short_names, r.categories, r.namespaced) for r in TABLE.values()}
    assert facts == {
        "namespaces": ("Namespace", "namespace", ("ns",), (), False),
        "nodes": ("Node", "node", ("no",), (), False),
        "pods": ("Pod", "pod", ("po",), ("all",), True),
        "services": ("Service", "service", ("svc",), ("all",), True),
        "endpoints": ("Endpoints", "endpoints", ("ep",), (), True),
        "events": ("Event", "event", ("ev",), (), True),
        "configmaps": ("ConfigMap", "configmap", ("cm",), (), True),
        "secrets": ("Secret", "secret", (), (), True),
        "serviceaccounts": ("ServiceAccount", "serviceaccount", ("sa",), (), True),
        "deployments.apps": ("Deployment", "deployment", ("deploy",), ("all",), True),
        "replicasets.apps": ("ReplicaSet", "replicaset", ("rs",), ("all",), True),
        "daemonsets.apps": ("DaemonSet", "daemonset", ("ds",), ("all",), True),
        "endpointslices.discovery.k8s.io": ("EndpointSlice", "endpointslice", (), (), True),
        "leases.coordination.k8s.io": ("Lease", "lease", (), (), True),
        **more_rows.NAMES,
    }


def test_the_columns_of_format_name():
    for resource in TABLE.values():
        names = ["Name", "Attacher"] if resource.plural == "volumeattachments" else ["Name"]
        assert [column.name for column in resource.columns if column.format == "name"] == names
