"""PATCH requests: the body as a function from the stored object to the patched object.

Source: apiserver/pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from bridgehead.apiserver.errors import (
    ApiStatus,
    PatchRefused,
    SchemaMismatch,
    bad_request,
    invalid,
    too_large,
    unprocessable,
    unsupported_media_type,
)
from bridgehead.apiserver.go_values import conversion_error, go_value
from bridgehead.apiserver.http.negotiation import media_type_of
from bridgehead.apiserver.http.request import Request
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.resource import FieldError, JsonObject

from .decoding import IGNORE, STRICT, parse_field_validation
from .duplicates import duplicate_fields, field_problems
from .patch import JSON_PATCH, PATCH_TYPES, STRATEGIC_MERGE_PATCH, apply_patch
from .serialization import decode_json
from .shapes import Shape, conform

_SCHEME = "pkg/api/legacyscheme/scheme.go:30"  # as Kubernetes names it in errors


def patch_type(request: Request, types: Sequence[str] = PATCH_TYPES) -> str:
    """Return the media type of a patch. Raises a 415 for a type that is none of `types`."""
    given = request.header(b"content-type")
    media = media_type_of(given)
    if media not in types:
        raise unsupported_media_type(given, types)
    return media


async def patch_change(request: Request, body: bytes, kind: str, shape: Shape) -> Callable[[JsonObject], JsonObject]:
    """Return the change that a PATCH asks for. Raises a 400, 413, 415 or 422, now or when the change is applied."""
    media = media_type_of(request.header(b"content-type"))
    validation = parse_field_validation(request.query)
    patch = await run_long(len(body), lambda: decode_json(body))
    warned = False
    # Most patches do not mention the managers of fields; the object is patched without them then.
    is_about_managers = b"managedFields" in body or b"\\u" in body
    checks_duplicates = validation != IGNORE and media != JSON_PATCH
    duplicates = await run_long(len(body), lambda: duplicate_fields(body, patch)) if checks_duplicates else []

    def change(old: JsonObject) -> JsonObject:
        nonlocal warned
        if not is_about_managers:
            old = {**old, "metadata": {k: v for k, v in old["metadata"].items() if k != "managedFields"}}
        try:
            patched, unknown = conform(apply_patch(media, old, patch, shape), shape)
        except PatchRefused as refused:
            match refused.code:
                case 413:
                    error = too_large(0)
                    error.message = str(refused)
                    raise error from None
                case 422:
                    raise unprocessable(str(refused)) from None
            raise bad_request(str(refused)) from None
        except SchemaMismatch as mismatch:
            if media == STRATEGIC_MERGE_PATCH and mismatch.types:
                raise _bad_patch(go_value(patch), conversion_error(*mismatch.types)) from None
            raise _bad_patch(body.decode("utf-8", "replace"), str(mismatch)) from None
        problems = field_problems(duplicates, unknown)
        if problems and validation == STRICT:
            raise _bad_patch(body.decode("utf-8", "replace"), f"strict decoding error: {', '.join(problems)}")
        if problems and validation != IGNORE and not warned:
            request.warnings.extend(problems)
            warned = True
        version = old.get("apiVersion")
        if media != STRATEGIC_MERGE_PATCH and patched.get("apiVersion", version) != version:
            why = f'no kind "{kind}" is registered for version "{patched["apiVersion"]}" in scheme "{_SCHEME}"'
            raise _bad_patch(body.decode("utf-8", "replace"), why)
        if patched.get("kind", kind) != kind:
            raise bad_request(f"a patch can't change the kind of an object from {kind} to {patched['kind']}")
        return patched

    return change


def _bad_patch(patch: str, why: str) -> ApiStatus:
    text = f"Invalid value: {msgspec.json.encode(patch).decode()}: {why}"
    return invalid("", "", "", [FieldError("FieldValueInvalid", "patch", text)])
