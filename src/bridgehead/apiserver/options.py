"""Options of writes, from the query or from a body of DeleteOptions (source: meta/v1 CreateOptions, DeleteOptions)."""

from __future__ import annotations

from typing import Any

from .deletion import BACKGROUND, FOREGROUND, ORPHAN, DeleteOptions
from .errors import bad_request, invalid
from .negotiation import decode_body
from .paths import Query, is_true
from .request import Request
from .resource import FieldError


def is_dry_run(query: Query) -> bool:
    """Raises a 422 for another value than All."""
    value = query.get("dryRun", "")
    if value not in ("", "All"):
        why = f'Unsupported value: "{value}": supported values: "All"'
        raise invalid("meta.k8s.io", "CreateOptions", "", [FieldError("FieldValueNotSupported", "dryRun", why)])
    return value == "All"


def parse_delete_options(body: bytes, request: Request) -> DeleteOptions:
    """From the body or, when there is none, from the query. Raises a 400 or a 422."""
    query = request.query
    given: Any = {}
    if body.strip():
        given = decode_body(body, request.header(b"content-type"))
        if not isinstance(given, dict):
            raise bad_request("the body of a delete must be DeleteOptions")
        if given.get("kind") not in (None, "", "DeleteOptions"):
            raise bad_request(f"the body of a delete must be DeleteOptions, not {given['kind']}")
    grace = given.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    policy = given.get("propagationPolicy") or query.get("propagationPolicy", "")
    orphan = given.get("orphanDependents", query.get("orphanDependents"))
    preconditions = given.get("preconditions") or {}
    if policy not in ("", ORPHAN, BACKGROUND, FOREGROUND):
        why = f'Unsupported value: "{policy}": supported values: "Background", "Foreground", "Orphan"'
        raise invalid(
            "meta.k8s.io", "DeleteOptions", "", [FieldError("FieldValueNotSupported", "propagationPolicy", why)]
        )
    if not policy and orphan is not None:
        policy = ORPHAN if orphan in (True, "true", "1") else BACKGROUND
    try:
        grace_seconds = None if grace is None else int(grace)
    except (TypeError, ValueError):
        raise bad_request(f"gracePeriodSeconds must be a number, not {grace!r}") from None
    if not isinstance(preconditions, dict):
        raise bad_request("preconditions must be an object")
    return DeleteOptions(
        grace_seconds=grace_seconds,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        policy=policy,
        dry_run=is_true(query, "dryRun") or "All" in (given.get("dryRun") or ()),
    )
