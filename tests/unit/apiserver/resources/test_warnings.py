# ruff: noqa: E501
"""Warnings about objects that are stored all the same."""

import pytest

from tests.unit.apiserver.resources.job_refusals import MANUAL, POD
from tests.unit.apiserver.resources.steps import Steps, from_yaml, table

TABLE = table()
SLICE, MANAGED = "endpointslices.discovery.k8s.io", "endpointslice.kubernetes.io/managed-by"
LONG = "fd00:0::1"
CANONICAL = f'IPv6 address "{LONG}" should be in RFC 5952 canonical format ("fd00::1")'

NAME = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is "
    "recommended: [must not contain dots]"
)
LARGE = (
    ": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might "
    "not be able to track completedIndexes when a big number of indexes fail"
)
HUGE = "completionMode: Indexed, completions: 100001, parallelism: 10001"
HUGE_JOB = f"{HUGE}, template: {{{POD}}}"
CRON_JOB = f"{{metadata: {{name: a.b}}, spec: {{schedule: '* * * * *', jobTemplate: {{spec: {{{HUGE_JOB}}}}}}}}}"
SELECTOR = "selector: {matchLabels: {a: b}}"
CONTAINER = "{name: a, image: b, ports: [{containerPort: 1}, {containerPort: 1}]}"
TEMPLATE = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}"
CLAIM = "{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}}}"
FRACTION = 'resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer'
HISTORY = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
OLD_CLASS = 'metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead'
ZONE = "failure-domain.beta.kubernetes.io/zone"
ZONES = 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
ENFORCED = "{metadata: {annotations: {kubernetes.io/enforce-mountable-secrets: a}}}"
ENFORCES = (
    "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to "
    "isolate access to mounted secrets"
)
DUPLICATE = TEMPLATE.replace("{name: a, image: b}", CONTAINER)
DUPLICATES = "spec.template.spec.containers[0].ports[1]: duplicate port definition with spec.template.spec.containers[0].ports[0]"
STATEFUL_SET = f"{SELECTOR}, {DUPLICATE}, volumeClaimTemplates: [{CLAIM % '100m'}]"
# The resource, the object, and the warnings of a create.
CREATES = [
    ("serviceaccounts", ENFORCED, [ENFORCES]),
    ("nodes", "{spec: {externalID: a}}", ["spec.externalID: this field is deprecated, and is unused by Kubernetes"]),
    (SLICE, "{addressType: FQDN, endpoints: [{addresses: [a.example.com]}]}", [
        "spec.addressType: FQDN endpoints are deprecated"]),
    (SLICE, f"{{addressType: IPv6, endpoints: [{{addresses: ['fd00::2', '{LONG}']}}]}}", [
        f"endpoints[0].addresses[1]: {CANONICAL}"]),
    (SLICE, f"{{metadata: {{labels: {{{MANAGED}: endpointslice-controller.k8s.io}}}}, addressType: IPv6, "
        f"endpoints: [{{addresses: ['{LONG}']}}]}}", []),
    ("endpoints", f"{{subsets: [{{addresses: [{{ip: 10.0.0.1}}], notReadyAddresses: [{{ip: '{LONG}'}}]}}]}}", [
        f"subsets[0].notReadyAddresses[0].ip: {CANONICAL}"]),
    ("endpoints", f"{{metadata: {{labels: {{endpoints.kubernetes.io/managed-by: endpoint-controller}}}}, "
        f"subsets: [{{addresses: [{{ip: '{LONG}'}}]}}]}}", []),
    ("jobs.batch", f"{{spec: {{{HUGE_JOB}}}}}", [f"spec{LARGE}"]),
    *((f"{plural}", f"{{metadata: {{name: a.b}}, spec: {{{selector}, {TEMPLATE}}}}}", warnings) for plural, selector, warnings in (
        ("deployments.apps", SELECTOR, [NAME]), ("replicasets.apps", SELECTOR, [NAME]), ("daemonsets.apps", SELECTOR, []),
        ("replicationcontrollers", "selector: {a: b}", [NAME]))),
    ("statefulsets.apps", f"{{spec: {{revisionHistoryLimit: -1, {SELECTOR}, {TEMPLATE}, volumeClaimTemplates: [{CLAIM % '100m'}]}}}}", [
        f"spec.volumeClaimTemplates[0].{FRACTION}", HISTORY]),
    ("persistentvolumeclaims", "{metadata: {annotations: {volume.beta.kubernetes.io/storage-class: a}}, spec: {accessModes: [ReadWriteOnce], "
        "resources: {requests: {storage: 100m}, limits: {storage: 1.5}}}}", [
        OLD_CLASS, f"spec.{FRACTION}",
        'spec.resources.limits[storage]: fractional byte value "1500m" is invalid, must be an integer']),
    ("persistentvolumes", "{metadata: {annotations: {volume.beta.kubernetes.io/storage-class: a}}, spec: {capacity: {storage: 1Gi}, "
        "accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Recycle, rbd: {monitors: [a], image: b}, nodeAffinity: {required: "
        "{nodeSelectorTerms: [{matchExpressions: [{key: beta.kubernetes.io/os, operator: Exists}]}]}}}}", [
        OLD_CLASS,
        "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
        'spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use "kubernetes.io/os" instead',
        "spec.rbd: deprecated in v1.28, non-functional in v1.31+"]),
    ("storageclasses.storage.k8s.io", f"{{provisioner: a, allowedTopologies: [{{matchLabelExpressions: [{{key: {ZONE}, values: [a]}}]}}]}}", [
        f"allowedTopologies[0].matchLabelExpressions[0].key: {ZONES}"]),
    ("csistoragecapacities.storage.k8s.io", f"{{storageClassName: a, nodeTopology: {{matchLabels: {{{ZONE}: a}}, "
        f"matchExpressions: [{{key: {ZONE}, operator: Exists}}]}}}}", [
        f"nodeTopology.matchExpressions[0].key: {ZONE} is {ZONES}", f"nodeTopology.matchLabels.{ZONE}: {ZONES}"]),
    ("runtimeclasses.node.k8s.io", f"{{handler: a, scheduling: {{nodeSelector: {{{ZONE}: a, b: c}}}}}}", [
        f"scheduling.nodeSelector: {ZONES}"]),
    ("cronjobs.batch", CRON_JOB, [NAME, f"spec.jobTemplate.spec{LARGE}"]),
]  # fmt: skip
# The resource, the stored object, the new one, and the warnings of the update.
UPDATES = [
    ("serviceaccounts", "{}", ENFORCED, [ENFORCES]),
    ("serviceaccounts", ENFORCED, ENFORCED, []),
    (SLICE, "{addressType: FQDN}", "{addressType: FQDN, endpoints: [{addresses: [a.example.com]}]}", []),
    (
        "jobs.batch",
        f"{{spec: {{{HUGE}, {MANUAL}}}}}",
        f"{{metadata: {{labels: {{a: b}}}}, spec: {{{HUGE}, {MANUAL}}}}}",
        [],
    ),
    ("deployments.apps", f"{{spec: {{{SELECTOR}, {DUPLICATE}}}}}", f"{{spec: {{{SELECTOR}, {DUPLICATE}}}}}", []),
    (
        "deployments.apps",
        f"{{spec: {{{SELECTOR}, {DUPLICATE}}}}}",
        f"{{spec: {{replicas: 2, {SELECTOR}, {DUPLICATE}}}}}",
        [DUPLICATES],
    ),
    (
        "statefulsets.apps",
        f"{{spec: {{{STATEFUL_SET}}}}}",
        f"{{metadata: {{labels: {{a: b}}}}, spec: {{{STATEFUL_SET}}}}}",
        [f"spec.volumeClaimTemplates[0].Spec.{FRACTION}"],
    ),
    ("cronjobs.batch", CRON_JOB, CRON_JOB.replace("'* *", "'5 *"), [f"spec.jobTemplate.spec{LARGE}"]),
]


def with_name(text):
    obj = from_yaml(text)
    return {**obj, "metadata": {"name": "web", "namespace": "default", **obj.get("metadata", {})}}


@pytest.mark.parametrize(("resource", "obj", "expected"), CREATES)
def test_creates_warn(resource, obj, expected):
    resource = TABLE[resource]
    assert resource.strategy.warnings(Steps(resource).create(with_name(obj))) == expected


@pytest.mark.parametrize(("resource", "before", "after", "expected"), UPDATES)
def test_updates_warn(resource, before, after, expected):
    steps = Steps(TABLE[resource])
    old = steps.create(with_name(before))
    assert steps.resource.strategy.update_warnings(steps.update(old, with_name(after)), old) == expected
