"""Defaults and validation of the spec of a Job, also in the template of a CronJob.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/batch/v1/defaults.go`, `pkg/apis/batch/validation`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.pods import (
    drop_disabled_fields,
    set_spec_defaults,
    validate_template,
    warn_of_template,
)
from bridgehead.apiserver.resources.shared.domain_paths import validate_domain_path
from bridgehead.objects.indexes import count_indexes, parse_intervals
from bridgehead.objects.names import check_qualified_name

# Limits of parallelism and of failed indexes keep a status short; those for very many completions do so, too.
_MAX_PARALLELISM = _MAX_FAILED = _MANY_COMPLETIONS = 100_000
_MAX_PARALLELISM_OF_MANY = _MAX_FAILED_OF_MANY = 10_000
_UNLIMITED = 2**31 - 1  # the default back-off limit if each index has one of its own
_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
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


def validate_job_spec(spec: Field) -> None:
    """Validate everything but the selector, which a template does not have."""
    for name in _NUMBERS:
        spec.at(name).must_not_be_negative()
    if "maxFailedIndexes" in spec.value and "backoffLimitPerIndex" not in spec.value:
        spec.at("backoffLimitPerIndex").required("when maxFailedIndexes is specified")
    if "managedBy" in spec.value:
        manager = spec.at("managedBy")
        validate_domain_path(manager)
        manager.must_have_at_most_bytes(_MAX_MANAGER_BYTES)
    _validate_mode(spec)
    has_failure_policy = "podFailurePolicy" in spec.value
    if has_failure_policy:
        _validate_failure_policy(spec.at("podFailurePolicy"), spec.value)
    if "successPolicy" in spec.value:
        policy = spec.at("successPolicy")
        if spec.get("completionMode") == "Indexed":
            _validate_success_policy(policy, spec.get("completions", 0))
        else:
            policy.invalid("requires indexed completion mode")
    # Templates of CronJobs may leave it to their jobs.
    spec.at("podReplacementPolicy").must_be_one_of(("Failed",) if has_failure_policy else _REPLACEMENTS)
    template = spec.at("template")
    validate_template(template)
    _validate_restarts(template.at("spec").at("restartPolicy"), has_failure_policy=has_failure_policy)


def _validate_restarts(policy: Field, *, has_failure_policy: bool) -> None:
    if policy.value in (None, "", "Always"):
        policy.required('valid values: "OnFailure", "Never"')
    elif policy.must_be_one_of(_RESTART_POLICIES) and has_failure_policy and policy.value != "Never":
        policy.invalid('only "Never" is supported when podFailurePolicy is specified')


def _validate_mode(spec: Field) -> None:
    """Validate `completionMode`, and fields that depend on it."""
    mode = spec.at("completionMode")
    if mode.value == "Indexed":
        _validate_indexed(spec)
    elif mode.must_be_one_of(_MODES):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if name in spec.value:
                spec.at(name).invalid("requires indexed completion mode")


def _validate_indexed(spec: Field) -> None:
    when = "when completion mode is Indexed"
    completions, parallelism, failed = (spec.at(name) for name in ("completions", "parallelism", "maxFailedIndexes"))
    completions.must_exist(when)
    _validate_most(parallelism, _MAX_PARALLELISM, when)
    if completions.value is not None:
        failed.must_be_at_most(completions.value, "must be less than or equal to completions")
    failed.must_be_at_most(_MAX_FAILED)
    if (completions.value or 0) > _MANY_COMPLETIONS and "backoffLimitPerIndex" in spec.value:
        failed.must_exist(f"must be specified when completions is above {_MANY_COMPLETIONS}")
        when = f"when completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
        _validate_most(parallelism, _MAX_PARALLELISM_OF_MANY, when)
        _validate_most(failed, _MAX_FAILED_OF_MANY, when)


def _validate_most(number: Field, limit: int, when: str) -> None:
    number.must_be_at_most(limit, f"must be less than or equal to {limit} {when}")


def _validate_success_policy(policy: Field, completions: int) -> None:
    rules = policy.at("rules")
    rules.must_be_set("at least one rules must be specified when the successPolicy is specified")
    rules.must_have_at_most(_MOST_RULES)
    rules.must_all_obey(_validate_success_rule, completions)


def _validate_success_rule(rule: Field, completions: int) -> None:
    indexes, count = rule.at("succeededIndexes"), rule.at("succeededCount")
    if indexes.value is None and count.value is None:
        rule.required("at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if indexes.value is not None:
        indexes.must_have_at_most_bytes(_MAX_INDEXES_BYTES)
        try:
            total = count_indexes(parse_intervals(indexes.value, completions))
        except ValueError as error:
            indexes.invalid(f"error parsing succeededIndexes: {error}")
    count.must_not_be_negative()
    detail = f"must be less than or equal to {completions} (the number of specified completions)"
    count.must_be_at_most(completions, detail)
    if indexes.value is not None:
        detail = (
            f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        )
        count.must_be_at_most(total, detail)


def _validate_failure_policy(policy: Field, spec: JsonObject) -> None:
    pod = spec.get("template", {}).get("spec", {})
    names = {container.get("name") for kind in ("initContainers", "containers") for container in pod.get(kind, ())}
    rules = policy.at("rules")
    rules.must_have_at_most(_MOST_RULES)
    for rule in rules.each():
        action, codes, patterns = rule.at("action"), rule.at("onExitCodes"), rule.at("onPodConditions")
        if action.value == "FailIndex" and "backoffLimitPerIndex" not in spec:
            action.invalid("requires the backoffLimitPerIndex to be set")
        _validate_choice(action, _ACTIONS)
        codes.must_obey(_validate_exit_codes, names)
        patterns.must_have_at_most(_MOST_PATTERNS)
        for pattern in patterns.each():
            pattern.at("type", "").must_pass(check_qualified_name)
            _validate_choice(pattern.at("status"), _STATUSES)
        if codes.value is not None and patterns:
            rule.invalid_as_whole("specifying both OnExitCodes and OnPodConditions is not supported")
        if codes.value is None and not patterns:
            rule.invalid_as_whole("specifying one of OnExitCodes and OnPodConditions is required")


def _validate_choice(choice: Field, supported: Sequence[str]) -> None:
    values = " ".join(f'"{one}"' for one in supported)
    if choice.must_be_set(f"valid values: [{values}]"):
        choice.must_be_one_of(supported)


def _validate_exit_codes(codes: Field, containers: set[str | None]) -> None:
    operator, values, name = codes.at("operator"), codes.at("values", []), codes.at("containerName")
    _validate_choice(operator, _OPERATORS)
    if name.value is not None and name.value not in containers:
        name.invalid("must be one of the container or initContainer names in the pod template")
    if not values:
        values.invalid("at least one value is required")
    values.must_have_at_most(_MOST_CODES)
    seen: set[int] = set()
    for value in values.each():
        if value.value == 0 and operator.value == "In":
            value.invalid("must not be 0 for the In operator")
        value.must_not_repeat(seen)
    if sorted(values.value) != values.value:
        values.invalid("must be ordered")


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
