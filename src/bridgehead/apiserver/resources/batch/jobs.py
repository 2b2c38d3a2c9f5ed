"""Job (batch/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/registry/batch/job`, `ValidateJob`, `ValidateJobUpdate`.
"""

from __future__ import annotations

import msgspec

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import (
    AGE,
    NAME,
    at,
    format_label_selector,
    human_duration,
    seconds_of,
    selectable,
    template_columns,
)
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector
from bridgehead.apiserver.resources.shared.pod_names import warn_of_pod_names
from bridgehead.objects.meta import LabelSelector
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain
from bridgehead.objects.selectors import compile_selector

from .job_spec import set_job_defaults, validate_job_spec, warn_of_job_spec
from .job_status import validate_job_status

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_OLD_LABELS = {"controller-uid": CONTROLLER_UID, "job-name": JOB_NAME}
# Fields of the pod's spec that may change while the job is suspended and has no pods.
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")


class JobStrategy(StatusStrategy):
    validates_status_writes = False

    def default(self, obj: JsonObject) -> None:
        spec: JsonObject = obj.setdefault("spec", {})
        set_job_defaults(spec)
        metadata = obj.setdefault("metadata", {})
        labels = spec["template"]["metadata"].get("labels")
        if labels and not metadata.get("labels"):
            metadata["labels"] = dict(labels)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}
        spec = obj["spec"]
        if spec.get("manualSelector"):
            return
        labels: JsonObject = spec["template"]["metadata"].setdefault("labels", {})
        values = {CONTROLLER_UID: obj["metadata"].get("uid", ""), JOB_NAME: obj["metadata"].get("name", "")}
        for old, new in _OLD_LABELS.items():
            labels.setdefault(new, values[new])
            labels.setdefault(old, values[new])
        selector: JsonObject = spec.setdefault("selector", {})
        selector.setdefault("matchLabels", {}).setdefault(CONTROLLER_UID, values[CONTROLLER_UID])

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        return [
            *_validate_generated(obj),
            *validate_job_spec("spec", spec),
            *_validate_selector(spec),
            *_validate_hostnames(obj),
        ]

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if subresource == "status":
            return validate_job_status(obj, old)
        spec, before = obj.get("spec", {}), old.get("spec", {})
        errors = [
            field.invalid(f"spec.{name}", spec.get(name), field.IMMUTABLE)
            for name in (
                "selector",
                "completionMode",
                "podFailurePolicy",
                "backoffLimitPerIndex",
                "managedBy",
                "successPolicy",
            )
            if spec.get(name) != before.get(name)
        ]
        if spec.get("completions") != before.get("completions"):
            errors += _validate_elastic(spec)
        may_reschedule = _is_at_rest(old)
        if _fixed(spec, may_reschedule) != _fixed(before, may_reschedule):
            errors.append(field.invalid("spec.template", spec.get("template"), field.IMMUTABLE))
        return errors

    def warnings(self, obj: JsonObject) -> list[str]:
        name = obj.get("metadata", {}).get("name", "")
        return [*warn_of_pod_names(name), *warn_of_job_spec("spec", obj.get("spec", {}))]

    def update_warnings(self, obj: JsonObject, old: JsonObject) -> list[str]:
        return [] if obj.get("spec") == old.get("spec") else warn_of_job_spec("spec", obj.get("spec", {}))


