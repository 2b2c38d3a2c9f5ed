"""Causes in certificates that were seen: that of the API server, and the one in the kubeconfig.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.times import format_time

from .subjects import Facts, make_finding

_DAY = 86400.0
_SOON = 14 * _DAY


def check_certificates(facts: Facts) -> Iterator[Finding]:
    """Yield certificates that have ended, or end soon."""
    for certificate in facts.certificates:
        left = certificate.not_after - facts.cluster.now
        if left > _SOON:
            continue
        end = format_time(certificate.not_after)
        yield make_finding(
            "CertificateExpired" if left <= 0 else "CertificateExpiresSoon",
            "cluster",
            f"The certificate of {certificate.name} "
            + (f"has ended at {end}." if left <= 0 else f"ends in {left / _DAY:.0f} days, at {end}."),
            fix="kubeadm certs renew all",
            severity=Severity.DEGRADED if left <= 0 else Severity.NOTICE,
        )
