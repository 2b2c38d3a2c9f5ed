"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration: their entries in the table and their rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/apis/admissionregistration/v1/defaults.go`, `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import AGE, NAME
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector
from bridgehead.apiserver.resources.shared.webhook_validation import validate_client_config
from bridgehead.objects.names import check_dns1035_label, check_dns1123_subdomain

from .expressions import validate_match_condition
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

    def validate_create(self, obj: Field) -> None:
        _validate(obj.at("webhooks"), _Rules())

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        webhooks, before = obj.at("webhooks", ()), old.get("webhooks", ())
        names = [one.get("name") for one in before]
        rules = _Rules(
            allows_side_effects=any(one.get("sideEffects") not in _NO_SIDE_EFFECTS for one in before),
            knows_versions=all(
                not one.get("admissionReviewVersions") or _knows(one["admissionReviewVersions"]) for one in before
            ),
            has_unique_names=len(set(names)) == len(names),
            checks_conditions=_conditions(webhooks.value) != _conditions(before),
        )
        _validate(webhooks, rules)


def _conditions(webhooks: Sequence[JsonObject]) -> list[list[JsonObject]]:
    return [one.get("matchConditions") or [] for one in webhooks]


def _knows(versions: Sequence[str]) -> bool:
    return any(version in _REVIEW_VERSIONS for version in versions)


def _validate(webhooks: Field, rules: _Rules) -> None:
    names: set[str] = set()
    for webhook in webhooks.each():
        _validate_webhook(webhook, rules)
        _validate_versions(webhook.at("admissionReviewVersions"), rules)
        name = webhook.at("name")
        if name and rules.has_unique_names:
            name.must_not_repeat(names)


def _validate_webhook(webhook: Field, rules: _Rules) -> None:
    _validate_qualified_domain(webhook.at("name"))
    webhook.at("rules").must_all_obey(validate_rule_with_operations)
    webhook.at("failurePolicy", "").must_be_one_of(("Fail", "Ignore"))
    webhook.at("matchPolicy", "").must_be_one_of(("Equivalent", "Exact"))
    seconds, side_effects = webhook.at("timeoutSeconds", _DEFAULT_SECONDS), webhook.at("sideEffects")
    allowed = _SIDE_EFFECTS if rules.allows_side_effects else _NO_SIDE_EFFECTS
    side_effects.must_exist(f"must specify one of {', '.join(allowed)}")
    side_effects.must_be_one_of(allowed)
    seconds.must_be_within(1, _MAX_SECONDS, "the timeout value must be between 1 and 30 seconds")
    for name in ("namespaceSelector", "objectSelector"):
        validate_label_selector(webhook.at(name))
    webhook.at("reinvocationPolicy").must_be_one_of(("IfNeeded", "Never"))
    validate_client_config(webhook.at("clientConfig"))
    if rules.checks_conditions:
        validate_match_conditions(webhook.at("matchConditions"), validate_match_condition)


def _validate_qualified_domain(name: Field) -> None:
    """Validate the name of a webhook, a domain such as `pods.example.com`."""
    if not name.must_be_set():
        return
    if reasons := check_dns1123_subdomain(name.value):
        name.invalid(",".join(reasons))
    elif name.value.count(".") < 2:
        name.invalid("should be a domain with at least three segments separated by dots")


def _validate_versions(versions: Field, rules: _Rules) -> None:
    known = ", ".join(_REVIEW_VERSIONS)
    if not versions.must_be_set(f"must specify one of {known}"):
        return
    seen: set[str] = set()
    for version in versions.each():
        if version.value in seen:
            version.invalid("duplicate version")
        else:
            version.must_pass(check_dns1035_label)
        seen.add(version.value)
    if rules.knows_versions and not _knows(versions.value):
        versions.invalid(f"must include at least one of {known}")


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
