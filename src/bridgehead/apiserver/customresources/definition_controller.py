"""The controller of definitions: it follows the store and makes the table agree with it.

For each definition it decides about names, serves the versions, sets the conditions, and begins the removal of one that
is being deleted. Definitions of the store are served before the first request. Every request sees the table as the
definitions are that the store shows (`sync_table`), also when another server has decided about them.
Source: apiextensions-apiserver/pkg/controller: status, establish, apiapproval.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.resources.shared.conditions import find_condition
from bridgehead.apiserver.shapes import Shape
from bridgehead.apiserver.webhookclient.client import WebhookClient
from bridgehead.objects.times import format_time
from bridgehead.storage import Key, Overflow, StorageError, TooOld

from .accepted_names import decide_names, establish
from .approval import approval_condition
from .definitions import (
    ESTABLISHED,
    FINALIZER,
    ID,
    NAMES_ACCEPTED,
    TERMINATING,
    is_served,
    is_true,
    same_condition,
    with_conditions,
)
from .removal import Removals, update_definition

if TYPE_CHECKING:
    from .conversion import Conversion, VersionConverter
    from .schema import Structural
    from .serving import CustomVersion

log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0

_decode = msgspec.json.decode


@dataclass(frozen=True, slots=True)
class _Known:
    """A definition as the controller remembers it. `digest` is that of what is served, "" if nothing is."""

    group: str
    names: JsonObject
    digest: str
    is_terminating: bool
    converters: tuple[VersionConverter, ...]


class Definitions:
    """The definitions of a server. `run` follows them."""

    def __init__(self, registry: Registry, metadata: Callable[[], Shape], client: WebhookClient) -> None:
        """Follow the definitions of a registry. `metadata` returns the shape of ObjectMeta."""
        self._registry = registry
        self._store = registry.store
        self._table = registry.table
        self._metadata = metadata
        self._client = client
        self._known: dict[str, _Known] = {}
        self._removals = Removals(registry)
        self._since = self._store.revision
        # Changes that the table does not show yet, and definitions whose names may be free since it does.
        self._unshown = self._store.watch(ID, since=self._since)
        self._waiting: set[str] = set()
        registry.sync_table = self.sync_table

    def load(self) -> None:
        """Serve the stored definitions, before the server answers requests."""
        self._since = self._store.revision
        self._unshown.close()
        self._unshown = self._store.watch(ID, since=self._since)
        for name in {record.key.name for record in self._store.list(ID)} | set(self._known):
            self._serve_stored(name)

    def sync_table(self) -> None:
        """Make the table agree with the definitions that the store shows."""
        try:
            changes = self._unshown.pending()
        except Overflow:
            self.load()
            return
        for name in {change.record.key.name for change in changes}:
            self._serve_stored(name)

    def _serve_stored(self, name: str) -> None:
        """Serve a definition as it is stored, also without one."""
        record, known = self._store.get(Key(ID, "", name)), self._known.get(name)
        try:
            crd = None if record is None else _decode(record.value)
            self._serve(name, crd, is_now_served=crd is not None and is_served(crd))
        except Exception:  # of one definition, such as one that an earlier version of the server accepted
            log.exception("cannot serve the CustomResourceDefinition %s", name)
            return
        if known is not None and (crd is None or known.names != crd.get("status", {}).get("acceptedNames")):
            self._waiting.update(self._others(known.group, name))

    async def run(self) -> None:
        """Follow the definitions until cancelled."""
        try:
            while True:
                with suppress(Overflow, TooOld):
                    await self._follow()
                    return
                self._since = self._store.revision
        finally:
            self._removals.cancel()
            self._unshown.close()

    async def _follow(self) -> None:
        watch = self._store.watch(ID, since=self._since)
        changes = aiter(watch)
        names = {record.key.name for record in self._store.list(ID)} | set(self._known)
        try:
            while True:
                names = await self._sync_all(names | self._take_waiting())
                if self._waiting:
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_SECONDS if names else None):
                        names |= {change.record.key.name for change in await anext(changes)}
        except StopAsyncIteration:
            return
        finally:
            watch.close()

    def _take_waiting(self) -> set[str]:
        waiting, self._waiting = self._waiting, set()
        return waiting

    async def _sync_all(self, names: set[str]) -> set[str]:
        """Sync definitions; return the names of those to retry."""
        waiting, failed = sorted(names), set()
        while waiting:
            name = waiting.pop(0)
            try:
                waiting += [other for other in await self._sync(name) if other not in waiting]
            except (ApiStatus, StorageError) as error:
                log.warning("cannot update the CustomResourceDefinition %s: %s", name, error)
                failed.add(name)
            except Exception:  # of one definition; the others must go on
                log.exception("cannot follow the CustomResourceDefinition %s", name)
        return failed

    async def _sync(self, name: str) -> list[str]:
        """Sync one definition; return the definitions whose names may be free now."""
        self.sync_table()
        record = self._store.get(Key(ID, "", name))
        known = self._known.get(name)
        if record is None:
            if known is None:
                return []
            self._serve(name, None, is_now_served=False)
            return self._others(known.group, name)
        crd: JsonObject = _decode(record.value)
        if "deletionTimestamp" in crd["metadata"]:
            self._serve(name, crd, is_now_served=is_served(crd))
            if FINALIZER in crd["metadata"].get("finalizers", ()):
                self._removals.begin(name)
            return []
        wanted = self._with_status(name, crd)
        self._serve(name, wanted, is_now_served=is_served(wanted))
        if wanted is not crd:
            await self._set_status(name, record.revision, wanted["status"])
        if known is not None and known.names != wanted["status"].get("acceptedNames"):
            return self._others(known.group, name)
        return []

    def _others(self, group: str, name: str) -> list[str]:
        """Return the definitions of a group that wait for names."""
        return [other for other, known in self._known.items() if known.group == group and other != name]

    def _with_status(self, name: str, crd: JsonObject) -> JsonObject:
        """Return the definition with the names and conditions that it should have; itself if it has them."""
        group, status = crd["spec"]["group"], crd.get("status", {})
        conditions = status.get("conditions") or []
        accepted, changed = status.get("acceptedNames") or {}, []
        if accepted != crd["spec"]["names"] or find_condition(conditions, NAMES_ACCEPTED) is None:
            others = [
                {"status": {"acceptedNames": known.names}}
                for other, known in self._known.items()
                if known.group == group and other != name
            ]
            naming = decide_names(crd, others)
            accepted, changed = naming.accepted, list(naming.conditions)
            if naming.conditions[0]["status"] == "True":
                changed[1] = establish(crd)
        elif is_true(crd, NAMES_ACCEPTED) and not is_true(crd, ESTABLISHED):
            changed.append(establish(crd))
        approval = approval_condition(crd)
        if approval is not None:
            changed.append(approval)
        changed = [one for one in changed if not same_condition(one, find_condition(conditions, one["type"]))]
        if not changed and accepted == (status.get("acceptedNames") or {}):
            return crd
        wanted = {**crd, "status": {**status, "acceptedNames": accepted}}
        return with_conditions(wanted, changed, format_time(self._registry.clock()))

    async def _set_status(self, name: str, revision: int, status: JsonObject) -> None:
        """Write the status of a definition, unless the definition has changed since `revision`."""

        def change(old: JsonObject) -> JsonObject:
            if old["metadata"]["resourceVersion"] != str(revision):
                return old  # the change is synced next
            return {**old, "status": status}

        await update_definition(self._registry, name, change, "status")

    # --- the table

    def _serve(self, name: str, crd: JsonObject | None, *, is_now_served: bool) -> None:
        """Make the table agree with a definition; None: there is no definition of this name any more."""
        known = self._known.get(name)
        # Kubernetes' own resources cannot be replaced.
        is_now_served = is_now_served and all(one.definition for one in self._table.versions(name))
        if crd is None or not is_now_served:
            if known is not None and known.digest:
                self._table.remove(name)
                _retire(known)
            if crd is None:
                self._known.pop(name, None)
            else:
                names = crd.get("status", {}).get("acceptedNames") or {}
                self._known[name] = _Known(crd["spec"]["group"], names, "", False, ())
            return
        names, is_terminating = crd["status"]["acceptedNames"], is_true(crd, TERMINATING)
        digest = hashlib.sha256(msgspec.json.encode([crd["metadata"]["uid"], crd["spec"], names])).hexdigest()
        if known is not None and known.digest == digest:
            if is_terminating and not known.is_terminating:
                self._refuse_creates(name)
                self._known[name] = replace(known, is_terminating=True)
            return
        resources, converters = self._resources(crd)
        self._table.replace(name, *resources)
        self._known[name] = _Known(crd["spec"]["group"], names, digest, is_terminating, converters)
        if known is not None:
            _retire(known)

    def _resources(self, crd: JsonObject) -> tuple[list[Resource], tuple[VersionConverter, ...]]:
        # The schemas are loaded with the first definition.
        from .conversion import VersionConverter
        from .serving import custom_versions, with_converter

        versions = custom_versions(crd, self._metadata)
        storage = next(version.resource for version in versions if version.is_stored)
        schemas = {one.resource.api_version: _structural(one) for one in versions}
        conversion = self._conversion(crd)
        resources, converters = [], []
        for version in versions:
            # A group version of Kubernetes' own has no custom resources.
            if not version.is_served or self._table.has_built_in(crd["spec"]["group"], version.resource.version):
                continue
            converter = VersionConverter(
                version.resource, storage, schemas, conversion, self._registry.facts, self._store.revision
            )
            resources.append(with_converter(version, converter))
            converters.append(converter)
        return resources, tuple(converters)

    def _conversion(self, crd: JsonObject) -> Conversion:
        from .conversion import NoConversion, WebhookConversion

        conversion = crd["spec"].get("conversion") or {}
        if conversion.get("strategy") == "Webhook":
            return WebhookConversion(conversion["webhook"], self._client)
        return NoConversion()

    def _refuse_creates(self, name: str) -> None:
        """Refuse new instances, and keep all else as it is."""
        from .serving import TERMINATING_REFUSAL

        changed = [replace(one, refuses_create=TERMINATING_REFUSAL) for one in self._table.versions(name)]
        self._table.replace(name, *changed)


def _structural(version: CustomVersion) -> Callable[[], Structural]:
    return lambda: version.schema.structural


def _retire(known: _Known) -> None:
    for converter in known.converters:
        converter.retire()
