"""AdmissionReviews and their answers. Pure: no I/O, no clock, no randomness.

Source: admission/v1, admission/v1beta1, apiserver/pkg/admission/plugin/webhook/request/admissionreview.go.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from bridgehead.apiserver.admission.attributes import CONNECT, Attributes
from bridgehead.apiserver.resource import JsonObject, Resource

V1, V1BETA1 = "v1", "v1beta1"
JSON_PATCH = "JSONPatch"
_GROUP = "admission.k8s.io"
_KIND = "AdmissionReview"
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class InvalidAnswer(Exception):
    """An answer that is not an AdmissionReview for the request. The text is Kubernetes'."""


class Answer(msgspec.Struct, rename="camel"):
    """The `response` of an AdmissionReview. `patch` is decoded."""

    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: bytes | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: list[str] | None = None


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct, rename="camel"):
    """`retry_after_seconds` becomes a header of the answer to the client."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[_Cause] | None = None
    retry_after_seconds: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] = 0


class _Status(msgspec.Struct):
    """The fields of a denial's Status that the client gets."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


def choose_version(versions: tuple[str, ...]) -> str:
    """Return the first version of AdmissionReview that this server knows. Raises `InvalidAnswer`."""
    for version in versions:
        if version in (V1, V1BETA1):
            return version
    raise InvalidAnswer("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


def build_review(
    version: str, uid: str, attributes: Attributes, resource: Resource, obj: JsonObject, old: JsonObject
) -> JsonObject:
    """Return the AdmissionReview that asks about a request as one for `resource`."""
    kind = attributes.kind or (resource.group, resource.version, resource.kind)
    request = {
        "uid": uid,
        "kind": _kind(kind),
        "resource": _resource(resource),
        "requestKind": _kind(attributes.object_kind),
        "requestResource": _resource(attributes.resource),
        "operation": attributes.operation,
        "userInfo": _user(attributes),
        "object": obj or None,
        "oldObject": old or None,
        "dryRun": attributes.dry_run,
        "options": _options(attributes),
    }
    if attributes.subresource:
        request["subResource"] = request["requestSubResource"] = attributes.subresource
    if attributes.name:
        request["name"] = attributes.name
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    return {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": request}


def _kind(kind: tuple[str, str, str]) -> JsonObject:
    return {"group": kind[0], "version": kind[1], "kind": kind[2]}


def _resource(resource: Resource) -> JsonObject:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _user(attributes: Attributes) -> JsonObject:
    user = attributes.user
    info: JsonObject = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _options(attributes: Attributes) -> JsonObject | None:
    if attributes.operation == CONNECT:
        return None
    return {"kind": _OPTIONS[attributes.operation], "apiVersion": "meta.k8s.io/v1", **attributes.options}


def read_answer(version: str, uid: str, review: JsonObject, *, is_mutating: bool) -> Answer:
    """Check the answer to a review. Raises `InvalidAnswer`, and msgspec.ValidationError for a wrong type."""
    response = review.get("response")
    if response is None:
        raise InvalidAnswer("webhook response was absent")
    answer = msgspec.convert(response, Answer)
    if answer.status is not None:
        msgspec.convert(answer.status, _Status)
    if version == V1:
        _check_v1(uid, review, answer, is_mutating=is_mutating)
    elif not is_mutating:
        answer.patch = None
    elif answer.patch:
        # The type is not checked in v1beta1.
        answer.patch_type = JSON_PATCH
    return answer


def _check_v1(uid: str, review: JsonObject, answer: Answer, *, is_mutating: bool) -> None:
    if answer.uid != uid:
        raise InvalidAnswer(f'expected response.uid="{uid}", got "{answer.uid}"')
    wanted, given = f"{_GROUP}/{V1}", str(review.get("apiVersion") or "")
    kind = str(review.get("kind") or "")
    if (given, kind) != (wanted, _KIND):
        raise InvalidAnswer(f"expected webhook response of {wanted}, Kind={_KIND}, got {given or '/'}, Kind={kind}")
    if not is_mutating:
        if answer.patch:
            raise InvalidAnswer("validating webhook may not return response.patch")
        if answer.patch_type is not None:
            raise InvalidAnswer("validating webhook may not return response.patchType")
        return
    if answer.patch and answer.patch_type is None:
        raise InvalidAnswer("webhook returned response.patch but not response.patchType")
    if answer.patch_type is not None and not answer.patch:
        raise InvalidAnswer("webhook returned response.patchType but not response.patch")
    if answer.patch_type == "":
        raise InvalidAnswer('webhook returned invalid response.patchType of ""')
