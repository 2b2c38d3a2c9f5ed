"""Validation of the client configuration of webhooks: URL, Service, certificate authorities.

Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/util/webhook/validation.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import urlsplit

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.objects.names import check_dns1123_subdomain, check_port_number

from . import field

_FORM = "; desired format: https://host[/path]"
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


def validate_client_config(path: str, config: JsonObject) -> list[FieldError]:
    """Validate the `clientConfig` of an admission webhook, which has default values."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [field.required(path, "exactly one of url or service is required")]
    if url is not None:
        return validate_webhook_url(f"{path}.url", url)
    return validate_webhook_service(f"{path}.service", service or {})


def validate_webhook_url(path: str, url: str) -> list[FieldError]:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return [field.required(path, f"url must be a valid URL: {error}{_FORM}")]
    errors = []
    if parts.scheme != "https":
        errors.append(field.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        errors.append(field.invalid(path, host, f"host must be specified{_FORM}"))
    if at:
        errors.append(field.invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(field.invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(field.invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def validate_webhook_service(path: str, service: JsonObject) -> list[FieldError]:
    errors = []
    # As in Kubernetes, which mixes up two arguments: a missing name is reported at `namespace`, and the reverse.
    if not service.get("namespace"):
        errors.append(field.required(f"{path}.name"))
    if not service.get("name"):
        errors.append(field.required(f"{path}.namespace"))
    port = service.get("port", 443)
    if reasons := check_port_number(port):
        errors.append(field.invalid(f"{path}.port", port, f"port is not valid: {', '.join(reasons)}"))
    return errors + _validate_path(f"{path}.path", service.get("path") or "/")


def _validate_path(path: str, value: str) -> list[FieldError]:
    if value == "/":
        return []
    if value == "//":
        return [field.invalid(path, value, "segment[0] may not be empty")]
    errors = []
    if not value.startswith("/"):
        errors.append(field.invalid(path, value, "must start with a '/'"))
    for index, step in enumerate(value[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(field.invalid(path, value, f"segment[{index}] may not be empty"))
            continue
        reasons = check_dns1123_subdomain(step)
        errors += [field.invalid(path, value, f"segment[{index}]: {reason}") for reason in reasons]
    return errors


def validate_ca_bundle(path: str, bundle: str) -> list[FieldError]:
    """Validate a bundle of certificates: PEM in base64."""
    try:
        pem = base64.b64decode(bundle)
    except binascii.Error:
        pem = b""
    blocks = _PEM.findall(pem)
    if not blocks:
        why = "unable to load root certificates: unable to parse bytes as PEM block"
        return [field.invalid(path, bundle, why)]
    from cryptography import x509  # loaded on demand: few definitions have a bundle

    for block in blocks:
        try:
            x509.load_pem_x509_certificate(block)
        except ValueError as error:
            return [field.invalid(path, bundle, f"unable to load root certificates: {error}")]
    return []
