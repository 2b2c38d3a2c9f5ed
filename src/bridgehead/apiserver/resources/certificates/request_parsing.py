"""Parsing of requests for certificates and of certificates, which are PEM in base64.

`cryptography.x509` is imported for the first one. Pure: no I/O, no clock, no randomness.
Source: Kubernetes pkg/apis/certificates/helpers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridgehead.apiserver.resources.shared.pem import blocks_of

if TYPE_CHECKING:
    from cryptography.x509 import CertificateSigningRequest


def parse_request(data: str) -> CertificateSigningRequest:
    """Return the request. Raises ValueError with the reason, also for a wrong signature."""
    from cryptography import x509

    blocks = blocks_of(data)
    if not blocks or blocks[0][0] != "CERTIFICATE REQUEST":
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_pem_x509_csr(blocks[0][2])
        is_signed = request.is_signature_valid
    except Exception as error:  # the library raises errors of many kinds for malformed requests and unknown algorithms
        raise ValueError(f"x509: {error}") from error
    if not is_signed:
        raise ValueError("x509: the signature of the request is invalid")
    return request


def organizations_of(data: str) -> list[str]:
    """Return the organizations of the subject of a valid request."""
    from cryptography.x509.oid import NameOID

    attributes = parse_request(data).subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return [str(attribute.value) for attribute in attributes]


def common_name_of(data: str) -> str:
    """Return the common name of the subject of a request. Raises ValueError."""
    from cryptography.x509.oid import NameOID

    return "".join(
        str(one.value) for one in parse_request(data).subject.get_attributes_for_oid(NameOID.COMMON_NAME)[-1:]
    )


def check_certificates(data: str) -> str:
    """Return the reason why `data` is not a list of certificates, or ""."""
    from cryptography import x509

    blocks = blocks_of(data)
    for kind, has_headers, text in blocks:
        if kind != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{kind}"'
        if has_headers:
            return "no PEM block headers are permitted"
        try:
            x509.load_pem_x509_certificate(text)
        except ValueError as error:
            return f"x509: {error}"
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"
