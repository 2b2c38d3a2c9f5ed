"""Warnings about pods and pod templates."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver.resources.steps import from_yaml, table
from tests.unit.apiserver.world import open_world

from .checks import pod_with

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NULL = "a null labelSelector results in matching no pod"
OVERLAP = "overlapping paths"
ARMOR = "container.apparmor.security.beta.kubernetes.io/a"
SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
FRACTION = 'fractional byte value "1500m" is invalid, must be an integer'


def volume(text: str) -> str:
    return f"{{volumes: [{{name: v, {text}}}]}}"


def container(text: str) -> str:
    return f"{{containers: [{{name: a, image: b, {text}}}]}}"


def noted(key: str, more: str = "") -> str:
    return f"{{metadata: {{annotations: {{{key}: x}}}}, {more}}}"


CASES = [
    ("{nodeSelector: {a: b, beta.kubernetes.io/os: linux}}", [
        'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead']),
    (f"{{affinity: {{nodeAffinity: {{{REQUIRED}: {{nodeSelectorTerms: [{{matchExpressions: "
     "[{key: beta.kubernetes.io/instance-type, operator: Exists}, {key: a, operator: In, values: ['b c']}]}]}}}}", [
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].key: "
        'beta.kubernetes.io/instance-type is deprecated since v1.17; use "node.kubernetes.io/instance-type" instead']),
    (f"{{affinity: {{nodeAffinity: {{{PREFERRED}: [{{weight: 1, preference: {{matchExpressions: "
     "[{key: a, operator: In, values: ['b_']}]}}]}}}", [
        f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].values[0]: b_ is invalid, a valid "
        "label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
        "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"]),
    ("{topologySpreadConstraints: [{maxSkew: 1, topologyKey: failure-domain.beta.kubernetes.io/zone, "
     "whenUnsatisfiable: DoNotSchedule}]}", [
        "spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is deprecated since "
        'v1.17; use "topology.kubernetes.io/zone" instead',
        f"spec.topologySpreadConstraints[0].labelSelector: {NULL}"]),
    (noted("scheduler.alpha.kubernetes.io/critical-pod"), [
        "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "
        '"priorityClassName" field instead']),
    (noted("seccomp.security.alpha.kubernetes.io/pod"), [
        f"metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: {SECCOMP}"]),
    (noted("seccomp.security.alpha.kubernetes.io/pod", "securityContext: {seccompProfile: {type: Unconfined}}"), []),
    (noted("container.seccomp.security.alpha.kubernetes.io/a"), [
        f"metadata.annotations[container.seccomp.security.alpha.kubernetes.io/a]: {SECCOMP}"]),
    (noted(ARMOR), []),  # it becomes a field
    (volume("gitRepo: {}"), ["spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"]),
    (volume("storageos: {}"), ["spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+"]),
    (volume("ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 1500m}}}}}"), [
        f"spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: {FRACTION}"]),
    (volume("configMap: {name: m, items: [{key: k, path: a/}, {key: l, path: a/b}, {key: m, path: ab}]}"), [
        f'volume "v" (ConfigMap "m"): {OVERLAP}: "a/b" with "a"']),
    (volume("secret: {secretName: s, items: [{key: k, path: a/b}, {key: l, path: a}]}"), [
        f'volume "v" (Secret "s"): {OVERLAP}: "a" with "a/b"']),
    (volume("downwardAPI: {items: [{path: a}, {path: a}]}"), [f'volume "v" (DownwardAPI): {OVERLAP}: "a" with "a"']),
    (volume("projected: {sources: [{}, {configMap: {name: m, items: [{key: k, path: a}]}}, "
            "{serviceAccountToken: {path: a}}, {downwardAPI: {items: [{path: a/b}]}}, {secret: {name: s}}]}"), [
        'volume "v" (Projected) has no sources provided',
        f'volume "v" (Projected): {OVERLAP}: "a" (ServiceAccountToken) with "a" (ConfigMap "m")',
        f'volume "v" (Projected): {OVERLAP}: "a/b" (DownwardAPI) with "a" (ConfigMap "m")',
        f'volume "v" (Projected): {OVERLAP}: "a/b" (DownwardAPI) with "a" (ServiceAccountToken)']),
    ("{hostAliases: [{ip: 1.2.3.4}, {ip: 1.2.3.4}]}", ['spec.hostAliases[1].ip: duplicate ip "1.2.3.4"']),
    ("{hostAliases: [{ip: '::01'}], dnsConfig: {nameservers: ['::02']}}", [
        'spec.dnsConfig.nameservers[0]: IPv6 address "::02" should be in RFC 5952 canonical format ("::2")',
        'spec.hostAliases[0].ip: IPv6 address "::01" should be in RFC 5952 canonical format ("::1")']),
    ("{imagePullSecrets: [{name: s}, {name: s}, {}]}", [
        'spec.imagePullSecrets[1].name: duplicate name "s"',
        'spec.imagePullSecrets[2].name: invalid empty name ""']),
    ("{overhead: {memory: 1500m}}", [f"spec.overhead[memory]: {FRACTION}"]),
    (container("resources: {limits: {cpu: 1m, memory: 1500m, ephemeral-storage: 1}}"), [
        f"spec.containers[0].resources.limits[memory]: {FRACTION}",
        f"spec.containers[0].resources.requests[memory]: {FRACTION}"]),
    (container("env: [{name: X, value: a}, {name: X, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"), [
        'spec.containers[0].env[1]: hides previous definition of "X", which may be dropped when using apply']),
    (container("env: [{name: X, value: a}, {name: X, value: $(X)}]"), [
        'spec.containers[0].env[1]: hides previous definition of "X", which may be dropped when using apply']),
    (container("ports: [{containerPort: 80, hostIP: 1.2.3.4}]"), [
        "spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:TCP "
        "HostIP:1.2.3.4}"]),
    ("{containers: [{name: a, image: b, ports: [{containerPort: 1, name: p}]}, "
     "{name: c, image: d, ports: [{containerPort: 2, name: p}]}]}", [
        'spec.containers[1].ports[0]: duplicate port name "p" with spec.containers[0].ports[0], services and probes '
        "that select ports by name will use spec.containers[0].ports[0]"]),
    ("{initContainers: [{name: i, image: b, ports: [{containerPort: 1, name: p}]}], "
     "containers: [{name: a, image: b, ports: [{containerPort: 2, name: p}]}]}", []),
    (f"{{affinity: {{podAffinity: {{{REQUIRED}: [{{topologyKey: a}}]}}, podAntiAffinity: "
     f"{{{PREFERRED}: [{{weight: 1, podAffinityTerm: {{topologyKey: a}}}}]}}}}}}", [
        f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector: {NULL}",
        f"spec.affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm.labelSelector: {NULL}"]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), CASES)
def test_warnings(fields: str, expected: list[str]) -> None:
    pod = pod_with(from_yaml(fields))
    strategy = table()["pods"].strategy
    strategy.default(pod)
    assert strategy.warnings(pod) == expected


def test_names_of_pods_are_host_names() -> None:
    pod = {"metadata": {"name": "a.b"}, "spec": {}}
    assert table()["pods"].strategy.warnings(pod) == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is "
        "recommended: [must not contain dots]"
    ]


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("deployments.apps", ("spec", "template")),
        ("podtemplates", ("template",)),
        ("jobs.batch", ("spec", "template")),
        ("cronjobs.batch", ("spec", "jobTemplate", "spec", "template")),
    ],
)
def test_annotations_of_templates(resource: str, path: tuple[str, ...]) -> None:
    template: dict[str, Any] = {"metadata": {"annotations": {ARMOR: "x"}}, "spec": {"containers": [{"name": "a"}]}}
    obj: dict[str, Any] = template
    for name in reversed(path):
        obj = {name: obj}
    where = f"{'.'.join(path)}.metadata.annotations[{ARMOR}]"
    assert table()[resource].strategy.warnings({"metadata": {"name": "x"}, **obj}) == [
        f'{where}: deprecated since v1.30; use the "appArmorProfile" field instead'
    ]


async def test_only_updates_of_what_is_warned_of_warn() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 80}]
    spec = {"containers": [{"name": "a", "image": "b", "ports": ports}]}
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    pods = "/api/v1/namespaces/default/pods"
    async with open_world() as world:
        await world.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        made = await world.call(
            "POST",
            sets,
            {"metadata": {"name": "r"}, "spec": {"selector": {"matchLabels": labels}, "template": template}},
        )
        pod = await world.call("POST", pods, {"metadata": {"name": "p"}, "spec": spec})
        found = [made, pod]
        relabelled = {"metadata": {"labels": {"x": "y"}}}
        found += [await world.patch(url, relabelled) for url in (f"{sets}/r", f"{pods}/p")]
        found.append(await world.patch(f"{sets}/r", {"spec": {"replicas": 0}}))
        assert [(one.status, bool(one.header("warning"))) for one in found] == [
            (201, True),
            (201, True),
            (200, False),
            (200, False),
            (200, True),
        ]
