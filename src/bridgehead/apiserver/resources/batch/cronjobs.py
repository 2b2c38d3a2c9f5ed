"""CronJob (batch/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/registry/batch/cronjob`, `ValidateCronJobCreate`.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, FieldError, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.pods import warn_of_pod_spec
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import (
    AGE,
    NAME,
    NONE,
    at,
    format_label_selector,
    since,
    template_columns,
    text_column,
)
from bridgehead.objects.names import check_dns1123_subdomain
from bridgehead.objects.schedules import parse_schedule, parse_zone

from .job_spec import set_job_defaults, validate_job_spec

_POLICIES = ("Allow", "Forbid", "Replace")
_LONGEST_NAME = 52  # eleven characters remain for the names of Jobs
_JOB_SPEC = "spec.jobTemplate.spec"


class CronJobStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        spec: JsonObject = obj.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = spec.setdefault("jobTemplate", {})
        set_job_defaults(template.setdefault("spec", {}))

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
        errors = []
        if len(obj.get("metadata", {}).get("name", "")) > _LONGEST_NAME:
            detail = f"must be no more than {_LONGEST_NAME} characters"
            errors.append(field.invalid("metadata.name", obj["metadata"]["name"], detail))
        errors += _validate_schedule(schedule, zone)
        if zone is not None:
            errors += _validate_zone(zone)
        for name in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            errors += field.non_negative(f"spec.{name}", spec.get(name, 0))
        errors += field.one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), _POLICIES)
        job = at(spec, "jobTemplate", "spec") or {}
        if "manualSelector" in job:
            errors.append(field.not_supported(f"{_JOB_SPEC}.manualSelector", job["manualSelector"], ("nil",)))
        return [*errors, *validate_job_spec(_JOB_SPEC, job)]

    def warnings(self, obj: JsonObject) -> list[str]:
        pod = at(obj, "spec", "jobTemplate", "spec", "template", "spec") or {}
        found = warn_of_pod_spec(f"{_JOB_SPEC}.template.spec", pod)
        if "TZ" in str(at(obj, "spec", "schedule") or ""):
            found.append("cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
        return found


def _validate_schedule(schedule: str, zone: str | None) -> list[FieldError]:
    if not schedule:
        return [field.required("spec.schedule")]
    if "TZ" in schedule:
        if zone is not None:
            detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        else:
            detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return [field.invalid("spec.schedule", schedule, detail)]
    try:
        parse_schedule(schedule)
    except ValueError as error:
        return [field.invalid("spec.schedule", schedule, str(error))]
    return []


def _validate_zone(zone: str) -> list[FieldError]:
    path = "spec.timeZone"
    if not zone:
        return [field.invalid(path, zone, "timeZone must be nil or non-empty string")]
    if zone.lower() == "local":
        return [
            field.invalid(
                path, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
            )
        ]
    try:
        parse_zone(zone)
    except ValueError as error:
        return [field.invalid(path, zone, str(error))]
    return []


def _last_schedule_cell(cron_job: JsonObject, now: float) -> str:
    last = at(cron_job, "status", "lastScheduleTime")
    return since(last, now) if last else NONE


def _active_cell(cron_job: JsonObject, now: float) -> int:
    return len(at(cron_job, "status", "active") or ())


def _template(cron_job: JsonObject) -> JsonObject:
    """Return an object of a workload's shape: the Job's spec, for the columns of its template."""
    return {"spec": at(cron_job, "spec", "jobTemplate", "spec") or {}}


_TEMPLATE_COLUMNS = tuple(
    Column(column.name, lambda obj, now, cell=column.cell: cell(_template(obj), now), priority=column.priority)  # type: ignore[misc]
    for column in template_columns(lambda job: format_label_selector(at(job, "spec", "selector")))
)

RESOURCE = Resource(
    group="batch",
    version="v1",
    kind="CronJob",
    plural="cronjobs",
    singular="cronjob",
    namespaced=True,
    short_names=("cj",),
    categories=("all",),
    subresources=("status",),
    strategy=CronJobStrategy(),
    columns=(
        NAME,
        text_column("Schedule", "spec", "schedule"),
        text_column("Timezone", "spec", "timeZone", empty=NONE),
        Column("Suspend", lambda cron_job, now: str(bool(at(cron_job, "spec", "suspend")))),
        Column("Active", _active_cell, type="integer"),
        Column("Last Schedule", _last_schedule_cell),
        AGE,
        *_TEMPLATE_COLUMNS,
    ),
    has_generation=True,
    check_name=check_dns1123_subdomain,
)
