"""The write that a request asks for, and its attributes for admission."""

from __future__ import annotations

from bridgehead.apiserver.admission.attributes import CREATE, DELETE, UPDATE, Attributes
from bridgehead.apiserver.fieldmanagement.managers import Writer
from bridgehead.apiserver.http.request import Request
from bridgehead.apiserver.http.request_info import Query
from bridgehead.apiserver.registry.deletion import DeleteOptions
from bridgehead.apiserver.registry.write import View, Write
from bridgehead.apiserver.resource import JsonObject, Resource

Kind = tuple[str, str, str]


def create_of(request: Request, resource: Resource, name: str, writer: Writer) -> Write:
    """Return the write of a create of an object with this name, "" for one that is generated."""
    attributes = attributes_of(request, resource, CREATE, name=name)
    return Write(
        resource,
        request.info.namespace,
        writer=writer,
        attributes=attributes,
        dry_run=attributes.dry_run,
        size=request.body_size,
    )


def update_of(
    request: Request, resource: Resource, writer: Writer, *, view: View | None = None, kind: Kind | None = None
) -> Write:
    """Return the write of an update, a patch or an apply. `view` and `kind` are of a subresource with its own kind."""
    info, attributes = request.info, attributes_of(request, resource, UPDATE, kind=kind)
    return Write(
        resource,
        info.namespace,
        info.name,
        info.subresource,
        writer,
        attributes,
        view,
        attributes.dry_run,
        request.body_size,
    )


def delete_of(request: Request, resource: Resource, options: DeleteOptions, *, dry_run: bool) -> Write:
    """Return the write of a delete. In that of a collection, the name is to be replaced by each object's."""
    info = request.info
    attributes = attributes_of(request, resource, DELETE, options=_delete_options(options, dry_run=dry_run))
    return Write(resource, info.namespace, info.name, attributes=attributes, dry_run=dry_run)


def attributes_of(
    request: Request,
    resource: Resource,
    operation: str,
    *,
    name: str = "",
    kind: Kind | None = None,
    options: JsonObject | None = None,
) -> Attributes:
    """Return the attributes of a write. `name` is for a create, whose path has none; `options` None: the query's."""
    info = request.info
    name = info.name or name
    options = _query_options(request.query) if options is None else options
    return Attributes(
        operation,
        resource,
        info.subresource,
        # A new Namespace has no namespace in its path.
        info.namespace or (name if resource.id == "namespaces" else ""),
        name,
        request.user,
        "dryRun" in options,
        options,
        kind,
        request.warnings,
        request.annotations,
        verb="" if operation == DELETE else info.verb,
    )


def _query_options(query: Query) -> JsonObject:
    if not query:
        return {}
    options: JsonObject = {field: query[field] for field in ("fieldManager", "fieldValidation") if query.get(field)}
    if query.get("dryRun"):
        options["dryRun"] = [query["dryRun"]]
    return options


def _delete_options(options: DeleteOptions, *, dry_run: bool) -> JsonObject:
    obj: JsonObject = {}
    if options.grace_seconds is not None:
        obj["gracePeriodSeconds"] = options.grace_seconds
    given = {"uid": options.uid, "resourceVersion": options.resource_version}
    preconditions = {name: value for name, value in given.items() if value is not None}
    if preconditions:
        obj["preconditions"] = preconditions
    if options.policy:
        obj["propagationPolicy"] = options.policy
    if dry_run:
        obj["dryRun"] = ["All"]
    return obj
