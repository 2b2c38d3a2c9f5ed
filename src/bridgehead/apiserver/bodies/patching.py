"""A PATCH request as a function from the object that is stored to the object that is wanted.

Source: apiserver/pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from collections.abc import Callable

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
from bridgehead.apiserver.http.negotiation import media_type_of
from bridgehead.apiserver.http.request import Request
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.resource import FieldError, JsonObject

from .decoding import IGNORE, STRICT, duplicate_fields, field_problems, validation_of
from .patch import JSON_PATCH, PATCH_TYPES, apply_patch
from .schema import Shape, conform
from .serialization import decode_json


async def patch_change(request: Request, body: bytes, kind: str, shape: Shape) -> Callable[[JsonObject], JsonObject]:
    """What the body of a PATCH does to an object of this kind. Raises a 400, 413, 415 or 422, now or when applied."""
    media = media_type_of(request.header(b"content-type"))
    if media not in PATCH_TYPES:
        raise unsupported_media_type(request.header(b"content-type"), PATCH_TYPES)
    validation = validation_of(request.query)
    patch = await run_long(len(body), lambda: decode_json(body))
    warned = False
    looks_for_twice = validation != IGNORE and media != JSON_PATCH
    twice = await run_long(len(body), lambda: duplicate_fields(body)) if looks_for_twice else []

    def change(old: JsonObject) -> JsonObject:
        nonlocal warned
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
            raise _bad_patch(body, str(mismatch)) from None
        problems = field_problems(twice, unknown)
        if problems and validation == STRICT:
            raise _bad_patch(body, f"strict decoding error: {', '.join(problems)}")
        if problems and validation != IGNORE and not warned:
            request.warnings.extend(problems)
            warned = True
        if patched.get("kind", kind) != kind:
            raise bad_request(f"a patch can't change the kind of an object from {kind} to {patched['kind']}")
        return patched

    return change


def _bad_patch(body: bytes, why: str) -> ApiStatus:
    text = f"Invalid value: {msgspec.json.encode(body.decode('utf-8', 'replace')).decode()}: {why}"
    return invalid("", "", "", [FieldError("FieldValueInvalid", "patch", text)])
