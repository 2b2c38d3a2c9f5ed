"""Validation of a write of a Job's status, which controllers of other people write, too.

Most rules hold only for what the write changes: a controller may repair the rest in another write.
Pure: no I/O, no clock, no randomness.
Source: Kubernetes `getStatusValidationOptions`, `validateJobStatus`, `ValidateJobStatusUpdate`.
"""

from __future__ import annotations

from contextlib import suppress

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.indexes import first_common_index, known_intervals, parse_intervals
from bridgehead.objects.times import format_time, parse_instant

_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")
_TIMES = ("startTime", "completionTime")
_COMPLETE, _FAILED, _TARGET, _CRITERIA = "Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"
# Pairs of conditions that cannot both hold, and the text of one of them.
_EXCLUSIVE = (
    (_COMPLETE, _FAILED, "cannot set Complete=True and Failed=true conditions"),
    (_COMPLETE, _TARGET, "cannot set Complete=True and FailureTarget=true conditions"),
)


class _Write:
    """A Job with its new status, and the same Job before the write."""

    def __init__(self, job: Field, old: JsonObject) -> None:
        self.spec: JsonObject = job.get("spec", {})
        self.status = job.at("status", {})
        self.before: JsonObject = old.get("status", {})
        self.holding, self.held = _holding(self.status.value), _holding(self.before)

    def changes(self, *names: str) -> bool:
        """Whether a field or a condition changes; `Finished` stands for Complete or Failed."""
        return any(self._changes(name) for name in names)

    def _changes(self, name: str) -> bool:
        if name == "Finished":
            return self.is_finished != bool(self.held & {_COMPLETE, _FAILED})
        if name[0].isupper():
            return (name in self.holding) != (name in self.held)
        if name in _TIMES:
            return _instant(self.status.value, name) != _instant(self.before, name)
        return bool(self.status.get(name) != self.before.get(name))

    @property
    def is_finished(self) -> bool:
        return bool(self.holding & {_COMPLETE, _FAILED})


def validate_job_status(job: Field, old: JsonObject) -> None:
    write = _Write(job, old)
    _validate_counts(write)
    _validate_conditions(write)
    _validate_times(write)
    _validate_finished(write)
    _validate_indexes(write)
    _validate_changes(write)


def _holding(status: JsonObject) -> set[str]:
    return {str(one.get("type")) for one in status.get("conditions", ()) if one.get("status") == "True"}


def _instant(status: JsonObject, name: str) -> int | None:
    """Return a time in nanoseconds since the epoch; clients write it in any time zone, with fractions or without."""
    text = status.get(name)
    return parse_instant(text) if text else None


