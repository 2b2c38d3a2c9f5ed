# ruff: noqa: E501
"""Writes of the status of Jobs."""

import pytest

from tests.unit.apiserver.resources.job_refusals import POD
from tests.unit.apiserver.resources.steps import Steps, from_yaml, table

TABLE = table()
START, END, LATER = (f"'2027-01-15T07:{minute}:00Z'" for minute in (50, 55, 58))
COMPLETE = "conditions: [{type: SuccessCriteriaMet, status: 'True'}, {type: Complete, status: 'True'}]"
FAILED = "conditions: [{type: FailureTarget, status: 'True'}, {type: Failed, status: 'True'}]"
DONE = f"{COMPLETE}, startTime: {START}, completionTime: {END}"
INDEXED = "completionMode: Indexed, completions: 3, backoffLimitPerIndex: 1"
POLICY = "completionMode: Indexed, completions: 3, successPolicy: {rules: [{succeededCount: 1}]}"


def condition(*types):
    return f"conditions: [{', '.join(f'{{type: {type_}, status: {chr(39)}True{chr(39)}}}' for type_ in types)}]"


def of_conditions(*details):
    return [f"status.conditions: Invalid value: {detail}" for detail in details]


# The spec of the Job, its status before and after the write, and the errors of the write.
WRITES = [
    ("", "", f"startTime: {START}, active: 1, ready: 1", []),
    ("", "", DONE, []),
    ("", "", f"{FAILED}, startTime: {START}", []),
    ("", "active: 1", "active: -1, terminating: -2", [
        "status.active: Invalid value: -1: must be greater than or equal to 0",
        "status.terminating: Invalid value: -2: must be greater than or equal to 0"]),
    ("", "", "uncountedTerminatedPods: {succeeded: [a, ''], failed: [a]}", [
        'status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty',
        'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"']),
    ("", "", "active: 1, ready: 2", ["status.ready: Invalid value: 2: cannot set more ready pods than active"]),
    ("", "", f"{condition('Complete')}, startTime: {START}, completionTime: {END}", of_conditions(
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")),
    ("", "", f"{condition('Failed')}, startTime: {START}", of_conditions(
        "cannot set Failed=True condition without the FailureTarget=true condition")),
    ("", "", f"{condition('Complete', 'Failed', 'FailureTarget', 'SuccessCriteriaMet')}, startTime: {START}, "
             f"completionTime: {END}", of_conditions(
        "cannot set Complete=True and Failed=true conditions",
        "cannot set Complete=True and FailureTarget=true conditions",
        "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")),
    (POLICY, "", f"{condition('Complete')}, startTime: {START}, completionTime: {END}", of_conditions(
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")),
    ("", "", f"startTime: {START}, completionTime: {END}", [
        'status.completionTime: Invalid value: "2027-01-15T07:55:00Z": cannot set completionTime when there is no '
        "Complete=True condition"]),
    ("", "", f"{COMPLETE}, startTime: {START}", [
        "status.completionTime: Required value: completionTime is required for Complete jobs"]),
    ("", "", f"{COMPLETE}, startTime: {LATER}, completionTime: {END}", [
        'status.completionTime: Invalid value: "2027-01-15T07:55:00Z": completionTime cannot be set before startTime']),
    ("", "", f"{COMPLETE}, completionTime: {END}, active: 1, terminating: 1, "
             "uncountedTerminatedPods: {failed: [a]}", [
        "status.active: Invalid value: 1: active>0 is invalid for finished job",
        "status.startTime: Required value: startTime is required for finished job",
        'status.uncountedTerminatedPods: Invalid value: {"failed":["a"]}: uncountedTerminatedPods needs to be empty for '
        "finished job",
        "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job"]),
    ("suspend: true, completions: 0", "", f"{COMPLETE}, completionTime: {END}", []),
    (INDEXED, "", "completedIndexes: 0-1, failedIndexes: '2'", []),
    (INDEXED, "", "completedIndexes: 0-3, failedIndexes: a", [
        'status.completedIndexes: Invalid value: "0-3": error parsing completedIndexes: too large index: "3"',
        'status.failedIndexes: Invalid value: "a": error parsing failedIndexes: cannot convert string to integer for '
        'index: "a"']),
    (INDEXED, "", "completedIndexes: 0-1, failedIndexes: 1-2", [
        'status.failedIndexes: Invalid value: "1-2": failedIndexes and completedIndexes overlap at index: 1']),
    (INDEXED, "completedIndexes: 0-3", "completedIndexes: 0-3, active: 1", []),  # completions have been fewer since
    ("", "", "completedIndexes: '0', failedIndexes: ''", [
        'status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed '
        "completion mode",
        'status.failedIndexes: Invalid value: "": cannot set non-null failedIndexes when backoffLimitPerIndex is null',
    ]),
    ("", DONE, f"startTime: {START}", of_conditions(
        "cannot disable the terminal Complete=True condition",
        "cannot disable the SuccessCriteriaMet=True condition")),
    ("", "succeeded: 2, failed: 1", "succeeded: 1", [
        "status.failed: Invalid value: 0: cannot decrease the failed counter",
        "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"]),
    ("completionMode: Indexed, completions: 1, parallelism: 1", "succeeded: 2", "succeeded: 1", []),
    ("", DONE, f"{COMPLETE}, startTime: {START}, completionTime: {LATER}", [
        'status.completionTime: Invalid value: "2027-01-15T07:58:00Z": completionTime cannot be mutated']),
    # Times are instants: the same one in another time zone is no change, a fraction of a second is one.
    ("", DONE, f"{COMPLETE}, startTime: '2027-01-15T08:50:00+01:00', completionTime: '2027-01-15T02:25:00.000-05:30'", []),
    ("", DONE, f"{COMPLETE}, startTime: {START}, completionTime: '2027-01-15T08:55:00.5+01:00'", [
        'status.completionTime: Invalid value: "2027-01-15T07:55:00Z": completionTime cannot be mutated']),
    ("", "", f"{COMPLETE}, startTime: '2027-01-15T08:54:59+01:00', completionTime: {END}", []),
    ("", "", f"{COMPLETE}, startTime: '2027-01-15T07:55:00.000000001Z', completionTime: {END}", [
        'status.completionTime: Invalid value: "2027-01-15T07:55:00Z": completionTime cannot be set before startTime']),
    ("", "", "completionTime: '0001-01-01T00:00:00+01:00'", [
        'status.completionTime: Invalid value: "0001-01-01T00:00:00+01:00": cannot set completionTime when there is no '
        "Complete=True condition"]),
    ("", f"startTime: {START}", "startTime: '2027-01-15T07:50:00.1Z'", [
        "status.startTime: Required value: startTime cannot be removed for unsuspended job"]),
    ("", f"startTime: {START}", "active: 1", [
        "status.startTime: Required value: startTime cannot be removed for unsuspended job"]),
    ("suspend: true", f"startTime: {START}", "{}", []),
    ("", f"{condition('Complete')}, startTime: {START}, completionTime: {END}", DONE, of_conditions(
        "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")),
]  # fmt: skip


def job(spec=""):
    return from_yaml(
        f"{{metadata: {{name: web, namespace: default, uid: u}}, spec: {{{spec and f'{spec}, '}template: {{{POD}}}}}}}"
    )


@pytest.mark.parametrize(("spec", "before", "after", "expected"), WRITES)
def test_writes_of_a_status_are_validated(spec, before, after, expected):
    steps = Steps(TABLE["jobs.batch"])
    stored = steps.create(job(spec))
    before, after = (from_yaml(text if text.startswith("{") else f"{{{text}}}") for text in (before, after))
    assert steps.update_refusal({**stored, "status": before}, {**stored, "status": after}, "status") == expected
