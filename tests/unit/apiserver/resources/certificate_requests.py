# ruff: noqa: E501
"""Requests for certificates, their refusals, and a certificate."""

from __future__ import annotations

import base64
import datetime
from functools import lru_cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CSR = "certificatesigningrequests.certificates.k8s.io"
PEM = serialization.Encoding.PEM
KEY = ec.generate_private_key(ec.SECP256R1())


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def name_of(common_name: str, *organizations: str) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def builder_of(common_name: str, organizations: tuple[str, ...], names: tuple[Any, ...]) -> Any:
    builder = x509.CertificateSigningRequestBuilder().subject_name(name_of(common_name, *organizations))
    return builder.add_extension(x509.SubjectAlternativeName(names), critical=False) if names else builder


@lru_cache
def make_request(common_name: str, *organizations: str, names: tuple[Any, ...] = ()) -> str:
    """Return a signed request in PEM, in base64."""
    return encoded(builder_of(common_name, organizations, names).sign(KEY, hashes.SHA256()).public_bytes(PEM))


@lru_cache(maxsize=1)
def make_certificate() -> str:
    now = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)
    builder = (
        x509.CertificateBuilder().subject_name(name_of("a")).issuer_name(name_of("a")).public_key(KEY.public_key())
    )
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    return encoded(builder.sign(KEY, hashes.SHA256()).public_bytes(PEM))


def broken_request() -> str:
    """Return a request whose signature is that of another one."""
    pem = base64.b64decode(make_request("alice"))
    der = bytearray(base64.b64decode(b"".join(pem.splitlines()[1:-1])))
    der[-1] ^= 1
    body = base64.encodebytes(bytes(der))
    return encoded(b"-----BEGIN CERTIFICATE REQUEST-----\n" + body + b"-----END CERTIFICATE REQUEST-----\n")


def csr(**spec: Any) -> dict[str, Any]:
    given = {"request": make_request("alice"), "signerName": "example.com/signer", "usages": ["client auth"], **spec}
    return {"spec": {key: value for key, value in given.items() if value is not None}}


PATH = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
REFUSALS = {
    CSR: [
        (csr(), []),
        (csr(expirationSeconds=600, usages=["digital signature", "server auth"]), []),
        (csr(signerName="kubernetes.io/kube-apiserver-client"), []),
        (csr(request=encoded(b"text"), usages=None, signerName=None), [
            f'spec.request: Invalid value: "{encoded(b"text")}": PEM block type must be CERTIFICATE REQUEST',
            "spec.usages: Required value", "spec.signerName: Required value"]),
        (csr(request=make_certificate()), [
            f'spec.request: Invalid value: "{make_certificate()}": PEM block type must be CERTIFICATE REQUEST']),
        (csr(request=broken_request()), [
            f'spec.request: Invalid value: "{broken_request()}": x509: the signature of the request is invalid']),
        (csr(usages=["signing", "signing"]), ['spec.usages[1]: Duplicate value: "signing"']),
        (csr(expirationSeconds=599), [
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)"]),
        (csr(signerName="kubernetes.io/legacy-unknown"), [
            'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this '
            "API version"]),
        (csr(signerName="example.com"), [f'spec.signerName: Invalid value: "example.com": {PATH}']),
        (csr(signerName="example/a"), [
            'spec.signerName: Invalid value: "example": should be a domain with at least two segments separated by dots']),
    ],
}  # fmt: skip
UPDATES = [(CSR, csr(), csr(request="", usages=[], signerName="x"), [])]
