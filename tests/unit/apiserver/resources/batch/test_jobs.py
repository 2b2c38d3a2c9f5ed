# ruff: noqa: E501
"""Jobs: names and labels of their pods, and what may change of a suspended one."""

import copy

import pytest

from tests.unit.apiserver.resources.job_refusals import POD
from tests.unit.apiserver.resources.steps import Steps, from_yaml, table

TABLE = table()


def job(spec=""):
    return from_yaml(
        f"{{metadata: {{name: web, namespace: default, uid: u}}, spec: {{{spec and f'{spec}, '}template: {{{POD}}}}}}}"
    )


@pytest.mark.parametrize(
    ("path", "value", "is_fixed"),
    [
        (("spec", "nodeSelector"), {"a": "b"}, False),
        (("metadata", "annotations"), {"a": "b"}, False),
        (("spec", "affinity"), {"nodeAffinity": {}}, False),
        (("spec", "affinity"), {"podAffinity": {}}, True),
        (("spec", "hostname"), "a", True),
    ],
)
def test_where_pods_of_a_suspended_job_run_may_change(path, value, is_fixed):
    steps = Steps(TABLE["jobs.batch"])
    stored = steps.create(job("suspend: true"))
    changed = copy.deepcopy(stored)
    changed["spec"]["template"][path[0]][path[1]] = value
    refusal = steps.update_refusal(stored, changed)
    assert [text.partition(":")[0] for text in refusal] == ["spec.template"] * is_fixed


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("{spec: {selector: {matchLabels: {batch.kubernetes.io/controller-uid: other}}}}", [
            'spec.selector: Invalid value: {"matchLabels":{"batch.kubernetes.io/controller-uid":"other"}}: `selector` '
            "not auto-generated",
            'spec.template.metadata.labels: Invalid value: {"batch.kubernetes.io/controller-uid":"u",'
            '"controller-uid":"u","batch.kubernetes.io/job-name":"web","job-name":"web"}: `selector` does not match '
            "template `labels`"]),
        ("{spec: {template: {metadata: {labels: {job-name: b}}}}}", [
            'spec.template.metadata.labels[job-name]: Invalid value: {"job-name":"b",'
            '"batch.kubernetes.io/controller-uid":"u","controller-uid":"u","batch.kubernetes.io/job-name":"web"}: must be '
            "'web'"]),
        ("{spec: {completionMode: Indexed, completions: 1000}, metadata: {name: %s}}" % ("a" * 60), [
            f'metadata.name: Invalid value: "{"a" * 60}": will not able to create pod with invalid DNS label: '
            f"{'a' * 60}-999"]),
    ],
)  # fmt: skip
def test_names_and_labels_of_pods_are_validated(change, expected):
    obj = job()
    for part, fields in from_yaml(change).items():
        for name, value in fields.items():
            obj[part][name] = {**obj[part].get(name, {}), **value} if isinstance(value, dict) else value
    assert Steps(TABLE["jobs.batch"]).refusal(obj) == expected
