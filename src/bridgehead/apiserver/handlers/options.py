"""Options of writes, from the query or from a body of DeleteOptions (source: meta/v1 CreateOptions, DeleteOptions)."""

from __future__ import annotations

from bridgehead.apiserver.bodies.decoding import decode_value
from bridgehead.apiserver.bodies.schema import Shape, conform
from bridgehead.apiserver.errors import SchemaMismatch, bad_request, invalid
from bridgehead.apiserver.http.paths import Query, parse_int
from bridgehead.apiserver.http.request import Request
from bridgehead.apiserver.registry.deletion import BACKGROUND, FOREGROUND, ORPHAN, DeleteOptions
from bridgehead.apiserver.resource import FieldError, JsonObject


def is_dry_run(query: Query) -> bool:
    """Raises a 422 for another value than All."""
    value = query.get("dryRun", "")
    if value not in ("", "All"):
        why = f'Unsupported value: "{value}": supported values: "All"'
        raise invalid("meta.k8s.io", "CreateOptions", "", [FieldError("FieldValueNotSupported", "dryRun", why)])
    return value == "All"


def parse_delete_options(body: bytes, request: Request, shape: Shape) -> DeleteOptions:
    """From the body or, when there is none, from the query. `shape` is that of DeleteOptions. Raises a 400 or a 422."""
    query = request.query
    given: JsonObject = {}
    if body.strip():
        sent = decode_value(body, request.header(b"content-type"), shape)
        if not isinstance(sent, dict) or sent.get("kind") not in (None, "", "DeleteOptions"):
            raise bad_request("the body of a delete must be DeleteOptions")
        try:
            given, _ = conform(sent, shape)
        except SchemaMismatch as mismatch:
            raise bad_request(str(mismatch)) from None
    grace = given.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    policy = given.get("propagationPolicy") or query.get("propagationPolicy", "")
    orphan = given.get("orphanDependents", query.get("orphanDependents"))
    preconditions = given.get("preconditions", {})
    if policy not in ("", ORPHAN, BACKGROUND, FOREGROUND):
        why = f'Unsupported value: "{policy}": supported values: "Background", "Foreground", "Orphan"'
        error = FieldError("FieldValueNotSupported", "propagationPolicy", why)
        raise invalid("meta.k8s.io", "DeleteOptions", "", [error])
    if not policy and orphan is not None:
        policy = ORPHAN if orphan in (True, "true", "1") else BACKGROUND
    try:
        grace_seconds = parse_int(grace) if isinstance(grace, str) else grace
    except ValueError as error:
        raise bad_request(str(error)) from None
    return DeleteOptions(
        grace_seconds=grace_seconds,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        policy=policy,
        dry_run=is_dry_run(query) or "All" in given.get("dryRun", ()),
    )
