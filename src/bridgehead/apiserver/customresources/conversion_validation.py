"""Validation of `spec.conversion`: the strategy, and the webhook.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver `validateCustomResourceConversion`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.webhook_validation import validate_ca_bundle, validate_client_config
from bridgehead.objects.names import check_dns1035_label

from .definitions import ESTABLISHED, is_true

REVIEW_VERSIONS = ("v1", "v1beta1")


def validate_conversion(conversion: Field, old: JsonObject | None) -> None:
    """Validate the conversion of a definition. `old` is the definition before an update."""
    strategy, webhook = conversion.at("strategy"), conversion.at("webhook")
    if conversion.value is None or not strategy.must_be_set():
        return
    strategy.must_be_one_of(("None", "Webhook"))
    # Errors have the fields of an older version of the API, which were those of the conversion itself.
    client = conversion.at("webhookClientConfig").showing(webhook.get("clientConfig"))
    versions = conversion.at("conversionReviewVersions").showing(webhook.get("conversionReviewVersions"))
    if strategy.value == "Webhook":
        _validate_client(client, old)
        _validate_review_versions(versions)
        return
    why = "should not be set when strategy is not set to Webhook"
    client.must_not_exist(why)
    versions.must_not_be_set(why)


def _validate_client(client: Field, old: JsonObject | None) -> None:
    if not client.must_exist("required when strategy is set to Webhook"):
        return
    validate_client_config(client)
    bundle = client.at("caBundle")
    if bundle and not _may_have_bad_bundle(old):
        validate_ca_bundle(bundle)


def _may_have_bad_bundle(old: JsonObject | None) -> bool:
    """Whether the bundle of a definition may be invalid, because it was, or because nothing is served yet."""
    return old is None or not is_true(old, ESTABLISHED) or has_bad_bundle(old)


def has_bad_bundle(crd: JsonObject) -> bool:
    """Whether the CA bundle of the webhook that converts is invalid."""
    bundle = Field(crd["spec"]).at("conversion").at("webhook").at("clientConfig").at("caBundle")
    if bundle:
        validate_ca_bundle(bundle)
    return bool(bundle.errors)


def _validate_review_versions(versions: Field) -> None:
    if not versions.must_be_set():
        return
    seen: set[str] = set()
    for version in versions.each():
        if version.value in seen:
            version.invalid("duplicate version")
        else:
            version.must_pass(check_dns1035_label)
        seen.add(version.value)
    if seen.isdisjoint(REVIEW_VERSIONS):
        versions.invalid(f"must include at least one of {', '.join(REVIEW_VERSIONS)}")
