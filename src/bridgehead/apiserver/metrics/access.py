"""Authentication and authorization as metrics.

Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/endpoints/filters/metrics.go,
apiserver/pkg/authentication/request/x509/x509.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from bridgehead.exposition.numbers import Histograms, Labels, counter_family

# Names of users are unbounded, so the metric has those of the control plane only, as in Kubernetes.
_SHOWN_USERS = frozenset({"admin", "apiserver", "kube-apiserver"})
_SECONDS = tuple(0.001 * 2**power for power in range(15))
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_EXPIRATION = (
    *(0.0, 30 * _MINUTE, _HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 4 * _DAY, 7 * _DAY, 30 * _DAY, 90 * _DAY, 180 * _DAY, 365 * _DAY),
)

SUCCESS, FAILURE = "success", "failure"
ALLOWED, DENIED = "allowed", "denied"


class AccessMetrics(Collector):
    """Attempts to authenticate and authorize requests, and the lifetime that certificates of clients have left."""

    def __init__(self) -> None:
        self._authentications: dict[Labels, float] = {}
        self._users: dict[Labels, float] = {}
        self._authorizations: dict[Labels, float] = {}
        self._authentication_seconds = Histograms(
            "authentication_duration_seconds", "Authentication duration in seconds.", ["result"], _SECONDS
        )
        self._authorization_seconds = Histograms(
            "authorization_duration_seconds", "Authorization duration in seconds.", ["result"], _SECONDS
        )
        self._expiration = Histograms(
            "apiserver_client_certificate_expiration_seconds",
            "Remaining lifetime of the certificates by which requests are authenticated.",
            [],
            _EXPIRATION,
        )
        self._expiration.of(())

    def record_authentication(self, result: str, seconds: float, user: str) -> None:
        """Count an attempt. `user` is "" without success."""
        labels = (result,)
        self._authentications[labels] = self._authentications.get(labels, 0) + 1
        self._authentication_seconds.of(labels).observe(seconds)
        if user:
            shown = (user if user in _SHOWN_USERS else "other",)
            self._users[shown] = self._users.get(shown, 0) + 1

    def record_authorization(self, result: str, seconds: float) -> None:
        labels = (result,)
        self._authorizations[labels] = self._authorizations.get(labels, 0) + 1
        self._authorization_seconds.of(labels).observe(seconds)

    def record_certificate(self, remaining: float) -> None:
        """Record a request with a certificate that is valid for `remaining` seconds."""
        self._expiration.of(()).observe(remaining)

    def collect(self) -> Iterator[Metric]:
        yield counter_family("authentication_attempts", "Authentication attempts.", ["result"], self._authentications)
        yield self._authentication_seconds.family()
        yield counter_family(
            "authenticated_user_requests", "Authenticated requests by user.", ["username"], self._users
        )
        yield counter_family(
            "authorization_attempts_total", "Authorization attempts.", ["result"], self._authorizations
        )
        yield self._authorization_seconds.family()
        yield self._expiration.family()
