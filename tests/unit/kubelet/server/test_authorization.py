"""Certificates that may access the kubelet's server."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.server.authorization import is_allowed


def certificate(name, organization=None):
    subject = [(("commonName", name),)]
    if organization:
        subject.insert(0, (("organizationName", organization),))
    return {"subject": tuple(subject)}


@pytest.mark.parametrize(
    ("certificate", "allowed"),
    [
        (None, False),
        ({}, False),
        (certificate("system:node:node2", "system:nodes"), False),
        (certificate("kube-apiserver-kubelet-client"), True),
        (certificate("somebody", "system:masters"), True),
    ],
)
def test_allowed_certificates_are_accepted(certificate, allowed):
    assert is_allowed(certificate) is allowed
