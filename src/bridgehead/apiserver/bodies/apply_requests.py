"""Bodies of server-side apply: a configuration in YAML or JSON.

Source: apiserver/pkg/endpoints/handlers/patch.go (applyPatcher), apimachinery/pkg/util/managedfields.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bridgehead.apiserver.errors import bad_request
from bridgehead.apiserver.go_json import check_depth
from bridgehead.apiserver.go_values import json_kind
from bridgehead.apiserver.http.request import Request
from bridgehead.apiserver.http.request_info import is_true
from bridgehead.apiserver.http.worker import LONG_BYTES, run_long
from bridgehead.apiserver.resource import JsonObject

from .decoding import IGNORE, STRICT, parse_field_validation
from .duplicates import duplicate_fields, duplicate_lines
from .serialization import load_yaml


@dataclass(frozen=True, slots=True)
class Configuration:
    """An applied configuration, nulls included. `force`: take over the fields of other managers."""

    value: JsonObject
    force: bool


async def parse_configuration(request: Request, api_version: str, kind: str) -> Configuration:
    """Read the configuration of an apply request. Raises a 400; appends to the request's warnings."""
    body = await request.body()
    validation = parse_field_validation(request)
    if not body.startswith(b"{"):
        request.body_size = max(len(body), LONG_BYTES)  # YAML: aliases make an object larger than its text
    value, duplicates = await run_long(request.body_size, lambda: _decode(body, checks_duplicates=validation != IGNORE))
    if value is None:
        value = {}  # to Go, null is an object without fields
    if not isinstance(value, dict):
        why = f"cannot unmarshal {json_kind(value)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: json: {why}")
    given_version, given_kind = value.get("apiVersion") or "", value.get("kind") or ""
    if (given_version, given_kind) != (api_version, kind):
        group_version = given_version if "/" in str(given_version) else f"/{given_version}"
        raise bad_request(f"invalid object type: {group_version}, Kind={given_kind}")
    meta = value.get("metadata")
    if isinstance(meta, dict) and meta.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    if duplicates:
        problem = f"error converting YAML to JSON: {duplicates}"
        if validation == STRICT:
            raise bad_request(f"error strict decoding YAML: {problem}")
        request.warnings.append(" ".join(problem.split()))
    return Configuration(value, is_true(request.query, "force"))


def _decode(body: bytes, *, checks_duplicates: bool) -> tuple[object, str]:
    """Decode YAML. JSON, which nearly all clients send, is decoded as such. Return a text about duplicates, too."""
    try:
        check_depth(body)
        value = msgspec.json.decode(body)
    except RecursionError:
        raise bad_request("error decoding YAML: yaml: exceeded max depth") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            value = load_yaml(body)
        except ValueError as error:
            raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
        return value, duplicate_lines(body) if checks_duplicates else ""
    if not checks_duplicates or not duplicate_fields(body, value):
        return value, ""
    try:
        return value, duplicate_lines(body, is_json=True)  # Kubernetes reads JSON as YAML, too, and names the lines
    except ValueError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
