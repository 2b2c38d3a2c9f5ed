"""Checks of a request's names and preconditions.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.errors import (
    bad_request,
    conflict,
    failed_delete,
    failed_precondition,
    invalid,
    malformed_resource_version,
)
from bridgehead.apiserver.field import IMMUTABLE, Field
from bridgehead.apiserver.http.request_info import parse_uint
from bridgehead.apiserver.resource import Change, JsonObject, Resource

from .deletion import DeleteOptions
from .write import Write


def check_name(given: str, on_url: str) -> None:
    """Raise a 400 if the object has no name or not that of the URL."""
    if not given:
        why = "was undeterminable: name must be provided"
        raise bad_request(f"the name of the object ({on_url} based on URL) {why}")
    if given != on_url:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({on_url})")


def check_url(write: Write, meta: JsonObject) -> None:
    """Raise a 400 if the object's namespace or, with a name on the URL, its name are not those of the URL."""
    _check_namespace(write.resource, write.namespace, meta)
    if write.name:
        check_name(meta.get("name", ""), write.name)


def _check_namespace(resource: Resource, namespace: str, meta: JsonObject) -> None:
    given = meta.get("namespace")
    if given and given != (namespace if resource.namespaced else ""):
        if resource.namespaced:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        meta.pop("namespace")


def check_identity(resource: Resource, meta: JsonObject, old: JsonObject) -> None:
    """Raise a 400 or a 422 if admission gave an object another namespace or name than the stored one has."""
    _check_namespace(resource, old["metadata"].get("namespace", ""), meta)
    name = old["metadata"]["name"]
    if meta.get("name", name) != name:
        error = Field(meta["name"], "metadata.name").invalid(IMMUTABLE)
        raise invalid(resource.group, resource.kind, name, [error])


def check_resource_version(resource: Resource, obj: JsonObject, name: str) -> None:
    """Raise a 422 for an update without the version of the object that it changes."""
    if obj.get("metadata", {}).get("resourceVersion") in (None, "", "0"):
        error = Field(0, "metadata.resourceVersion").invalid("must be specified for an update")
        raise invalid(resource.group, resource.plural, name, [error])


def replacement(write: Write, new: JsonObject, old: JsonObject) -> JsonObject:
    """Return `new`, which replaces the stored object `old` as a whole.

    Raises a 409 if `new` has the uid of another object, and a 422 if it lacks a resourceVersion that it needs.
    """
    wanted, actual = new["metadata"].get("uid"), old["metadata"]["uid"]
    if wanted and wanted != actual:
        raise failed_precondition(write.resource, write.namespace, write.name, wanted, actual)
    if not write.resource.allows_unconditional_update:
        check_resource_version(write.resource, new, write.name)
    return new


def with_same_uid(kind: str, change: Change) -> Change:
    """Return the change of a patch, which raises a 422 if it sets another uid.

    In an update, another uid means another object; in a patch, it is the change of an immutable field.
    """

    def checked(old: JsonObject) -> JsonObject:
        new = change(old)
        uid, before = (new.get("metadata") or {}).get("uid"), old["metadata"].get("uid")
        if uid and before and uid != before:
            group = old.get("apiVersion", "").rpartition("/")[0]
            error = Field(uid, "metadata.uid").invalid(IMMUTABLE)
            raise invalid(group, kind, old["metadata"]["name"], [error])
        return new

    return checked


def check_expected_version(write: Write, meta: JsonObject, revision: int) -> None:
    """Raise a 409 if an update's object has the resourceVersion of another state, a 500 if it is not a number.

    `revision` is that of the stored object.
    """
    given = meta.get("resourceVersion")
    if given in (None, "", "0", str(revision)):
        return
    try:
        expected = parse_uint(given)
    except ValueError as error:
        raise malformed_resource_version(str(error)) from None
    if expected not in (0, revision):
        raise conflict(write.resource, write.name)


def has_version(meta: JsonObject) -> bool:
    """Whether a new object has a resourceVersion that is a number other than 0. Any other text is ignored."""
    try:
        return parse_uint(meta.get("resourceVersion") or "0") != 0
    except ValueError:
        return False


def check_preconditions(write: Write, obj: JsonObject, options: DeleteOptions) -> None:
    """Raise a 409 if the stored object is not the one that shall be deleted."""
    resource, name, meta = write.resource, write.name, obj["metadata"]
    if options.uid is not None and options.uid != meta["uid"]:
        raise failed_delete(resource, name, "UID", options.uid, meta["uid"], "deleted and then recreated")
    if options.resource_version is not None and options.resource_version != meta["resourceVersion"]:
        wanted, actual = options.resource_version, meta["resourceVersion"]
        raise failed_delete(resource, name, "ResourceVersion", wanted, actual, "modified")
