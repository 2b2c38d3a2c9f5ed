"""Errors of gRPC calls as errors of this client.

Pure: no I/O, no clock, no randomness. Source of etcd's texts and codes: its api/v3rpc/rpctypes/error.go.
"""

from __future__ import annotations

import re

from .errors import (
    AnswerTooLarge,
    CertificateProblem,
    Compacted,
    Corrupt,
    EtcdError,
    FutureRevision,
    InvalidCredentials,
    LeaderChanged,
    LeaseNotFound,
    NoLeader,
    NoSpace,
    NotEtcd,
    Overloaded,
    PermissionDenied,
    Refused,
    TooLarge,
    Unavailable,
    UnusableMember,
)

# (part of etcd's text, error, what to do). The first that fits counts.
_ANSWERS: tuple[tuple[str, type[EtcdError], str], ...] = (
    ("required revision has been compacted", Compacted, "read the newest state instead"),
    ("required revision is a future revision", FutureRevision, "etcd may have been restored from a backup"),
    (
        "database space exceeded",
        NoSpace,
        "compact and defragment it, then run 'etcdctl alarm disarm', or raise --quota-backend-bytes",
    ),
    ("request is too large", TooLarge, "raise etcd's --max-request-bytes, or store a smaller object"),
    ("trying to send message larger than max", TooLarge, "raise etcd's --max-request-bytes, or store a smaller object"),
    ("received message larger than max", AnswerTooLarge, "ask for fewer keys at once"),
    ("too many requests", Overloaded, "try again later"),
    ("etcdserver: leader changed", LeaderChanged, "try again"),
    ("no leader", NoLeader, "its quorum is lost or the member is cut off: look at 'etcdctl endpoint status'"),
    ("rpc not supported for learner", UnusableMember, "promote the learner, or leave it out of the endpoints"),
    ("not capable", UnusableMember, "wait until all members have the same version"),
    ("corrupt cluster", Corrupt, "restore the corrupt member from a snapshot, then run 'etcdctl alarm disarm'"),
    ("requested lease not found", LeaseNotFound, "it has expired or was revoked"),
    ("permission denied", PermissionDenied, "grant the user's role read and write access to the prefix"),
    ("authentication failed", InvalidCredentials, "check user and password"),
    ("user name is empty", InvalidCredentials, "authentication is enabled: give a user and password"),
    ("user name not found", InvalidCredentials, "create the user, or check its name"),
    ("authentication is not enabled", InvalidCredentials, "leave out user and password, or enable authentication"),
    ("invalid auth token", InvalidCredentials, "check user and password"),
    ("revision of auth store is old", InvalidCredentials, "users or roles are being changed; try again"),
    ("revision in header is old", InvalidCredentials, "users or roles are being changed; try again"),
)
# The last is the answer to a request without a token, after authentication was enabled.
_STALE_TOKEN = (
    "invalid auth token",
    "revision of auth store is old",
    "revision in header is old",
    "user name is empty",
)
# Parts of texts of BoringSSL and gRPC in lower case, and what they mean for the operator.
_CERTIFICATES = (
    ("certificate has expired", "the server's certificate has expired; renew it"),
    ("certificate_expired", "the server refused the client's certificate, which has expired; renew it"),
    ("not yet valid", "the server's certificate is not valid yet; check both clocks"),
    (
        "hostname verification",
        "the server's certificate is for another name; use a name or an address that it contains",
    ),
    ("unable to get local issuer", "the server's certificate is of an unknown authority; check the CA file"),
    ("self signed", "the server's certificate is of an unknown authority; check the CA file"),
    ("self-signed", "the server's certificate is of an unknown authority; check the CA file"),
    ("certificate signature failure", "the server's certificate is of an unknown authority; check the CA file"),
    ("certificate_required", "the server wants a client certificate; give certificate and key file"),
    ("bad_certificate", "the server refused the client's certificate; check that its CA is the one that etcd trusts"),
    ("unknown_ca", "the server refused the client's certificate, whose authority it does not know"),
    ("unknown_certificate", "the server refused the client's certificate"),
    ("certificate_verify_failed", "the server's certificate cannot be verified; check the CA file"),
)
_NOT_SENT = ("failed to connect", "connections to all backends failing", "dns resolution failed", "name resolution")


