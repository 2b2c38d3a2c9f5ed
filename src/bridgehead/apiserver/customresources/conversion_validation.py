"""Validation of `spec.conversion`: the strategy, and the webhook.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver `validateCustomResourceConversion`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.webhook_validation import validate_ca_bundle, validate_client_config
from bridgehead.objects.names import check_dns1035_label

from .definitions import ESTABLISHED, is_true

REVIEW_VERSIONS = ("v1", "v1beta1")
_PATH = "spec.conversion"


def validate_conversion(conversion: JsonObject | None, old: JsonObject | None) -> list[FieldError]:
    """Validate the conversion of a definition. `old` is the definition before an update."""
    if conversion is None:
        return []
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook")
    if not strategy:
        return [field.required(f"{_PATH}.strategy")]
    errors = field.one_of(f"{_PATH}.strategy", strategy, ("None", "Webhook"))
    client = None if webhook is None else webhook.get("clientConfig")
    versions = [] if webhook is None else webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        why = "should not be set when strategy is not set to Webhook"
        if client is not None:
            errors.append(field.forbidden(f"{_PATH}.webhookClientConfig", why))
        if versions:
            errors.append(field.forbidden(f"{_PATH}.conversionReviewVersions", why))
        return errors
    where = f"{_PATH}.webhookClientConfig"
    if client is None:
        errors.append(field.required(where, "required when strategy is set to Webhook"))
    else:
        errors += _validate_client(where, client, may_have_bad_bundle=old is None or _had_bad_bundle(old))
    return errors + _validate_review_versions(f"{_PATH}.conversionReviewVersions", versions)


def _validate_client(path: str, client: JsonObject, *, may_have_bad_bundle: bool) -> list[FieldError]:
    errors = field.errors_below(path, validate_client_config, client)
    if client.get("caBundle") and not may_have_bad_bundle:
        errors += field.errors_below(f"{path}.caBundle", validate_ca_bundle, client["caBundle"])
    return errors


def _had_bad_bundle(old: JsonObject) -> bool:
    """Whether the bundle of a definition may be invalid, because it was, or because nothing is served yet."""
    return not is_true(old, ESTABLISHED) or has_bad_bundle(old)


def has_bad_bundle(crd: JsonObject) -> bool:
    """Whether the CA bundle of the webhook that converts is invalid."""
    webhook = (crd["spec"].get("conversion") or {}).get("webhook") or {}
    bundle = (webhook.get("clientConfig") or {}).get("caBundle")
    return bool(bundle and field.errors_below("caBundle", validate_ca_bundle, bundle))


def _validate_review_versions(path: str, versions: Sequence[str]) -> list[FieldError]:
    if not versions:
        return [field.required(path)]
    errors = []
    repeated = set(field.repeated(versions))
    for index, version in enumerate(versions):
        if index in repeated:
            errors.append(field.invalid(f"{path}[{index}]", version, "duplicate version"))
        else:
            errors += field.invalid_for(f"{path}[{index}]", version, check_dns1035_label(version))
    if not any(version in REVIEW_VERSIONS for version in versions):
        detail = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        errors.append(field.invalid(path, list(versions), detail))
    return errors
