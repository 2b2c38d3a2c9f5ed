# ruff: noqa: E501
"""Updates of CertificateSigningRequests by their subresources."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bridgehead.apiserver.resources.certificates import populate_condition_times
from tests.unit.apiserver.resources.certificate_requests import CSR, csr, encoded, make_certificate
from tests.unit.apiserver.resources.steps import Steps, table

STEPS = Steps(table()[CSR])
APPROVED, DENIED, FAILED, OTHER = ({"type": t, "status": "True"} for t in ("Approved", "Denied", "Failed", "Other"))


def request(*conditions: dict[str, Any], certificate: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"conditions": list(conditions)} if conditions else {}
    return {
        **csr(),
        "metadata": {"name": "a"},
        "status": {**status, **({"certificate": certificate} if certificate else {})},
    }


CERTIFICATE = make_certificate()
TEXT = encoded(b"-----BEGIN TEXT-----\nQQ==\n-----END TEXT-----\n")
WITH_HEADER = encoded(b"-----BEGIN CERTIFICATE-----\na: b\n\nQQ==\n-----END CERTIFICATE-----\n")
EXCLUSIVE = "Approved and Denied conditions are mutually exclusive"


@pytest.mark.parametrize(
    ("subresource", "old", "new", "expected"),
    [
        ("approval", request(), request(APPROVED), []),
        ("approval", request(), request(APPROVED, DENIED), [
            f'status.conditions: Invalid value: "Denied": {EXCLUSIVE}']),
        ("approval", request(), request(DENIED, APPROVED), [
            f'status.conditions: Invalid value: "Approved": {EXCLUSIVE}']),
        ("approval", request(APPROVED), request(), [
            'status.conditions: Forbidden: updates may not remove a condition of type "Approved"']),
        ("approval", request(), request({"type": "Approved", "status": "False"}), [
            'status.conditions[0].status: Unsupported value: "False": supported values: "True"']),
        ("approval", request(), request({"status": "Maybe"}, {"type": "a"}), [
            "status.conditions[0].type: Required value",
            'status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
            "status.conditions[1].status: Required value"]),
        ("approval", request(), request(OTHER, OTHER), ['status.conditions[1].type: Duplicate value: "Other"']),
        ("status", request(APPROVED), request(APPROVED, FAILED, OTHER), []),
        ("status", request(APPROVED, FAILED), request(APPROVED), [
            'status.conditions: Forbidden: updates may not remove a condition of type "Failed"']),
        ("status", request(), request(APPROVED), [
            'status.conditions: Forbidden: updates may not add a condition of type "Approved"']),
        ("status", request(APPROVED), request({**APPROVED, "reason": "Other"}), []),
        ("status", request(APPROVED), request(APPROVED, certificate=CERTIFICATE), []),
        ("status", request(APPROVED), request(APPROVED, certificate=TEXT), [
            'status.certificate: Invalid value: "<certificate data>": only CERTIFICATE PEM blocks are allowed, found "TEXT"']),
        ("status", request(APPROVED), request(APPROVED, certificate=WITH_HEADER), [
            'status.certificate: Invalid value: "<certificate data>": no PEM block headers are permitted']),
        ("status", request(APPROVED), request(APPROVED, certificate=encoded(b"x")), [
            'status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block']),
        ("status", request(APPROVED, certificate=CERTIFICATE), request(APPROVED), [
            "status.certificate: Forbidden: updates may not modify existing certificate content"]),
        ("", request(APPROVED), request(DENIED, certificate=TEXT), []),  # it is dropped
    ],
)  # fmt: skip
def test_conditions_and_certificates_are_validated(subresource, old, new, expected):
    assert STEPS.update_refusal(old, new, subresource) == expected


def test_each_subresource_changes_its_own_fields():
    old, new = request(), request(APPROVED, certificate=CERTIFICATE)
    new["spec"]["usages"] = ["server auth"]
    assert STEPS.update(old, new, "approval") == request(APPROVED)
    assert STEPS.update(old, new) == old
    approved = request(APPROVED)
    changed = request({**APPROVED, "reason": "Changed"}, certificate=CERTIFICATE)
    assert STEPS.update(approved, changed, "status") == request(APPROVED, certificate=CERTIFICATE)


def test_conditions_get_times():
    old = request({**OTHER, "lastUpdateTime": "t0", "lastTransitionTime": "t0"})
    new = request(copy.deepcopy(OTHER), copy.deepcopy(APPROVED))
    populate_condition_times(new, old, "t1")
    assert new["status"]["conditions"] == [
        {**OTHER, "lastUpdateTime": "t1", "lastTransitionTime": "t0"},
        {**APPROVED, "lastUpdateTime": "t1", "lastTransitionTime": "t1"},
    ]
