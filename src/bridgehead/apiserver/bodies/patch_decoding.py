"""Decoding of a patch, and problems of the patch itself: it must be an object, or a list of JSON patch's operations.

Pure: no I/O, no clock, no randomness.
Source: apiserver/pkg/endpoints/handlers/patch.go (applyJSPatch, strategicPatchObject).
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver import go_json
from bridgehead.apiserver.errors import SchemaMismatch, bad_request
from bridgehead.apiserver.shapes import ANYTHING, ListShape, MapShape, Shape, StringShape, StructShape, conform

from .duplicates import duplicate_fields, field_problems, problems_in_order
from .patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH

_OPERATION = StructShape("handlers.jsonPatchOp")
_OPERATION.fields = {"value": ANYTHING} | dict.fromkeys(("op", "path", "from"), StringShape("string"))
_FORMS: dict[str, Shape] = {
    JSON_PATCH: ListShape(_OPERATION),
    MERGE_PATCH: MapShape(ANYTHING),
    STRATEGIC_MERGE_PATCH: MapShape(ANYTHING),
}


def decode_patch(media: str, body: bytes, *, is_checked: bool) -> tuple[Any, list[str]]:
    """Return a patch and, if `is_checked`, texts about its duplicate and unknown fields. Raises a 400."""
    prefix = "" if media == STRATEGIC_MERGE_PATCH else "error decoding patch: "
    try:
        patch = go_json.decode(body)
        if patch is None:  # null is an empty list or object to Go, but not to the library for merge patches
            if media == MERGE_PATCH:
                raise bad_request("Invalid JSON Patch")
            return ([] if media == JSON_PATCH else {}), []
        _, unknown = conform(patch, _FORMS[media])
    except (SchemaMismatch, go_json.GoSyntaxError) as error:
        raise bad_request(f"{prefix}{error}") from None
    if not is_checked:
        return patch, []
    duplicates = duplicate_fields(body, patch)
    if media != JSON_PATCH:
        return patch, field_problems(duplicates, ())
    problems = problems_in_order(body, unknown) if duplicates or unknown else []
    return patch, [f"json patch {problem}" for problem in problems]
