"""The kinds of patches, by their media types.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.errors import PatchRefused
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import Shape

from .json_patches import apply_json_patch, apply_merge_patch
from .strategic_patches import apply_strategic_patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # server-side apply, which `handlers.apply` carries out
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)
# Custom resources have no merge keys.
CUSTOM_PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)


def apply_patch(kind: str, original: JsonObject, patch: Any, shape: Shape) -> JsonObject:
    """Return `original` changed by `patch` of the media type `kind`. Raises `PatchRefused`."""
    if kind == JSON_PATCH:
        changed = apply_json_patch(original, patch)
        if not isinstance(changed, dict):
            raise PatchRefused(422, "the patch replaces the object by a value that is not an object")
        return changed
    if kind == MERGE_PATCH:
        merged: JsonObject = apply_merge_patch(original, patch)
        return merged
    return apply_strategic_patch(original, patch, shape)
