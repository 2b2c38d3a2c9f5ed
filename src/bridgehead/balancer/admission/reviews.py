"""AdmissionReview and ConversionReview: requests of the API server, and their answers.

Pure: no I/O, no clock, no randomness. Source: Kubernetes, admission.k8s.io/v1 and v1beta1, apiextensions.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

Json = dict[str, Any]

# Takes group, plural, operation (CREATE, UPDATE, DELETE), the old and the new object; returns the reason of a refusal,
# or "".
Judge = Callable[[str, str, str, Json | None, Json | None], str]
# Takes an object and the apiVersion that is wanted; returns the object in that version. Raises ValueError.
Convert = Callable[[Json, str], Json]


class BadReview(ValueError):
    """The body is no review. The text names what is missing."""


def answer_admission(body: bytes, judge: Judge) -> Json:
    """Return the AdmissionReview with the answer to the one in `body`. Raises `BadReview`."""
    review = _decode(body, "AdmissionReview")
    request = _part(review, "request")
    resource = _part(request, "resource")
    reason = judge(
        str(resource.get("group", "")),
        str(resource.get("resource", "")),
        str(request.get("operation", "")),
        request.get("oldObject") or None,
        request.get("object") or None,
    )
    response: Json = {"uid": request.get("uid", ""), "allowed": not reason}
    if reason:
        response["status"] = {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "message": reason,
            "reason": "Forbidden",
            "code": 403,
        }
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


def answer_conversion(body: bytes, convert: Convert) -> Json:
    """Return the ConversionReview with the answer to the one in `body`. Raises `BadReview`."""
    review = _decode(body, "ConversionReview")
    request = _part(review, "request")
    wanted, objects = request.get("desiredAPIVersion", ""), request.get("objects") or []
    response: Json = {"uid": request.get("uid", "")}
    try:
        converted = [convert(obj, wanted) for obj in objects]
    except ValueError as error:
        response["result"] = {"status": "Failure", "message": str(error)}
    else:
        response |= {"convertedObjects": converted, "result": {"status": "Success"}}
    return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}


def _decode(body: bytes, kind: str) -> Json:
    try:
        review = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise BadReview(f"not a JSON object: {error}") from None
    if review.get("kind") != kind or not isinstance(review.get("apiVersion"), str):
        raise BadReview(f"no {kind}")
    return review


def _part(parent: Json, name: str) -> Json:
    part = parent.get(name)
    if not isinstance(part, dict):
        raise BadReview(f"{name} is missing")
    return part
