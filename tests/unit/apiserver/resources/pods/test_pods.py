"""Pods and pod templates: defaults, validation, updates."""

import copy
import json
from typing import Any

import pytest

from bridgehead.apiserver.resources.pods.pod_defaults import pull_policy_for
from bridgehead.apiserver.resources.pods.pod_qos import qos_class
from tests.unit.apiserver.resources.steps import Steps, from_yaml, table

TOLERATED = {"effect": "NoExecute", "tolerationSeconds": 300}
NAMED = {"name": "web", "namespace": "default"}


@pytest.fixture
def pods():
    return Steps(table()["pods"])


def pod(spec):
    return {"metadata": dict(NAMED), "spec": from_yaml(spec) if isinstance(spec, str) else spec}


# --- Defaults --------------------------------------------------------------------------------------------


def test_a_minimal_pod_gets_its_defaults(pods):
    made = pods.create(pod("{containers: [{name: web, image: 'nginx:1.27', ports: [{containerPort: 80}]}]}"))
    assert made["spec"] == {
        "containers": [
            {
                "name": "web",
                "image": "nginx:1.27",
                "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {"key": f"node.kubernetes.io/{trouble}", "operator": "Exists", **TOLERATED}
            for trouble in ("not-ready", "unreachable")
        ],
    }  # fmt: skip
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


DISABLED = "{clusterTrustBundle: {name: ca, path: ca.pem}}, {podCertificate: {signerName: a.b/c, keyType: ED25519}}"


def test_fields_of_disabled_features_are_dropped(pods):
    spec = (
        "{containers: [{name: c, image: i}], volumes: [{name: v, projected: {sources: ["
        f"{DISABLED}, {{configMap: {{name: m}}}}]}}}}]}}"
    )
    sources = [{}, {}, {"configMap": {"name": "m"}}]
    assert pods.create(pod(spec))["spec"]["volumes"][0]["projected"]["sources"] == sources
    for resource, path in WITH_TEMPLATES.items():
        obj: dict[str, Any] = {"metadata": dict(NAMED)}
        inner = obj
        for name in path:
            inner = inner.setdefault(name, {})
        inner["spec"] = from_yaml(spec)
        strategy = table()[resource].strategy
        strategy.default(obj)
        assert inner["spec"]["volumes"][0]["projected"]["sources"] == sources


WITH_TEMPLATES = {
    "podtemplates": ("template",),
    "deployments.apps": ("spec", "template"),
    "jobs.batch": ("spec", "template"),
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("localhost:5000/nginx", "Always"),
        ("localhost:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:" + "0" * 64, "IfNotPresent"),
        ("nginx:latest@sha256:" + "0" * 64, "Always"),
        ("", "IfNotPresent"),
        ("Nginx", "IfNotPresent"),
        ("nginx:1:2", "IfNotPresent"),
        ("nginx@sha256:0", "IfNotPresent"),
        ("0" * 64, "IfNotPresent"),
        ("Registry.example:5000/nginx", "Always"),
    ],
)
def test_the_default_pull_policy_depends_on_the_tag(image, policy):
    assert pull_policy_for(image) == policy


@pytest.mark.parametrize(
    ("spec", "path", "value"),
    [
        (
            "{containers: [{name: a, image: b, livenessProbe: {httpGet: {port: 80}}}]}",
            ("containers", 0, "livenessProbe"),
            {
                "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                "timeoutSeconds": 1,
                "periodSeconds": 10,
                "successThreshold": 1,
                "failureThreshold": 3,
            },
        ),
        (
            "{containers: [{name: a, image: b, env: [{name: X, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]}",
            ("containers", 0, "env", 0, "valueFrom", "fieldRef", "apiVersion"),
            "v1",
        ),
        ("{containers: [{name: a, image: b}], volumes: [{name: v}]}", ("volumes", 0), {"name": "v", "emptyDir": {}}),
        (
            "{containers: [{name: a, image: b}], volumes: [{name: v, configMap: {name: c}}]}",
            ("volumes", 0, "configMap", "defaultMode"),
            420,
        ),
        (
            "{containers: [{name: a, image: b}], volumes: [{name: v, hostPath: {path: /x}}]}",
            ("volumes", 0, "hostPath", "type"),
            "",
        ),
        (
            "{containers: [{name: a, image: b, ports: [{containerPort: 80}]}], hostNetwork: true}",
            ("containers", 0, "ports", 0, "hostPort"),
            80,
        ),
        (
            "{containers: [{name: a, image: b, resources: {limits: {cpu: 1}}}]}",
            ("containers", 0, "resources", "requests"),
            {"cpu": 1},
        ),
        ("{containers: [{name: a, image: b}], serviceAccount: robot}", ("serviceAccountName",), "robot"),
    ],
)
def test_defaults_of_a_pod_spec(pods, spec, path, value):
    found = pods.create(pod(spec))["spec"]
    for step in path:
        found = found[step]
    assert found == value


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ("[{}]", "BestEffort"),
        ("[{resources: {requests: {memory: 0}}}]", "BestEffort"),
        ("[{resources: {requests: {cpu: 100m}}}]", "Burstable"),
        ("[{resources: {limits: {cpu: 1, memory: 1Gi}}}]", "Guaranteed"),
        ("[{resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1000m, memory: 1024Mi}}}]", "Guaranteed"),
        ("[{resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 500m}}}]", "Burstable"),
        ("[{resources: {limits: {cpu: 1, memory: 1Gi}}}, {}]", "Burstable"),
    ],
)
def test_the_qos_class_follows_requests_and_limits(containers, expected):
    assert qos_class({"containers": from_yaml(containers)}) == expected


