"""The lab's certificate authority, the certificates that it signs, and the kubeconfigs that contain them.

Everything is made once per state directory. Names follow Kubernetes' "PKI certificates and requirements".
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .addressing import api_urls
from .errors import LabError
from .kubeconfigs import keep_users_own, make_kubeconfig
from .plan import CLUSTER_DOMAIN, LabConfig, LabFiles, plan_nodes, plan_servers

_LIFETIME = timedelta(days=3650)


@dataclass(frozen=True)
class _Identity:
    """A certificate to sign: its subject and the addresses that it is valid for."""

    file: str
    common_name: str
    organization: str = ""
    serves: Sequence[str] = ()


class _Authority:
    """A CA whose key is read from, or created in, the files `file`.key and `file`.crt of a directory."""

    def __init__(self, directory: Path, file: str, common_name: str) -> None:
        self._directory = directory
        key_file, certificate_file = directory / f"{file}.key", directory / f"{file}.crt"
        if certificate_file.exists():
            if not key_file.exists():
                raise ValueError(f"{key_file.name} is missing")
            self._certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
            key = serialization.load_pem_private_key(key_file.read_bytes(), None)
            if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != self._certificate.public_key():
                raise ValueError(f"{key_file.name} is not the key of {certificate_file.name}")
            self._key = key
            return
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        self._certificate = (
            _builder(name, name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        _write_private(key_file, _pem(self._key))
        certificate_file.write_bytes(self.pem)

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, identity: _Identity) -> tuple[bytes, bytes]:
        """Return the certificate and key of `identity` in PEM; create them if they are missing or of another CA."""
        certificate_file = self._directory / f"{identity.file}.crt"
        key_file = self._directory / f"{identity.file}.key"
        if self._is_usable(identity, certificate_file, key_file):
            return certificate_file.read_bytes(), key_file.read_bytes()
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, identity.common_name)]
        if identity.organization:
            attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, identity.organization))
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(x509.Name(attributes), self._certificate.subject, key.public_key())
        if identity.serves:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(name) for name in identity.serves]), critical=False
            )
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        _write_private(key_file, _pem(key))
        certificate_file.write_bytes(pem)
        return pem, _pem(key)

    def _is_usable(self, identity: _Identity, certificate_file: Path, key_file: Path) -> bool:
        """Return whether there is a certificate of this CA with its key, for all that the identity serves."""
        try:
            certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
            key = serialization.load_pem_private_key(key_file.read_bytes(), None)
            certificate.verify_directly_issued_by(self._certificate)
        except (FileNotFoundError, ValueError, InvalidSignature):
            return False
        return key.public_key() == certificate.public_key() and _names(certificate) >= set(
            map(_general_name, identity.serves)
        )


def make_certificates(config: LabConfig, files: LabFiles) -> None:
    """Create the missing keys, certificates and kubeconfigs of the lab. Raises `LabError`, OSError."""
    try:
        _make_all(config, files)
    except ValueError as error:
        raise LabError(f"cannot use the keys in {files.pki} ({error}); remove it, `up` makes new ones") from error


def _make_all(config: LabConfig, files: LabFiles) -> None:
    files.pki.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = _Authority(files.pki, "ca", "bridgehead-ca")
    # A CA of its own: whoever has a certificate of the cluster's CA could name any user to an aggregated API otherwise.
    front_proxy = _Authority(files.pki, "front-proxy-ca", "bridgehead-front-proxy-ca")
    front_proxy.issue(_Identity("front-proxy-client", "front-proxy-client"))
    # A CA of its own also signs CertificateSigningRequests, because its key is in the lab. It may name any user to this
    # lab's API server, but no server's certificate of it is trusted by kubeconfigs.
    signer = _Authority(files.pki, "signer-ca", "bridgehead-signer-ca")
    (files.pki / "client-ca.crt").write_bytes(authority.pem + signer.pem)
    service_account_key = files.pki / "sa.key"
    if not service_account_key.exists():
        # ECDSA: an RSA key takes ten times as long to make, and 50 ms whenever the API server or a controller reads it.
        _write_private(service_account_key, _pem(ec.generate_private_key(ec.SECP256R1())))
    addresses = [address for server in plan_servers(config) for address in server.addresses]
    service_names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    authority.issue(
        _Identity(
            "apiserver",
            "kube-apiserver",
            serves=[
                "localhost",
                *service_names,
                f"kubernetes.default.svc.{CLUSTER_DOMAIN}",
                "127.0.0.1",
                *addresses,
                config.ranges[0].kubernetes_service,
            ],
        )
    )
    authority.issue(_Identity("apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters"))

    if config.store == "etcd":
        _make_etcd_certificates(files, addresses)

    inside, *others = api_urls(config.ranges, config.api_servers)
    servers = [inside, *others] if others else []
    context = config.context
    admin = authority.issue(_Identity("admin", "kubernetes-admin", "system:masters"))
    ca = authority.pem
    outside = make_kubeconfig(f"https://127.0.0.1:{config.port}", context, ca, admin)
    before = files.kubeconfig.read_bytes() if files.kubeconfig.exists() else b""
    _write_kubeconfig(files.kubeconfig, keep_users_own(outside, before))
    _write_kubeconfig(files.inside_kubeconfig, make_kubeconfig(inside, context, ca, admin, servers))
    controllers = authority.issue(_Identity("controllers", "system:kube-controller-manager"))
    _write_parts_kubeconfig(
        files.part_kubeconfig("controllers"), make_kubeconfig(inside, context, ca, controllers, servers)
    )
    if config.publish:
        # The user of service proxies, who may list and watch Services and nodes.
        forwarder = authority.issue(_Identity("forwarder", "system:kube-proxy"))
        _write_parts_kubeconfig(
            files.part_kubeconfig("forwarder"), make_kubeconfig(inside, context, ca, forwarder, servers)
        )
    for node in plan_nodes(config):
        serves = [node.name, *node.addresses, "127.0.0.1"]
        credentials = authority.issue(_Identity(node.name, f"system:node:{node.name}", "system:nodes", serves))
        _write_parts_kubeconfig(
            files.part_kubeconfig(node.name), make_kubeconfig(inside, context, ca, credentials, servers)
        )


def _make_etcd_certificates(files: LabFiles, addresses: Sequence[str]) -> None:
    """Create those of etcd, under the names of kubeadm, with a CA of its own: other clients of the cluster's CA have no
    access to the store. All members have the same."""
    authority = _Authority(files.pki, "etcd-ca", "bridgehead-etcd-ca")
    for name in ("etcd-server", "etcd-peer"):
        authority.issue(_Identity(name, name, serves=["localhost", "127.0.0.1", *addresses]))
    authority.issue(_Identity("apiserver-etcd-client", "kube-apiserver-etcd-client"))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # tolerates clock skew
        .not_valid_after(now + _LIFETIME)
    )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names(certificate: x509.Certificate) -> set[x509.GeneralName]:
    """Return the names and addresses that a certificate is valid for."""
    try:
        return set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return set()


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_private(path: Path, data: bytes) -> None:
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)


def _write_kubeconfig(path: Path, kubeconfig: dict[str, Any]) -> None:
    _write_private(path, msgspec.yaml.encode(kubeconfig))


def _write_parts_kubeconfig(path: Path, kubeconfig: dict[str, Any]) -> None:
    """Write a kubeconfig as JSON, which a part reads without the code for YAML: 0.7 MiB less for each part."""
    _write_private(path, msgspec.json.format(msgspec.json.encode(kubeconfig)))
