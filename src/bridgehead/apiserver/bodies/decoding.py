"""Decoding of a request's body into an object of a resource.

Kind and version must be the resource's own. They may be left out, unless it is a custom resource. Fields are checked
against the schema. The parameter `fieldValidation` decides about unknown and duplicate fields: Strict refuses them,
Warn (the default) drops them with warnings, Ignore drops them.
Source: apiserver/pkg/endpoints/handlers/create.go, KEP-2885.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from bridgehead.apiserver.errors import (
    ApiStatus,
    SchemaMismatch,
    bad_request,
    invalid,
    invalid_options,
    unsupported_media_type,
)
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.http.negotiation import media_type_of
from bridgehead.apiserver.http.request import Request
from bridgehead.apiserver.http.worker import LONG_BYTES, run_long
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.shapes import Shape, StructShape
from bridgehead.media_types import JSON, PROTOBUF, YAML

from .conforming import conform, decode_exact
from .duplicates import duplicate_fields, duplicate_lines, field_problems, problems_in_order
from .kinds import conversion_problem, custom_kind_errors, missing_kind
from .protobuf import BadPacket, decode_envelope_untrusted, decode_message_untrusted
from .serialization import decode_body, kind_and_version, unreadable

STRICT, WARN, IGNORE = "Strict", "Warn", "Ignore"
_OLDER = re.compile(r"v\d+(alpha|beta)\d+")


def parse_field_validation(request: Request) -> str:
    """Return the query's `fieldValidation`. Raises a 422 for an unknown value."""
    value = request.query.get("fieldValidation") or WARN
    if value not in (STRICT, WARN, IGNORE):
        error = Field(value, "fieldValidation").not_supported(("", IGNORE, STRICT, WARN))
        raise invalid_options(request.method, [error])
    return value


async def decode_object(request: Request, resource: Resource, shape: Shape) -> JsonObject:
    """Decode an object; drop nulls and unknown fields. Raises a 400, 415 or 422; appends to the request's warnings."""
    return await decode_kind(request, resource.group, resource.version, resource.kind, shape)


async def decode_kind(
    request: Request, group: str, version: str, kind: str, shape: Shape, *, older_version: str = ""
) -> JsonObject:
    """Decode an object of a kind that is not a resource, such as Scale. See `decode_object`.

    `older_version` is another version of the group that is accepted.
    """
    body = await request.body()
    content_type = request.header(b"content-type")
    validation = parse_field_validation(request)
    decode = partial(_decode_kind, body, content_type, validation, (group, version, kind), shape, older_version)
    if media_type_of(content_type) == YAML:
        request.body_size = max(len(body), LONG_BYTES)  # aliases make an object larger than its text
    obj, problems = await run_long(request.body_size, decode)
    request.warnings.extend(problems)
    return obj


def _decode_kind(
    body: bytes, content_type: str, validation: str, wanted: tuple[str, str, str], shape: Shape, older_version: str
) -> tuple[JsonObject, list[str]]:
    """Return the object and warnings."""
    group, version, kind = wanted
    api_version = f"{group}/{version}" if group else version
    exact = decode_exact(body, shape) if media_type_of(content_type) in ("", JSON) else None
    if exact is not None and exact.get("kind") == kind and exact.get("apiVersion") == api_version:
        return {"kind": kind, "apiVersion": api_version} | exact, []
    value = decode_value(body, content_type, shape, kind)
    if value is None:
        value = {}  # to Go, null is an object without fields
    is_typed = isinstance(shape, StructShape)
    given_kind, given_version = kind_and_version(value, body, kind)
    if is_typed:
        given_kind, given_version = given_kind or kind, given_version or api_version
    elif not given_kind:
        raise unreadable(body, kind, missing_kind(body.decode("utf-8", "replace")))
    if isinstance(shape, StructShape) and (given_kind, given_version) != (kind, api_version):
        why = conversion_problem(given_kind, given_version, shape)
        # Kubernetes still decodes older versions that it does not serve.
        if why and not (given_kind == kind and _OLDER.fullmatch(given_version.removeprefix(f"{group}/"))):
            raise _not_decodable(given_kind, given_version, kind, why)
    if given_version not in (api_version, f"{group}/{older_version or version}"):
        raise bad_request(
            f"the API version in the data ({given_version}) does not match the expected API version ({api_version})"
        )
    try:
        obj, unknown = conform(value, shape)
    except SchemaMismatch as mismatch:
        raise _not_decodable(given_kind, given_version, kind, str(mismatch)) from None
    if given_kind != kind:
        raise invalid(group, given_kind, _name_of(obj), custom_kind_errors(value, kind, api_version))
    # kind and apiVersion come first, as in objects that Kubernetes writes.
    obj = {"kind": kind, "apiVersion": api_version} | {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}
    if validation == IGNORE:
        return obj, []
    problems = _problems(body, value, media_type_of(content_type), unknown, is_typed=is_typed)
    if problems and validation == STRICT:
        raise _not_decodable(given_kind, given_version, kind, f"strict decoding error: {', '.join(problems)}")
    return obj, problems


def _problems(body: bytes, value: Any, media: str, unknown: list[str], *, is_typed: bool) -> list[str]:
    """Return texts about duplicate and unknown fields of a body. A decoder of a Go type finds both in one pass."""
    match media:
        case "" | "application/json":
            duplicates = duplicate_fields(body, value)
            if duplicates and unknown and is_typed:
                return problems_in_order(body, unknown)
            return field_problems(duplicates, unknown)
        case "application/yaml":
            lines = duplicate_lines(body)
            return [*([lines] if lines else ()), *field_problems((), unknown)]
    return field_problems((), unknown)


def decode_value(body: bytes, content_type: str, shape: Shape, kind: str) -> Any:
    """Decode a body of `kind` and of any supported media type, without schema checks. Raises a 400 or a 415."""
    if media_type_of(content_type) != PROTOBUF:
        return decode_body(body, content_type, (JSON, YAML, PROTOBUF), kind)
    if not isinstance(shape, StructShape):
        raise unsupported_media_type(content_type, (JSON, YAML))  # custom resources have no protobuf form
    try:
        version, kind, message = decode_envelope_untrusted(body)
        return {"apiVersion": version, "kind": kind} | decode_message_untrusted(message, shape)
    except BadPacket as error:
        raise unreadable(body, kind, str(error)) from None


def _name_of(obj: JsonObject) -> str:
    name: str = (obj.get("metadata") or {}).get("name", "")
    return name


def _not_decodable(given_kind: str, given_version: str, kind: str, why: str) -> ApiStatus:
    version = given_version.rpartition("/")[2]
    return bad_request(f'{given_kind} in version "{version}" cannot be handled as a {kind}: {why}')
