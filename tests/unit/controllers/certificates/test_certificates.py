# ruff: noqa: E501
"""Requests that the built-in signers sign, the certificates that they make, and the deletion of requests."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bridgehead.controllers.certificates import recognition
from bridgehead.controllers.certificates.cleaning import deletion_time
from bridgehead.controllers.certificates.signing_policy import BACKDATE, Authority, validity
from bridgehead.objects.certificates import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from bridgehead.objects.meta import ObjectMeta
from bridgehead.objects.times import parse_time

NOW = datetime(2026, 11, 23, 6, tzinfo=UTC)
YEAR = timedelta(days=365)
DNS, IP = x509.DNSName("node1"), x509.IPAddress(ipaddress.ip_address("10.0.0.1"))
EMAIL, URI = x509.RFC822Name("a@example.com"), x509.UniformResourceIdentifier("https://example.com")
SIGNATURE, ENCIPHERMENT, CLIENT, SERVER = "digital signature", "key encipherment", "client auth", "server auth"
PEM, PKCS8, PLAIN = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
KEY = ec.generate_private_key(ec.SECP256R1())


def make_request(common_name: str, *organizations: str, names: tuple[x509.GeneralName, ...] = ()):
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, hashes.SHA256())


NODE = ("system:node:node1", "system:nodes")
NOT_NODES = "subject organization is not system:nodes"
NO_NODE_NAME = "subject common name does not begin with system:node:"


@pytest.mark.parametrize(
    ("signer", "subject", "names", "usages", "expected"),
    [
        (recognition.CLIENT, ("a",), (), (CLIENT, SIGNATURE, ENCIPHERMENT), ""),
        (recognition.CLIENT, ("a",), (), (SIGNATURE,), "missing required usage for client certificate: client auth"),
        (recognition.CLIENT, ("a",), (), (CLIENT, SERVER), "invalid usage for client certificate: server auth"),
        (recognition.LEGACY_UNKNOWN, ("a",), (EMAIL,), ("any",), ""),
        (recognition.KUBELET_CLIENT, NODE, (), (CLIENT, SIGNATURE), ""),
        (recognition.KUBELET_CLIENT, NODE, (), (CLIENT, SIGNATURE, ENCIPHERMENT), ""),
        (recognition.KUBELET_CLIENT, NODE, (), (CLIENT,), "usages did not match [client auth digital signature key encipherment]"),
        (recognition.KUBELET_CLIENT, ("system:node:a", "system:nodes", "b"), (), (CLIENT, SIGNATURE), NOT_NODES),
        (recognition.KUBELET_CLIENT, ("node1", "system:nodes"), (), (CLIENT, SIGNATURE), NO_NODE_NAME),
        (recognition.KUBELET_CLIENT, NODE, (DNS,), (CLIENT, SIGNATURE), "DNS subjectAltNames are not allowed"),
        (recognition.KUBELET_CLIENT, NODE, (EMAIL,), (CLIENT, SIGNATURE), "Email subjectAltNames are not allowed"),
        (recognition.KUBELET_CLIENT, NODE, (IP,), (CLIENT, SIGNATURE), "IP subjectAltNames are not allowed"),
        (recognition.KUBELET_CLIENT, NODE, (URI,), (CLIENT, SIGNATURE), "URI subjectAltNames are not allowed"),
        (recognition.KUBELET_SERVING, NODE, (DNS, IP), (SERVER, SIGNATURE), ""),
        (recognition.KUBELET_SERVING, NODE, (), (SERVER, SIGNATURE), "DNS or IP subjectAltName is required"),
        (recognition.KUBELET_SERVING, NODE, (IP, EMAIL), (SERVER, SIGNATURE), "Email subjectAltNames are not allowed"),
        (recognition.KUBELET_SERVING, NODE, (IP, URI), (SERVER, SIGNATURE), "URI subjectAltNames are not allowed"),
        (recognition.KUBELET_SERVING, ("a",), (IP,), (SERVER, SIGNATURE), NOT_NODES),
        (recognition.KUBELET_SERVING, ("a", "system:nodes"), (IP,), (SERVER, SIGNATURE), NO_NODE_NAME),
        (recognition.KUBELET_SERVING, NODE, (IP,), (CLIENT,), "usages did not match [digital signature key encipherment server auth]"),
    ],
)  # fmt: skip
def test_signers_sign_only_requests_of_their_kind(signer, subject, names, usages, expected):
    assert recognition.refusal(signer, make_request(*subject, names=names), usages) == expected


def make_authority(end: datetime = NOW + 10 * YEAR) -> Authority:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW - 10 * YEAR).not_valid_after(end)
    certificate = builder.sign(KEY, hashes.SHA256()).public_bytes(PEM)
    return Authority(certificate, KEY.private_bytes(PEM, PKCS8, PLAIN), YEAR)


def test_a_certificate_has_what_was_asked_for():
    usages = (SIGNATURE, CLIENT, "s/mime", "email protection", "decipher only")
    pem = make_authority().sign(make_request("alice", "dev", names=(DNS, IP)), usages, 3600, NOW)
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.subject.rfc4514_string() == "CN=alice,O=dev"
    assert certificate.issuer.rfc4514_string() == "CN=ca"
    extensions = certificate.extensions
    assert list(extensions.get_extension_for_class(x509.SubjectAlternativeName).value) == [DNS, IP]
    extended = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.EMAIL_PROTECTION]
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment, usage.key_agreement) == (True, False, False)
    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert certificate.not_valid_after_utc == NOW + timedelta(hours=1)
    plain = x509.load_pem_x509_certificate(make_authority().sign(make_request("b"), (), None, NOW))
    assert len(plain.extensions) == 2


@pytest.mark.parametrize(
    ("seconds", "end"),
    [
        (None, YEAR - BACKDATE),
        (60, timedelta(minutes=10)),
        (3600, timedelta(hours=1)),
        (9 * 3600, timedelta(hours=9) - BACKDATE),
        (10**9, YEAR - BACKDATE),
    ],
)
def test_lifetimes_are_bounded(seconds, end):
    assert validity(seconds, YEAR, NOW) == (NOW - BACKDATE, NOW + end)


def test_no_certificate_outlives_its_authority():
    end = NOW + timedelta(days=1)
    pem = make_authority(end).sign(make_request("a"), (CLIENT,), None, NOW)
    assert x509.load_pem_x509_certificate(pem).not_valid_after_utc == end
    with pytest.raises(ValueError, match="refusing to sign a certificate that expired in the past"):
        make_authority(NOW - timedelta(days=1)).sign(make_request("a"), (CLIENT,), None, NOW)


def test_an_authority_needs_its_own_key():
    pem = make_authority().sign(make_request("a"), (), None, NOW)
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(PEM, PKCS8, PLAIN)
    with pytest.raises(ValueError, match="not the key of the signing certificate"):
        Authority(pem, other, YEAR)
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(PEM, PKCS8, PLAIN)
    with pytest.raises(ValueError, match="neither RSA nor ECDSA"):
        Authority(pem, other, YEAR)


CREATED, UPDATED = "2026-11-23T05:00:00Z", "2026-11-23T06:00:00Z"


@pytest.mark.parametrize(
    ("conditions", "certificate", "hours"),
    [
        ((), "", 24),
        (("Approved",), "", None),
        (("Approved",), "x", 2),
        (("Denied",), "", 2),
        (("Approved", "Failed"), "", 2),
        (("Other",), "", None),
    ],
)
def test_requests_are_deleted_an_hour_after_their_end_or_after_a_day(conditions, certificate, hours):
    made = tuple(CertificateSigningRequestCondition(type=one, last_update_time=UPDATED) for one in conditions)
    request = CertificateSigningRequest(
        metadata=ObjectMeta(name="a", creation_timestamp=CREATED),
        status=CertificateSigningRequestStatus(conditions=made, certificate=certificate),
    )
    expected = None if hours is None else parse_time(CREATED) + hours * 3600
    assert deletion_time(request) == expected
