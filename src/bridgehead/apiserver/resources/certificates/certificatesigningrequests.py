"""CertificateSigningRequest (certificates.k8s.io/v1): its entry in the table and its hooks.

Admission sets what depends on the user and the time (`admission.certificates`).
Pure: no I/O, no clock, no randomness. Source: Kubernetes pkg/registry/certificates/certificates/strategy.go.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import (
    AGE,
    NAME,
    NONE,
    at,
    human_duration,
    selectable,
    text_column,
)

from .request_validation import (
    APPROVED,
    DENIED,
    FAILED,
    conditions_of,
    validate_conditions,
    validate_spec,
    validate_status_update,
)


class CertificateSigningRequestStrategy(Strategy):
    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        obj["spec"] = old.get("spec", {})
        match subresource:
            case "status":
                for type_ in (APPROVED, DENIED):
                    _preserve(obj, old, type_)
            case "approval":
                conditions = conditions_of(obj)
                obj["status"] = {key: value for key, value in old.get("status", {}).items() if key != "conditions"}
                if conditions:
                    obj["status"]["conditions"] = conditions
            case _:
                obj["status"] = old.get("status", {})

    def validate(self, obj: Field) -> None:
        validate_conditions(obj.at("status").at("conditions"))

    def validate_create(self, obj: Field) -> None:
        validate_spec(obj.at("spec"))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        validate_status_update(obj, old, subresource)


def _preserve(obj: JsonObject, old: JsonObject, type_: str) -> None:
    """Set the conditions of a type to those of `old`, unless some were added or removed."""
    before = conditions_of(old, type_)
    conditions = conditions_of(obj)
    indexes = [index for index, one in enumerate(conditions) if one.get("type") == type_]
    if indexes and len(indexes) == len(before):
        for index, condition in zip(indexes, before, strict=True):
            conditions[index] = condition
        obj["status"]["conditions"] = conditions


def populate_condition_times(obj: JsonObject, old: JsonObject, now: str) -> None:
    """Set the times that conditions lack. `now` is RFC 3339."""
    before = conditions_of(old)
    for condition in conditions_of(obj):
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            same = (
                one["lastTransitionTime"]
                for one in before
                if one.get("type") == condition.get("type")
                and one.get("status") == condition.get("status")
                and one.get("lastTransitionTime")
            )
            condition["lastTransitionTime"] = next(same, now)


def _duration(request: JsonObject, now: float) -> str:
    seconds = at(request, "spec", "expirationSeconds")
    return human_duration(seconds) if isinstance(seconds, int) else NONE


def _condition(request: JsonObject, now: float) -> str:
    types = {one.get("type") for one in conditions_of(request)}
    text = DENIED if DENIED in types else APPROVED if APPROVED in types else "Pending"
    if FAILED in types:
        text += ",Failed"
    if at(request, "status", "certificate"):
        text += ",Issued"
    return text


CERTIFICATE_SIGNING_REQUESTS = Resource(
    group="certificates.k8s.io",
    version="v1",
    kind="CertificateSigningRequest",
    plural="certificatesigningrequests",
    singular="certificatesigningrequest",
    namespaced=False,
    short_names=("csr",),
    subresources=("approval", "status"),
    strategy=CertificateSigningRequestStrategy(),
    columns=(
        NAME,
        AGE,
        text_column("SignerName", "spec", "signerName", empty=NONE),
        text_column("Requestor", "spec", "username"),
        Column("RequestedDuration", _duration),
        Column("Condition", _condition),
    ),
    selectable={"spec.signerName": selectable("spec", "signerName")},
)
