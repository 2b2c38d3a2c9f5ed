"""etcd's texts are those of its api/v3rpc/rpctypes/error.go, gRPC's those of grpcio 1.85."""

import pytest

from bridgehead.storage.etcd.client import errors
from bridgehead.storage.etcd.client.failures import (
    CallFailed,
    certificate_problem,
    error_of,
    is_disabled_authentication,
    is_stale_token,
    is_surely_not_done,
)

URL = "http://10.0.0.1:2379"
REFUSED = (
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:2379: Failed to connect to remote host: "
    "connect: Connection refused (111)"
)


@pytest.mark.parametrize(
    ("code", "details", "error", "advice"),
    [
        ("OUT_OF_RANGE", "etcdserver: mvcc: required revision has been compacted", errors.Compacted, "newest state"),
        ("OUT_OF_RANGE", "etcdserver: mvcc: required revision is a future revision", errors.FutureRevision, "backup"),
        ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded", errors.NoSpace, "etcdctl alarm disarm"),
        ("RESOURCE_EXHAUSTED", "etcdserver: too many requests", errors.Overloaded, "later"),
        ("INVALID_ARGUMENT", "etcdserver: request is too large", errors.TooLarge, "--max-request-bytes"),
        (
            "RESOURCE_EXHAUSTED",
            "grpc: received message larger than max (8 vs. 4)",
            errors.AnswerTooLarge,
            "ask for fewer",
        ),
        ("UNAVAILABLE", "etcdserver: no leader", errors.NoLeader, "quorum"),
        ("UNAVAILABLE", "etcdserver: leader changed", errors.LeaderChanged, "try again"),
        ("UNAVAILABLE", "etcdserver: rpc not supported for learner", errors.UnusableMember, "promote"),
        ("UNAVAILABLE", "etcdserver: request timed out", errors.Unavailable, "request timed out"),
        ("DATA_LOSS", "etcdserver: corrupt cluster", errors.Corrupt, "snapshot"),
        ("NOT_FOUND", "etcdserver: requested lease not found", errors.LeaseNotFound, "expired"),
        ("PERMISSION_DENIED", "etcdserver: permission denied", errors.PermissionDenied, "grant"),
        (
            "INVALID_ARGUMENT",
            "etcdserver: authentication failed, invalid user ID or password",
            errors.InvalidCredentials,
            "password",
        ),
        ("INVALID_ARGUMENT", "etcdserver: user name is empty", errors.InvalidCredentials, "give a user"),
        ("UNAUTHENTICATED", "denied by a proxy", errors.InvalidCredentials, "check user"),
        ("INVALID_ARGUMENT", "etcdserver: duplicate key given in txn request", errors.Refused, "duplicate key"),
        ("FAILED_PRECONDITION", "", errors.Refused, "FAILED_PRECONDITION"),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", errors.Unavailable, "did not answer in time"),
        ("UNAVAILABLE", REFUSED, errors.Unavailable, "Connection refused"),
        ("UNAVAILABLE", "Socket closed", errors.Unavailable, "Socket closed"),
        ("UNAVAILABLE", "Failed parsing HTTP/2", errors.NotEtcd, "no etcd"),
        ("UNIMPLEMENTED", "unknown service etcdserverpb.Maintenance", errors.NotEtcd, "check the address"),
        ("UNAVAILABLE", "SSL_ERROR_SSL: WRONG_VERSION_NUMBER", errors.NotEtcd, "does not speak TLS"),
        ("UNAVAILABLE", "CERTIFICATE_VERIFY_FAILED: certificate has expired", errors.CertificateProblem, "renew"),
    ],
)
def test_each_failure_has_its_error_with_endpoint_and_advice(code, details, error, advice):
    found = error_of(code, details, URL)
    assert type(found) is error
    text = str(found)
    assert URL in text
    assert advice in text
    assert "\n" not in text


def test_the_text_of_a_failed_connection_is_its_cause():
    cause = "Failed to connect to remote host: connect: Connection refused (111)"
    assert str(error_of("UNAVAILABLE", REFUSED, URL)) == f"etcd at {URL} is not reachable: {cause}"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required", "wants a client certificate"),
        ("[SSL: SSLV3_ALERT_BAD_CERTIFICATE] sslv3 alert bad certificate", "refused the client's certificate"),
        ("Hostname Verification Check failed.", "another name"),
        ("unable to get local issuer certificate", "unknown authority"),
    ],
)
def test_texts_of_tls_libraries(text, meaning):
    problem = certificate_problem(text, URL)
    assert problem is not None
    assert meaning in str(problem)


def test_other_texts_are_no_certificate_problem():
    assert certificate_problem("Connection reset by peer", URL) is None


@pytest.mark.parametrize(
    ("code", "details", "is_surely"),
    [
        ("UNAVAILABLE", REFUSED, True),
        ("RESOURCE_EXHAUSTED", "etcdserver: too many requests", True),
        ("UNAVAILABLE", "etcdserver: rpc not supported for learner", True),
        ("UNAVAILABLE", "Socket closed", False),
        ("UNAVAILABLE", "etcdserver: request timed out", False),
        ("UNAVAILABLE", "etcdserver: leader changed", False),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", False),
        ("CANCELLED", "the member does not answer", False),
    ],
)
def test_which_writes_may_be_sent_again(code, details, is_surely):
    assert is_surely_not_done(CallFailed(details, error_of(code, details, URL))) is is_surely


def test_tokens():
    assert is_stale_token("etcdserver: invalid auth token")
    assert not is_stale_token("etcdserver: permission denied")
    assert is_disabled_authentication("etcdserver: authentication is not enabled")
    assert not is_disabled_authentication("etcdserver: permission denied")
