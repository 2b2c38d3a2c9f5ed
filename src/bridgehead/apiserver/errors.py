"""Errors of the API server.

    ApiStatus            an answer that is a `Status` with status Failure; the functions below make them
        PageNotFound     a path that no API serves: the answer is a text
    SchemaMismatch       a body does not fit the schema (`shapes`); the handlers wrap it into a 400 or 422
    PatchRefused         a patch can't be applied (`bodies.patch`); the handlers wrap it into a 400, 413 or 422

The functions have the names and texts of Kubernetes' `apimachinery/pkg/api/errors`.
Source: api/errors/errors.go, API conventions "Response Status Kind".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .field import FieldError
from .resource import JsonObject, Resource


class ApiStatus(Exception):
    """A failure that the client gets as a `Status`. `app` sends it. `reason` "": unknown."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: JsonObject | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
        metadata: JsonObject | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = tuple(headers)
        self.metadata = metadata or {}

    def to_object(self) -> JsonObject:
        status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class PageNotFound(ApiStatus):
    """A path that no API serves. As from Go's HTTP library, the answer is a text and no `Status`."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


class TimedOut(ApiStatus):
    """The server ended a request that took too long."""

    def __init__(self, allowed: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(504, "Timeout", f"Timeout: request did not complete within {allowed} timeout", {}, headers)


class SchemaMismatch(Exception):
    """The body does not fit the schema. The text is that of Go's json package, which clients know.

    `types`: the JSON type of the value, and the Go type that it should have.
    """

    def __init__(self, message: str, types: tuple[str, str] | None = None) -> None:
        super().__init__(message)
        self.types = types


class PatchRefused(Exception):
    """A patch that can't be applied.

    `code` is 400 for a malformed patch, 413 for one that is too large, 422 for one that does not fit this object, 500
    for what Kubernetes has no status for.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def success(details: JsonObject) -> JsonObject:
    """Return the `Status` that answers a delete."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def created() -> JsonObject:
    """Return the `Status` that answers a binding or an eviction."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def qualified(resource: str, group: str) -> str:
    """Return a resource's name in messages: `services` or `deployments.apps`."""
    return f"{resource}.{group}" if group else resource


def _details(name: str, group: str, kind: str, **more: Any) -> JsonObject:
    details: JsonObject = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details | more


def bad_request(message: str) -> ApiStatus:
    return ApiStatus(400, "BadRequest", message)


def unauthorized() -> ApiStatus:
    return ApiStatus(401, "Unauthorized", "Unauthorized")


def forbidden(resource: Resource, name: str, why: str, causes: Sequence[JsonObject] = ()) -> ApiStatus:
    """An admission refusal: `pods "x" is forbidden: <why>`."""
    subject = f'{resource.id} "{name}"' if name else resource.id
    details = _details(name, resource.group, resource.plural)
    if causes:
        details["causes"] = list(causes)
    return ApiStatus(403, "Forbidden", f"{subject} is forbidden: {why}", details)


def not_found(resource: Resource, name: str) -> ApiStatus:
    return not_found_named(resource.plural, resource.group, name)


def not_found_named(plural: str, group: str, name: str) -> ApiStatus:
    return ApiStatus(404, "NotFound", f'{qualified(plural, group)} "{name}" not found', _details(name, group, plural))


