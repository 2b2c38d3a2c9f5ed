"""Rules of the built-in signers for the requests that they sign.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes pkg/apis/certificates/helpers.go, pkg/controller/certificates/signer/signer.go.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import CertificateSigningRequest

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY_UNKNOWN = "kubernetes.io/legacy-unknown"
SIGNERS = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN)

_NODE_PREFIX, _NODES = "system:node:", "system:nodes"


def parse(request: str) -> CertificateSigningRequest:
    """Return the request that is PEM in base64. Raises ValueError."""
    from cryptography import x509

    return x509.load_pem_x509_csr(base64.b64decode(request))


def common_name(request: CertificateSigningRequest) -> str:
    from cryptography.x509.oid import NameOID

    return "".join(str(one.value) for one in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[-1:])


def refusal(signer: str, request: CertificateSigningRequest, usages: Iterable[str]) -> str:
    """Return the reason why a signer does not sign a request, or ""."""
    given = frozenset(usages)
    match signer:
        case "kubernetes.io/kube-apiserver-client":
            return _refuse_client(usages)
        case "kubernetes.io/kube-apiserver-client-kubelet":
            return refuse_kubelet_client(request, given)
        case "kubernetes.io/kubelet-serving":
            return _refuse_kubelet_serving(request, given)
    return ""


def _refuse_client(usages: Iterable[str]) -> str:
    has_client_auth = False
    for usage in usages:
        if usage == "client auth":
            has_client_auth = True
        elif usage not in ("digital signature", "key encipherment"):
            return f"invalid usage for client certificate: {usage}"
    return "" if has_client_auth else "missing required usage for client certificate: client auth"


def refuse_kubelet_client(request: CertificateSigningRequest, usages: frozenset[str]) -> str:
    """Return the reason why a request is not one for a kubelet's client certificate, or ""."""
    if _organizations(request) != [_NODES]:
        return "subject organization is not system:nodes"
    names = _alternative_names(request)
    for kind, shown in (("dns", "DNS"), ("email", "Email"), ("ip", "IP"), ("uri", "URI")):
        if kind in names:
            return f"{shown} subjectAltNames are not allowed"
    if not common_name(request).startswith(_NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return _refuse_usages(usages, "client auth")


def _refuse_kubelet_serving(request: CertificateSigningRequest, usages: frozenset[str]) -> str:
    if _organizations(request) != [_NODES]:
        return "subject organization is not system:nodes"
    names = _alternative_names(request)
    if not names & {"dns", "ip"}:
        return "DNS or IP subjectAltName is required"
    for kind, shown in (("email", "Email"), ("uri", "URI")):
        if kind in names:
            return f"{shown} subjectAltNames are not allowed"
    if why := _refuse_usages(usages, "server auth"):
        return why
    if not common_name(request).startswith(_NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return ""


def _refuse_usages(usages: frozenset[str], purpose: str) -> str:
    wanted = {"digital signature", "key encipherment", purpose}
    if usages in (wanted, wanted - {"key encipherment"}):
        return ""
    return f"usages did not match [{' '.join(sorted(wanted))}]"


def _organizations(request: CertificateSigningRequest) -> list[str]:
    from cryptography.x509.oid import NameOID

    return [str(one.value) for one in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def _alternative_names(request: CertificateSigningRequest) -> set[str]:
    """Return the kinds of the request's alternative names: dns, email, ip, uri, other."""
    from cryptography import x509

    kinds: dict[type[x509.GeneralName], str] = {
        x509.DNSName: "dns",
        x509.RFC822Name: "email",
        x509.IPAddress: "ip",
        x509.UniformResourceIdentifier: "uri",
    }
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {kinds.get(type(name), "other") for name in names}
