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
# The resource, the object, and the warnings of a create.
CREATES = [
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
    ("cronjobs.batch", CRON_JOB, [NAME, f"spec.jobTemplate.spec{LARGE}"]),
]  # fmt: skip
# The resource, the stored object, the new one, and the warnings of the update.
UPDATES = [
    (SLICE, "{addressType: FQDN}", "{addressType: FQDN, endpoints: [{addresses: [a.example.com]}]}", []),
    (
        "jobs.batch",
        f"{{spec: {{{HUGE}, {MANUAL}}}}}",
        f"{{metadata: {{labels: {{a: b}}}}, spec: {{{HUGE}, {MANUAL}}}}}",
        [],
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
