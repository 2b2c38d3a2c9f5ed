"""Answers of webhooks: which are valid, and what the client gets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.apiserver.admission.webhooks.admission_reviews import (
    Answer,
    InvalidAnswer,
    build_review,
    choose_version,
    read_answer,
)
from bridgehead.apiserver.admission.webhooks.errors import WebhookFailed, denied, internal
from bridgehead.apiserver.http.user import User
from tests.unit.apiserver.admission.test_matching import TABLE, attributes

PATCH = {"patch": "W10=", "patchType": "JSONPatch"}


def review(version: str = "v1", **response: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "response": {"uid": "1", **response},
    }


@pytest.mark.parametrize(
    ("given", "is_mutating", "why"),
    [
        (review(allowed=True), True, ""),
        (review(allowed=True, **PATCH), True, ""),
        ({**review(), "response": None}, False, "webhook response was absent"),
        (review(uid="2"), False, 'expected response.uid="1", got "2"'),
        ({**review(), "apiVersion": "admission.k8s.io/v2"}, False,
         "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v2, "
         "Kind=AdmissionReview"),
        ({"response": {"uid": "1"}}, False,
         "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="),
        (review(patch="W10="), True, "webhook returned response.patch but not response.patchType"),
        (review(patchType="JSONPatch"), True, "webhook returned response.patchType but not response.patch"),
        (review(patch="W10=", patchType=""), True, 'webhook returned invalid response.patchType of ""'),
        (review(patch="W10="), False, "validating webhook may not return response.patch"),
        (review(patchType="JSONPatch"), False, "validating webhook may not return response.patchType"),
    ],
)  # fmt: skip
def test_answers_to_v1_are_checked(given, is_mutating, why):
    if not why:
        assert read_answer("v1", "1", given, is_mutating=is_mutating).allowed
        return
    with pytest.raises(InvalidAnswer) as raised:
        read_answer("v1", "1", given, is_mutating=is_mutating)
    assert str(raised.value) == why


def test_answers_to_v1beta1_need_little():
    given = {"response": {"allowed": True, "patch": "W10="}}
    assert read_answer("v1beta1", "1", given, is_mutating=True).patch_type == "JSONPatch"
    assert read_answer("v1beta1", "1", given, is_mutating=False).patch is None
    assert read_answer("v1beta1", "1", {"response": {}}, is_mutating=True) == Answer()


@pytest.mark.parametrize(
    "response",
    [{"allowed": 1}, {"patch": "?"}, {"warnings": "x"}, {"auditAnnotations": {"a": 1}}, {"status": {"code": "x"}}, []],
)
def test_answers_of_the_wrong_type_are_no_answers(response):
    given = {**review(), "response": response}
    with pytest.raises(msgspec.ValidationError):
        read_answer("v1", "1", given, is_mutating=True)


def test_the_first_known_version_is_asked_in():
    assert choose_version(("v2", "v1beta1", "v1")) == "v1beta1"
    with pytest.raises(InvalidAnswer, match="does not accept known AdmissionReview versions"):
        choose_version(("v2",))


def test_the_user_and_the_subresource_are_in_the_review():
    asked = attributes("deployments.apps", operation="UPDATE", subresource="scale", kind=("autoscaling", "v1", "Scale"))
    asked.user = User("me", ("a",), "7", {"k": ("v",)})
    request = build_review("v1", "1", asked, TABLE.by_id("deployments.apps"), {"kind": "Scale"}, {})["request"]
    assert request["userInfo"] == {"username": "me", "groups": ["a"], "uid": "7", "extra": {"k": ["v"]}}
    assert (request["subResource"], request["requestSubResource"]) == ("scale", "scale")
    assert request["kind"] == request["requestKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    asked = attributes(operation="DELETE", name="", namespace="")
    asked.user = User("me")
    request = build_review("v1", "1", asked, asked.resource, {}, {"kind": "Pod"})["request"]
    assert request.keys().isdisjoint({"name", "namespace", "subResource"})
    assert request["userInfo"] == {"username": "me"}


def test_denials_are_answers_to_the_client():
    text = 'admission webhook "a.b.c" denied the request'
    for status, expected in (
        ({}, (400, "", f"{text} without explanation")),
        ({"code": 200, "message": "no"}, (400, "", f"{text}: no")),
        ({"code": 403, "reason": "Forbidden"}, (403, "Forbidden", f"{text}: Forbidden")),
        (
            {"code": 422, "reason": "Invalid", "message": "no", "details": {"kind": "X"}},
            (422, "Invalid", f"{text}: no"),
        ),
    ):
        error = denied("a.b.c", status)
        assert (error.code, error.reason, error.message) == expected
        assert error.details == status.get("details")


def test_failures_name_the_webhook():
    error = internal(str(WebhookFailed("a.b.c", "why", 503)))
    assert error.message == 'Internal error occurred: failed calling webhook "a.b.c": why'
    assert error.details == {"causes": [{"message": 'failed calling webhook "a.b.c": why'}]}
