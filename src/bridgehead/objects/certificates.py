"""CertificateSigningRequest (certificates.k8s.io/v1).

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from .meta import Object, Part


class CertificateSigningRequestSpec(Part, frozen=True, kw_only=True):
    """`request` is a PKCS #10 request in PEM, in base64; the user's fields are set by the API server."""

    request: str = ""
    signer_name: str = ""
    expiration_seconds: int | None = None
    usages: tuple[str, ...] = ()
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class CertificateSigningRequestCondition(Part, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_update_time: str | None = None
    last_transition_time: str | None = None


class CertificateSigningRequestStatus(Part, frozen=True, kw_only=True):
    """`certificate` is one in PEM, in base64; "": not issued yet."""

    conditions: tuple[CertificateSigningRequestCondition, ...] = ()
    certificate: str = ""


class CertificateSigningRequest(Object, frozen=True, kw_only=True):
    spec: CertificateSigningRequestSpec = CertificateSigningRequestSpec()
    status: CertificateSigningRequestStatus = CertificateSigningRequestStatus()

    def has_condition(self, type: str) -> bool:
        """Whether there is a condition of this type; Approved, Denied and Failed are always true."""
        return any(condition.type == type for condition in self.status.conditions)
