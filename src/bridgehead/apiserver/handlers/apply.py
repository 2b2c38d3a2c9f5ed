"""Server-side apply: PATCH requests with a configuration that the object shall have.

Source: apiserver/pkg/endpoints/handlers/patch.go (applyPatcher), apimachinery/pkg/util/managedfields.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from msgspec.structs import replace

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.bodies.apply_requests import Configuration
from bridgehead.apiserver.bodies.conforming import conform
from bridgehead.apiserver.errors import (
    ApiStatus,
    SchemaMismatch,
    apply_conflict,
    bad_request,
    conflict,
    malformed_resource_version,
)
from bridgehead.apiserver.fieldmanagement.applying import Applied, apply, check_configuration
from bridgehead.apiserver.fieldmanagement.errors import BadConfiguration, Conflicts
from bridgehead.apiserver.fieldmanagement.managers import Entries, Writer
from bridgehead.apiserver.fieldmanagement.path_steps import path_text
from bridgehead.apiserver.http.request import Request
from bridgehead.apiserver.http.request_info import parse_uint
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.registry.request_checks import check_name
from bridgehead.apiserver.registry.write import Merge
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.objects.times import format_time
from bridgehead.storage import Record

from .scale_views import replicas_path, with_value
from .stored_forms import check_own_form
from .writes import create_of, update_of

# An attempt fails only when another client creates or deletes the object at the same time.
_ATTEMPTS = 20


class Applier:
    """Carries out apply requests. `authorizer` decides whether a user may also create the object."""

    def __init__(self, registry: Registry, authorizer: Authorizer) -> None:
        self._registry = registry
        self._authorizer = authorizer

    async def apply(
        self, request: Request, resource: Resource, configuration: Configuration, writer: Writer
    ) -> tuple[Record, bool]:
        """Apply a configuration; return the object and whether it is new. Raises a 400, 403, 404, 409 or 422."""
        merge = self.merge_of(resource, configuration, writer)
        write = update_of(request, resource, writer)
        for attempt in range(_ATTEMPTS):
            is_last = attempt == _ATTEMPTS - 1
            try:
                return await self._registry.apply(write, merge), False
            except ApiStatus as status:
                if status.code != 404 or write.subresource or is_last:
                    raise
            try:
                return await self._create(request, resource, merge, writer), True
            except ApiStatus as status:
                if status.reason != "AlreadyExists" or is_last:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def merge_of(self, resource: Resource, configuration: Configuration, writer: Writer) -> Merge:
        """Return the function that applies a configuration. Raises a 400 for one that does not fit the type."""
        wanted, form = configuration.value, resource.stored_form
        if form is not None:
            with reported():
                own = self._registry.ownership.root_of(resource.group, resource.version, resource.kind)
                check_configuration(configuration.value, own)
            wanted = form.to_stored(wanted)
        return self._merge_of_stored(resource, wanted, writer, force=configuration.force)

    def scale_merge_of(self, resource: Resource, configuration: Configuration, writer: Writer) -> Merge:
        """Return the function that applies a Scale to the object that it scales. Raises a 400 as `merge_of`."""
        with reported():
            check_configuration(configuration.value, self._registry.ownership.root_of("autoscaling", "v1", "Scale"))
        spec: JsonObject = configuration.value.get("spec") or {}
        names = configuration.value.get("metadata") or {}
        wanted: JsonObject = {"apiVersion": resource.api_version, "kind": resource.kind}
        if names.get("resourceVersion"):
            wanted["metadata"] = {"resourceVersion": names["resourceVersion"]}
        if "replicas" in spec:
            wanted = with_value(wanted, replicas_path(resource), spec["replicas"])
        return self._merge_of_stored(resource, wanted, writer, force=configuration.force)

    def _merge_of_stored(self, resource: Resource, wanted: JsonObject, writer: Writer, *, force: bool) -> Merge:
        """Return the function that applies `wanted`, which is in the form that is stored."""
        kind, shape = self._registry.ownership.kind(resource), self._registry.shape(resource.stored)

        def merge(live: JsonObject, managers: Entries) -> Applied:
            now = format_time(self._registry.clock())
            with reported():
                obj, managers = apply(kind, live, managers, wanted, writer, now, force=force)
                obj, _ = conform(obj, shape)
            check_own_form(resource, obj, live, writer.subresource)
            return Applied(obj, managers)

        return merge

    async def _create(self, request: Request, resource: Resource, merge: Merge, writer: Writer) -> Record:
        """Create the object. Raises a 403 if the user may only patch it."""
        info = request.info
        self._authorizer.check(request.user, replace(info, verb="create"))
        obj, managers = await run_long(request.body_size, partial(merge, {}, []))
        meta = obj.setdefault("metadata", {})
        check_name(meta.setdefault("name", info.name), info.name)
        if meta.get("uid"):
            why = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
            raise conflict(resource, info.name, why)
        # An apply is an update, also of what is not there: its version is parsed, but not compared with any.
        try:
            parse_uint(meta.pop("resourceVersion", None) or "0")
        except ValueError as error:
            raise malformed_resource_version(str(error)) from None
        return await self._registry.create(create_of(request, resource, info.name, writer), obj, managers)


@contextmanager
def reported() -> Iterator[None]:
    """Turn errors of an apply into answers."""
    try:
        yield
    except BadConfiguration as error:
        raise bad_request(str(error)) from None
    except SchemaMismatch as mismatch:
        raise bad_request(f"failed to convert new typed object to object: {mismatch}") from None
    except Conflicts as error:
        raise apply_conflict([(manager, path_text(path)) for manager, path in error.conflicts]) from None
