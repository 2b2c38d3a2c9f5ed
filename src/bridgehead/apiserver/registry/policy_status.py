"""The status of ValidatingAdmissionPolicies: whether their expressions fit the schemas of the resources they name.

`PolicyStatus` follows the stored policies. A policy is checked when its spec changes.
Source: Kubernetes pkg/controller/validatingadmissionpolicystatus.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.fieldmanagement.managers import Writer
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.resources.admissionregistration import VALIDATING_ADMISSION_POLICIES
from bridgehead.storage import Overflow, Record, StorageError, TooOld

from .registry import Registry
from .write import Write

if TYPE_CHECKING:
    from bridgehead.apiserver.cel.types import Type

log = logging.getLogger(__name__)

_WRITER = Writer("kube-controller-manager", subresource="status")


class _Metadata(msgspec.Struct, frozen=True):
    generation: int = 0


class _Status(msgspec.Struct, frozen=True):
    observed_generation: int = msgspec.field(default=0, name="observedGeneration")


class _Policy(msgspec.Struct, frozen=True):
    """The fields that decide whether a policy is to be checked. The decoder skips its other fields."""

    metadata: _Metadata = _Metadata()
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Policy).decode


class PolicyStatus:
    """The controller of the status."""

    def __init__(self, registry: Registry, schema: Schema) -> None:
        self._registry = registry
        self._schema = schema
        self._store = registry.store

    async def run(self) -> None:
        """Follow the stored policies until cancelled."""
        policies = VALIDATING_ADMISSION_POLICIES.id
        while True:
            watch = self._store.watch(policies, since=self._store.revision)
            try:
                for record in self._store.list(policies):
                    await self._check(record)
                async for changes in watch:
                    for change in changes:
                        if change.type != "DELETED":
                            await self._check(change.record)
                return
            except (Overflow, TooOld):
                continue
            finally:
                watch.close()

    async def _check(self, record: Record) -> None:
        """Check a policy whose spec has changed since it was checked."""
        seen = _decode(record.value)
        if seen.status.observed_generation >= seen.metadata.generation:
            return
        spec = msgspec.json.decode(record.value)["spec"]
        # CEL is imported here. A check takes milliseconds; other requests are answered meanwhile.
        try:
            warnings = await asyncio.to_thread(self._warnings, spec)
        except Exception:  # warnings are no reason to end the server
            log.exception("cannot check the types of policy %s", record.key.name)
            return
        checking = {"expressionWarnings": warnings} if warnings else {}

        def change(old: JsonObject) -> JsonObject:
            status = {"observedGeneration": seen.metadata.generation, "typeChecking": checking}
            return {**old, "status": {**old.get("status", {}), **status}}

        try:
            write = Write(VALIDATING_ADMISSION_POLICIES, "", record.key.name, "status", _WRITER)
            await self._registry.update(write, change)
        except (ApiStatus, StorageError) as error:
            # The policy is gone, or is written again: its next change is checked.
            log.debug("cannot write the status of policy %s: %s", record.key.name, error)

    def _warnings(self, spec: JsonObject) -> list[JsonObject]:
        from bridgehead.apiserver.admission.policies.parameters import NotConfigured, find_param_resource
        from bridgehead.apiserver.admission.policies.typechecking import checked_resources, expression_warnings

        table = self._registry.table
        try:
            params = find_param_resource(spec.get("paramKind"), table)
        except NotConfigured:
            params = None
        types = [(one, found) for one in checked_resources(spec, table) if (found := self._type_of(one)) is not None]
        return expression_warnings(spec, types, None if params is None else self._type_of(params))

    def _type_of(self, resource: Resource) -> Type | None:
        from bridgehead.apiserver.admission.policies.typechecking import type_of_resource

        definition = resource.definition
        if definition is not None:
            # The definition's metadata are a reference to Kubernetes' own definition.
            return type_of_resource(definition.name, definition.openapi(3), self._schema.definitions)
        name = self._schema.name_of_kind(resource.group, resource.version, resource.kind)
        return type_of_resource(name, self._schema.definitions)
