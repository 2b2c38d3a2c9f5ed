# ruff: noqa: E501
"""The checks of Pod Security Standards, with Kubernetes' texts."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from bridgehead.apiserver.admission.podsecurity.evaluation import describe, evaluate, summarize
from bridgehead.apiserver.admission.podsecurity.levels import (
    BASELINE,
    LATEST,
    PRIVILEGED,
    RESTRICTED,
    LevelVersion,
    is_relaxed,
    parse_policy,
)

# A pod that nothing is wrong with, at any level.
GOOD = """
spec:
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
  - {name: a, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
"""


def violations(text, level, version=LATEST):
    pod = yaml.safe_load(text)
    return describe(evaluate(LevelVersion(level, version), pod.get("metadata", {}), pod["spec"]))


BASELINE_CASES = [
    ("{metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/a: unconfined, x: y}}, spec: {}}",
     'forbidden AppArmor profile (annotation must not set AppArmor profile type to "container.apparmor.security.beta.kubernetes.io/a="unconfined"")'),
    ("{spec: {securityContext: {appArmorProfile: {type: Unconfined}}, containers: [{name: a, securityContext: {appArmorProfile: {type: X}}}, {name: b, securityContext: {appArmorProfile: {type: Localhost}}}]}}",
     'forbidden AppArmor profiles (pod and container "a" must not set AppArmor profile type to "Unconfined", "X")'),
    ("{spec: {containers: [{name: a, securityContext: {capabilities: {add: [NET_RAW, CHOWN]}}}], initContainers: [{name: i, securityContext: {capabilities: {add: [BPF]}}}]}}",
     'non-default capabilities (containers "i", "a" must not include "BPF", "NET_RAW" in securityContext.capabilities.add)'),
    ("{spec: {hostNetwork: true, hostPID: true, hostIPC: true}}",
     "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)"),
    ("{spec: {volumes: [{name: a, hostPath: {path: /}}, {name: b, emptyDir: {}}]}}",
     'hostPath volumes (volume "a")'),
    ("{spec: {containers: [{name: a, ports: [{containerPort: 1, hostPort: 90}, {containerPort: 2, hostPort: 100}]}, {name: b, ports: [{containerPort: 1}]}]}}",
     'hostPort (container "a" uses hostPorts 100, 90)'),
    ("{spec: {containers: [{name: a, livenessProbe: {httpGet: {host: h}}}, {name: b, lifecycle: {preStop: {tcpSocket: {host: g}}}, readinessProbe: {tcpSocket: {port: 1}}}]}}",
     'probe or lifecycle host (containers "a", "b" use probe or lifecycle hosts "g", "h")'),
    ("{spec: {ephemeralContainers: [{name: e, securityContext: {privileged: true}}], containers: [{name: a, securityContext: {privileged: false}}]}}",
     'privileged (container "e" must not set securityContext.privileged=true)'),
    ("{spec: {containers: [{name: a, securityContext: {procMount: Unmasked}}, {name: b, securityContext: {procMount: Default}}]}}",
     'procMount (container "a" must not set securityContext.procMount to "Unmasked")'),
    ("{spec: {securityContext: {seLinuxOptions: {type: spc_t, user: u}}, containers: [{name: a, securityContext: {seLinuxOptions: {role: r}}}]}}",
     'seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set; role may not be set)'),
    ("{spec: {containers: [{name: a, securityContext: {seccompProfile: {type: Unconfined}}}]}}",
     'seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")'),
    ("{spec: {securityContext: {sysctls: [{name: kernel.msgmax}, {name: net.ipv4.tcp_rmem}, {name: a.b}]}}}",
     "forbidden sysctls (kernel.msgmax, a.b)"),
    ("{spec: {securityContext: {windowsOptions: {hostProcess: true}}, containers: [{name: a, securityContext: {windowsOptions: {hostProcess: true}}}]}}",
     'hostProcess (pod and container "a" must not set securityContext.windowsOptions.hostProcess=true)'),
    ("{spec: {hostUsers: false, containers: [{name: a, securityContext: {procMount: Unmasked}}]}}", ""),
    ("{spec: {containers: [{name: a}]}}", ""),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "expected"), BASELINE_CASES)
def test_baseline(pod, expected):
    assert violations(pod, BASELINE) == expected
    assert violations(pod, PRIVILEGED) == ""


RESTRICTED_CASES = [
    ("{name: a, securityContext: {capabilities: {drop: [ALL]}}}", "",
     'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)'),
    ("{name: a, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [CHOWN], add: [NET_BIND_SERVICE, SYS_TIME]}}}", "",
     'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; container "a" must not include "SYS_TIME" in securityContext.capabilities.add)'),
    ("{name: a, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: false, runAsUser: 0}}", "",
     'runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false), runAsUser=0 (container "a" must not set runAsUser=0)'),
    ("", "{runAsNonRoot: null}",
     'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)'),
    ("", "{runAsNonRoot: false, runAsUser: 0}",
     "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), runAsUser=0 (pod must not set runAsUser=0)"),
    ("", "{seccompProfile: null}",
     'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'),
    ("", "{seccompProfile: {type: Unconfined}}",
     'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")'),
]  # fmt: skip


@pytest.mark.parametrize(("container", "security", "expected"), RESTRICTED_CASES)
def test_restricted(container, security, expected):
    pod = yaml.safe_load(GOOD)
    assert violations(GOOD, RESTRICTED) == ""
    if container:
        pod["spec"]["containers"] = [yaml.safe_load(container)]
    pod["spec"]["securityContext"] |= yaml.safe_load(security or "{}")
    pod["spec"]["securityContext"] = {k: v for k, v in pod["spec"]["securityContext"].items() if v is not None}
    assert violations(yaml.safe_dump(pod), RESTRICTED) == expected
    assert violations(yaml.safe_dump(pod | {"metadata": {}}), PRIVILEGED) == ""


def test_containers_may_set_what_the_pod_does_not():
    pod = yaml.safe_load(GOOD)
    security = pod["spec"].pop("securityContext")
    assert violations(yaml.safe_dump(pod), RESTRICTED) != ""
    pod["spec"]["containers"][0]["securityContext"] |= security
    assert violations(yaml.safe_dump(pod), RESTRICTED) == ""


def test_restricted_volumes_replace_host_paths():
    pod = yaml.safe_load(GOOD)
    pod["spec"]["volumes"] = [
        *({"name": kind, kind: {}} for kind in ("secret", "csi", "projected", "ephemeral", "image")),
        {"name": "h", "hostPath": {"path": "/"}},
        {"name": "n", "nfs": {}},
    ]
    assert violations(yaml.safe_dump(pod), RESTRICTED) == (
        'restricted volume types (volumes "h", "n" use restricted volume types "hostPath", "nfs")'
    )


def test_a_plain_pod_at_the_restricted_level():
    """The text that users know best."""
    assert violations("{spec: {containers: [{name: a}]}}", RESTRICTED) == (
        'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
        '"Localhost")'
    )


@pytest.mark.parametrize(
    ("spec", "level", "versions"),
    [
        # (pod, level, the minor versions from which on the pod is allowed (True) or refused)
        ("{securityContext: {sysctls: [{name: net.ipv4.tcp_fin_timeout}]}}", BASELINE, {28: False, 29: True}),
        ("{securityContext: {sysctls: [{name: net.ipv4.tcp_wmem}]}}", BASELINE, {31: False, 32: True}),
        ("{securityContext: {sysctls: [{name: net.ipv4.ip_local_reserved_ports}]}}", BASELINE, {26: False, 27: True}),
        ("{securityContext: {seLinuxOptions: {type: container_engine_t}}}", BASELINE, {30: False, 31: True}),
        ("{containers: [{name: a, readinessProbe: {httpGet: {host: a}}}]}", BASELINE, {33: True, 34: False}),
        ("{securityContext: {seccompProfile: {type: X}}}", BASELINE, {18: True, 19: False}),
        ("{hostUsers: false, containers: [{name: a, securityContext: {procMount: Unmasked}}]}", BASELINE, {34: False, 35: True}),
    ],
)  # fmt: skip
def test_versions(spec, level, versions):
    for version, is_allowed in versions.items():
        assert (violations(f"{{spec: {spec}}}", level, version) == "") is is_allowed
    assert (violations(f"{{spec: {spec}}}", level, 99) == "") is versions[max(versions)]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, "runAsNonRoot != true"),
        (8, "allowPrivilegeEscalation != false, runAsNonRoot != true"),
        (19, "allowPrivilegeEscalation != false, runAsNonRoot != true, seccompProfile"),
        (22, "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"),
        (LATEST, "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"),
    ],
)
def test_restricted_versions(version, expected):
    spec = {"containers": [{"name": "a"}]}
    assert summarize(evaluate(LevelVersion(RESTRICTED, version), {}, spec)) == expected


def test_pods_for_windows_and_in_user_namespaces_are_excused():
    spec: dict[str, Any] = {"containers": [{"name": "a"}], "os": {"name": "windows"}}
    assert summarize(evaluate(LevelVersion(RESTRICTED, 24), {}, spec)).startswith("allowPrivilegeEscalation")
    assert summarize(evaluate(LevelVersion(RESTRICTED, 25), {}, spec)) == "runAsNonRoot != true"
    spec["hostUsers"] = False
    spec["containers"][0]["securityContext"] = {"runAsUser": 0, "procMount": "Unmasked"}
    assert summarize(evaluate(LevelVersion(RESTRICTED, 34), {}, spec)) == "procMount, runAsNonRoot != true, runAsUser=0"
    assert summarize(evaluate(LevelVersion(RESTRICTED, 35), {}, spec)) == "procMount"


def test_old_annotations_of_seccomp():
    prefix = "seccomp.security.alpha.kubernetes.io"
    annotations = {f"{prefix}/pod": "unconfined", f"container.{prefix}/a": "localhost/x", f"container.{prefix}/b": "y"}
    pod = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    assert violations(yaml.safe_dump(pod), BASELINE, 18) == (
        f'seccompProfile (forbidden annotations container.{prefix}/b="y", {prefix}/pod="unconfined")'
    )
    assert violations(yaml.safe_dump(pod), BASELINE, 19) == ""


def test_labels_make_a_policy():
    prefix = "pod-security.kubernetes.io/"
    policy = parse_policy(
        {
            f"{prefix}enforce": "baseline",
            f"{prefix}enforce-version": "v1.30",
            f"{prefix}warn": "restricted",
            f"{prefix}warn-version": "latest",
        }
    )
    assert [str(one) for one in (policy.enforce, policy.audit, policy.warn)] == [
        "baseline:v1.30", "privileged:latest", "restricted:latest"]  # fmt: skip
    assert policy.errors == ()
    wrong = parse_policy({f"{prefix}{mode}": "x" for mode in ("enforce", "audit", "warn", "warn-version")})
    # Enforced is the strictest, warned about is nothing.
    assert [str(one) for one in (wrong.enforce, wrong.audit, wrong.warn)] == [
        "restricted:latest", "privileged:latest", "privileged:latest"]  # fmt: skip
    assert [f"{error.field}: {error.message}" for error in wrong.errors] == [
        *(
            f'metadata.labels[{prefix}{mode}]: Invalid value: "x": must be one of privileged, baseline, restricted'
            for mode in ("enforce", "audit", "warn")
        ),
        f'metadata.labels[{prefix}warn-version]: Invalid value: "x": must be "latest" or "v1.x"',
    ]


def test_a_policy_is_relaxed_or_not():
    restricted, baseline = LevelVersion(RESTRICTED), LevelVersion(BASELINE)
    assert is_relaxed(baseline, restricted)
    assert is_relaxed(baseline, baseline)
    assert not is_relaxed(restricted, baseline)
    assert not is_relaxed(baseline._replace(version=20), restricted)
    assert is_relaxed(LevelVersion(PRIVILEGED, 20), baseline)
