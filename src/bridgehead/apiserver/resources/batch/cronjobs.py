"""CronJob (batch/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/registry/batch/cronjob`, `ValidateCronJobCreate`.
"""

from __future__ import annotations

import re

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
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
from bridgehead.apiserver.resources.shared.pod_names import warn_of_pod_names
from bridgehead.objects.names import check_dns1123_subdomain
from bridgehead.objects.schedules import parse_schedule, parse_zone

from .job_spec import set_template_defaults, validate_job_spec, warn_of_job_spec

_POLICIES = ("Allow", "Forbid", "Replace")
_LONGEST_NAME = 52  # eleven characters remain for the names of Jobs
_JOB_SPEC = "spec.jobTemplate.spec"
_is_zone_part = re.compile(r"[A-Za-z.\-_0-9+]{1,14}").fullmatch


class CronJobStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        spec: JsonObject = obj.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = spec.setdefault("jobTemplate", {})
        template.setdefault("metadata", {})
        set_template_defaults(template.setdefault("spec", {}))

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Field) -> None:
        name = obj.at("metadata").at("name", "")
        _validate_spec(obj.at("spec", {}), {})
        if len(name.value) > _LONGEST_NAME:
            name.invalid(f"must be no more than {_LONGEST_NAME} characters")

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if subresource != "status":
            _validate_spec(obj.at("spec", {}), old.get("spec", {}))

    def warnings(self, obj: JsonObject) -> list[str]:
        return [*warn_of_pod_names(obj.get("metadata", {}).get("name", "")), *warn_of_job_spec(_JOB_SPEC, _job_of(obj))]

    def update_warnings(self, obj: JsonObject, old: JsonObject) -> list[str]:
        is_same = obj.get("spec") == old.get("spec")
        found = [] if is_same else warn_of_job_spec(_JOB_SPEC, _job_of(obj))
        if "TZ" in str(at(obj, "spec", "schedule") or ""):
            found.append(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )
        return found


def _job_of(cron_job: JsonObject) -> JsonObject:
    return at(cron_job, "spec", "jobTemplate", "spec") or {}


def _validate_spec(spec: Field, before: JsonObject) -> None:
    """Validate a spec. `before` is the stored one, {} for a create."""
    zone, job = spec.at("timeZone"), spec.at("jobTemplate").at("spec", {})
    _validate_schedule(spec.at("schedule"), before.get("schedule", ""), has_zone="timeZone" in spec.value)
    spec.at("startingDeadlineSeconds").must_not_be_negative()
    if zone.value is not None and zone.value != before.get("timeZone"):
        zone.must_pass(_check_zone)
    spec.at("concurrencyPolicy", "").must_be_one_of(_POLICIES)
    validate_job_spec(job)
    if "selector" in job.value:
        job.at("selector").invalid("`selector` will be auto-generated")
    if job.get("manualSelector"):
        job.at("manualSelector").not_supported(("nil", "false"))
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        spec.at(name).must_not_be_negative()


def _validate_schedule(schedule: Field, before: str, *, has_zone: bool) -> None:
    """Validate the schedule. A stored one with a time zone in it, as in earlier versions, may stay so."""
    if not schedule.must_be_set():
        return
    try:
        parse_schedule(_without_zone(schedule.value))
    except ValueError as error:
        schedule.invalid(str(error))
    if "TZ" in schedule.value:
        if "TZ" not in before:
            schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
        elif has_zone:
            schedule.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule")


def _without_zone(schedule: str) -> str:
    """Return a schedule without the time zone that it may begin with."""
    return schedule.partition(" ")[2].strip() if schedule.startswith(("TZ=", "CRON_TZ=")) else schedule


def _check_zone(zone: str) -> list[str]:
    if not zone:
        return ["timeZone must be nil or non-empty string"]
    parts = zone.split("/")
    if not all(_is_zone_part(part) and part not in (".", "..") and not part.startswith("-") for part in parts):
        return [f"unknown time zone {zone}"]
    if zone.lower() == "local":
        return ["timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"]
    try:
        parse_zone(zone)
    except ValueError as error:
        return [str(error)]
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
