"""Defaults and validation of the spec of a Job, also in the template of a CronJob.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/batch/v1/defaults.go`, `pkg/apis/batch/validation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.pods import (
    drop_disabled_fields,
    set_spec_defaults,
    validate_template,
    warn_of_template,
)
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.domain_paths import validate_domain_path
from bridgehead.objects.indexes import count_indexes, parse_intervals
from bridgehead.objects.names import check_qualified_name

# Limits of parallelism and of failed indexes keep a status short; those for very many completions do so, too.
_MAX_PARALLELISM = _MAX_FAILED = _MANY_COMPLETIONS = 100_000
_MAX_PARALLELISM_OF_MANY = _MAX_FAILED_OF_MANY = 10_000
_UNLIMITED = 2**31 - 1  # the default back-off limit if each index has one of its own
_MODES = ("NonIndexed", "Indexed")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_RESTART_POLICIES = ("OnFailure", "Never")
_MOST_RULES, _MOST_CODES, _MOST_PATTERNS = 20, 255, 20
_MAX_MANAGER_BYTES, _MAX_INDEXES_BYTES = 63, 64 * 1024


def set_template_defaults(spec: JsonObject) -> None:
    """Set the default values of a job's spec in the template of a CronJob, which leaves the others to its jobs."""
    template: JsonObject = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    set_spec_defaults(template.setdefault("spec", {}))
    drop_disabled_fields(template["spec"])
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern["status"] = pattern.get("status") or "True"


