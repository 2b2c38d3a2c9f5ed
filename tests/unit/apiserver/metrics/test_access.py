"""Metrics of authentication and authorization."""

from __future__ import annotations

from bridgehead.apiserver.metrics.access import ALLOWED, FAILURE, SUCCESS, AccessMetrics
from bridgehead.exposition.formats import render


def test_attempts_are_counted_by_their_result():
    metrics = AccessMetrics()
    metrics.record_authentication(SUCCESS, 0.003, "system:node:a")
    metrics.record_authentication(SUCCESS, 0.003, "admin")
    metrics.record_authentication(FAILURE, 0.003, "")
    metrics.record_authorization(ALLOWED, 0.0001)
    metrics.record_certificate(7200.0)
    lines = set(render(metrics)[0].decode().splitlines())
    assert {
        'authentication_attempts{result="success"} 2.0',
        'authentication_attempts{result="failure"} 1.0',
        'authentication_duration_seconds_bucket{le="0.004",result="success"} 2.0',
        'authenticated_user_requests{username="admin"} 1.0',
        'authenticated_user_requests{username="other"} 1.0',
        'authorization_attempts_total{result="allowed"} 1.0',
        'authorization_duration_seconds_count{result="allowed"} 1.0',
        'apiserver_client_certificate_expiration_seconds_bucket{le="3600.0"} 0.0',
        'apiserver_client_certificate_expiration_seconds_bucket{le="7200.0"} 1.0',
    } <= lines
