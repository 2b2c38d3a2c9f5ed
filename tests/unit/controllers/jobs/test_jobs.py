"""Counting of a Job's pods, verdicts, and the pods of the next round."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.controllers.jobs.job_pods import choose_surplus, pod_template
from bridgehead.controllers.jobs.job_verdicts import (
    backoff_in,
    deadline_in,
    expiry_in,
    indexes_in_time,
    judge,
    wanted_active,
)
from bridgehead.controllers.jobs.progress import (
    FAILURE_COUNT,
    INDEX,
    TRACKING_FINALIZER,
    count_pods,
    end_of,
    failure_count,
    index_of,
    missing_indexes,
)
from bridgehead.objects.batch import Job
from bridgehead.objects.core import Pod
from bridgehead.objects.times import format_time

NOW = 1_800_000_000.0


def job(status: dict[str, Any] | None = None, **spec: Any) -> Job:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    document = {
        "metadata": {"name": "work", "namespace": "default", "uid": "j"},
        "spec": {"completions": 1, "template": template, **spec},
        "status": {"startTime": format_time(NOW - 60), **(status or {})},
    }
    return msgspec.convert({**document, "spec": {k: v for k, v in document["spec"].items() if v is not None}}, Job)


def pod(
    uid: str,
    phase: str = "Running",
    *,
    index: int | None = None,
    tracked: bool = True,
    terminating: bool = False,
    code: int = 0,
    ended: float = NOW - 5,
    failures: int = 0,
    conditions: tuple[str, ...] = (),
) -> Pod:
    metadata: dict[str, Any] = {
        "name": uid,
        "namespace": "default",
        "uid": uid,
        "creationTimestamp": format_time(NOW - 50),
        "annotations": {FAILURE_COUNT: str(failures)} | ({INDEX: str(index)} if index is not None else {}),
        "finalizers": [TRACKING_FINALIZER] if tracked else [],
    }
    if terminating:
        metadata["deletionTimestamp"] = format_time(NOW)
    state = (
        {"terminated": {"exitCode": code, "finishedAt": format_time(ended)}} if phase in ("Failed", "Succeeded") else {}
    )
    status = {
        "phase": phase,
        "containerStatuses": [{"name": "c", "state": state}],
        "conditions": [{"type": name, "status": "True"} for name in conditions],
    }
    return msgspec.convert({"metadata": metadata, "status": status}, Pod)


def verdict_of(made: Job, *pods: Pod) -> tuple[str, str] | None:
    found = judge(made, count_pods(made, pods), NOW)
    return (found.type, found.reason) if found is not None else None


def test_a_pod_is_counted_once_through_three_writes():
    made = job(completions=3, parallelism=2)
    first = count_pods(made, [pod("a", "Succeeded"), pod("b")])
    assert (first.succeeded, first.all_succeeded, first.uncounted.succeeded) == (0, 1, ("a",))
    assert [one.metadata.uid for one in first.to_release] == ["a"]
    # The status is written; the finalizer is still there, also after a restart of the controller.
    written = job({"uncountedTerminatedPods": {"succeeded": ["a"]}}, completions=3)
    again = count_pods(written, [pod("a", "Succeeded"), pod("b")])
    assert (again.succeeded, again.all_succeeded, again.uncounted.succeeded) == (0, 1, ("a",))
    # The finalizer is gone, or the whole pod.
    for pods in ([pod("a", "Succeeded", tracked=False), pod("b")], [pod("b")]):
        last = count_pods(written, pods)
        assert (last.succeeded, last.all_succeeded, last.uncounted.succeeded) == (1, 1, ())
    counted = job({"succeeded": 1}, completions=3)
    assert count_pods(counted, [pod("a", "Succeeded", tracked=False), pod("b")]).all_succeeded == 1


class CountedText(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedText.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def with_counted_text(made: Pod) -> Pod:
    text = CountedText(made.metadata.uid)
    metadata = msgspec.structs.replace(made.metadata, name=text, uid=text)
    return msgspec.structs.replace(made, metadata=metadata)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_work_of_counting_grows_with_the_pods_only(phase: str):
    count = 500
    pods = [with_counted_text(pod(str(number), phase)) for number in range(2 * count)]
    uids = [str(number) for number in range(count)]
    made = job({"uncountedTerminatedPods": {phase.lower(): uids}}, completions=3 * count, backoffLimit=3 * count)
    CountedText.comparisons = 0
    progress = count_pods(made, pods)
    assert CountedText.comparisons < 10 * count
    assert getattr(progress.uncounted, phase.lower()) == tuple(one.metadata.uid for one in pods)


def test_the_work_of_choosing_surplus_pods_grows_with_the_pods_only():
    count = 500
    indexed = job(completionMode="Indexed", completions=count, parallelism=count)
    pods = [with_counted_text(pod(str(number), index=number)) for number in range(2 * count)]
    CountedText.comparisons = 0
    surplus = choose_surplus(indexed, pods, 0, NOW)
    assert CountedText.comparisons < 10 * count
    assert surplus == pods[count:]


def test_a_terminating_pod_counts_as_failed_unless_only_failed_ones_are_replaced():
    terminating = pod("a", terminating=True)
    assert count_pods(job(), [terminating]).all_failed == 1
    failing = {"conditions": [{"type": "FailureTarget", "status": "True"}]}
    assert count_pods(job(failing, podReplacementPolicy="Failed"), [terminating]).uncounted.failed == ("a",)
    progress = count_pods(job(podReplacementPolicy="Failed"), [terminating])
    assert (progress.all_failed, len(progress.terminating)) == (0, 1)
    # The controller takes the finalizer of pods that it deletes itself.
    assert count_pods(job(), [pod("a", terminating=True, tracked=False)]).all_failed == 0


@pytest.mark.parametrize(
    ("made", "pods", "expected"),
    [
        (job(), [pod("a")], None),
        (job(), [pod("a", "Succeeded")], ("SuccessCriteriaMet", "CompletionsReached")),
        (job(completions=2), [pod("a", "Succeeded")], None),
        (job({"succeeded": 1}, completions=2), [pod("a", "Succeeded")], ("SuccessCriteriaMet", "CompletionsReached")),
        (job(completions=None, parallelism=2), [pod("a", "Succeeded"), pod("b")], None),
        (job(completions=None), [pod("a", "Succeeded")], ("SuccessCriteriaMet", "CompletionsReached")),
        (job(completions=0, parallelism=0), [], ("SuccessCriteriaMet", "CompletionsReached")),
        (job(backoffLimit=1), [pod("a", "Failed"), pod("b", "Failed")], ("FailureTarget", "BackoffLimitExceeded")),
        (job(backoffLimit=2), [pod("a", "Failed"), pod("b", "Failed")], None),
        (job(activeDeadlineSeconds=59), [pod("a")], ("FailureTarget", "DeadlineExceeded")),
        (job(activeDeadlineSeconds=61), [pod("a")], None),
        (
            job({"conditions": [{"type": "FailureTarget", "status": "True", "reason": "PodFailurePolicy"}]}),
            [],
            ("FailureTarget", "PodFailurePolicy"),
        ),
        (
            job(completions=2, completionMode="Indexed"),
            [pod("a", "Succeeded", index=0), pod("b", "Succeeded", index=0)],
            None,
        ),
        (
            job({"completedIndexes": "1"}, completions=2, completionMode="Indexed"),
            [pod("a", "Succeeded", index=0)],
            ("SuccessCriteriaMet", "CompletionsReached"),
        ),
        (
            job(completions=3, completionMode="Indexed", successPolicy={"rules": [{"succeededIndexes": "0,2"}]}),
            [pod("a", "Succeeded", index=0), pod("b", index=1), pod("c", "Succeeded", index=2)],
            ("SuccessCriteriaMet", "SuccessPolicy"),
        ),
        (
            job(completions=2, completionMode="Indexed", backoffLimitPerIndex=0, backoffLimit=99),
            [pod("a", "Failed", index=0), pod("b", "Succeeded", index=1)],
            ("FailureTarget", "FailedIndexes"),
        ),
        (
            job(completions=5, completionMode="Indexed", backoffLimitPerIndex=0, backoffLimit=99, maxFailedIndexes=1),
            [pod("a", "Failed", index=0), pod("b", "Failed", index=1)],
            ("FailureTarget", "MaxFailedIndexesExceeded"),
        ),
    ],
)
def test_verdicts(made, pods, expected):
    assert verdict_of(made, *pods) == expected


def policy(action: str, **rule: Any) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": [{"action": action, **rule}]}}


def test_failure_policies():
    codes = {"onExitCodes": {"operator": "In", "values": [42]}}
    made = job(**policy("FailJob", **codes))
    found = judge(made, count_pods(made, [pod("a", "Failed", code=42)]), NOW)
    assert found is not None
    assert found.message == ("Container c for pod default/a failed with exit code 42 matching FailJob rule at index 0")
    assert verdict_of(made, pod("a", "Failed", code=1)) is None
    ignoring = job(backoffLimit=0, **policy("Ignore", onPodConditions=[{"type": "DisruptionTarget", "status": "True"}]))
    assert verdict_of(ignoring, pod("a", "Failed", conditions=("DisruptionTarget",))) is None
    assert verdict_of(ignoring, pod("a", "Failed")) == ("FailureTarget", "BackoffLimitExceeded")


def test_a_smaller_indexed_job_loses_the_pods_of_the_highest_indexes():
    """A pod whose index is none of the completions can complete nothing, and one of two pods of an index is enough."""
    pods = [pod(str(index), index=index) for index in range(4)]
    small = job(completionMode="Indexed", completions=2, parallelism=2)
    assert {one.metadata.uid for one in choose_surplus(small, pods, 2, NOW)} == {"2", "3"}
    assert {one.metadata.uid for one in choose_surplus(small, pods, 0, NOW)} == {"2", "3"}
    twice = [pods[0], pod("starting", "Pending", index=0), pods[1], pod("without")]
    assert [one.metadata.uid for one in choose_surplus(small, twice, -1, NOW)] == ["without", "starting"]
    assert len(choose_surplus(small, twice, 3, NOW)) == 3
    assert choose_surplus(small, pods[:2], 0, NOW) == []
    plain = job(completions=2, parallelism=1)
    assert [one.metadata.uid for one in choose_surplus(plain, twice, 1, NOW)] == ["starting"]


@pytest.mark.parametrize(
    ("text", "index", "failures"),
    [
        ("7", 7, 7),
        ("+7", 7, 7),
        ("007", 7, 7),
        ("-0", 0, 0),
        ("-1", None, 0),
        ("", None, 0),
        ("1_0", None, 0),
        (" 1", None, 0),
        ("\u0661", None, 0),
        (str(2**31 - 1), 2**31 - 1, 2**31 - 1),
        (str(2**31), 2**31, 0),
        (str(2**63 - 1), 2**63 - 1, 0),
        (str(2**63), None, 0),
        ("9" * 5000, None, 0),
    ],
)
def test_annotations_of_pods_are_read_as_bounded_integers(text: str, index: int | None, failures: int):
    """Anyone who may create pods may write them. Kubernetes reads them with strconv.Atoi, and failures as int32."""
    made = pod("a")
    made.metadata.annotations.update({INDEX: text, FAILURE_COUNT: text})
    assert (index_of(made), failure_count(made)) == (index, failures)


def test_how_many_pods_are_wanted():
    def wanted(made: Job, *pods: Pod) -> int:
        return wanted_active(made, count_pods(made, pods))

    assert wanted(job(completions=5, parallelism=2)) == 2
    assert wanted(job({"succeeded": 4}, completions=5, parallelism=2)) == 1
    assert wanted(job(completions=None, parallelism=3)) == 3
    assert wanted(job(completions=None, parallelism=3), pod("a", "Succeeded"), pod("b")) == 1


def test_the_back_off_doubles_with_each_failure_since_the_last_success():
    def wait(*pods: Pod) -> float:
        return backoff_in(count_pods(job(completions=9), pods), NOW)

    assert wait() == 0
    assert wait(pod("a", "Failed")) == 5
    assert wait(pod("a", "Failed"), pod("b", "Failed")) == 15
    assert wait(pod("a", "Failed", ended=NOW - 30), pod("b", "Succeeded", ended=NOW - 20)) == 0


def ending(deletion: float | None = None, ready: tuple[str, float] | None = None, *states: float | None) -> Pod:
    statuses = [
        {"name": f"c{i}", "state": {"terminated": {"exitCode": 1, "finishedAt": format_time(at)}} if at else {}}
        for i, at in enumerate(states)
    ]
    metadata: dict[str, Any] = {"creationTimestamp": format_time(NOW - 100)}
    if deletion is not None:
        metadata |= {"deletionTimestamp": format_time(deletion), "deletionGracePeriodSeconds": 30}
    conditions = [{"type": "Ready", "status": ready[0], "lastTransitionTime": format_time(ready[1])}] if ready else []
    return msgspec.convert(
        {"metadata": metadata, "status": {"containerStatuses": statuses, "conditions": conditions}}, Pod
    )


@pytest.mark.parametrize(
    ("made", "end"),
    [
        (ending(None, ("False", NOW - 3), NOW - 20, NOW - 10), NOW - 10),
        (ending(NOW + 25, ("False", NOW - 3), NOW - 20, None), NOW - 3),
        (ending(NOW + 25, ("True", NOW - 50), None), NOW - 5),  # the timestamp is the end of the grace period
        (ending(NOW + 25), NOW - 5),
        (ending(), NOW - 100),
    ],
)
def test_a_failure_counts_from_the_end_of_its_pod_or_from_its_deletion(made, end):
    assert end_of(made) == end


def test_an_index_with_a_limit_of_its_own_waits_only_for_its_own_failures():
    made = job(completions=4, completionMode="Indexed", backoffLimitPerIndex=3)
    failed = [
        pod("a", "Failed", index=0),
        pod("b", "Failed", index=1, ended=NOW - 30),
        pod("c", "Failed", index=1, failures=1),
        pod("d", "Failed", index=2, ended=NOW - 30),
    ]
    assert indexes_in_time([0, 1, 2, 3], count_pods(made, failed), NOW) == ([2, 3], 5)
    assert indexes_in_time([1], count_pods(made, failed), NOW) == ([], 15)
    assert indexes_in_time([3], count_pods(made, failed), NOW) == ([3], 0)


def test_deadlines():
    assert deadline_in(job(), NOW) is None
    assert deadline_in(job(activeDeadlineSeconds=100), NOW) == 40
    assert deadline_in(job(activeDeadlineSeconds=10, suspend=True), NOW) is None
    done = {"type": "Complete", "status": "True", "lastTransitionTime": format_time(NOW - 10)}
    assert expiry_in(job({"conditions": [done]}, ttlSecondsAfterFinished=30), NOW) == 20
    assert expiry_in(job(ttlSecondsAfterFinished=30), NOW) is None


def test_the_pod_of_an_index():
    made = job(completions=3, completionMode="Indexed", backoffLimitPerIndex=2)
    template, prefix = pod_template(made, 1, [pod("a", "Failed", index=1, failures=1)])
    assert prefix == "work-1-"
    long = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, name="w" * 58))
    assert pod_template(long, 12)[1] == "w" * 54 + "-12-"  # five characters follow
    assert template.metadata.labels[INDEX] == template.metadata.annotations[INDEX] == "1"
    assert template.metadata.annotations[FAILURE_COUNT] == "2"
    assert template.metadata.finalizers == (TRACKING_FINALIZER,)
    assert template.spec["hostname"] == "work-1"
    (variable,) = template.spec["containers"][0]["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
    progress = count_pods(made, [pod("a", "Succeeded", index=0), pod("b", index=1)])
    assert missing_indexes(made, progress, progress.active, 5) == [2]


def test_the_status_of_a_job_may_have_billions_of_indexes():
    rules = [{"succeededIndexes": "5-9,0-2147483645", "succeededCount": 2**31 - 2}]
    most = {"completions": 2**31 - 1, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    made = job({"completedIndexes": "1-2147483645", "failedIndexes": "0,7"}, **most, successPolicy={"rules": rules})
    progress = count_pods(made, [pod("a", index=2**31 - 2)])
    assert progress.succeeded == 2**31 - 3
    assert progress.failed_indexes == [(0, 0)]
    assert judge(made, progress, NOW) is None
    assert missing_indexes(made, progress, progress.active, 5) == []
    assert missing_indexes(made, progress, [], 5) == [2**31 - 2]
    progress = count_pods(made, [pod("a", "Succeeded", index=0)])
    assert progress.completed_indexes == [(0, 2**31 - 3)]
    verdict = judge(made, progress, NOW)
    assert verdict is not None
    assert verdict.reason == "SuccessPolicy"