def set_job_defaults(spec: JsonObject) -> None:
    """Set the default values of a job's spec."""
    set_template_defaults(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _UNLIMITED if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")


def validate_job_spec(path: str, spec: JsonObject) -> list[FieldError]:
    """Validate everything but the selector, which a template does not have."""
    errors: list[FieldError] = []
    for name in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        errors += field.non_negative(f"{path}.{name}", spec.get(name, 0))
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        errors.append(field.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if "managedBy" in spec:
        manager = spec["managedBy"]
        errors += field.errors_below(f"{path}.managedBy", validate_domain_path, manager)
        if len(manager.encode()) > _MAX_MANAGER_BYTES:
            errors.append(field.too_long(f"{path}.managedBy", _MAX_MANAGER_BYTES))
    errors += _validate_mode(path, spec)
    if "podFailurePolicy" in spec:
        errors += _validate_failure_policy(f"{path}.podFailurePolicy", spec)
    if "successPolicy" in spec:
        item, policy = f"{path}.successPolicy", spec["successPolicy"]
        if spec.get("completionMode") == "Indexed":
            errors += _validate_success_policy(item, policy, spec.get("completions", 0))
        else:
            errors.append(field.invalid(item, policy, "requires indexed completion mode"))
    if "podReplacementPolicy" in spec:  # templates of CronJobs may leave it to their jobs
        supported = ("Failed",) if "podFailurePolicy" in spec else _REPLACEMENTS
        errors += field.one_of(f"{path}.podReplacementPolicy", spec["podReplacementPolicy"], supported)
    template = spec.get("template", {})
    errors += field.errors_below(f"{path}.template", validate_template, template)
    return errors + _validate_restarts(f"{path}.template.spec.restartPolicy", spec)


def _validate_restarts(path: str, spec: JsonObject) -> list[FieldError]:
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy") or "Always"
    if policy == "Always":
        return [field.required(path, 'valid values: "OnFailure", "Never"')]
    errors = field.one_of(path, policy, _RESTART_POLICIES)
    if not errors and "podFailurePolicy" in spec and policy != "Never":
        errors.append(field.invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified'))
    return errors


def _validate_mode(path: str, spec: JsonObject) -> list[FieldError]:
    """Validate `completionMode`, and fields that depend on it."""
    mode = spec.get("completionMode", "NonIndexed")
    if mode == "Indexed":
        return _validate_indexed(path, spec)
    errors = field.one_of(f"{path}.completionMode", mode, _MODES)
    if errors:
        return errors
    return [
        field.invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")
        for name in ("backoffLimitPerIndex", "maxFailedIndexes")
        if name in spec
    ]


def _validate_indexed(path: str, spec: JsonObject) -> list[FieldError]:
    when = "when completion mode is Indexed"
    completions, parallelism, most = (spec.get(name) for name in ("completions", "parallelism", "maxFailedIndexes"))
    errors = [] if completions is not None else [field.required(f"{path}.completions", when)]
    errors += _validate_most(f"{path}.parallelism", parallelism, _MAX_PARALLELISM, f" {when}")
    if completions is not None and most is not None and most > completions:
        detail = "must be less than or equal to completions"
        errors.append(field.invalid(f"{path}.maxFailedIndexes", most, detail))
    errors += _validate_most(f"{path}.maxFailedIndexes", most, _MAX_FAILED)
    if (completions or 0) > _MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        item = f"{path}.maxFailedIndexes"
        if most is None:
            errors.append(field.required(item, f"must be specified when completions is above {_MANY_COMPLETIONS}"))
        when = f" when completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
        errors += _validate_most(f"{path}.parallelism", parallelism, _MAX_PARALLELISM_OF_MANY, when)
        errors += _validate_most(item, most, _MAX_FAILED_OF_MANY, when)
    return errors


def _validate_most(path: str, value: int | None, limit: int, when: str = "") -> list[FieldError]:
    if value is None or value <= limit:
        return []
    return [field.invalid(path, value, f"must be less than or equal to {limit}{when}")]


def _validate_success_policy(path: str, policy: JsonObject, completions: int) -> list[FieldError]:
    rules: Sequence[JsonObject] = policy.get("rules", ())
    if not rules:
        return [
            field.required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
        ]
    errors = [] if len(rules) <= _MOST_RULES else [field.too_many(f"{path}.rules", len(rules), _MOST_RULES)]
    for index, rule in enumerate(rules):
        errors += _validate_success_rule(f"{path}.rules[{index}]", rule, completions)
    return errors


def _validate_success_rule(path: str, rule: JsonObject, completions: int) -> list[FieldError]:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    errors: list[FieldError] = []
    if indexes is None and count is None:
        detail = "at least one of succeededCount or succeededIndexes must be specified"
        errors.append(field.required(path, detail))
    total = 0
    if indexes is not None:
        item = f"{path}.succeededIndexes"
        if len(indexes.encode()) > _MAX_INDEXES_BYTES:
            errors.append(field.too_long(item, _MAX_INDEXES_BYTES))
        try:
            total = count_indexes(parse_intervals(indexes, completions))
        except ValueError as error:
            errors.append(field.invalid(item, indexes, f"error parsing succeededIndexes: {error}"))
    if count is not None:
        item = f"{path}.succeededCount"
        errors += field.non_negative(item, count)
        if count > completions:
            detail = f"must be less than or equal to {completions} (the number of specified completions)"
            errors.append(field.invalid(item, count, detail))
        if indexes is not None and count > total:
            detail = (
                f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            )
            errors.append(field.invalid(item, count, detail))
    return errors


def _validate_failure_policy(path: str, spec: JsonObject) -> list[FieldError]:
    rules: Sequence[JsonObject] = spec["podFailurePolicy"].get("rules", ())
    errors = [] if len(rules) <= _MOST_RULES else [field.too_many(f"{path}.rules", len(rules), _MOST_RULES)]
    pod = spec.get("template", {}).get("spec", {})
    names = {container.get("name") for kind in ("initContainers", "containers") for container in pod.get(kind, ())}
    for index, rule in enumerate(rules):
        item, action = f"{path}.rules[{index}]", rule.get("action", "")
        if action == "FailIndex" and "backoffLimitPerIndex" not in spec:
            detail = "requires the backoffLimitPerIndex to be set"
            errors.append(field.invalid(f"{item}.action", "FailIndex", detail))
        errors += _validate_choice(f"{item}.action", action, _ACTIONS)
        codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions", ())
        if codes is not None:
            errors += _validate_exit_codes(f"{item}.onExitCodes", codes, names)
        if len(patterns) > _MOST_PATTERNS:
            errors.append(field.too_many(f"{item}.onPodConditions", len(patterns), _MOST_PATTERNS))
        for number, pattern in enumerate(patterns):
            where, kind = f"{item}.onPodConditions[{number}]", pattern.get("type", "")
            errors += field.invalid_for(f"{where}.type", kind, check_qualified_name(kind))
            errors += _validate_choice(f"{where}.status", pattern.get("status", ""), _STATUSES)
        if codes is not None and patterns:
            detail = "specifying both OnExitCodes and OnPodConditions is not supported"
            errors.append(field.invalid_as_whole(item, detail))
        if codes is None and not patterns:
            detail = "specifying one of OnExitCodes and OnPodConditions is required"
            errors.append(field.invalid_as_whole(item, detail))
    return errors


def _validate_choice(path: str, value: str, supported: Iterable[str]) -> list[FieldError]:
    supported = tuple(supported)
    if value:
        return field.one_of(path, value, supported)
    values = " ".join(f'"{one}"' for one in supported)
    return [field.required(path, f"valid values: [{values}]")]


def _validate_exit_codes(path: str, codes: JsonObject, containers: set[str | None]) -> list[FieldError]:
    operator, values = codes.get("operator", ""), codes.get("values", [])
    errors = _validate_choice(f"{path}.operator", operator, _OPERATORS)
    name = codes.get("containerName")
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(field.invalid(f"{path}.containerName", name, detail))
    if not values:
        errors.append(field.invalid(f"{path}.values", values, "at least one value is required"))
    elif len(values) > _MOST_CODES:
        errors.append(field.too_many(f"{path}.values", len(values), _MOST_CODES))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if value == 0 and operator == "In":
            errors.append(field.invalid(f"{path}.values[{index}]", 0, "must not be 0 for the In operator"))
        if value in seen:
            errors.append(field.duplicate(f"{path}.values[{index}]", value))
        seen.add(value)
    if sorted(values) != values:
        errors.append(field.invalid(f"{path}.values", values, "must be ordered"))
    return errors


def warn_of_job_spec(path: str, spec: JsonObject) -> list[str]:
    """Return warnings about the spec of a job that is new or has changed."""
    warnings = []
    is_large = spec.get("completions", 0) > _MANY_COMPLETIONS and spec.get("parallelism", 0) > _MAX_PARALLELISM_OF_MANY
    if is_large and spec.get("completionMode") == "Indexed":
        warnings.append(
            f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher "
            "than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    return [*warnings, *warn_of_template(f"{path}.template", spec.get("template", {}))]