def _validate_generated(obj: JsonObject) -> list[FieldError]:
    """Validate the labels of the generated selector, which nobody else may use."""
    spec = obj.get("spec", {})
    if spec.get("manualSelector") or "uid" not in obj.get("metadata", {}) or "selector" not in spec:
        return []
    metadata = obj["metadata"]
    values = {CONTROLLER_UID: metadata["uid"], JOB_NAME: metadata.get("name", "")}
    expected = {label: values[new] for old, new in _OLD_LABELS.items() for label in (old, new)}
    labels = at(spec, "template", "metadata", "labels") or {}
    errors = []
    for label in (*_OLD_LABELS, *_OLD_LABELS.values()):
        item, detail = f"spec.template.metadata.labels[{label}]", f"must be '{expected[label]}'"
        if label not in labels:
            errors.append(field.required(item, detail))
        elif labels[label] != expected[label]:
            errors.append(field.invalid(item, labels, detail))
    if field.errors_below("spec.selector", validate_label_selector, spec["selector"]):
        return errors
    if not compile_selector(msgspec.convert(spec["selector"], LabelSelector)).matches(expected):
        errors.append(field.invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return errors


def _validate_hostnames(obj: JsonObject) -> list[FieldError]:
    """Validate the name of an indexed job, of which the hostnames of its pods are made."""
    spec, name = obj.get("spec", {}), obj.get("metadata", {}).get("name", "")
    if spec.get("completionMode") != "Indexed" or spec.get("completions", 0) <= 0:
        return []
    longest = f"{name}-{spec['completions'] - 1}"
    if not check_dns1123_label(longest):
        return []
    return [field.invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {longest}")]


def _validate_selector(spec: JsonObject) -> list[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        return [field.required("spec.selector")]
    if errors := field.errors_below("spec.selector", validate_label_selector, selector):
        return errors
    labels = at(spec, "template", "metadata", "labels")
    if not compile_selector(msgspec.convert(selector, LabelSelector)).matches(labels or {}):
        detail = "`selector` does not match template `labels`"
        return [field.invalid("spec.template.metadata.labels", labels, detail)]
    return []


def _validate_elastic(spec: JsonObject) -> list[FieldError]:
    """Validate a change of `completions`: of indexed jobs, together with an equal parallelism."""
    if "completions" not in spec and spec.get("completionMode") == "Indexed":
        return []  # `validate_job_spec` reports this
    if spec.get("completionMode") != "Indexed":
        return [field.invalid("spec.completions", spec.get("completions"), field.IMMUTABLE)]
    if spec["completions"] != spec.get("parallelism"):
        detail = "can only be modified in tandem with spec.parallelism"
        return [field.invalid("spec.completions", spec["completions"], detail)]
    return []


def _is_at_rest(job: JsonObject) -> bool:
    """Whether a job is suspended and has no active pods: it has not started, or its controller has stopped it.

    Source: Kubernetes "Mutable Scheduling Directives", "Mutable Pod Resources for Suspended Jobs" (KEP-5440).
    """
    status: JsonObject = job.get("status", {})
    is_stopped = any(
        one.get("type") == "Suspended" and one.get("status") == "True" for one in status.get("conditions", ())
    )
    has_no_pods = not status.get("active") and (is_stopped or not status.get("startTime"))
    return bool(job.get("spec", {}).get("suspend")) and has_no_pods


def _fixed(spec: JsonObject, may_reschedule: bool) -> JsonObject:
    """Return the part of the template that may not change."""
    template: JsonObject = spec.get("template", {})
    if not may_reschedule:
        return template
    pod = {name: value for name, value in template.get("spec", {}).items() if name not in _SCHEDULING}
    for kind in ("containers", "initContainers"):
        if kind in pod:
            pod[kind] = [{k: v for k, v in container.items() if k != "resources"} for container in pod[kind]]
    # Of the affinity, only that for nodes may change.
    affinity = {name: value for name, value in pod.pop("affinity", {}).items() if name != "nodeAffinity"}
    metadata = {k: v for k, v in template.get("metadata", {}).items() if k not in ("labels", "annotations")}
    return {"metadata": metadata, "spec": {**pod, "affinity": affinity}}


def _status_cell(job: JsonObject, now: float) -> str:
    conditions = at(job, "status", "conditions") or ()
    holding = {condition.get("type") for condition in conditions if condition.get("status") == "True"}
    if at(job, "metadata", "deletionTimestamp"):
        holding.add("Terminating")
    order = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((name for name in order if name in holding), "Running")


def _completions_cell(job: JsonObject, now: float) -> str:
    spec, succeeded = job.get("spec", {}), at(job, "status", "succeeded") or 0
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration_cell(job: JsonObject, now: float) -> str:
    begun, ended = seconds_of(at(job, "status", "startTime")), seconds_of(at(job, "status", "completionTime"))
    if begun is None:
        return ""
    return human_duration((now if ended is None else ended) - begun)


RESOURCE = Resource(
    group="batch",
    version="v1",
    kind="Job",
    plural="jobs",
    singular="job",
    namespaced=True,
    categories=("all",),
    subresources=("status",),
    strategy=JobStrategy(),
    columns=(
        NAME,
        Column("Status", _status_cell),
        Column("Completions", _completions_cell),
        Column("Duration", _duration_cell),
        AGE,
        *template_columns(lambda job: format_label_selector(at(job, "spec", "selector"))),
    ),
    selectable={"status.successful": selectable("status", "succeeded", default="0")},
    has_generation=True,
    orphans_dependents=True,  # as in its first versions
    deletion_warning=(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or"
        " set propagationPolicy=Orphan to suppress this warning"
    ),
    check_name=check_dns1123_subdomain,
)
