"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration: their entries in the table and their rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/apis/admissionregistration/v1/defaults.go`, `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector
from bridgehead.apiserver.resources.shared.webhook_validation import validate_client_config
from bridgehead.objects.names import check_dns1035_label, check_dns1123_subdomain

from .expressions import check_match_condition
from .match_conditions import validate_match_conditions
from .rules import default_rules, validate_rule_with_operations

_DEFAULT_SECONDS, _MAX_SECONDS = 10, 30
_DEFAULT_PORT = 443
_REVIEW_VERSIONS = ("v1", "v1beta1")
_NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")


@dataclass(frozen=True, slots=True)
class _Rules:
    """Requirements on a webhook. An update may keep what an earlier version of the API accepted."""

    allows_side_effects: bool = False
    knows_versions: bool = True
    has_unique_names: bool = True
    checks_conditions: bool = True


class WebhookConfigurationStrategy(Strategy):
    def __init__(self, *, is_mutating: bool) -> None:
        self._is_mutating = is_mutating

    def default(self, obj: JsonObject) -> None:
        for webhook in obj.get("webhooks", ()):
            webhook.setdefault("failurePolicy", "Fail")
            webhook.setdefault("matchPolicy", "Equivalent")
            webhook.setdefault("namespaceSelector", {})
            webhook.setdefault("objectSelector", {})
            webhook.setdefault("timeoutSeconds", _DEFAULT_SECONDS)
            if self._is_mutating:
                webhook.setdefault("reinvocationPolicy", "Never")
            default_rules(webhook.get("rules", ()))
            service = webhook.get("clientConfig", {}).get("service")
            if service is not None:
                service.setdefault("port", _DEFAULT_PORT)

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        return _validate(obj.get("webhooks", ()), _Rules())

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        new, before = obj.get("webhooks", ()), old.get("webhooks", ())
        names = [one.get("name") for one in before]
        rules = _Rules(
            allows_side_effects=any(one.get("sideEffects") not in _NO_SIDE_EFFECTS for one in before),
            knows_versions=all(
                not one.get("admissionReviewVersions") or _knows(one["admissionReviewVersions"]) for one in before
            ),
            has_unique_names=len(set(names)) == len(names),
            checks_conditions=_conditions(new) != _conditions(before),
        )
        return _validate(new, rules)


def _conditions(webhooks: Sequence[JsonObject]) -> list[list[JsonObject]]:
    return [one.get("matchConditions") or [] for one in webhooks]


def _knows(versions: Sequence[str]) -> bool:
    return any(version in _REVIEW_VERSIONS for version in versions)


def _validate(webhooks: Sequence[JsonObject], rules: _Rules) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, webhook in enumerate(webhooks):
        path, name = f"webhooks[{index}]", webhook.get("name", "")
        errors += _validate_webhook(path, webhook, rules)
        versions = webhook.get("admissionReviewVersions") or []
        errors += _validate_versions(f"{path}.admissionReviewVersions", versions, rules)
        if name in names and rules.has_unique_names:
            errors.append(field.duplicate(f"{path}.name", name))
        elif name:
            names.add(name)
    return errors


def _validate_webhook(path: str, webhook: JsonObject, rules: _Rules) -> list[FieldError]:
    errors = validate_qualified_domain(f"{path}.name", webhook.get("name", ""))
    for index, rule in enumerate(webhook.get("rules", ())):
        errors += validate_rule_with_operations(f"{path}.rules[{index}]", rule)
    errors += field.one_of(f"{path}.failurePolicy", webhook.get("failurePolicy"), ("Fail", "Ignore"))
    errors += field.one_of(f"{path}.matchPolicy", webhook.get("matchPolicy"), ("Equivalent", "Exact"))
    allowed = _SIDE_EFFECTS if rules.allows_side_effects else _NO_SIDE_EFFECTS
    side_effects = webhook.get("sideEffects")
    if side_effects is None:
        errors.append(field.required(f"{path}.sideEffects", f"must specify one of {', '.join(allowed)}"))
    else:
        errors += field.one_of(f"{path}.sideEffects", side_effects, allowed)
    seconds = webhook.get("timeoutSeconds", _DEFAULT_SECONDS)
    if not 1 <= seconds <= _MAX_SECONDS:
        why = "the timeout value must be between 1 and 30 seconds"
        errors.append(field.invalid(f"{path}.timeoutSeconds", seconds, why))
    for name in ("namespaceSelector", "objectSelector"):
        errors += field.errors_below(f"{path}.{name}", validate_label_selector, webhook.get(name, {}))
    if "reinvocationPolicy" in webhook:
        errors += field.one_of(f"{path}.reinvocationPolicy", webhook["reinvocationPolicy"], ("IfNeeded", "Never"))
    errors += field.errors_below(f"{path}.clientConfig", validate_client_config, webhook.get("clientConfig", {}))
    if rules.checks_conditions:
        conditions = webhook.get("matchConditions", ())
        errors += validate_match_conditions(f"{path}.matchConditions", conditions, check_match_condition)
    return errors


def validate_qualified_domain(path: str, name: str) -> list[FieldError]:
    """Validate the name of a webhook, a domain such as `pods.example.com`."""
    if not name:
        return [field.required(path)]
    if reasons := check_dns1123_subdomain(name):
        return [field.invalid(path, name, ",".join(reasons))]
    if name.count(".") < 2:
        return [field.invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _validate_versions(path: str, versions: Sequence[str], rules: _Rules) -> list[FieldError]:
    known = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        return [field.required(path, f"must specify one of {known}")]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            errors.append(field.invalid(f"{path}[{index}]", version, "duplicate version"))
            continue
        seen.add(version)
        errors += field.invalid_for(f"{path}[{index}]", version, check_dns1035_label(version))
    if rules.knows_versions and not _knows(versions):
        errors.append(field.invalid(path, versions, f"must include at least one of {known}"))
    return errors


def _resource(kind: str, *, is_mutating: bool) -> Resource:
    return Resource(
        group="admissionregistration.k8s.io",
        version="v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        namespaced=False,
        categories=("api-extensions",),
        strategy=WebhookConfigurationStrategy(is_mutating=is_mutating),
        columns=(NAME, Column("Webhooks", lambda obj, now: len(obj.get("webhooks", ())), type="integer"), AGE),
        has_generation=True,
        check_name=check_dns1123_subdomain,
        allows_unconditional_update=False,
    )


MUTATING_WEBHOOK_CONFIGURATIONS = _resource("MutatingWebhookConfiguration", is_mutating=True)
VALIDATING_WEBHOOK_CONFIGURATIONS = _resource("ValidatingWebhookConfiguration", is_mutating=False)
