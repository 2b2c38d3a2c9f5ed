"""Validation of the client configuration of webhooks: URL, Service, certificate authorities.

Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/util/webhook/validation.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import urlsplit

from bridgehead.apiserver.field import Field
from bridgehead.objects.names import check_dns1123_subdomain, check_port_number

_FORM = "; desired format: https://host[/path]"
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


def validate_client_config(config: Field) -> None:
    """Validate the `clientConfig` of an admission webhook, which has default values."""
    url, service = config.at("url"), config.at("service")
    if (url.value is None) == (service.value is None):
        config.required("exactly one of url or service is required")
    elif url.value is not None:
        validate_webhook_url(url)
    else:
        validate_webhook_service(service)


def validate_webhook_url(url: Field) -> None:
    try:
        parts = urlsplit(url.value)
        _ = parts.port
    except ValueError as error:
        url.required(f"url must be a valid URL: {error}{_FORM}")
        return
    if parts.scheme != "https":
        url.showing(parts.scheme).invalid(f"'https' is the only allowed URL scheme{_FORM}")
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        url.showing(host).invalid(f"host must be specified{_FORM}")
    if at:
        url.showing(user).invalid("user information is not permitted in the URL")
    if parts.fragment:
        url.showing(parts.fragment).invalid("fragments are not permitted in the URL")
    if parts.query:
        url.showing(parts.query).invalid("query parameters are not permitted in the URL")


def validate_webhook_service(service: Field) -> None:
    # As in Kubernetes, which mixes up two arguments: a missing name is reported at `namespace`, and the reverse.
    if not service.get("namespace"):
        service.at("name").required()
    if not service.get("name"):
        service.at("namespace").required()
    port = service.at("port", 443)
    if reasons := check_port_number(port.value):
        port.invalid(f"port is not valid: {', '.join(reasons)}")
    service.if_set("path").must_pass(_check_path)


def _check_path(path: str) -> list[str]:
    """Return the reasons why the path of a URL is invalid."""
    if path == "/":
        return []
    if path == "//":
        return ["segment[0] may not be empty"]
    reasons = [] if path.startswith("/") else ["must start with a '/'"]
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        found = check_dns1123_subdomain(step) if step else ["may not be empty"]
        reasons += [f"segment[{index}]{':' if step else ''} {reason}" for reason in found]
    return reasons


def validate_ca_bundle(bundle: Field) -> None:
    """Validate a bundle of certificates: PEM in base64."""
    try:
        pem = base64.b64decode(bundle.value)
    except binascii.Error:
        pem = b""
    blocks = _PEM.findall(pem)
    if not blocks:
        bundle.invalid("unable to load root certificates: unable to parse bytes as PEM block")
        return
    from cryptography import x509  # loaded on demand: few definitions have a bundle

    for block in blocks:
        try:
            x509.load_pem_x509_certificate(block)
        except ValueError as error:
            bundle.invalid(f"unable to load root certificates: {error}")
            return
