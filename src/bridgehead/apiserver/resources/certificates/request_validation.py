"""Validation of CertificateSigningRequests.

Pure: no I/O, no clock, no randomness. Source: Kubernetes pkg/apis/certificates/validation, `ValidateSignerName`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.columns import at
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .request_parsing import check_certificates, parse_request

_DECISIONS = APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
LEGACY_UNKNOWN = "kubernetes.io/legacy-unknown"
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_MIN_SECONDS = 600
_MAX_DOMAIN, _MAX_PATH = 253, 253 + 63 + 1


def validate_spec(spec: Field) -> None:
    """Validate a new request."""
    request, usages = spec.at("request", ""), spec.at("usages")
    try:
        parse_request(request.value)
    except ValueError as error:
        request.invalid(str(error))
    usages.must_be_set()
    usages.must_all_be_one_of(_USAGES)
    usages.must_have_no_duplicates()
    signer = spec.at("signerName", "")
    if signer.value == LEGACY_UNKNOWN:
        signer.invalid("the legacy signerName is not allowed via this API version")
    else:
        validate_signer_name(signer)
    why = "may not specify a duration less than 600 seconds (10 minutes)"
    spec.at("expirationSeconds").must_be_at_least(_MIN_SECONDS, why)


def validate_signer_name(name: Field) -> None:
    """Validate that a name is like example.com/signer."""
    if not name.must_be_set():
        return
    segments = name.value.split("/")
    if len(segments) != 2:
        name.invalid("must be a fully qualified domain and path of the form 'example.com/signer-name'")
        return
    domain, path = name.showing(segments[0]), name.showing(segments[1])
    if len(domain.value) > _MAX_DOMAIN:
        name.too_long(_MAX_DOMAIN)
    labels = domain.value.split(".")
    for label in labels:
        _validate_label(domain, label, check_dns1123_label)
    if len(labels) < 2:
        domain.invalid("should be a domain with at least two segments separated by dots")
    for label in path.value.split("."):
        _validate_label(path, label, check_dns1123_subdomain)
    limit = _MAX_DOMAIN + _MAX_PATH + 1
    if len(name.value) > limit:
        name.too_long(limit)


def _validate_label(segment: Field, label: str, check: Callable[[str], Sequence[str]]) -> None:
    for reason in check(label):
        segment.invalid(f'validating label "{label}": {reason}')


def validate_conditions(conditions: Field) -> None:
    """Validate the conditions of a status."""
    types: set[str] = set()
    for condition in conditions.each():
        type_, status = condition.at("type", ""), condition.at("status")
        type_.must_be_set()
        if status.must_be_set():
            status.must_be_one_of(("True",) if type_.value in _DECISIONS else ("False", "True", "Unknown"))
        if {APPROVED: DENIED, DENIED: APPROVED}.get(type_.value) in types:
            conditions.showing(type_.value).invalid("Approved and Denied conditions are mutually exclusive")
        type_.must_not_repeat(types)


def validate_status_update(obj: Field, old: JsonObject, subresource: str) -> None:
    """Validate the change of the status by this subresource."""
    status = obj.at("status")
    for type_ in _DECISIONS:
        if change := _forbidden_change(conditions_of(obj.value, type_), conditions_of(old, type_), type_, subresource):
            status.at("conditions").forbidden(f'updates may not {change} a condition of type "{type_}"')
    certificate, had = status.at("certificate", ""), at(old, "status", "certificate") or ""
    if certificate.value != had:
        if subresource != "status":
            certificate.forbidden("updates may not set certificate content")
        elif had:
            certificate.forbidden("updates may not modify existing certificate content")
        if certificate and (why := check_certificates(certificate.value)):
            certificate.showing("<certificate data>").invalid(why)


def _forbidden_change(
    new: Sequence[JsonObject], before: Sequence[JsonObject], type_: str, subresource: str
) -> str | None:
    """Return what a subresource does with the conditions of a type but may not, if there is such a change."""
    if len(new) < len(before):
        return "remove"
    if type_ == FAILED or subresource == "approval" or new == before:
        return None
    return "add" if len(new) > len(before) else "modify"


def conditions_of(obj: JsonObject, type_: str = "") -> list[JsonObject]:
    """Return the conditions of a request, all or those of one type."""
    conditions: list[JsonObject] = at(obj, "status", "conditions") or []
    return [one for one in conditions if not type_ or one.get("type") == type_]