def _refuse_end(status: Field, detail: str) -> None:
    """Add an error about the completion time, which it shows as Kubernetes writes it."""
    ended = status.at("completionTime")
    with suppress(ValueError):  # UTC may be outside of the years that a datetime has
        ended = ended.showing(format_time(parse_instant(ended.value) // 10**9))
    ended.invalid(detail)


def _validate_counts(write: _Write) -> None:
    status = write.status
    uncounted = status.at("uncountedTerminatedPods")
    for name in _COUNTS:
        status.at(name).must_not_be_negative()
    seen: set[str] = set()
    for uid in (*uncounted.at("succeeded").each(), *uncounted.at("failed").each()):
        if uid:
            uid.must_not_repeat(seen)
        else:
            uid.invalid("must not be empty")
    if write.changes("ready"):
        status.at("ready").must_be_at_most(status.get("active", 0), "cannot set more ready pods than active")


def _validate_conditions(write: _Write) -> None:
    holding = write.holding
    found = [detail for one, other, detail in _EXCLUSIVE if {one, other} <= holding and write.changes(one, other)]
    if _FAILED in holding and _TARGET not in holding and write.changes(_FAILED, _TARGET):
        found.append("cannot set Failed=True condition without the FailureTarget=true condition")
    if _COMPLETE in holding and _CRITERIA not in holding and write.changes(_COMPLETE, _CRITERIA):
        found.append("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if {_CRITERIA, _FAILED} <= holding:
        found.append("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if {_CRITERIA, _TARGET} <= holding:
        found.append("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if "successPolicy" in write.spec and _COMPLETE in holding and _CRITERIA not in holding:
        found.append("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
    for detail in found:
        write.status.at("conditions").invalid_as_whole(detail)


def _validate_times(write: _Write) -> None:
    status, is_complete = write.status, _COMPLETE in write.holding
    begun, ended = (_instant(status.value, name) for name in _TIMES)
    if write.changes(_COMPLETE, "completionTime"):
        if ended is not None and not is_complete:
            _refuse_end(status, "cannot set completionTime when there is no Complete=True condition")
        if ended is None and is_complete:
            status.at("completionTime").required("completionTime is required for Complete jobs")
    if write.changes(*_TIMES) and begun is not None and ended is not None and ended < begun:
        _refuse_end(status, "completionTime cannot be set before startTime")


def _validate_finished(write: _Write) -> None:
    if not write.is_finished:
        return
    status, spec = write.status, write.spec
    uncounted = status.at("uncountedTerminatedPods")
    if write.changes("Finished", "active"):
        status.at("active").must_be_at_most(0, "active>0 is invalid for finished job")
    # A job of no pods may end without having been started.
    has_nothing_to_do = spec.get("suspend") and spec.get("completions") == 0
    if "startTime" not in status.value and write.changes("Finished", "startTime") and not has_nothing_to_do:
        status.at("startTime").required("startTime is required for finished job")
    if write.changes("Finished", "uncountedTerminatedPods") and (uncounted.get("succeeded") or uncounted.get("failed")):
        uncounted.invalid("uncountedTerminatedPods needs to be empty for finished job")
    if write.changes("Finished", "terminating"):
        status.at("terminating").must_be_at_most(0, "terminating>0 is invalid for finished job")


def _validate_indexes(write: _Write) -> None:
    completed, failed = write.status.at("completedIndexes", ""), write.status.at("failedIndexes")
    completions, is_limited = write.spec.get("completions"), "backoffLimitPerIndex" in write.spec
    changes_completed, changes_failed = write.changes("completedIndexes"), write.changes("failedIndexes")
    if not changes_completed and not changes_failed:
        return
    if completions is not None and changes_completed:
        _validate_format(completed, completions)
    if completions is not None and changes_failed and failed.value is not None and is_limited:
        _validate_format(failed, completions)
    if completed and changes_completed and write.spec.get("completionMode") != "Indexed":
        completed.invalid("cannot set non-empty completedIndexes when non-indexed completion mode")
    if failed.value is None:
        return
    if changes_failed and not is_limited:
        failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null")
    if completions is not None:
        common = first_common_index(*(known_intervals(one.value, completions) for one in (completed, failed)))
        if common is not None:
            failed.invalid(f"failedIndexes and completedIndexes overlap at index: {common}")


def _validate_format(indexes: Field, completions: int) -> None:
    try:
        parse_intervals(indexes.value, completions)
    except ValueError as error:
        indexes.invalid(f"error parsing {indexes.key}: {error}")


def _validate_changes(write: _Write) -> None:
    """Validate what may not change in one direction, or not at all."""
    spec, status, before = write.spec, write.status, write.before
    conditions = status.at("conditions")
    for kind in (_FAILED, _COMPLETE, _TARGET):
        if kind in write.held and kind not in write.holding:
            conditions.invalid_as_whole(f"cannot disable the terminal {kind}=True condition")
    # An indexed job with as many pods as indexes may shrink.
    may_shrink = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for name in ("failed",) if may_shrink else ("failed", "succeeded"):
        status.at(name, 0).must_be_at_least(before.get(name, 0), f"cannot decrease the {name} counter")
    ended, ended_before = (_instant(one, "completionTime") for one in (status.value, before))
    if ended is not None and ended_before is not None and ended != ended_before:
        _refuse_end(status, "completionTime cannot be mutated")
    if "startTime" in before and write.changes("startTime") and not spec.get("suspend"):
        status.at("startTime").required("startTime cannot be removed for unsuspended job")
    if _CRITERIA in write.held and _CRITERIA not in write.holding:
        conditions.invalid_as_whole("cannot disable the SuccessCriteriaMet=True condition")
    if _COMPLETE in write.held and _CRITERIA not in write.held and _CRITERIA in write.holding:
        conditions.invalid_as_whole("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
