"""Validation of CertificateSigningRequests.

Pure: no I/O, no clock, no randomness. Source: Kubernetes pkg/apis/certificates/validation, `ValidateSignerName`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import at
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .parsing import check_certificates, parse_request

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
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


def validate_spec(spec: JsonObject) -> list[FieldError]:
    """Return errors of a new request."""
    errors = []
    request = spec.get("request", "")
    try:
        parse_request(request)
    except ValueError as error:
        errors.append(field.invalid("spec.request", request, str(error)))
    usages: Sequence[str] = spec.get("usages", ())
    if not usages:
        errors.append(field.required("spec.usages"))
    for index, usage in enumerate(usages):
        errors += field.one_of(f"spec.usages[{index}]", usage, _USAGES)
    errors += [field.duplicate(f"spec.usages[{index}]", usages[index]) for index in field.repeated(usages)]
    signer = spec.get("signerName", "")
    if signer == LEGACY_UNKNOWN:
        why = "the legacy signerName is not allowed via this API version"
        errors.append(field.invalid("spec.signerName", signer, why))
    else:
        errors += validate_signer_name("spec.signerName", signer)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _MIN_SECONDS:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(field.invalid("spec.expirationSeconds", seconds, why))
    return errors


def validate_signer_name(path: str, name: str) -> list[FieldError]:
    """Return errors unless `name` is like example.com/signer."""
    if not name:
        return [field.required(path)]
    segments = name.split("/")
    if len(segments) != 2:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [field.invalid(path, name, why)]
    domain, rest = segments
    errors = [field.too_long(path, _MAX_DOMAIN)] if len(domain) > _MAX_DOMAIN else []
    labels = domain.split(".")
    for label in labels:
        reasons = [f'validating label "{label}": {why}' for why in check_dns1123_label(label)]
        errors += field.invalid_for(path, domain, reasons)
    if len(labels) < 2:
        errors.append(field.invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    for label in rest.split("."):
        reasons = [f'validating label "{label}": {why}' for why in check_dns1123_subdomain(label)]
        errors += field.invalid_for(path, rest, reasons)
    limit = _MAX_DOMAIN + _MAX_PATH + 1
    if len(name) > limit:
        errors.append(field.too_long(path, limit))
    return errors


def validate_conditions(conditions: Sequence[JsonObject]) -> list[FieldError]:
    """Return errors of the conditions of a status."""
    errors = []
    types: list[str] = []
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}]"
        type_, status = condition.get("type", ""), condition.get("status", "")
        if not type_:
            errors.append(field.required(f"{path}.type"))
        allowed = ("True",) if type_ in (APPROVED, DENIED, FAILED) else ("False", "True", "Unknown")
        if not status:
            errors.append(field.required(f"{path}.status"))
        else:
            errors += field.one_of(f"{path}.status", status, allowed)
        if {APPROVED: DENIED, DENIED: APPROVED}.get(type_) in types:
            why = "Approved and Denied conditions are mutually exclusive"
            errors.append(field.invalid("status.conditions", type_, why))
        if type_ in types:
            errors.append(field.duplicate(f"{path}.type", type_))
        types.append(type_)
    return errors


def validate_status_update(obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
    """Return errors of a change of the status by this subresource."""
    errors = []
    path = "status.conditions"
    for type_ in (APPROVED, DENIED, FAILED):
        new, before = conditions_of(obj, type_), conditions_of(old, type_)
        shown = f'a condition of type "{type_}"'
        if len(new) < len(before):
            errors.append(field.forbidden(path, f"updates may not remove {shown}"))
        elif type_ != FAILED and subresource != "approval":
            if len(new) > len(before):
                errors.append(field.forbidden(path, f"updates may not add {shown}"))
            elif new != before:
                errors.append(field.forbidden(path, f"updates may not modify {shown}"))
    certificate, had = at(obj, "status", "certificate") or "", at(old, "status", "certificate") or ""
    if certificate != had:
        if subresource != "status":
            errors.append(field.forbidden("status.certificate", "updates may not set certificate content"))
        elif had:
            errors.append(field.forbidden("status.certificate", "updates may not modify existing certificate content"))
        if certificate and (why := check_certificates(certificate)):
            errors.append(field.invalid("status.certificate", "<certificate data>", why))
    return errors


def conditions_of(obj: JsonObject, type_: str = "") -> list[JsonObject]:
    """Return the conditions of a request, all or those of one type."""
    conditions: list[JsonObject] = at(obj, "status", "conditions") or []
    return [one for one in conditions if not type_ or one.get("type") == type_]