# etcd's own text for a read whose leader has gone.
LEADER_CHANGED = "etcdserver: leader changed"


class CallFailed(Exception):
    """A failed call: the text of etcd or gRPC, and the error that it means."""

    def __init__(self, details: str, error: EtcdError) -> None:
        super().__init__(str(error))
        self.details, self.error = details, error


def error_of(code: str, details: str, endpoint: str) -> EtcdError:
    """Return the error for a failed call. `code` is gRPC's, such as UNAVAILABLE; `details` comes from etcd or gRPC."""
    text = " ".join(details.split())
    lowered = text.lower()
    for part, kind, advice in _ANSWERS:
        if part in lowered:
            return kind(f"etcd at {endpoint}: {text.removeprefix('etcdserver: ')}; {advice}")
    if is_from_etcd(details):
        kind = Unavailable if code == "UNAVAILABLE" else Refused
        return kind(f"etcd at {endpoint}: {text.removeprefix('etcdserver: ')}")
    return _transport_error(code, text, endpoint)


def _transport_error(code: str, text: str, endpoint: str) -> EtcdError:
    lowered = text.lower()
    if (problem := certificate_problem(text, endpoint)) is not None:
        return problem
    if "wrong_version_number" in lowered:
        return NotEtcd(f"the server at {endpoint} does not speak TLS; use http://, or etcd's port for clients")
    if is_foreign_answer(code, lowered):
        return NotEtcd(f"the server at {endpoint} is no etcd: {text or code}; check the address and the port")
    if code == "DEADLINE_EXCEEDED":
        return Unavailable(f"etcd at {endpoint} did not answer in time")
    if code == "UNAUTHENTICATED":
        return InvalidCredentials(f"etcd at {endpoint}: {text}; check user and password")
    if code in ("UNAVAILABLE", "CANCELLED", "INTERNAL", "UNKNOWN"):
        return Unavailable(f"etcd at {endpoint} is not reachable: {_last_cause(text)}")
    return Refused(f"etcd at {endpoint}: {text or code}")


def certificate_problem(text: str, endpoint: str) -> CertificateProblem | None:
    """Return the error for a text of BoringSSL, OpenSSL or gRPC about a certificate, None for other text."""
    lowered = text.lower().replace(" ", "_")
    for part, meaning in _CERTIFICATES:
        if part.replace(" ", "_") in lowered:
            return CertificateProblem(f"no TLS connection to etcd at {endpoint}: {meaning}")
    return None


def _last_cause(text: str) -> str:
    """Shorten gRPC's text of a failed connection to its cause; it begins with codes and the address."""
    cause = text.rpartition("last error: ")[2]
    cause = re.sub(r"^[A-Z]+: ", "", cause)
    return re.sub(r"^ipv[46]:\S+: ", "", cause)


def is_from_etcd(details: str) -> bool:
    """Whether etcd itself wrote the text of an error."""
    return details.startswith(("etcdserver:", "auth:", "lease:", "mvcc:"))


def is_foreign_answer(code: str, lowered: str) -> bool:
    """Whether a server answered in a form that no etcd uses."""
    return code == "UNIMPLEMENTED" or any(
        part in lowered
        for part in (
            "received http2 header with status",
            "failed parsing http/2",
            "trying to connect an http1.x server",
            "deserializ",
            "settings frame",
        )
    )


def is_surely_not_done(failure: CallFailed) -> bool:
    """Whether a write that failed can be sent again.

    It can if gRPC had no connection, or if the member refused it before it proposed it to the others.
    """
    lowered = failure.details.lower()
    return isinstance(failure.error, (Overloaded, UnusableMember)) or any(part in lowered for part in _NOT_SENT)


def is_stale_token(details: str) -> bool:
    """Whether a new token may help."""
    return any(part in details for part in _STALE_TOKEN)


def is_disabled_authentication(details: str) -> bool:
    """Whether etcd refused user and password because it asks for none."""
    return "authentication is not enabled" in details
