"""ConversionReview: the request to a conversion webhook, and the checks of its answer.

A webhook may change everything but the metadata; of these, only labels and annotations.
Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.metadata_validation import validate_annotations, validate_labels

from .conversion_validation import REVIEW_VERSIONS
from .definitions import GROUP


class BadReview(Exception):
    """The webhook's answer can't be used."""


def make_review(versions: Sequence[str], uid: str, objects: Sequence[JsonObject], wanted: str) -> JsonObject:
    """Return a request for the conversion of objects to the API version `wanted`.

    `versions` are the versions of ConversionReview that the webhook knows, in its order. Raises `BadReview`.
    """
    version = next((version for version in versions if version in REVIEW_VERSIONS), None)
    if version is None:
        raise BadReview("no supported conversion review versions")
    return {
        "kind": "ConversionReview",
        "apiVersion": f"{GROUP}/{version}",
        "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": list(objects)},
    }


def converted_objects(review: JsonObject, answer: JsonObject, objects: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the objects of an answer, with the metadata of those that were sent. Raises `BadReview`."""
    response = _response(review, answer)
    converted = response.get("convertedObjects") or []
    kind = objects[0]["kind"] if objects else ""
    if not isinstance(converted, list) or len(converted) != len(objects):
        count = len(converted) if isinstance(converted, list) else 0
        raise BadReview(f"returned {count} objects, expected {len(objects)}")
    wanted = review["request"]["desiredAPIVersion"]
    found = []
    for index, (original, one) in enumerate(zip(objects, converted, strict=True)):
        try:
            _check(original, one, wanted, kind)
            found.append(_with_metadata(original, one))
        except BadReview as error:
            raise BadReview(f"returned invalid converted object at index {index}: {error}") from None
    return found


def _response(review: JsonObject, answer: JsonObject) -> JsonObject:
    response = answer.get("response")
    if review["apiVersion"].endswith("/v1"):
        expected, got = _gvk(review), _gvk(answer)
        if got != expected:
            raise BadReview(f"failed: expected webhook response of {expected}, got {got}")
        uid = response.get("uid", "") if isinstance(response, dict) else ""
        if isinstance(response, dict) and uid != review["request"]["uid"]:
            quoted = json.dumps(review["request"]["uid"]), json.dumps(uid)
            raise BadReview(f"failed: expected response.uid={quoted[0]}, got {quoted[1]}")
    if not isinstance(response, dict):
        raise BadReview("failed: no response provided")
    result = response.get("result")
    status = result.get("status", "") if isinstance(result, dict) else ""
    if status != "Success":
        message = result.get("message", "") if isinstance(result, dict) else ""
        raise BadReview("failed: " + (message or f"response.result.status was '{status}', not 'Success'"))
    return response


def _gvk(obj: JsonObject) -> str:
    return f"{obj.get('apiVersion', '')}, Kind={obj.get('kind', '')}"


def _check(original: JsonObject, converted: Any, wanted: str, kind: str) -> None:
    if not isinstance(converted, dict):
        raise BadReview("it is not an object")
    if converted.get("apiVersion") != wanted:
        raise BadReview(f"invalid groupVersion (expected {wanted}, received {converted.get('apiVersion', '')})")
    if converted.get("kind") != kind:
        raise BadReview(f"invalid kind (expected {kind}, received {converted.get('kind', '')})")
    meta = converted.get("metadata")
    if not isinstance(meta, dict):
        raise BadReview("missing metadata in converted object")
    for name, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = original["metadata"].get(name, ""), meta.get(name, "")
        if before != after:
            raise BadReview(f"must have the same {shown}: {before} != {after}")


def _with_metadata(original: JsonObject, converted: JsonObject) -> JsonObject:
    meta = dict(original["metadata"])
    for name, validate in (("labels", validate_labels), ("annotations", validate_annotations)):
        given = converted["metadata"].get(name)
        if given is None:
            meta.pop(name, None)
            continue
        if not isinstance(given, dict):
            raise BadReview(f"invalid metadata.{name} of type {type(given).__name__} in converted object")
        for key, value in given.items():
            if not isinstance(value, str):
                raise BadReview(f"metadata.{name}[{key}] must be a string, but is {type(value).__name__}")
        if given != meta.get(name, {}):
            field = Field(given, f"metadata.{name}")
            validate(field)
            if field.errors:
                raise BadReview("; ".join(f"{error.field}: {error.message}" for error in field.errors))
        meta[name] = given
    rest = {key: value for key, value in converted.items() if key not in ("kind", "apiVersion", "metadata")}
    return {"kind": converted["kind"], "apiVersion": converted["apiVersion"], "metadata": meta, **rest}
