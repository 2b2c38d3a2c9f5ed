"""Defaults and validation of the spec of a Job, also in the template of a CronJob.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/batch/v1/defaults.go`, `pkg/apis/batch/validation`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.apiserver.resources.pods import drop_disabled_fields, set_spec_defaults, validate_template
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.indexes import parse_indexes
from bridgehead.objects.names import check_qualified_name

MAX_INDEXED = 100_000  # of parallelism and completions, if either counts indexes
_UNLIMITED = 2**31 - 1  # the default back-off limit if each index has one of its own
_MODES = ("Indexed", "NonIndexed")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MOST_RULES, _MOST_CODES, _MOST_PATTERNS = 20, 255, 20


def set_job_defaults(spec: JsonObject) -> None:
    """Set the default values of a job's spec."""
    template: JsonObject = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    set_spec_defaults(template.setdefault("spec", {}))
    drop_disabled_fields(template["spec"])
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _UNLIMITED if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    policy = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "Failed" if policy else "TerminatingOrFailed")
    for rule in (policy or {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")


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
    mode = spec.get("completionMode")
    errors += field.one_of(f"{path}.completionMode", mode, _MODES)
    errors += _validate_indexed(path, spec) if mode == "Indexed" else _validate_not_indexed(path, spec)
    errors += field.one_of(f"{path}.podReplacementPolicy", spec.get("podReplacementPolicy"), _REPLACEMENTS)
    if "managedBy" in spec:
        errors += field.invalid_for(f"{path}.managedBy", spec["managedBy"], _check_domain_path(spec["managedBy"]))
    template = spec.get("template", {})
    errors += validate_template(f"{path}.template", template)
    restarts = template.get("spec", {}).get("restartPolicy")
    if restarts not in ("OnFailure", "Never"):
        errors.append(field.required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    if "podFailurePolicy" in spec:
        if restarts != "Never":
            detail = 'only "Never" is supported when podFailurePolicy is specified'
            errors.append(field.invalid(f"{path}.template.spec.restartPolicy", restarts, detail))
        errors += _validate_failure_policy(f"{path}.podFailurePolicy", spec)
        if spec.get("podReplacementPolicy") == "TerminatingOrFailed":
            errors.append(
                field.not_supported(f"{path}.podReplacementPolicy", spec.get("podReplacementPolicy"), ("Failed",))
            )
    return errors


def _check_domain_path(text: str) -> list[str]:
    domain, slash, _ = text.partition("/")
    if not domain or not slash:
        return ['must be a domain-prefixed path (such as "acme.io/foo")']
    return check_qualified_name(text)


def _validate_indexed(path: str, spec: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    when = "when completion mode is Indexed"
    if "completions" not in spec:
        errors.append(field.required(f"{path}.completions", when))
    for name in ("parallelism", "completions"):
        if spec.get(name, 0) > MAX_INDEXED:
            detail = f"must be less than or equal to {MAX_INDEXED} {when}"
            errors.append(field.invalid(f"{path}.{name}", spec[name], detail))
    most, completions = spec.get("maxFailedIndexes"), spec.get("completions", 0)
    if most is not None and most > completions:
        detail = "must be less than or equal to completions"
        errors.append(field.invalid(f"{path}.maxFailedIndexes", most, detail))
    if most is not None and "backoffLimitPerIndex" not in spec:
        errors.append(field.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    policy = spec.get("successPolicy")
    if policy is not None:
        errors += _validate_success_policy(f"{path}.successPolicy", policy, completions)
    return errors


def _validate_not_indexed(path: str, spec: JsonObject) -> list[FieldError]:
    return [
        field.invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")
        for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
        if name in spec
    ]


def _validate_success_policy(path: str, policy: JsonObject, completions: int) -> list[FieldError]:
    rules: Sequence[JsonObject] = policy.get("rules", ())
    if not rules:
        return [
            field.required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
        ]
    errors = [] if len(rules) <= _MOST_RULES else [field.too_many(f"{path}.rules", len(rules), _MOST_RULES)]
    for index, rule in enumerate(rules):
        item = f"{path}.rules[{index}]"
        indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        if indexes is None and count is None:
            detail = "at least one of succeededCount or succeededIndexes must be specified"
            errors.append(field.required(item, detail))
        total = completions
        if indexes is not None:
            try:
                total = len(parse_indexes(indexes, completions))
            except ValueError as error:
                detail = f"error parsing succeededIndexes: {error}"
                errors.append(field.invalid(f"{item}.succeededIndexes", indexes, detail))
        if count is not None:
            errors += field.non_negative(f"{item}.succeededCount", count)
            if count > total:
                detail = f"must be less than or equal to {total} (the number of the specified indexes)"
                errors.append(field.invalid(f"{item}.succeededCount", count, detail))
    return errors


def _validate_failure_policy(path: str, spec: JsonObject) -> list[FieldError]:
    rules: Sequence[JsonObject] = spec["podFailurePolicy"].get("rules", ())
    errors = [] if len(rules) <= _MOST_RULES else [field.too_many(f"{path}.rules", len(rules), _MOST_RULES)]
    pod = spec.get("template", {}).get("spec", {})
    names = {container.get("name") for kind in ("initContainers", "containers") for container in pod.get(kind, ())}
    for index, rule in enumerate(rules):
        item = f"{path}.rules[{index}]"
        errors += field.one_of(f"{item}.action", rule.get("action"), _ACTIONS)
        if rule.get("action") == "FailIndex" and "backoffLimitPerIndex" not in spec:
            detail = "requires the backoffLimitPerIndex to be set"
            errors.append(field.invalid(f"{item}.action", "FailIndex", detail))
        codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions", ())
        if codes is None and not patterns:
            detail = "specifying one of OnExitCodes and OnPodConditions is required"
            errors.append(field.invalid(item, rule, detail))
        if codes is not None and patterns:
            detail = "specifying both OnExitCodes and OnPodConditions is not supported"
            errors.append(field.invalid(item, rule, detail))
        if codes is not None:
            errors += _validate_exit_codes(f"{item}.onExitCodes", codes, names)
        if len(patterns) > _MOST_PATTERNS:
            errors.append(field.too_many(f"{item}.onPodConditions", len(patterns), _MOST_PATTERNS))
        for number, pattern in enumerate(patterns):
            where = f"{item}.onPodConditions[{number}]"
            kind = pattern.get("type", "")
            errors += field.invalid_for(f"{where}.type", kind, check_qualified_name(kind))
            errors += field.one_of(f"{where}.status", pattern.get("status"), _STATUSES)
    return errors


def _validate_exit_codes(path: str, codes: JsonObject, containers: set[str | None]) -> list[FieldError]:
    operator, values = codes.get("operator"), codes.get("values", ())
    errors = field.one_of(f"{path}.operator", operator, _OPERATORS)
    name = codes.get("containerName")
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(field.invalid(f"{path}.containerName", name, detail))
    if not values:
        errors.append(field.invalid(f"{path}.values", values, "at least one value is required"))
    elif len(values) > _MOST_CODES:
        errors.append(field.too_many(f"{path}.values", len(values), _MOST_CODES))
    elif any(one >= other for one, other in itertools.pairwise(values)):
        errors.append(field.invalid(f"{path}.values", values, "must be ordered and without duplicates"))
    for index, value in enumerate(values):
        if value == 0 and operator == "In":
            errors.append(field.invalid(f"{path}.values[{index}]", 0, "must not be 0 for the In operator"))
    return errors
