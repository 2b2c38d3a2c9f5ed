"""Rules of parts of pod specs: systems, resources, claims, spread constraints, annotations, the order of errors."""

import pytest

from tests.unit.apiserver.resources.steps import Steps, from_yaml, table

TABLE = table()
NAME = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with"
LINUX = "windows options cannot be set for a linux pod"
WINDOWS = "cannot be set for a windows pod"
USER = "securityContext.windowsOptions.runAsUserName"
SPREAD = "topologyKey: k, maxSkew: 1, whenUnsatisfiable: DoNotSchedule"
CONTAINER = "containers: [{name: a, image: b}]"
WITH_RESOURCES = "{{containers: [{{name: a, image: b, resources: {}}}]}}"
SPECS = [
    # Operating systems
    (f"{{{CONTAINER}, os: {{name: ''}}}}", ["os.name: Required value: cannot be empty"]),
    (f"{{{CONTAINER}, os: {{name: plan9}}}}", [
        'os: Unsupported value: "plan9": supported values: "linux", "windows"']),
    (f"{{{CONTAINER}, os: {{name: linux}}, securityContext: {{windowsOptions: {{}}}}}}", [
        f"securityContext.windowsOptions: Forbidden: {LINUX}"]),
    ("{containers: [{name: a, image: b, securityContext: {windowsOptions: {}}}], os: {name: linux}}", [
        f"containers[0].securityContext.windowsOptions: Forbidden: {LINUX}"]),
    ("{containers: [{name: a, image: b, securityContext: {runAsUser: 1}}], os: {name: windows}, hostPID: true, "
     "securityContext: {fsGroup: 1}}", [
        f"hostPID: Forbidden: {WINDOWS}",
        f"securityContext.fsGroup: Forbidden: {WINDOWS}",
        f"containers[0].securityContext.runAsUser: Forbidden: {WINDOWS}"]),
    # Options of Windows
    (f"{{{CONTAINER}, securityContext: {{windowsOptions: {{runAsUserName: 'A\\x', gmsaCredentialSpec: a}}}}}}", []),
    (f"{{{CONTAINER}, securityContext: {{windowsOptions: {{runAsUserName: '', gmsaCredentialSpec: ''}}}}}}", [
        'securityContext.windowsOptions.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an empty '
        "string",
        f'{USER}: Invalid value: "": runAsUserName cannot be an empty string']),
    (f"{{{CONTAINER}, securityContext: {{windowsOptions: {{runAsUserName: 'a\\b\\c'}}}}}}", [
        f'{USER}: Invalid value: "a\\\\b\\\\c": runAsUserName cannot contain more than one backslash']),
    (f"{{{CONTAINER}, securityContext: {{windowsOptions: {{runAsUserName: '.a\\'}}}}}}", [
        f"{USER}: Invalid value: \".a\\\\\": runAsUserName's Domain doesn't match the NetBios nor the DNS format",
        f"{USER}: Invalid value: \".a\\\\\": runAsUserName's User cannot be empty"]),
    (f'{{{CONTAINER}, securityContext: {{windowsOptions: {{runAsUserName: "a\\tb"}}}}}}', [
        f'{USER}: Invalid value: "a\\tb": runAsUserName cannot contain control characters']),
    (f"{{{CONTAINER}, securityContext: {{windowsOptions: {{runAsUserName: '. .'}}}}}}", [
        f"{USER}: Invalid value: \". .\": runAsUserName's User cannot contain only periods or spaces"]),
    (f"{{{CONTAINER}, securityContext: {{windowsOptions: {{runAsUserName: {'d' * 256}\\{'u' * 104}@}}}}}}", [
        f"{USER}: Invalid value: \"{'d' * 256}\\\\{'u' * 104}@\": runAsUserName's {why}" for why in (
            "Domain length must be under 256 characters",
            "Domain doesn't match the NetBios nor the DNS format",
            "User length must not be longer than 104 characters",
            'User cannot contain the following characters: "/\\:;|=,+*?<>@[]')]),
    ("{containers: [{name: a, image: b}, {name: c, image: b, "
     "securityContext: {windowsOptions: {hostProcess: true}}}]}", [
        ': Invalid value: "": If pod contains any hostProcess containers then all containers must be HostProcess '
        "containers",
        "hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers"]),
    ("{containers: [{name: a, image: b, securityContext: {windowsOptions: {hostProcess: false}}}], "
     "securityContext: {windowsOptions: {hostProcess: true}}}", [
        "containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be "
        "identical if both are specified, was true"]),
    # Resources
    (WITH_RESOURCES.format("{limits: {a.b/c: 1, cpu: 1}, requests: {a.b/c: 1}}"), []),
    (WITH_RESOURCES.format("{limits: {a.b/c: 1500m}}"), [
        'containers[0].resources.limits[a.b/c]: Invalid value: "1500m": must be an integer',
        'containers[0].resources.requests[a.b/c]: Invalid value: "1500m": must be an integer']),
    (WITH_RESOURCES.format("{limits: {a.b/c: '2'}, requests: {a.b/c: '1'}}"), [
        'containers[0].resources.requests: Invalid value: "1": must be equal to a.b/c limit of 2']),
    (WITH_RESOURCES.format("{requests: {a.b/c: 1}}"), [
        "containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"]),
    (WITH_RESOURCES.format("{limits: {requests.a.b/c: 1}}"), [
        f'containers[0].resources.{kind}[requests.a.b/c]: Invalid value: "requests.a.b/c": doesn\'t follow extended '
        "resource name standard" for kind in ("limits", "requests")]),
    (WITH_RESOURCES.format("{limits: {hugepages-2Mi: 3Mi}}"), [
        *(f'containers[0].resources.{kind}[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple '
          "of hugepages-2Mi" for kind in ("limits", "requests")),
        "containers[0].resources: Forbidden: HugePages require cpu or memory"]),
    # Claims
    (f"{{{CONTAINER}, resourceClaims: [{{name: r, resourceClaimName: s}}, {{name: r}}]}}", [
        'resourceClaims[1].name: Duplicate value: "r"',
        'resourceClaims[1]: Invalid value: {"Name":"r","ResourceClaimName":null,"ResourceClaimTemplateName":null}: '
        "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"]),
    (f"{{{CONTAINER}, resourceClaims: [{{resourceClaimName: s, resourceClaimTemplateName: t}}]}}", [
        "resourceClaims[0].name: Required value",
        'resourceClaims[0]: Invalid value: {"Name":"","ResourceClaimName":"s","ResourceClaimTemplateName":"t"}: '
        "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"]),
    (WITH_RESOURCES.format("{claims: [{name: r}, {}]}"), [
        'containers[0].resources.claims[0]: Not found: "r": must be one of the names in pod.spec.resourceClaims which '
        "is empty",
        "containers[0].resources.claims[1]: Required value"]),
    ("{containers: [{name: a, image: b, resources: {claims: [{name: r}, {name: r}, {name: q}]}}], "
     "resourceClaims: [{name: r, resourceClaimName: s}]}", [
        'containers[0].resources.claims[1]: Duplicate value: "r"',
        'containers[0].resources.claims[2]: Not found: "q": must be one of the names in pod.spec.resourceClaims: r']),
    # Spread constraints and affinity
    (f"{{{CONTAINER}, topologySpreadConstraints: [{{{SPREAD}}}, {{{SPREAD}}}]}}", [
        'topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{k, DoNotSchedule}"']),
    (f"{{{CONTAINER}, topologySpreadConstraints: [{{topologyKey: k, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, "
     "minDomains: 0, nodeTaintsPolicy: Some, matchLabelKeys: [a]}]}", [
        "topologySpreadConstraints[0].minDomains: Invalid value: 0: must be greater than zero",
        "topologySpreadConstraints[0].minDomains: Invalid value: 0: can only use minDomains if "
        "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
        'topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: "Some": supported values: "Honor", "Ignore"',
        "topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"]),
    (f"{{{CONTAINER}, topologySpreadConstraints: [{{{SPREAD}, matchLabelKeys: [a, b], labelSelector: {{matchLabels: "
     "{a: b}, matchExpressions: [{key: a, operator: Exists}]}}]}", [
        'topologySpreadConstraints[0][0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector']),
    (f"{{{CONTAINER}, affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: k, "
     "matchLabelKeys: [a], mismatchLabelKeys: [a, b], labelSelector: {matchLabels: {a: b}, matchExpressions: "
     "[{key: a, operator: Exists}]}}, {topologyKey: k, mismatchLabelKeys: [a]}]}}}", [
        f"affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution{text}" for text in (
            '[0][0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector',
            '[0].matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and mismatchLabelKeys',
            "[1].mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set")]),
    # Classes and names
    (f"{{{CONTAINER}, preemptionPolicy: Always, overhead: {{cpu: '-1'}}}}", [
        'preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never"',
        'overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
    # The order of errors, of containers of all kinds
    ("{containers: [{name: a, volumeMounts: [{name: v, mountPath: /v, mountPropagation: ''}], livenessProbe: {}, "
     "ports: [{containerPort: 1, hostPort: 1}]}, {name: a, image: b, ports: [{containerPort: 1, hostPort: 1}]}], "
     "initContainers: [{name: i, image: b, livenessProbe: {}}, {name: s, image: b, restartPolicy: Always, "
     "livenessProbe: {}}], restartPolicy: Some}", [
        "containers[0].image: Required value",
        'containers[0].volumeMounts[0].name: Not found: "v"',
        'containers[0].volumeMounts.mountPropagation: Unsupported value: "": supported values: "Bidirectional", '
        '"HostToContainer", "None"',
        "containers[0].livenessProbe: Required value: must specify a handler type",
        'containers[1].name: Duplicate value: "a"',
        'containers[1].ports[0].hostPort: Duplicate value: "TCP//1"',
        "initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
        "initContainers[1].livenessProbe: Required value: must specify a handler type",
        'restartPolicy: Unsupported value: "Some": supported values: "Always", "OnFailure", "Never"']),
]  # fmt: skip
ANNOTATIONS = [
    ({"controller.kubernetes.io/pod-deletion-cost": "-5"}, []),
    ({"controller.kubernetes.io/pod-deletion-cost": "05"}, [
        '[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "05": must be a 32bit integer']),
    ({"kubernetes.io/config.mirror": "x"}, [
        '[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set']),
    ({"seccomp.security.alpha.kubernetes.io/pod": "x"}, [
        '.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "x": must be a valid seccomp profile']),
    ({"container.seccomp.security.alpha.kubernetes.io/a": "localhost//b"}, [
        '.container.seccomp.security.alpha.kubernetes.io/a: Invalid value: "/b": must be a relative path']),
    ({"container.apparmor.security.beta.kubernetes.io/z": "x"}, [
        '[container.apparmor.security.beta.kubernetes.io/z]: Invalid value: "z": container not found',
        '[container.apparmor.security.beta.kubernetes.io/z]: Invalid value: "x": invalid AppArmor profile name: "x"']),
    ({"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}, []),
]  # fmt: skip


def refusal(spec, annotations=None):
    metadata = {"name": "web", "namespace": "default", "annotations": annotations or {}}
    return Steps(TABLE["pods"]).refusal({"metadata": metadata, "spec": from_yaml(spec)})


@pytest.mark.parametrize(("spec", "expected"), SPECS, ids=[spec for spec, _ in SPECS])
def test_specs(spec, expected):
    assert refusal(spec) == [f"spec{text}" if text[0] == ":" else f"spec.{text}" for text in expected]


@pytest.mark.parametrize(("annotations", "expected"), ANNOTATIONS, ids=[str(one) for one, _ in ANNOTATIONS])
def test_annotations(annotations, expected):
    assert refusal(f"{{{CONTAINER}}}", annotations) == [f"metadata.annotations{text}" for text in expected]
