"""Answers to AdmissionReviews and ConversionReviews."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridgehead.balancer.admission.reviews import BadReview, answer_admission, answer_conversion

POOL = {"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": {"name": "pool"}}


def admission(version: str = "admission.k8s.io/v1", **request: Any) -> bytes:
    resource = {"group": "metallb.io", "version": "v1beta1", "resource": "ipaddresspools"}
    body = {"uid": "u1", "operation": "CREATE", "resource": resource, "object": POOL, **request}
    return json.dumps({"apiVersion": version, "kind": "AdmissionReview", "request": body}).encode()


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_an_object_without_an_objection_is_allowed(version):
    answer = answer_admission(admission(version), lambda *_: "")
    assert answer == {
        "apiVersion": version,
        "kind": "AdmissionReview",
        "response": {"uid": "u1", "allowed": True},
    }


def test_a_refusal_gives_the_reason():
    response = answer_admission(admission(), lambda *_: "pools overlap")["response"]
    assert response["allowed"] is False
    assert (response["status"]["message"], response["status"]["code"]) == ("pools overlap", 403)


def test_the_judge_gets_resource_operation_and_objects():
    seen: list[Any] = []

    def judge(*arguments: Any) -> str:
        seen.append(arguments)
        return ""

    answer_admission(admission(), judge)
    answer_admission(admission(operation="DELETE", object=None, oldObject=POOL), judge)
    assert seen == [
        ("metallb.io", "ipaddresspools", "CREATE", None, POOL),
        ("metallb.io", "ipaddresspools", "DELETE", POOL, None),
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"{}", "no AdmissionReview"),
        (b'{"kind": "AdmissionReview"}', "no AdmissionReview"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}', "request is missing"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {}}', "resource is missing"),
    ],
)
def test_another_body_is_named(body, message):
    with pytest.raises(BadReview, match=message):
        answer_admission(body, lambda *_: "")


def conversion(*objects: Any) -> bytes:
    request = {"uid": "u2", "desiredAPIVersion": "metallb.io/v1beta2", "objects": objects}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    return json.dumps(review).encode()


def test_objects_are_converted_in_their_order():
    answer = answer_conversion(conversion({"n": 1}, {"n": 2}), lambda obj, version: obj | {"apiVersion": version})
    assert answer["response"] == {
        "uid": "u2",
        "convertedObjects": [
            {"n": 1, "apiVersion": "metallb.io/v1beta2"},
            {"n": 2, "apiVersion": "metallb.io/v1beta2"},
        ],
        "result": {"status": "Success"},
    }


def test_an_object_that_cannot_be_converted_fails_the_review():
    def convert(obj: dict[str, Any], version: str) -> dict[str, Any]:
        raise ValueError("no such version")

    response = answer_conversion(conversion({"n": 1}), convert)["response"]
    assert response == {"uid": "u2", "result": {"status": "Failure", "message": "no such version"}}
