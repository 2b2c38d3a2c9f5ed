"""Admission of one write: which plug-ins are called, and with which forms of the object.

Plug-ins see an object as the client wants it, with default values and managers, before the resource's hooks; then as it
will be stored. The objects of a subresource are those of its view.
Source: apiserver/pkg/endpoints/handlers/{create,update}.go, apiserver/pkg/registry/rest.
"""

from __future__ import annotations

from bridgehead.apiserver.admission.chain import Chain, Plugin, charge, mutate, validate
from bridgehead.apiserver.fieldmanagement.managers import Entries
from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage import Companions

from .managed_fields import FIELD
from .owner_references import with_unique_owners
from .request_checks import check_identity, check_url
from .write import Write
from .write_steps import Changed, Draft, New, with_managers


class WriteAdmission:
    """Admission of one write. No plug-in is called for a write of the server itself, which has no attributes."""

    __slots__ = ("_attributes", "_chargers", "_mutators", "_validators", "_write")

    def __init__(self, chain: Chain, write: Write) -> None:
        attributes = self._attributes = write.attributes
        self._write = write
        self._validators: list[Plugin] = [] if attributes is None else chain.validators(attributes)
        self._mutators: list[Plugin] = [] if attributes is None else chain.mutators(attributes)
        self._chargers: list[Plugin] = [] if attributes is None else chain.chargers(attributes)

    @property
    def changes(self) -> bool:
        """Whether a plug-in may change the object."""
        return any(plugin.changes for plugin in self._mutators)

    async def mutate_new(self, obj: JsonObject, managers: Entries) -> JsonObject:
        """Let plug-ins change a new object, which they see with its namespace and its managers. Raises `ApiStatus`."""
        write, attributes = self._write, self._attributes
        if attributes is None or not self._mutators:
            return obj  # without duplicate owners: it is as its request was decoded
        meta = obj["metadata"]
        if write.resource.namespaced:
            meta["namespace"] = write.namespace
        if managers:
            meta[FIELD] = managers
        obj = await mutate(self._mutators, attributes, obj, {})
        check_url(write, obj.setdefault("metadata", {}))
        return with_unique_owners(obj, attributes.warnings, is_admitted=True)

    async def mutate_changed(self, draft: Draft) -> JsonObject | None:
        """Return what plug-ins make of what the request wants; None: they do not change it. Raises `ApiStatus`."""
        attributes, view = self._attributes, self._write.view
        if attributes is None or not self._mutators:
            return None
        if not self.changes:
            await mutate(self._mutators, attributes, self._show(draft.wanted), self._show(draft.old))
            return None
        old = with_managers(draft.old, draft.before)
        admitted = await mutate(self._mutators, attributes, self._show(draft.wanted), self._show(old))
        check_identity(self._write.resource, admitted.setdefault("metadata", {}), draft.old)
        return admitted if view is None else view.write_back(draft.wanted, admitted)

    async def validate_new(self, new: New) -> None:
        """Ask plug-ins about an object that is going to be created. Raises `ApiStatus`."""
        if self._attributes is not None and self._validators:
            await validate(self._validators, self._attributes, new.obj, {})

    async def validate_changed(self, changed: Changed, draft: Draft) -> None:
        """Ask plug-ins about an object that is going to be stored. Raises `ApiStatus`."""
        if self._attributes is not None and self._validators:
            old = with_managers(draft.old, draft.before)
            await validate(self._validators, self._attributes, self._show(changed.obj), self._show(old))

    def charge_new(self, obj: JsonObject) -> Companions:
        """Return the writes of plug-ins to commit with a new object that they have validated. Raises `ApiStatus`."""
        if self._attributes is None or not self._chargers:
            return ()
        return charge(self._chargers, self._attributes, obj, {})

    def charge_changed(self, changed: Changed, draft: Draft) -> Companions:
        """Return the writes of plug-ins to commit with an object that they have validated. Raises `ApiStatus`."""
        if self._attributes is None or not self._chargers:
            return ()
        old = with_managers(draft.old, draft.before)
        return charge(self._chargers, self._attributes, self._show(changed.obj), self._show(old))

    def warn(self, texts: list[str]) -> None:
        """Add warnings about the stored object to the request's; those of a view would be about hidden fields."""
        if self._attributes is not None and self._write.view is None:
            self._attributes.warnings += texts

    def _show(self, obj: JsonObject) -> JsonObject:
        view = self._write.view
        return obj if view is None else view.show(obj)
