"""Job (batch/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/registry/batch/job`, `ValidateJob`, `ValidateJobUpdate`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bridgehead.apiserver.field import IMMUTABLE, Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
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
_IMMUTABLE = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)


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

    def validate(self, obj: Field) -> None:
        spec = obj.at("spec", {})
        _validate_generated(spec, obj.get("metadata", {}))
        validate_job_spec(spec)
        _validate_selector(spec)
        _validate_hostnames(obj.at("metadata").at("name", ""), spec.value)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            validate_job_status(obj, old)
            return
        spec, before = obj.at("spec", {}), old.get("spec", {})
        for name in _IMMUTABLE:
            spec.at(name).must_not_change(before.get(name))
        if spec.get("completions") != before.get("completions"):
            _validate_elastic(spec)
        may_reschedule = _is_at_rest(old)
        fixed, fixed_before = _fixed(spec.value, may_reschedule), _fixed(before, may_reschedule)
        if fixed != fixed_before:
            spec.at("template").invalid(IMMUTABLE)

    def warnings(self, obj: JsonObject) -> list[str]:
        name = obj.get("metadata", {}).get("name", "")
        return [*warn_of_pod_names(name), *warn_of_job_spec("spec", obj.get("spec", {}))]

    def update_warnings(self, obj: JsonObject, old: JsonObject) -> list[str]:
        return [] if obj.get("spec") == old.get("spec") else warn_of_job_spec("spec", obj.get("spec", {}))


def _validate_generated(spec: Field, metadata: JsonObject) -> None:
    """Validate the labels of the generated selector, which nobody else may use."""
    selector = spec.at("selector")
    if spec.get("manualSelector") or "uid" not in metadata or selector.value is None:
        return
    values = {CONTROLLER_UID: metadata["uid"], JOB_NAME: metadata.get("name", "")}
    expected = {label: values[new] for old, new in _OLD_LABELS.items() for label in (old, new)}
    labels = spec.at("template").at("metadata").at("labels", {})
    for name in (*_OLD_LABELS, *_OLD_LABELS.values()):
        label = labels.entry(name)
        if label.must_exist(f"must be '{expected[name]}'") and label.value != expected[name]:
            label.showing(labels.value).invalid(f"must be '{expected[name]}'")
    if Field(selector.value).must_obey(validate_label_selector) and not _selects(selector, expected):
        selector.invalid("`selector` not auto-generated")


def _validate_hostnames(name: Field, spec: JsonObject) -> None:
    """Validate the name of an indexed job, of which the hostnames of its pods are made."""
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0:
        longest = f"{name.value}-{spec['completions'] - 1}"
        if check_dns1123_label(longest):
            name.invalid(f"will not able to create pod with invalid DNS label: {longest}")


def _validate_selector(spec: Field) -> None:
    selector, labels = spec.at("selector"), spec.at("template").at("metadata").at("labels")
    is_valid = selector.must_exist() and selector.must_obey(validate_label_selector)
    if is_valid and not _selects(selector, labels.value or {}):
        labels.invalid("`selector` does not match template `labels`")


def _selects(selector: Field, labels: Mapping[str, str]) -> bool:
    return compile_selector(msgspec.convert(selector.value, LabelSelector)).matches(labels)


def _validate_elastic(spec: Field) -> None:
    """Validate a change of `completions`: of indexed jobs, together with an equal parallelism."""
    completions = spec.at("completions")
    if spec.get("completionMode") != "Indexed":
        completions.invalid(IMMUTABLE)
    # `validate_job_spec` reports that it is missing.
    elif completions.value is not None and completions.value != spec.get("parallelism"):
        completions.invalid("can only be modified in tandem with spec.parallelism")


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
    # The node affinity may change, unlike the rest of the affinity.
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