def not_found_path() -> ApiStatus:
    """No such resource in an API that is served."""
    return ApiStatus(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> ApiStatus:
    return ApiStatus(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_acceptable(accepted: Sequence[str]) -> ApiStatus:
    return ApiStatus(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(accepted)}")


def unsuitable_form(form: str, why: str) -> ApiStatus:
    """A 406 for a form that the answer cannot have: the metadata of one object for a list, or the reverse."""
    return ApiStatus(406, "NotAcceptable", f"you requested {form}, but the requested object {why}")


def already_exists(resource: Resource, name: str) -> ApiStatus:
    return ApiStatus(
        409,
        "AlreadyExists",
        f'{resource.id} "{name}" already exists',
        _details(name, resource.group, resource.plural),
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> ApiStatus:
    return ApiStatus(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {resource.id} "{name}": {why}',
        _details(name, resource.group, resource.plural),
    )


def failed_precondition(resource: Resource, namespace: str, name: str, wanted: str, actual: str) -> ApiStatus:
    """The stored object of an update does not have the UID that the request names.

    The text is that of Kubernetes' storage, whose keys it shows.
    """
    path = "/".join(filter(None, ("/registry", _stored_directory(resource), namespace, name)))
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}"
    error = f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    return conflict(resource, name, error)


# Resources whose directory below /registry has not their name.
# Source: pkg/kubeapiserver/default_storage_factory_builder.go.
_STORED_DIRECTORIES = {
    "endpoints": "services/endpoints",
    "ingresses.networking.k8s.io": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}
_GROUPS_WITH_DIRECTORY = ("apiextensions.k8s.io", "apiregistration.k8s.io")


def _stored_directory(resource: Resource) -> str:
    if resource.definition is not None or resource.group in _GROUPS_WITH_DIRECTORY:
        return f"{resource.group}/{resource.plural}"
    return _STORED_DIRECTORIES.get(resource.id, resource.plural)


def malformed_resource_version(why: str) -> ApiStatus:
    """An update with a resourceVersion that is not a number, which is no refusal of its own in Kubernetes."""
    return ApiStatus(500, "", why)


def failed_delete(resource: Resource, name: str, field: str, wanted: str, actual: str, cause: str) -> ApiStatus:
    """A precondition of a delete on `field` (UID or ResourceVersion) does not hold. `cause` is what may have happened.

    Source: apiserver/pkg/registry/rest/delete.go (BeforeDelete), which names the kind instead of the resource.
    """
    why = f"the {field} in the precondition ({wanted}) does not match the {field} in record ({actual})."
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'Operation cannot be fulfilled on {kind} "{name}": {why} The object might have been {cause}'
    return ApiStatus(409, "Conflict", message, _details(name, resource.group, resource.kind))


def apply_conflict(conflicts: Sequence[tuple[str, str]]) -> ApiStatus:
    """A server-side apply that changes fields of other managers: pairs of a manager's description and a path."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in conflicts
    ]
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        message = f"Apply failed with 1 conflict: conflict with {manager}: {path}"
    else:
        by_manager: dict[str, list[str]] = {}
        for manager, path in conflicts:
            by_manager.setdefault(manager, []).append(path)
        lines = (
            line
            for manager, paths in by_manager.items()
            for line in (f"conflicts with {manager}:", *(f"- {path}" for path in paths))
        )
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return ApiStatus(409, "Conflict", message, {"causes": causes})


def expired(message: str = "The resourceVersion for the provided watch is too old.") -> ApiStatus:
    return ApiStatus(410, "Expired", message)


def expired_list(inconsistent: str = "") -> ApiStatus:
    """A list at a revision that is no longer kept.

    `inconsistent` is a token with which a client gets the rest of the list as it is now.
    """
    if not inconsistent:
        return expired("The resourceVersion for the provided list is too old.")
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    return ApiStatus(410, "Expired", message, metadata={"continue": inconsistent})


def too_large(limit: int) -> ApiStatus:
    return ApiStatus(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def too_large_object() -> ApiStatus:
    """An object that is too large to be stored, with the message of etcd, which programs look for."""
    return ApiStatus(500, "", "etcdserver: request is too large")


def terminating_resource(message: str) -> ApiStatus:
    """A create of a custom resource whose definition is being deleted."""
    return ApiStatus(405, "MethodNotAllowed", message, {})


def unsupported_media_type(given: str, accepted: Sequence[str]) -> ApiStatus:
    return ApiStatus(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted),
        {"causes": [{"reason": "UnexpectedContentType", "message": f"the request said Content-Type: {given}"}]}
        if given
        else None,
    )


def unprocessable() -> ApiStatus:
    """A patch that is well formed but does not fit the object. Kubernetes gives no reason."""
    return ApiStatus(422, "Invalid", "the server rejected our request due to an error in our request", {})


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> ApiStatus:
    """A 422 with a cause for each field."""
    texts = list(dict.fromkeys(f"{error.field}: {error.message}" for error in errors))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": error.reason, "message": error.message, "field": error.field} for error in errors]
    subject = f"{kind}.{group}" if group else kind
    return ApiStatus(
        422, "Invalid", f'{subject} "{name}" is invalid: {text}', _details(name, group, kind, causes=causes)
    )


def invalid_options(method: str, errors: Sequence[FieldError]) -> ApiStatus:
    """A 422 for the options of a write, which are in its query."""
    kind = {"PATCH": "PatchOptions", "PUT": "UpdateOptions", "DELETE": "DeleteOptions"}.get(method, "CreateOptions")
    return invalid("meta.k8s.io", kind, "", errors)


def internal_error(why: str = "see the API server's log") -> ApiStatus:
    """A failure that is not the client's. The details of an unexpected one are in the server's log."""
    return ApiStatus(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})


def timed_out() -> TimedOut:
    """The client has not sent its request in time. The rest of the request is not read."""
    return TimedOut("the allotted", headers=((b"connection", b"close"),))


def outcome_unknown(why: str) -> ApiStatus:
    """A write that may have been carried out or not (`NewTimeoutError`)."""
    return ApiStatus(504, "Timeout", f"Timeout: {why}")


def unavailable(why: str, *, retry_after_seconds: int = 0) -> ApiStatus:
    """The server cannot answer now. Clients repeat the request by themselves if the answer contains a time."""
    details = {"retryAfterSeconds": retry_after_seconds} if retry_after_seconds else None
    return ApiStatus(503, "ServiceUnavailable", why, details)


def too_large_resource_version(asked: int, current: int, *, retry_after_seconds: int = 0) -> ApiStatus:
    """A revision that the store has not reached. Clients repeat the request by themselves if there is a time."""
    details: JsonObject = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
    if retry_after_seconds:
        details["retryAfterSeconds"] = retry_after_seconds
    return ApiStatus(504, "Timeout", f"Timeout: Too large resource version: {asked}, current: {current}", details)
