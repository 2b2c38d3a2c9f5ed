"""Options of writes, from the query or from a DeleteOptions body.

Source: meta/v1 CreateOptions, UpdateOptions, DeleteOptions.
"""

from __future__ import annotations

from functools import lru_cache

from bridgehead.apiserver.bodies.conforming import conform
from bridgehead.apiserver.bodies.decoding import decode_value
from bridgehead.apiserver.bodies.serialization import DELETE_OPTIONS, kind_and_version
from bridgehead.apiserver.errors import SchemaMismatch, bad_request, invalid_options
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.fieldmanagement.managers import APPLY, MAX_NAME_BYTES, UPDATE, Writer, manager_of
from bridgehead.apiserver.http.request import Request
from bridgehead.apiserver.http.request_info import Query, is_true, parse_int
from bridgehead.apiserver.registry.deletion import BACKGROUND, FOREGROUND, ORPHAN, DeleteOptions
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import Shape

# The registry of kinds in which Kubernetes looks up the kind of a delete's options.
_SCHEME = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"


def is_dry_run(request: Request) -> bool:
    """Whether the query asks for a dry run. Raises a 422 for another value than All."""
    if "dryRun" not in request.query:
        return False
    values = Field([request.query["dryRun"]], "dryRun")
    _validate_dry_run(values)
    if values.errors:
        raise invalid_options(request.method, values.errors)
    return True


def _validate_dry_run(values: Field) -> None:
    if any(value != "All" for value in values.value or ()):
        values.not_supported(("All",))


def parse_writer(request: Request, *, operation: str = UPDATE) -> Writer:
    """Return the manager that a write is made for: the query's, or the program in the User-Agent.

    Raises a 422, also for a `dryRun` that is not All.
    """
    query, subresource = request.query, request.info.subresource
    manager = query.get("fieldManager", "")
    is_patch = request.method == "PATCH"
    if not manager and not is_patch and "dryRun" not in query:
        return _program(request.header(b"user-agent"), subresource)
    options = Field(query)
    if operation == APPLY:
        options.at("fieldManager").must_be_set("is required for apply patch")
    elif is_patch and "force" in query:
        options.at("force").forbidden("may not be specified for non-apply patch")
    if manager:
        _validate_manager(options.at("fieldManager"))
    if "dryRun" in query:
        _validate_dry_run(options.at("dryRun").showing([query["dryRun"]]))
    if options.errors:
        raise invalid_options(request.method, options.errors)
    if not manager:
        return _program(request.header(b"user-agent"), subresource)
    return Writer(manager, operation, subresource)


@lru_cache(maxsize=256)
def _program(user_agent: str, subresource: str) -> Writer:
    return Writer(manager_of(user_agent), UPDATE, subresource)


def _validate_manager(manager: Field) -> None:
    name = manager.value
    if len(name.encode()) > MAX_NAME_BYTES:
        manager.too_long(MAX_NAME_BYTES)
    for position, character in enumerate(name):
        if not character.isprintable():
            at = len(name[:position].encode())
            manager.invalid(f"invalid character U+{ord(character):04X} (at position {at})")


def parse_delete_options(body: bytes, request: Request, shape: Shape) -> tuple[DeleteOptions, bool]:
    """Return the options in the body or, without one, in the query, and whether they ask for a dry run.

    `shape` is that of DeleteOptions. Raises a 400 or a 422.
    """
    given = _sent_delete_options(body, request, shape) if body else _queried_delete_options(request.query)
    _check_delete_options(given)
    policy, orphan = given.get("propagationPolicy"), given.get("orphanDependents")
    preconditions = given.get("preconditions", {})
    if policy is None and orphan is not None:
        policy = ORPHAN if orphan else BACKGROUND
    options = DeleteOptions(
        grace_seconds=given.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        policy=policy or "",
        is_accepted=policy == FOREGROUND or (policy == BACKGROUND and orphan is not None),
    )
    return options, bool(given.get("dryRun"))


def _check_delete_options(given: JsonObject) -> None:
    """Raise a 422 for options that exclude each other or have unknown values."""
    options = Field(given)
    policy, orphan = options.at("propagationPolicy"), options.at("orphanDependents")
    if policy.value is not None and orphan.value is not None:
        policy.invalid("orphanDependents and deletionPropagation cannot be both set")
    if policy.value not in (None, ORPHAN, BACKGROUND, FOREGROUND):
        policy.not_supported((FOREGROUND, BACKGROUND, ORPHAN, "nil"))
    _validate_dry_run(options.at("dryRun"))
    if options.errors:
        raise invalid_options("DELETE", options.errors)


def _sent_delete_options(body: bytes, request: Request, shape: Shape) -> JsonObject:
    """Return the options in a body; the query has none then. Raises a 400."""
    sent = decode_value(body, request.header(b"content-type"), shape, DELETE_OPTIONS)
    if sent is None:
        return {}
    kind, version = kind_and_version(sent, body, DELETE_OPTIONS)
    if kind not in ("", DELETE_OPTIONS):
        version = version or "meta.k8s.io/v1"
        raise bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme "{_SCHEME}"')
    try:
        return conform(sent, shape)[0]
    except SchemaMismatch as mismatch:
        raise bad_request(str(mismatch)) from None


def _queried_delete_options(query: Query) -> JsonObject:
    """Return the options in a query. Raises a 400."""
    options: JsonObject = {}
    if "gracePeriodSeconds" in query:
        try:
            options["gracePeriodSeconds"] = parse_int(query["gracePeriodSeconds"])
        except ValueError as error:
            raise bad_request(str(error)) from None
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in query:
        options["orphanDependents"] = is_true(query, "orphanDependents")
    if "dryRun" in query:
        options["dryRun"] = [query["dryRun"]]
    if preconditions := {name: query[name] for name in ("uid", "resourceVersion") if query.get(name)}:
        options["preconditions"] = preconditions
    return options