def test_the_qos_class_of_a_pod_with_resources_as_a_whole():
    container = {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    assert qos_class({"containers": [container], "resources": {"requests": {"cpu": "1"}}}) == "Burstable"
    assert qos_class({"containers": [{}], "resources": container["resources"]}) == "Guaranteed"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"cpu": "2"}}, []),
        (
            {"requests": {"cpu": "1", "memory": "1Gi"}},
            [
                'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container'
                " requests of 1500m",
                'spec.resources.requests[memory]: Invalid value: "1Gi": must be greater than or equal to aggregate'
                " container requests of 2Gi",
            ],
        ),
        (
            {"requests": {"cpu": "2"}, "limits": {"cpu": "2", "memory": "1Gi"}},
            [
                'spec.resources.requests: Invalid value: "2Gi": must be less than or equal to memory limit of 1Gi',
                'spec.resources.containers[0][memory].limits: Invalid value: "2Gi": must be less than or equal to pod'
                " limits of 1Gi",
            ],
        ),
        (
            {"limits": {"ephemeral-storage": "1Gi"}},
            [
                'spec.resources.limits[ephemeral-storage]: Unsupported value: "ephemeral-storage": supported values:'
                ' "cpu", "hugepages-", "memory"'
            ],
        ),
        (
            {"requests": {"cpu": "3"}, "limits": {"cpu": "2"}},
            ['spec.resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2'],
        ),
    ],
)
def test_the_resources_of_a_pod_as_a_whole_are_validated(pods, resources, expected):
    own = {"requests": {"cpu": "1500m", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
    containers = [{"name": "a", "image": "b", "resources": own}, {"name": "c", "image": "b"}]
    made = pod({"containers": containers, "resources": resources})
    if expected:
        assert pods.refusal(made) == expected
    else:
        assert pods.create(made)["spec"]["resources"]["requests"] == {"cpu": "2", "memory": "2Gi"}


def test_the_requests_of_a_pod_as_a_whole_default_to_those_of_its_containers(pods):
    containers = [
        {
            "name": name,
            "image": "b",
            "resources": {"requests": {"cpu": "1500m", "example.com/x": "1"}, "limits": {"example.com/x": "1"}},
        }
        for name in "ab"
    ]
    made = pods.create(pod({"containers": containers, "resources": {"limits": {"cpu": "4", "memory": "1Gi"}}}))
    assert made["spec"]["resources"] == {
        "limits": {"cpu": "4", "memory": "1Gi"},
        "requests": {"cpu": "3", "memory": "1Gi"},
    }


# --- Refusals --------------------------------------------------------------------------------------------

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_VALUE = (
    "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', "
    "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
MODE = "must be a number between 0 and 0777 (octal), both inclusive"
QUALIFIED = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?"
    "[A-Za-z0-9]')"
)
# A container's own fields, then the refusals; {} stands for `spec.containers[0]`.
ONE_RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}
MANY_CODES = {"action": "Restart", "exitCodes": {"operator": "In", "values": list(range(256))}}
CONTAINERS = [
    ("{name: ''}", ["{}.name: Required value"]),
    ("{name: A}", [f'{{}}.name: Invalid value: "A": {LABEL}']),
    ("{image: ''}", ["{}.image: Required value"]),
    ("{image: ' x'}", ['{}.image: Invalid value: " x": must not have leading or trailing whitespace']),
    ("{imagePullPolicy: Sometimes}", [
        '{}.imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"']),
    ("{ports: [{containerPort: 0}]}", ["{}.ports[0].containerPort: Required value"]),
    ("{ports: [{containerPort: 70000}]}", [
        "{}.ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"]),
    ("{ports: [{containerPort: 1, name: x}, {containerPort: 2, name: x}]}", [
        '{}.ports[1].name: Duplicate value: "x"']),
    ("{ports: [{containerPort: 1, name: a-name-of-sixteen}, {containerPort: 2, name: a-name-of-sixteen}]}", [
        '{}.ports[0].name: Invalid value: "a-name-of-sixteen": must be no more than 15 bytes',
        '{}.ports[1].name: Invalid value: "a-name-of-sixteen": must be no more than 15 bytes']),
    ("{ports: [{containerPort: 1, name: a-name-of-sixteen}]}", [
        '{}.ports[0].name: Invalid value: "a-name-of-sixteen": must be no more than 15 bytes']),
    ("{ports: [{containerPort: 1, protocol: tcp}]}", [
        '{}.ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"']),
    ("{ports: [{containerPort: 1, hostPort: 9}, {containerPort: 2, hostPort: 9}]}", [
        '{}.ports[1].hostPort: Duplicate value: "TCP//9"']),
    ("{env: [{name: ''}]}", ["{}.env[0].name: Required value"]),
    ("{env: [{name: 'a=b'}]}", [
        '{}.env[0].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII '
        "characters other than '='"]),
    ("{env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nothing}}}]}", [
        '{}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.nothing": error converting fieldPath: field '
        'label '
        "not supported: spec.nothing"]),
    ("{env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"spec.nodeName['a']\"}}}]}", [
        '{}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.nodeName[\'a\']": error converting fieldPath: '
        'field '
        "label does not support subscript: spec.nodeName['a']"]),
    ("{env: [{name: A, valueFrom: {fieldRef: {apiVersion: v2, fieldPath: metadata.name}}}]}", [
        '{}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: '
        "unsupported pod version: v2"]),
    ("{env: [{name: A, valueFrom: {fieldRef: {apiVersion: '', fieldPath: metadata.name}}}]}", []),
    ("{env: [{name: A, valueFrom: {fieldRef: {fieldPath: ''}}}]}", [
        "{}.env[0].valueFrom.fieldRef.fieldPath: Required value"]),
    ("{env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['A B']\"}}}]}", [
        f'{{}}.env[0].valueFrom.fieldRef: Invalid value: "a b": name part {QUALIFIED}']),
    ("{env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}]}", [
        '{}.env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: '
        '"metadata.name", '
        '"metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", '
        '"status.hostIPs", "status.podIP", "status.podIPs"']),
    ("{env: [{name: A, value: b, valueFrom: {configMapKeyRef: {name: c, key: k}}}]}", [
        '{}.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty']),
    ("{env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: k}, secretKeyRef: {name: s, key: k}}}]}", [
        '{}.env[0].valueFrom: Invalid value: "": may not have more than one field specified at a time']),
    ("{env: [{name: A, value: b, valueFrom: {configMapKeyRef: {name: c, key: k}, secretKeyRef: {name: s, key: k}}}]}", [
        '{}.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty']),
    ("{env: [{name: A, valueFrom: {resourceFieldRef: {resource: ''}}}]}", [
        "{}.env[0].valueFrom.resourceFieldRef.resource: Required value"]),
    ("{env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.gold}}}]}", [
        '{}.env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.gold": supported values: '
        '"limits.cpu", '
        '"limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", '
        '"requests.memory"']),
    ("{env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.hugepages-2Mi, divisor: 1024Ki}}}]}", []),
    ("{env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 10m}}}]}", [
        '{}.env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor\'s values 1m and 1 '
        'are '
        "supported with the cpu resource"]),
    ("{env: [{name: A, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1m}}}]}", [
        '{}.env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "requests.memory": only divisor\'s values 1, '
        '1k, 1M, '
        "1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource"]),
    ("{env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.ephemeral-storage, divisor: 3}}}]}", [
        '{}.env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.ephemeral-storage": only divisor\'s '
        'values '
        "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage "
        "resource"]),
    ("{env: [{name: A, valueFrom: {}}]}", [
        '{}.env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
        "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"]),
    ("{env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: ''}}}]}", [
        "{}.env[0].valueFrom.secretKeyRef.key: Required value"]),
    ("{envFrom: [{}]}", ['{}.envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`']),
    ("{volumeMounts: [{name: nowhere, mountPath: /x}]}", ['{}.volumeMounts[0].name: Not found: "nowhere"']),
    ("{volumeMounts: [{name: v, mountPath: /x}, {name: v, mountPath: /x}]}", [
        '{}.volumeMounts[1].mountPath: Invalid value: "/x": must be unique']),
    ("{envFrom: [{configMapRef: {name: c}, secretRef: {}, prefix: 'a='}]}", [
        '{}.envFrom[0].prefix: Invalid value: "a=": a valid environment variable name must consist only of printable '
        "ASCII characters other than '='",
        "{}.envFrom[0].secretRef.name: Required value",
        '{}.envFrom: Invalid value: "": may not have more than one field specified at a time']),
    ("{volumeMounts: [{name: v, mountPath: /x, subPath: ../y}]}", [
        '{}.volumeMounts.subPath: Invalid value: "../y": must not contain \'..\'']),
    ("{volumeMounts: [{name: v, mountPath: /x, subPath: y, subPathExpr: /z}]}", [
        '{}.volumeMounts[0].subPathExpr: Invalid value: "/z": subPathExpr and subPath are mutually exclusive',
        '{}.volumeMounts.subPathExpr: Invalid value: "/z": must be a relative path']),
    ("{volumeMounts: [{name: '', mountPath: ''}]}", [
        "{}.volumeMounts[0].name: Required value",
        '{}.volumeMounts[0].name: Not found: ""',
        "{}.volumeMounts[0].mountPath: Required value"]),
    ("{volumeMounts: [{name: v, mountPath: /x, mountPropagation: Both}]}", [
        '{}.volumeMounts.mountPropagation: Unsupported value: "Both": supported values: "Bidirectional", '
        '"HostToContainer", "None"']),
    ("{volumeMounts: [{name: v, mountPath: /x, mountPropagation: Bidirectional}]}", [
        "{}.volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged "
        "containers"]),
    ("{volumeMounts: [{name: v, mountPath: /x, mountPropagation: Bidirectional}], securityContext: {privileged: true}}",
     []),
    ("{volumeMounts: [{name: v, mountPath: /x, readOnly: true, recursiveReadOnly: Enabled}]}", []),
    ("{volumeMounts: [{name: v, mountPath: /x, recursiveReadOnly: Always}]}", [
        '{}.volumeMounts.recursiveReadOnly: Unsupported value: "Always": supported values: "Disabled", "Enabled", '
        '"IfPossible"']),
    ("{volumeMounts: [{name: v, mountPath: /x, mountPropagation: HostToContainer, recursiveReadOnly: IfPossible}]}", [
        "{}.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
        "{}.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not "
        "specified"]),
    ("{volumeDevices: [{name: block, devicePath: /dev/xvda}]}", []),
    ("{volumeDevices: [{name: '', devicePath: ''}]}", [
        "{}.volumeDevices[0].name: Required value",
        '{}.volumeDevices[0].name: Not found: ""',
        "{}.volumeDevices[0].devicePath: Required value"]),
    ("{volumeDevices: [{name: v, devicePath: /a/../b}]}", [
        '{}.volumeDevices[0].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or '
        "Ephemeral for block mode",
        "{}.volumeDevices[0].devicePath: Invalid value: \"/a/../b\": can not contain backsteps ('..')"]),
    ("{volumeDevices: [{name: block, devicePath: /x}, {name: block, devicePath: /x}]}", [
        '{}.volumeDevices[1].name: Invalid value: "block": must be unique',
        '{}.volumeDevices[1].devicePath: Invalid value: "/x": must be unique']),
    ("{volumeMounts: [{name: block, mountPath: /x}], volumeDevices: [{name: block, devicePath: /x}]}", [
        '{}.volumeMounts[0].name: Invalid value: "block": must not already exist in volumeDevices',
        '{}.volumeMounts[0].mountPath: Invalid value: "/x": must not already exist as a path in volumeDevices',
        '{}.volumeDevices[0].name: Invalid value: "block": must not already exist in volumeMounts',
        '{}.volumeDevices[0].devicePath: Invalid value: "/x": must not already exist as a path in volumeMounts']),
    ("{resources: {requests: {cpu: 2}, limits: {cpu: 1}}}", [
        '{}.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1']),
    ("{resources: {limits: {cpu: -1}}}", [
        '{}.resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        '{}.resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
    ("{resources: {limits: {gold: 1}, requests: {}}}", [
        '{}.resources.limits[gold]: Invalid value: "gold": must be a standard resource type or fully qualified',
        '{}.resources.limits[gold]: Invalid value: "gold": must be a standard resource for containers',
        '{}.resources.requests[gold]: Invalid value: "gold": must be a standard resource type or fully qualified',
        '{}.resources.requests[gold]: Invalid value: "gold": must be a standard resource for containers']),
    ("{livenessProbe: {}}", ["{}.livenessProbe: Required value: must specify a handler type"]),
    ("{livenessProbe: {exec: {}, successThreshold: 2}}", [
        "{}.livenessProbe.exec.command: Required value",
        "{}.livenessProbe.successThreshold: Invalid value: 2: must be 1"]),
    ("{readinessProbe: {tcpSocket: {port: 0}, periodSeconds: -1}}", [
        "{}.readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
        "{}.readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0"]),
    ("{readinessProbe: {tcpSocket: {port: 80}, httpGet: {port: 80}}}", [
        "{}.readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"]),
    ("{readinessProbe: {tcpSocket: {port: 80}, exec: {}}}", [
        "{}.readinessProbe.exec.command: Required value",
        "{}.readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"]),
    ("{startupProbe: {httpGet: {port: 80, scheme: FTP}}}", [
        '{}.startupProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"']),
    ("{startupProbe: {grpc: {port: 0}}}", [
        "{}.startupProbe.grpc.port: Invalid value: 0: must be between 1 and 65535, inclusive"]),
    ("{livenessProbe: {httpGet: {path: '', port: x_y, httpHeaders: [{name: X-Ok}, {name: 'a b'}]}}}", [
        '{}.livenessProbe.httpGet.port: Invalid value: "x_y": must contain only alpha-numeric characters (a-z, 0-9), '
        'and '
        "hyphens (-)",
        '{}.livenessProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of alphanumeric '
        "characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"]),
    ("{livenessProbe: {tcpSocket: {port: 80}, terminationGracePeriodSeconds: 0}}", [
        "{}.livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0"]),
    ("{readinessProbe: {tcpSocket: {port: 80}, terminationGracePeriodSeconds: 5}}", [
        "{}.readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for readinessProbes"]),
    ("{lifecycle: {postStart: {}, stopSignal: SIGTERM}}", [
        "{}.lifecycle.postStart: Required value: must specify a handler type"]),
    ("{env: [{name: A, valueFrom: {fileKeyRef: {volumeName: '', path: ../a, key: ''}}}]}", [
        "{}.env[0].valueFrom.fileKeyRef.key: Required value",
        "{}.env[0].valueFrom.fileKeyRef.volumeName: Required value",
        '{}.env[0].valueFrom.fileKeyRef.path: Invalid value: "../a": must not contain \'..\'']),
    ("{restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [3]}}]}", []),
    ("{restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: NotIn, values: [0]}}]}", [
        "{}.restartPolicy: Required value: must specify restartPolicy when restart rules are used"]),
    ("{restartPolicy: Sometimes, restartPolicyRules: [{action: Stop, exitCodes: {values: [3]}}, {action: Restart}]}", [
        '{}.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
        '{}.restartPolicyRules[0].action: Unsupported value: "Stop": supported values: "Restart", '
        '"RestartAllContainers"',
        '{}.restartPolicyRules[0].exitCodes.operator: Unsupported value: "": supported values: "In", "NotIn"',
        "{}.restartPolicyRules[1].exitCodes: Required value: must be specified"]),
    (f"{{restartPolicy: Never, restartPolicyRules: {[ONE_RULE] * 21}}}", [
        "{}.restartPolicyRules: Too many: 21: must have at most 20 items"]),
    (f"{{restartPolicy: Never, restartPolicyRules: {[MANY_CODES]}}}", [
        "{}.restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items"]),
    ("{lifecycle: {preStop: {sleep: {seconds: 60}}}}", [
        "{}.lifecycle.preStop.sleep: Invalid value: 60: must be non-negative and less than "
        "terminationGracePeriodSeconds (30)"]),
    ("{securityContext: {runAsUser: -1, runAsGroup: 2147483648}}", [
        "{}.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        "{}.securityContext.runAsGroup: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive"]),
    ("{securityContext: {allowPrivilegeEscalation: false, privileged: true}}", [
        '{}.securityContext: Invalid value: {"Capabilities":null,"Privileged":true,"SELinuxOptions":null,'
        '"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,'
        '"AllowPrivilegeEscalation":false,"ProcMount":null,"SeccompProfile":null,"AppArmorProfile":null}: cannot set '
        "`allowPrivilegeEscalation` to false and `privileged` to true"]),
    ("{securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [CAP_SYS_ADMIN]}}}", [
        '{}.securityContext: Invalid value: {"Capabilities":{"Add":["CAP_SYS_ADMIN"],"Drop":null},"Privileged":null,'
        '"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,'
        '"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":null,"SeccompProfile":null,'
        '"AppArmorProfile":null}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` '
        "CAP_SYS_ADMIN"]),
    ("{securityContext: {allowPrivilegeEscalation: true, privileged: true, procMount: Default}}", []),
    ("{securityContext: {procMount: Unmasked}}", [
        '{}.securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`']),
    ("{securityContext: {procMount: None}}", [
        '{}.securityContext.procMount: Unsupported value: "None": supported values: "Default", "Unmasked"']),
    ("{securityContext: {seccompProfile: {}}}", [
        "{}.securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set"]),
    ("{securityContext: {seccompProfile: {type: Docker}}}", [
        '{}.securityContext.seccompProfile.type: Unsupported value: "Docker": supported values: "Localhost", '
        '"RuntimeDefault", "Unconfined"']),
    ("{securityContext: {seccompProfile: {type: Localhost}}}", [
        "{}.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is "
        "Localhost"]),
    ("{securityContext: {seccompProfile: {type: Localhost, localhostProfile: ../x}}}", [
        "{}.securityContext.seccompProfile.localhostProfile: Invalid value: \"../x\": must not contain '..'"]),
    ("{securityContext: {seccompProfile: {type: Localhost, localhostProfile: /x}}}", [
        '{}.securityContext.seccompProfile.localhostProfile: Invalid value: "/x": must be a relative path']),
    ("{securityContext: {seccompProfile: {type: Unconfined, localhostProfile: x}}}", [
        '{}.securityContext.seccompProfile.localhostProfile: Invalid value: {"Type":"Unconfined","LocalhostProfile":"x"'
        "}: can only be set when seccomp type is Localhost"]),
    ("{securityContext: {appArmorProfile: {type: Localhost, localhostProfile: ' x'}}}", [
        '{}.securityContext.appArmorProfile.localhostProfile: Invalid value: " x": must not be padded with '
        "whitespace"]),
    (f"{{securityContext: {{appArmorProfile: {{type: Localhost, localhostProfile: {'x' * 4096}}}}}}}", [
        "{}.securityContext.appArmorProfile.localhostProfile: Too long: may not be more than 4095 bytes"]),
    ("{securityContext: {appArmorProfile: {type: Other}}}", [
        '{}.securityContext.appArmorProfile.type: Unsupported value: "Other": supported values: "Localhost", '
        '"RuntimeDefault", "Unconfined"']),
    ("{securityContext: {appArmorProfile: {type: Localhost}}}", [
        "{}.securityContext.appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is "
        "Localhost"]),
    ("{securityContext: {appArmorProfile: {type: RuntimeDefault, localhostProfile: x}}}", [
        '{}.securityContext.appArmorProfile.localhostProfile: Invalid value: "x": can only be set when AppArmor type '
        "is Localhost"]),
    ("{securityContext: {appArmorProfile: {}}}", [
        "{}.securityContext.appArmorProfile.type: Required value: type is required when appArmorProfile is set"]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), CONTAINERS, ids=[fields for fields, _ in CONTAINERS])
def test_invalid_containers_are_refused(pods, fields, expected):
    container = {"name": "a", "image": "b", **from_yaml(fields)}
    volumes = [{"name": "v"}, {"name": "block", "persistentVolumeClaim": {"claimName": "c"}}]
    refused = pods.refusal(pod({"containers": [container], "volumes": volumes}))
    assert refused == [text.replace("{}", "spec.containers[0]", 1) for text in expected]


# A volume's fields, then the refusals; {} stands for `spec.volumes[0]`.
VOLUMES = [
    ("{emptyDir: {}}", []),
    ("{emptyDir: {sizeLimit: 1Gi}}", []),
    ("{emptyDir: {sizeLimit: -1}}", [
        "{}.emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"]),
    ("{name: '', emptyDir: {}}", ["{}.name: Required value"]),
    ("{name: A, hostPath: {path: ''}}", [
        "{}.hostPath.path: Required value", f'{{}}.name: Invalid value: "A": {LABEL}']),
    ("{hostPath: {path: /, type: Folder}}", [
        '{}.hostPath.type: Unsupported value: "Folder": supported values: "", "BlockDevice", "CharDevice", '
        '"Directory", '
        '"DirectoryOrCreate", "File", "FileOrCreate", "Socket"']),
    ("{hostPath: {path: /}, emptyDir: {}}", ["{}.hostPath: Forbidden: may not specify more than 1 volume type"]),
    ("{nfs: {server: a, path: /}, persistentVolumeClaim: {}}", [
        "{}.persistentVolumeClaim: Forbidden: may not specify more than 1 volume type"]),
    ("{nfs: {server: a, path: /}}", []),
    ("{ephemeral: {}}", ["{}.ephemeral.volumeClaimTemplate: Required value"]),
    ("{ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {accessModes: [ReadWriteOnce]}}}}", [
        "{}.ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value"]),
    ("{image: {}}", ["{}.image.reference: Required value"]),
    ("{image: {reference: a, pullPolicy: Sometimes}}", [
        '{}.image.pullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"']),
    ("{persistentVolumeClaim: {}}", ["{}.persistentVolumeClaim.claimName: Required value"]),
    ("{secret: {secretName: s, items: [{}]}}", [
        "{}.secret.items[0].key: Required value", "{}.secret.items[0].path: Required value"]),
    ("{secret: {secretName: s, items: [{key: k, path: ..a, mode: 512}, {key: k, path: ../a}, {key: k, path: /..}]}}", [
        "{}.secret.items[0].path: Invalid value: \"..a\": must not start with '..'",
        f"{{}}.secret.items[0].mode: Invalid value: 512: {MODE}",
        "{}.secret.items[1].path: Invalid value: \"../a\": must not contain '..'",
        '{}.secret.items[2].path: Invalid value: "/..": must be a relative path',
        "{}.secret.items[2].path: Invalid value: \"/..\": must not contain '..'"]),
    ("{configMap: {name: c, items: [{key: k, path: ..}]}}", [
        "{}.configMap.items[0].path: Invalid value: \"..\": must not contain '..'",
        "{}.configMap.items[0].path: Invalid value: \"..\": must not start with '..'"]),
    ("{downwardAPI: {defaultMode: -1, items: [{path: '', mode: -2, fieldRef: {fieldPath: metadata.labels}}]}}", [
        f"{{}}.downwardAPI.defaultMode: Invalid value: -1: {MODE}",
        "{}.downwardAPI.path: Required value",
        f"{{}}.downwardAPI.mode: Invalid value: -2: {MODE}"]),
    ("{downwardAPI: {items: [{path: a, fieldRef: {fieldPath: spec.nodeName}, resourceFieldRef: {}}]}}", [
        '{}.downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: '
        '"metadata.annotations", '
        '"metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"',
        '{}.downwardAPI: Invalid value: "resource": fieldRef and resourceFieldRef can not be specified '
        'simultaneously']),
    ("{downwardAPI: {items: [{path: a, resourceFieldRef: {resource: limits.cpu}}]}}", [
        "{}.downwardAPI.resourceFieldRef.containerName: Required value"]),
    ("{downwardAPI: {items: [{path: a, resourceFieldRef: {containerName: a, resource: limits.cpu}}]}}", []),
    ("{projected: {defaultMode: 512, sources: [{configMap: {}}, {secret: {}}, {}]}}", [
        f"{{}}.projected.defaultMode: Invalid value: 512: {MODE}",
        "{}.projected.sources[0].configMap.name: Required value",
        "{}.projected.sources[1].secret.name: Required value"]),
    ("{projected: {sources: [{configMap: {name: c}, secret: {name: s}}]}}", [
        "{}.projected.sources[0]: Forbidden: may not specify more than 1 volume type per source"]),
    ("{projected: {sources: [{configMap: {name: c, items: [{key: k, path: a}, {key: k}]}}, "
     "{secret: {name: s, items: [{key: k, path: a}]}}]}}", [
        "{}.projected.sources[0].configMap.items[1].path: Required value",
        '{}.projected: Invalid value: "s": conflicting duplicate paths']),
    ("{projected: {sources: [{downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}, "
     "{path: a, fieldRef: {fieldPath: metadata.uid}}]}}]}}", [
        '{}.projected: Invalid value: "a": conflicting duplicate paths']),
    ("{projected: {sources: [{serviceAccountToken: {path: '', expirationSeconds: 4294967297}}]}}", [
        "{}.projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: may not specify a "
        "duration larger than 2^32 seconds",
        "{}.projected.path: Required value"]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), VOLUMES, ids=[fields for fields, _ in VOLUMES])
def test_refusals_of_volumes(pods, fields, expected):
    volumes = [{"name": "v", **from_yaml(fields)}]
    spec = {"containers": [{"name": "a", "image": "b"}], "serviceAccountName": "a", "volumes": volumes}
    assert pods.refusal(pod(spec)) == [text.replace("{}", "spec.volumes[0]", 1) for text in expected]


def test_containers_cannot_mount_an_invalid_volume(pods):
    spec = (
        "{containers: [{name: a, image: b, volumeMounts: [{name: v, mountPath: /x}]}], "
        "volumes: [{name: v, emptyDir: {}}]}"
    )
    assert pods.refusal(pod(spec)) == []
    refused = pods.refusal(pod(spec.replace("emptyDir: {}", "hostPath: {path: ''}")))
    assert refused == [
        "spec.volumes[0].hostPath.path: Required value",
        'spec.containers[0].volumeMounts[0].name: Not found: "v"',
    ]


CONTAINER = "containers: [{name: a, image: b}]"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPREAD = "topologySpreadConstraints: [{maxSkew: 0, topologyKey: '', whenUnsatisfiable: Cry}]"
ROLLING = "strategy: {rollingUpdate: {maxSurge: some, maxUnavailable: 101%}}"
SPECS = [
    ("{}", ["spec.containers: Required value"]),
    ("{containers: [{name: a, image: b}, {name: a, image: b}]}", ['spec.containers[1].name: Duplicate value: "a"']),
    (f"{{{CONTAINER}, initContainers: [{{name: a, image: b}}]}}", [
        'spec.initContainers[0].name: Duplicate value: "a"']),
    (f"{{{CONTAINER}, initContainers: [{{name: i, image: b, readinessProbe: {{tcpSocket: {{port: 80}}}}}}]}}", [
        "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without "
        "restartPolicy=Always"]),
    (f"{{{CONTAINER}, initContainers: [{{name: s, image: b, restartPolicy: Always, "
     "readinessProbe: {tcpSocket: {port: 80}}}]}", []),
    (f"{{{CONTAINER}, restartPolicy: Perhaps}}", [
        'spec.restartPolicy: Unsupported value: "Perhaps": supported values: "Always", "OnFailure", "Never"']),
    (f"{{{CONTAINER}, dnsPolicy: None}}", [
        "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]),
    (f"{{{CONTAINER}, dnsPolicy: None, dnsConfig: {{options: [{{}}]}}}}", [
        "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is "
        "None"]),
    (f"{{{CONTAINER}, dnsPolicy: None, dnsConfig: {{nameservers: [x]}}}}", [
        'spec.dnsConfig.nameservers[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or '
        "2001:db8::ffff)"]),
    (f"{{{CONTAINER}, dnsConfig: {{searches: [{', '.join(['a' * 204] * 10)}]}}}}", [
        f"spec.dnsConfig.searches: Invalid value: {json.dumps(['a' * 204] * 10, separators=(',', ':'))}: must not have "
        "more than 2048 characters (including spaces) in the search list"]),
    (f"{{{CONTAINER}, activeDeadlineSeconds: 0}}", [
        "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"]),
    (f"{{{CONTAINER}, hostname: A}}", [f'spec.hostname: Invalid value: "A": {LABEL}']),
    (f"{{{CONTAINER}, hostnameOverride: {'x' * 60}.com}}", []),
    (f"{{{CONTAINER}, hostnameOverride: {'x' * 61}.com, hostNetwork: true, setHostnameAsFQDN: true}}", [
        "spec.hostnameOverride: Too long: may not be more than 64 bytes",
        "spec.hostNetwork: Forbidden: may not be true when `hostnameOverride` is set",
        "spec.setHostnameAsFQDN: Forbidden: may not be true when `hostnameOverride` is set"]),
    (f"{{{CONTAINER}, tolerations: [{{key: '', operator: Equal}}]}}", [
        'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which '
        'means "match all values and all keys"']),
    (f"{{{CONTAINER}, tolerations: [{{key: a, operator: Exists, value: b}}]}}", [
        'spec.tolerations[0].operator: Invalid value: {"Key":"a","Operator":"Exists","Value":"b","Effect":"",'
        "\"TolerationSeconds\":null}: value must be empty when `operator` is 'Exists'"]),
    (f"{{{CONTAINER}, tolerations: [{{key: a, effect: Never}}]}}", [
        'spec.tolerations[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", '
        '"NoExecute"']),
    (f"{{{CONTAINER}, {SPREAD}}}", [
        "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
        'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Cry": supported values: '
        '"DoNotSchedule", "ScheduleAnyway"']),
    (f"{{{CONTAINER}, tolerations: [{{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}}, "
     "{key: a, operator: Near}, {key: a, value: 'a b'}]}", [
        "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when "
        "`tolerationSeconds` is set",
        'spec.tolerations[1].operator: Unsupported value: "Near": supported values: "Equal", "Exists"',
        'spec.tolerations[2].operator: Invalid value: "a b": a valid label must be an empty string or consist of '
        f"alphanumeric characters, {LABEL_VALUE}"]),
    (f"{{{CONTAINER}, dnsConfig: {{nameservers: [1.1.1.1, 1.1.1.2, 1.1.1.3, 1.1.1.4]}}}}", [
        'spec.dnsConfig.nameservers: Invalid value: ["1.1.1.1","1.1.1.2","1.1.1.3","1.1.1.4"]: must not have more than '
        "3 nameservers"]),
    (f"{{{CONTAINER}, dnsConfig: {{searches: [{', '.join(['a'] * 33)}]}}}}", [
        f"spec.dnsConfig.searches: Invalid value: {json.dumps(['a'] * 33, separators=(',', ':'))}: must not have more "
        "than 32 search paths"]),
    (f"{{{CONTAINER}, dnsConfig: {{searches: [., a.b., A], options: [{{name: ''}}]}}}}", [
        f'spec.dnsConfig.searches[2]: Invalid value: "A": {SUBDOMAIN}',
        "spec.dnsConfig.options[0]: Required value: must not be empty"]),
    (f"{{{CONTAINER}, readinessGates: [{{conditionType: a b}}]}}", [
        f'spec.readinessGates[0].conditionType: Invalid value: "a b": name part {QUALIFIED}']),
    (f"{{{CONTAINER}, hostAliases: [{{ip: x}}]}}", [
        'spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
    ("{containers: [{name: a, image: b, ports: [{containerPort: 80, hostPort: 81}]}], hostNetwork: true}", [
        "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is "
        "true"]),
    (f"{{{CONTAINER}, volumes: [{{name: v}}, {{name: v}}]}}", ['spec.volumes[1].name: Duplicate value: "v"']),
    (f"{{{CONTAINER}, volumes: [{{name: v, emptyDir: {{}}, hostPath: {{path: /}}}}]}}", [
        "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"]),
    (f"{{{CONTAINER}, volumes: [{{name: v, hostPath: {{path: ''}}}}]}}", [
        "spec.volumes[0].hostPath.path: Required value"]),
    (f"{{{CONTAINER}, volumes: [{{name: v, hostPath: {{path: /a/../b}}}}]}}", [
        'spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain \'..\'']),
    (f"{{{CONTAINER}, volumes: [{{name: v, secret: {{}}}}]}}", ["spec.volumes[0].secret.secretName: Required value"]),
    (f"{{{CONTAINER}, volumes: [{{name: v, configMap: {{name: c, defaultMode: 512}}}}]}}", [
        "spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both "
        "inclusive"]),
    (f"{{{CONTAINER}, volumes: [{{name: v, configMap: {{name: c, items: [{{key: k, path: /etc}}]}}}}]}}", [
        'spec.volumes[0].configMap.items[0].path: Invalid value: "/etc": must be a relative path']),
    (f"{{{CONTAINER}, volumes: [{{name: v, downwardAPI: {{items: [{{path: x}}]}}}}]}}", [
        "spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"]),
    (f"{{{CONTAINER}, serviceAccountName: a, volumes: [{{name: v, projected: {{sources: [{{serviceAccountToken: "
     "{path: t, expirationSeconds: 1}}]}}]}", [
        "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify "
        "a duration less than 10 minutes"]),
    (f"{{{CONTAINER}, affinity: {{nodeAffinity: {{{REQUIRED}: {{nodeSelectorTerms: []}}}}}}}}", [
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required value: must have at least one node "
        "selector term"]),
    (f"{{{CONTAINER}, affinity: {{nodeAffinity: {{{REQUIRED}: {{nodeSelectorTerms: [{{matchExpressions: "
     "[{key: a, operator: Gt, values: []}, {key: b, operator: Near}, {key: c, operator: In}]}]}}}}", [
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values: Required value: "
        "must be specified single value when `operator` is 'Lt' or 'Gt'",
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[1].operator: Invalid value: "
        '"Near": not a valid selector operator',
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[2].values: Required value: "
        "must be specified when `operator` is 'In' or 'NotIn'"]),
    (f"{{{CONTAINER}, affinity: {{podAntiAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: "
     "[{weight: 0, podAffinityTerm: {topologyKey: zone}}]}}}", [
        "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: "
        "must be in the range 1-100"]),
    (f"{{{CONTAINER}, affinity: {{nodeAffinity: {{{REQUIRED}: {{nodeSelectorTerms: [{{matchExpressions: "
     "[{key: a, operator: Gt, values: ['1']}, {key: a, operator: Lt, values: ['a b']}, {key: '', operator: Exists}]}, "
     "{matchFields: [{key: metadata.name, operator: In, values: [node1]}]}]}}}}", [
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[1].values[0]: Invalid value: "
        f'"a b": a valid label must be an empty string or consist of alphanumeric characters, {LABEL_VALUE}',
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[2].key: Invalid value: "
        '"": name part must be non-empty',
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[2].key: Invalid value: "
        f'"": name part {QUALIFIED}']),
    (f"{{{CONTAINER}, affinity: {{nodeAffinity: {{{REQUIRED}: {{nodeSelectorTerms: [{{matchFields: "
     "[{key: metadata.name, operator: Exists}, {key: metadata.name, operator: In, values: [a, b]}, "
     "{key: metadata.uid, operator: NotIn, values: [A]}, {key: metadata.name, operator: NotIn, values: [A]}]}]}}}}", [
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0].operator: Invalid value: "
        '"Exists": not a valid selector operator',
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[1].values: Required value: "
        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[2].key: Invalid value: "
        '"metadata.uid": not a valid field selector key',
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[3].values[0]: Invalid value: "
        f'"A": {SUBDOMAIN}']),
    (f"{{{CONTAINER}, affinity: {{podAffinity: {{{REQUIRED}: [{{namespaces: [A], labelSelector: "
     "{matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]}}}", [
        f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].values: Forbidden: may not be "
        "specified when `operator` is 'Exists' or 'DoesNotExist'",
        f'spec.affinity.podAffinity.{REQUIRED}[0].namespace: Invalid value: "A": {LABEL}',
        f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey: Required value: can not be empty",
        f'spec.affinity.podAffinity.{REQUIRED}[0].topologyKey: Invalid value: "": name part must be non-empty',
        f'spec.affinity.podAffinity.{REQUIRED}[0].topologyKey: Invalid value: "": name part {QUALIFIED}']),
    ("{containers: [{name: a, image: b, env: [{name: L, valueFrom: {fieldRef: "
     "{fieldPath: \"metadata.labels['app']\"}}}]}]}", []),
    (f"{{{CONTAINER}, nodeName: node1, schedulingGates: [{{name: a/x}}, {{name: a/x}}]}}", [
        'spec.schedulingGates[1]: Duplicate value: "a/x"',
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"]),
    (f"{{{CONTAINER}, securityContext: {{fsGroup: -1, runAsUser: 0, supplementalGroups: [5, 2147483648]}}}}", [
        "spec.securityContext.fsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        "spec.securityContext.supplementalGroups[1]: Invalid value: 2147483648: must be between 0 and 2147483647, "
        "inclusive"]),
    (f"{{{CONTAINER}, securityContext: {{fsGroupChangePolicy: Never, supplementalGroupsPolicy: Most}}}}", [
        'spec.securityContext.fsGroupChangePolicy: Unsupported value: "Never": supported values: "Always", '
        '"OnRootMismatch"',
        'spec.securityContext.supplementalGroupsPolicy: Unsupported value: "Most": supported values: "Merge", '
        '"Strict"']),
    (f"{{{CONTAINER}, securityContext: {{seccompProfile: {{type: Localhost, localhostProfile: a/../b}}}}}}", [
        "spec.securityContext.seccompProfile.localhostProfile: Invalid value: \"a/../b\": must not contain '..'"]),
    (f"{{{CONTAINER}, shareProcessNamespace: true, hostPID: true}}", [
        "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot "
        "both be enabled"]),
    (f"{{{CONTAINER}, securityContext: {{sysctls: [{{name: ''}}, {{name: A}}, {{name: net.a/b}}, "
     "{name: net.a/b}]}}", [
        "spec.securityContext.sysctls[0].name: Required value",
        'spec.securityContext.sysctls[1].name: Invalid value: "A": must have at most 253 characters and match regex '
        r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
        'spec.securityContext.sysctls[3].name: Duplicate value: "net.a/b"']),
    (f"{{{CONTAINER}, hostNetwork: true, hostIPC: true, securityContext: {{sysctls: [{{name: net/ipv4/x}}, "
     "{name: kernel.shm_rmid_forced}, {name: kernel.sem}, {name: fs.mqueue.x}, {name: kernel.other}]}}", [
        "spec.securityContext.sysctls[0].name: Invalid value: \"net/ipv4/x\": may not be specified when 'hostNetwork' "
        "is true",
        'spec.securityContext.sysctls[1].name: Invalid value: "kernel.shm_rmid_forced": may not be specified when '
        "'hostIPC' is true",
        "spec.securityContext.sysctls[2].name: Invalid value: \"kernel.sem\": may not be specified when 'hostIPC' is "
        "true",
        "spec.securityContext.sysctls[3].name: Invalid value: \"fs.mqueue.x\": may not be specified when 'hostIPC' is "
        "true"]),
    (f"{{{CONTAINER}, hostUsers: false, hostNetwork: true, hostPID: true, hostIPC: true}}", [
        "spec.hostNetwork: Forbidden: when `hostUsers` is false",
        "spec.HostPID: Forbidden: when `hostUsers` is false",
        "spec.HostIPC: Forbidden: when `hostUsers` is false"]),
    ("{containers: [{name: a, image: b, securityContext: {procMount: Unmasked}}], hostUsers: false}", []),
    (f"{{{CONTAINER}, hostPID: true, hostIPC: true, hostNetwork: true}}", []),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), SPECS, ids=[spec for spec, _ in SPECS])
def test_invalid_pods_are_refused(pods, spec, expected):
    assert pods.refusal(pod(spec)) == expected


NEGATIVE_GRACE = f"{CONTAINER}, terminationGracePeriodSeconds: -7"
WARNINGS = [
    (f"{{{CONTAINER}}}", []),
    ("{containers: [{name: a, image: b, ports: [{containerPort: 80}, {containerPort: 80, protocol: UDP}]}]}", []),
    ("{containers: [{name: a, image: b, ports: [{containerPort: 80}, {containerPort: 80}]}]}", [
        "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"]),
    ("{containers: [{name: a, image: b, ports: [{containerPort: 80}, {containerPort: 80, hostPort: 1}]}]}", [
        "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]"]),
    ("{containers: [{name: a, image: b, ports: [{containerPort: 80, hostPort: 1, hostIP: 10.0.0.1}, "
     "{containerPort: 80, hostPort: 1}]}]}", [
        "spec.containers[0].ports[1]: dangerously ambiguous port definition with spec.containers[0].ports[0]"]),
    ("{containers: [{name: a, image: b, env: [{name: X, value: '1'}, {name: X, value: '2'}]}]}", [
        'spec.containers[0].env[1]: hides previous definition of "X", which may be dropped when using apply']),
    ("{containers: [{name: a, image: b, env: [{name: X, value: '1'}, {name: X, value: '$(X)2'}]}]}", []),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), WARNINGS)
def test_warnings_of_a_pod(pods, spec, expected):
    assert pods.resource.strategy.warnings(pods.create(pod(spec))) == expected
    template = {"metadata": {"name": "web"}, "spec": {"template": {"spec": from_yaml(spec)}}}
    workload_warnings = table()["deployments.apps"].strategy.warnings(template)
    assert workload_warnings == [text.replace("spec.", "spec.template.spec.") for text in expected]


def test_a_template_keeps_a_negative_grace_period_and_warns_of_it():
    strategy = table()["deployments.apps"].strategy
    template: dict[str, Any] = {
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": from_yaml(f"{{{NEGATIVE_GRACE}}}")}},
    }
    strategy.default(template)
    assert template["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == -7
    assert strategy.warnings(template) == [
        "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be "
        "treated as 1"
    ]


# --- Updates ---------------------------------------------------------------------------------------------


@pytest.fixture
def running(pods):
    spec = "{containers: [{name: a, image: 'b:1'}], activeDeadlineSeconds: 100, nodeName: node1, "
    spec += "tolerations: [{key: mine, operator: Exists}]}"
    return pods.create(pod(spec))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda spec: spec["containers"][0].update(image="b:2"), []),
        (lambda spec: spec.update(activeDeadlineSeconds=50), []),
        (lambda spec: spec["tolerations"].append({"key": "x", "operator": "Exists"}), []),
        (
            lambda spec: spec.update(activeDeadlineSeconds=200),
            ["spec.activeDeadlineSeconds: Invalid value: 200: must be less than or equal to previous value"],
        ),
        (
            lambda spec: spec.pop("activeDeadlineSeconds"),
            ["spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"],
        ),
        (
            lambda spec: spec["tolerations"].pop(0),
            ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"],
        ),
        (
            lambda spec: spec["containers"].append({"name": "c", "image": "d"}),
            ["spec.containers: Forbidden: pod updates may not add or remove containers"],
        ),
    ],
)
def test_mutable_fields_of_a_pod_can_be_updated(pods, running, change, expected):
    wished = copy.deepcopy(running)
    change(wished["spec"])
    assert pods.update_refusal(running, wished) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [("nodeName", "node2"), ("restartPolicy", "Never"), ("hostNetwork", True), ("serviceAccountName", "x")],
)
def test_immutable_fields_of_a_pod_cannot_be_updated(pods, running, field, value):
    wished = copy.deepcopy(running)
    wished["spec"][field] = value
    refused = pods.update_refusal(running, wished)
    assert refused[0].startswith(
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
    )
    assert f"spec.{field}" in refused[0].splitlines()[-1]


def test_a_negative_grace_period_becomes_one_second(pods):
    manifest = pod(f"{{{NEGATIVE_GRACE}}}")
    made = pods.create(manifest)
    assert made["spec"]["terminationGracePeriodSeconds"] == 1
    assert pods.resource.strategy.warnings(made) == []
    assert pods.update(made, manifest) == made
    # A pod of an earlier version may have a negative one.
    stored = copy.deepcopy(made)
    stored["spec"]["terminationGracePeriodSeconds"] = -7
    assert pods.update(stored, stored) == made
    assert pods.update_refusal(stored, manifest) == []
    refused = copy.deepcopy(made)
    refused["spec"]["terminationGracePeriodSeconds"] = 0
    assert "`spec.terminationGracePeriodSeconds` (allow it to be set to 1" in pods.update_refusal(stored, refused)[0]


def test_replacing_a_pod_with_its_manifest_changes_nothing(pods):
    manifest = pod("{containers: [{name: a, image: 'b:1'}]}")
    made = pods.create(manifest)
    assert pods.update(made, manifest) == made


def test_scheduling_gates_can_only_be_removed(pods):
    gated = pods.create(pod(f"{{{CONTAINER}, schedulingGates: [{{name: a/x}}, {{name: a/y}}]}}"))
    assert [condition["reason"] for condition in gated["status"]["conditions"]] == ["SchedulingGated"]
    opened = pods.update(gated, {**gated, "spec": {**gated["spec"], "schedulingGates": [{"name": "a/y"}]}})
    assert opened["spec"]["schedulingGates"] == [{"name": "a/y"}]
    wished = {**opened, "spec": {**opened["spec"], "schedulingGates": [{"name": "a/y"}, {"name": "a/z"}]}}
    assert pods.update_refusal(opened, wished) == [
        "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a/z'"
    ]


def test_only_a_binding_gives_a_pod_its_node(pods):
    made = pods.create(pod("{containers: [{name: a, image: b}]}"))
    refused = pods.update_refusal(made, {**made, "spec": {**made["spec"], "nodeName": "node1"}})
    assert refused[0].endswith("changed: spec.nodeName")


def test_a_bound_pod_cannot_be_bound_again(pods):
    made = pods.create(pod("{containers: [{name: a, image: b}]}"))
    bound = pods.update(made, {**made, "spec": {**made["spec"], "nodeName": "node1"}}, "binding")
    assert bound["spec"]["nodeName"] == "node1"
    assert pods.update_refusal(bound, {**bound, "spec": {**bound["spec"], "nodeName": "node2"}}, "binding")


def test_status_and_spec_are_updated_by_separate_endpoints(pods, running):
    wished = {**running, "spec": {}, "status": {"phase": "Running", "podIP": "10.244.1.2"}}
    updated = pods.update(running, wished, "status")
    assert updated["spec"] == running["spec"]
    assert updated["status"] == {"phase": "Running", "podIP": "10.244.1.2", "qosClass": "BestEffort"}
    assert pods.update(updated, {**running, "status": {}})["status"] == updated["status"]


# --- Workloads -------------------------------------------------------------------------------------------

TEMPLATE = "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: b}]}}"
SELECTOR = "selector: {matchLabels: {app: web}}"
DEADLINE = TEMPLATE.replace("spec: {", "spec: {activeDeadlineSeconds: 9, ")
NINES = "9" * 5000  # more digits than Python converts
WORKLOADS = ("deployments.apps", "replicasets.apps", "daemonsets.apps")


def workload(spec):
    return {"metadata": dict(NAMED), "spec": from_yaml(spec) if isinstance(spec, str) else spec}


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (
            "deployments.apps",
            {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            },
        ),
        ("replicasets.apps", {"replicas": 1}),
        (
            "daemonsets.apps",
            {
                "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            },
        ),
    ],
)
def test_defaults_of_workloads(resource, expected):
    made = Steps(table()[resource]).create(workload(f"{{{SELECTOR}, {TEMPLATE}}}"))["spec"]
    assert made.pop("selector") == {"matchLabels": {"app": "web"}}
    template = made.pop("template")
    assert made == expected
    assert template["spec"]["restartPolicy"] == "Always"
    assert template["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    assert "enableServiceLinks" not in template["spec"]


MISMATCH = ['spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`']
WORKLOAD_REFUSALS = [
    (WORKLOADS[:2], f"{{{TEMPLATE}}}", ["spec.selector: Required value", *MISMATCH]),
    (WORKLOADS[2:], f"{{{TEMPLATE}}}", MISMATCH),
    (WORKLOADS, f"{{selector: {{matchLabels: {{app: other}}}}, {TEMPLATE}}}", MISMATCH),
    (WORKLOADS, f"{{selector: {{matchExpressions: [{{key: app, operator: DoesNotExist}}]}}, {TEMPLATE}}}", MISMATCH),
    (WORKLOADS[:2], f"{{selector: {{matchExpressions: [{{key: app, operator: Is}}]}}, {TEMPLATE}}}", [
        'spec.selector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator',
        'spec.selector: Invalid value: {"matchExpressions":[{"key":"app","operator":"Is"}]}: invalid label selector']),
    (WORKLOADS[2:], f"{{selector: {{matchExpressions: [{{key: app, operator: Is}}]}}, {TEMPLATE}}}", [
        'spec.selector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator']),
    (WORKLOADS[:2], f"{{selector: {{}}, {TEMPLATE}}}", [
        "spec.selector: Invalid value: {}: empty selector is invalid for deployment"]),
    (WORKLOADS[2:], f"{{selector: {{}}, {TEMPLATE}}}", [
        "spec.selector: Invalid value: {}: empty selector is invalid for daemonset"]),
    (WORKLOADS[:2], f"{{replicas: -1, {SELECTOR}, {TEMPLATE}}}", [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
    (WORKLOADS, f"{{{SELECTOR}, template: {{metadata: {{labels: {{app: web}}}}}}}}", [
        "spec.template.spec.containers: Required value"]),
    (WORKLOADS, f"{{{SELECTOR}, template: {{metadata: {{labels: {{app: web}}}}, "
     "spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}", [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"']),
    (WORKLOADS[:1], f"{{strategy: {{type: Recreate, rollingUpdate: {{}}}}, {SELECTOR}, {TEMPLATE}}}", [
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"]),
    (WORKLOADS[:1], f"{{strategy: {{rollingUpdate: {{maxSurge: 0, maxUnavailable: 0%}}}}, {SELECTOR}, {TEMPLATE}}}", [
        'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0']),
    (WORKLOADS[:1], f"{{{ROLLING}, {SELECTOR}, {TEMPLATE}}}", [
        'spec.strategy.rollingUpdate.maxSurge: Invalid value: "some": a valid percent string must be a numeric string '
        "followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%']),
    (WORKLOADS[:1], f"{{strategy: {{rollingUpdate: {{maxUnavailable: {NINES}%}}}}, {SELECTOR}, {TEMPLATE}}}", [
        f'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "{NINES}%": must not be greater than 100%']),
    (WORKLOADS[:2], f"{{{SELECTOR}, {DEADLINE}}}", [
        "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"]),
    (WORKLOADS[2:], f"{{{SELECTOR}, {DEADLINE}}}", [
        "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported"]),
    (WORKLOADS[:1], f"{{progressDeadlineSeconds: 5, minReadySeconds: 5, {SELECTOR}, {TEMPLATE}}}", [
        "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"]),
    (WORKLOADS[2:], f"{{updateStrategy: {{rollingUpdate: {{maxUnavailable: 0}}}}, {SELECTOR}, {TEMPLATE}}}", [
        "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]),
    (WORKLOADS[2:], f"{{updateStrategy: {{type: Recreate}}, {SELECTOR}, {TEMPLATE}}}", [
        'spec.updateStrategy: Unsupported value: {"Type":"Recreate","RollingUpdate":null}: supported values: '
        '"RollingUpdate", "OnDelete"']),
    (WORKLOADS[:1], f"{{strategy: {{type: OnDelete, rollingUpdate: {{maxSurge: 1}}}}, {SELECTOR}, {TEMPLATE}}}", [
        'spec.strategy: Unsupported value: {"Type":"OnDelete","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":1}}: '
        'supported values: "Recreate", "RollingUpdate"']),
]  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "spec", "expected"),
    [(resource, spec, expected) for resources, spec, expected in WORKLOAD_REFUSALS for resource in resources],
)
def test_invalid_workloads_are_refused(resource, spec, expected):
    assert Steps(table()[resource]).refusal(workload(spec)) == expected


def test_the_server_counts_template_generations_of_a_daemon_set():
    steps = Steps(table()["daemonsets.apps"])
    key = "deprecated.daemonset.template.generation"
    first = steps.create(workload(f"{{{SELECTOR}, {TEMPLATE}}}"))
    wished = workload(f"{{minReadySeconds: 5, {SELECTOR}, {TEMPLATE}}}")
    same = steps.update(first, wished)
    wished["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    second = steps.update(same, wished)
    assert [one["metadata"]["annotations"][key] for one in (first, same, second)] == ["1", "1", "2"]


@pytest.mark.parametrize("resource", WORKLOADS)
def test_a_workloads_selector_is_immutable(resource):
    steps = Steps(table()[resource])
    old = steps.create(workload(f"{{{SELECTOR}, {TEMPLATE}}}"))
    wished = copy.deepcopy(old)
    wished["spec"]["selector"]["matchLabels"]["tier"] = "front"
    wished["spec"]["template"]["metadata"]["labels"]["tier"] = "front"
    assert steps.update_refusal(old, wished) == [
        'spec.selector: Invalid value: {"matchLabels":{"app":"web","tier":"front"}}: field is immutable'
    ]
