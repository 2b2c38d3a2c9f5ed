"""Validation of a write of a Job's status, which controllers of other people write, too.

Most rules hold only for what the write changes: a controller may repair the rest in another write.
Pure: no I/O, no clock, no randomness.
Source: Kubernetes `getStatusValidationOptions`, `validateJobStatus`, `ValidateJobStatusUpdate`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.indexes import first_common_index, known_intervals, parse_intervals
from bridgehead.objects.times import format_time, parse_instant

_PATH = "status"
_CONDITIONS = f"{_PATH}.conditions"
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

    def __init__(self, job: JsonObject, old: JsonObject) -> None:
        self.spec: JsonObject = job.get("spec", {})
        self.status: JsonObject = job.get("status", {})
        self.before: JsonObject = old.get("status", {})
        self.holding, self.held = _holding(self.status), _holding(self.before)

    def changes(self, *names: str) -> bool:
        """Whether a field or a condition changes; `Finished` stands for Complete or Failed."""
        return any(self._changes(name) for name in names)

    def _changes(self, name: str) -> bool:
        if name == "Finished":
            return self.is_finished != bool(self.held & {_COMPLETE, _FAILED})
        if name[0].isupper():
            return (name in self.holding) != (name in self.held)
        if name in _TIMES:
            return _instant(self.status, name) != _instant(self.before, name)
        return bool(self.status.get(name) != self.before.get(name))

    @property
    def is_finished(self) -> bool:
        return bool(self.holding & {_COMPLETE, _FAILED})


def validate_job_status(job: JsonObject, old: JsonObject) -> list[FieldError]:
    write = _Write(job, old)
    return [
        *_validate_counts(write),
        *_validate_conditions(write),
        *_validate_times(write),
        *_validate_finished(write),
        *_validate_indexes(write),
        *_validate_changes(write),
    ]


def _holding(status: JsonObject) -> set[str]:
    return {str(one.get("type")) for one in status.get("conditions", ()) if one.get("status") == "True"}


def _instant(status: JsonObject, name: str) -> int | None:
    """Return a time in nanoseconds since the epoch; clients write it in any time zone, with fractions or without."""
    text = status.get(name)
    return parse_instant(text) if text else None


def _invalid_end(status: JsonObject, detail: str) -> FieldError:
    text = status["completionTime"]
    with suppress(ValueError):  # UTC may be outside of the years that a datetime has
        text = format_time(parse_instant(text) // 10**9)
    return _invalid("completionTime", text, detail)


def _invalid(name: str, value: Any, detail: str) -> FieldError:
    return field.invalid(f"{_PATH}.{name}", value, detail)


def _validate_counts(write: _Write) -> list[FieldError]:
    status = write.status
    errors = [error for name in _COUNTS for error in field.non_negative(f"{_PATH}.{name}", status.get(name, 0))]
    seen: set[str] = set()
    for kind in ("succeeded", "failed"):
        for index, uid in enumerate(status.get("uncountedTerminatedPods", {}).get(kind, ())):
            item = f"{_PATH}.uncountedTerminatedPods.{kind}[{index}]"
            if not uid:
                errors.append(field.invalid(item, uid, "must not be empty"))
            elif uid in seen:
                errors.append(field.duplicate(item, uid))
            seen.add(uid)
    if write.changes("ready") and status.get("ready", 0) > status.get("active", 0):
        errors.append(_invalid("ready", status["ready"], "cannot set more ready pods than active"))
    return errors


def _validate_conditions(write: _Write) -> list[FieldError]:
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
    return [field.invalid_as_whole(_CONDITIONS, detail) for detail in found]


def _validate_times(write: _Write) -> list[FieldError]:
    begun, ended = (_instant(write.status, name) for name in _TIMES)
    is_complete = _COMPLETE in write.holding
    errors = []
    if write.changes(_COMPLETE, "completionTime"):
        if ended is not None and not is_complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            errors.append(_invalid_end(write.status, detail))
        if ended is None and is_complete:
            detail = "completionTime is required for Complete jobs"
            errors.append(field.required(f"{_PATH}.completionTime", detail))
    if write.changes(*_TIMES) and begun is not None and ended is not None and ended < begun:
        errors.append(_invalid_end(write.status, "completionTime cannot be set before startTime"))
    return errors


def _validate_finished(write: _Write) -> list[FieldError]:
    if not write.is_finished:
        return []
    status, spec = write.status, write.spec
    errors = []
    if status.get("active", 0) > 0 and write.changes("Finished", "active"):
        errors.append(_invalid("active", status["active"], "active>0 is invalid for finished job"))
    # A job of no pods may end without having been started.
    has_nothing_to_do = spec.get("suspend") and spec.get("completions") == 0
    if "startTime" not in status and write.changes("Finished", "startTime") and not has_nothing_to_do:
        errors.append(field.required(f"{_PATH}.startTime", "startTime is required for finished job"))
    uncounted = status.get("uncountedTerminatedPods", {})
    if write.changes("Finished", "uncountedTerminatedPods") and (uncounted.get("succeeded") or uncounted.get("failed")):
        detail = "uncountedTerminatedPods needs to be empty for finished job"
        errors.append(_invalid("uncountedTerminatedPods", uncounted, detail))
    if status.get("terminating", 0) > 0 and write.changes("Finished", "terminating"):
        errors.append(_invalid("terminating", status["terminating"], "terminating>0 is invalid for finished job"))
    return errors


def _validate_indexes(write: _Write) -> list[FieldError]:
    if not write.changes("completedIndexes", "failedIndexes"):
        return []
    status, spec = write.status, write.spec
    completed, failed, completions = (
        status.get("completedIndexes", ""), status.get("failedIndexes"), spec.get("completions")
    )  # fmt: skip
    is_limited = "backoffLimitPerIndex" in spec
    errors = []
    if completions is not None and write.changes("completedIndexes"):
        errors += _validate_format("completedIndexes", completed, completions)
    if completions is not None and write.changes("failedIndexes") and failed is not None and is_limited:
        errors += _validate_format("failedIndexes", failed, completions)
    if completed and write.changes("completedIndexes") and spec.get("completionMode") != "Indexed":
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(_invalid("completedIndexes", completed, detail))
    if failed is None:
        return errors
    if write.changes("failedIndexes") and not is_limited:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(_invalid("failedIndexes", failed, detail))
    if completions is not None:
        common = first_common_index(*(known_intervals(text, completions) for text in (completed, failed)))
        if common is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {common}"
            errors.append(_invalid("failedIndexes", failed, detail))
    return errors


def _validate_format(name: str, text: str, completions: int) -> list[FieldError]:
    try:
        parse_intervals(text, completions)
    except ValueError as error:
        return [_invalid(name, text, f"error parsing {name}: {error}")]
    return []


def _validate_changes(write: _Write) -> list[FieldError]:
    """Validate what may not change in one direction, or not at all."""
    spec, status, before = write.spec, write.status, write.before
    errors = [
        field.invalid_as_whole(_CONDITIONS, f"cannot disable the terminal {type_}=True condition")
        for type_ in (_FAILED, _COMPLETE, _TARGET)
        if type_ in write.held and type_ not in write.holding
    ]
    # An indexed job with as many pods as indexes may shrink.
    may_shrink = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    errors.extend(
        _invalid(name, status.get(name, 0), f"cannot decrease the {name} counter")
        for name in (("failed",) if may_shrink else ("failed", "succeeded"))
        if status.get(name, 0) < before.get(name, 0)
    )
    ended, ended_before = (_instant(one, "completionTime") for one in (status, before))
    if ended is not None and ended_before is not None and ended != ended_before:
        errors.append(_invalid_end(status, "completionTime cannot be mutated"))
    if "startTime" in before and write.changes("startTime") and not spec.get("suspend"):
        detail = "startTime cannot be removed for unsuspended job"
        errors.append(field.required(f"{_PATH}.startTime", detail))
    if _CRITERIA in write.held and _CRITERIA not in write.holding:
        errors.append(field.invalid_as_whole(_CONDITIONS, "cannot disable the SuccessCriteriaMet=True condition"))
    if _COMPLETE in write.held and _CRITERIA not in write.held and _CRITERIA in write.holding:
        detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(field.invalid_as_whole(_CONDITIONS, detail))
    return errors
