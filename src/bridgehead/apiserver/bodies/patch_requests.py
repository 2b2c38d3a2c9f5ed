"""PATCH requests: the body as a function from the stored object to the patched object.

Source: apiserver/pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

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
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.go_values import conversion_error, go_value
from bridgehead.apiserver.http.negotiation import media_type_of
from bridgehead.apiserver.http.request import Request
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import Shape, StructShape

from .conforming import conform
from .decoding import IGNORE, STRICT, parse_field_validation
from .duplicates import field_problems
from .kinds import conversion_problem, custom_kind_errors, missing_kind
from .nulls import with_nulls
from .patch import JSON_PATCH, PATCH_TYPES, STRATEGIC_MERGE_PATCH, apply_patch
from .patch_decoding import decode_patch


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
    validation = parse_field_validation(request)
    decode = partial(decode_patch, media, body, is_checked=validation != IGNORE)
    patch, own_problems = await run_long(len(body), decode)
    warned = False
    # Most patches do not mention the managers of fields; the object is patched without them then.
    is_about_managers = b"managedFields" in body or b"\\u" in body

    def change(old: JsonObject) -> JsonObject:
        nonlocal warned
        if not is_about_managers:
            old = {**old, "metadata": {k: v for k, v in old["metadata"].items() if k != "managedFields"}}
        # The paths of a JSON patch may lead to nulls, which `old` does not have.
        shown_old = with_nulls(old, shape.definition) if media == JSON_PATCH and isinstance(shape, StructShape) else old
        result = _apply(media, shown_old, patch, shape)
        # Errors show a strategic merge patch, but what the other patches make of the object.
        shown = partial(go_value, patch) if media == STRATEGIC_MERGE_PATCH else partial(_as_json, result)
        try:
            patched, unknown = conform(result, shape)
        except SchemaMismatch as mismatch:
            types = mismatch.types if media == STRATEGIC_MERGE_PATCH else None
            raise _bad_patch(shown(), conversion_error(*types) if types else str(mismatch)) from None
        problems = [*own_problems, *field_problems((), unknown)]
        if problems and validation == STRICT:
            raise _bad_patch(shown(), f"strict decoding error: {', '.join(problems)}")
        if problems and validation != IGNORE and not warned:
            request.warnings.extend(problems)
            warned = True
        if media == STRATEGIC_MERGE_PATCH:
            return patched | {name: old[name] for name in ("kind", "apiVersion") if name in old}
        _check_kind(patched, old, kind, shape, shown)
        return patched

    return change


def _apply(media: str, old: JsonObject, patch: Any, shape: Shape) -> JsonObject:
    """Apply a patch. Raises a 400, 413, 422 or 500."""
    try:
        result: JsonObject = apply_patch(media, old, patch, shape)
    except PatchRefused as refused:
        match refused.code:
            case 413:
                error = too_large(0)
                error.message = f"Request entity too large: {refused}"
                raise error from None
            case 422:
                raise unprocessable() from None
            case 500:
                raise ApiStatus(500, "", str(refused)) from None
        raise bad_request(str(refused)) from None
    return result


def _check_kind(patched: JsonObject, old: JsonObject, kind: str, shape: Shape, shown: Callable[[], str]) -> None:
    """Raise a 422 if a patch has changed an object's kind or version."""
    version: str = old.get("apiVersion", "")
    if isinstance(shape, StructShape):
        given_kind, given_version = patched.get("kind", kind), patched.get("apiVersion", version)
        is_other = (given_kind, given_version) != (kind, version)
        if is_other and (why := conversion_problem(given_kind, given_version, shape)):
            raise _bad_patch(shown(), why)
        patched |= {"kind": kind, "apiVersion": version}
    elif not patched.get("kind"):
        raise _bad_patch(shown(), missing_kind(shown()))
    elif errors := custom_kind_errors(patched, kind, version):
        raise invalid(version.rpartition("/")[0], patched["kind"], old["metadata"]["name"], errors)


def _as_json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _bad_patch(patch: str, why: str) -> ApiStatus:
    return invalid("", "", "", [Field(patch, "patch").invalid(why)])
