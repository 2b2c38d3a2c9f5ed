"""Admission of one write: which plug-ins are called, and with which forms of the object.

Plug-ins see an object as the client wants it, with default values and managers, before the resource's hooks; then as it
will be stored. The objects of a subresource are those of its view.
Source: apiserver/pkg/endpoints/handlers/{create,update}.go, apiserver/pkg/registry/rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.chain import Chain, Plugin, mutate, validate
from bridgehead.apiserver.fieldmanagement.managers import Entries
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.resource import JsonObject, Resource

from .attempts import Attempts, Draft, with_managers
from .owner_references import with_unique_owners
from .ownership import FIELD
from .request_checks import check_identity, check_url


@dataclass(frozen=True, slots=True)
class View:
    """The object that a subresource shows instead of the stored one, such as a Scale. Admission gets this object.

    `show` makes it from a stored object; `merge` returns the stored object with the changes that admission made to it.
    """

    show: Callable[[JsonObject], JsonObject]
    merge: Callable[[JsonObject, JsonObject], JsonObject]


class WriteAdmission:
    """Admission of one write of a resource. `attributes` None: the server writes, and no plug-in is called."""

    __slots__ = ("_attempts", "_attributes", "_mutators", "_resource", "_validators", "_view")

    def __init__(
        self,
        chain: Chain,
        attempts: Attempts,
        resource: Resource,
        attributes: Attributes | None,
        view: View | None = None,
    ) -> None:
        self._attempts = attempts
        self._resource = resource
        self._attributes = attributes
        self._view = view
        self._validators: list[Plugin] = [] if attributes is None else chain.validators(attributes)
        self._mutators: list[Plugin] = [] if attributes is None else chain.mutators(attributes)

    @property
    def changes(self) -> bool:
        """Whether a plug-in may change the object."""
        return any(plugin.changes for plugin in self._mutators)

    async def mutate_new(self, obj: JsonObject, namespace: str, entries: Entries) -> JsonObject:
        """Let plug-ins change a new object, which they see with its namespace and its managers."""
        attributes = self._attributes
        if attributes is None or not self._mutators:
            return obj  # without duplicate owners: it is as its request was decoded
        meta = obj["metadata"]
        if attributes.resource.namespaced:
            meta["namespace"] = namespace
        if entries:
            meta[FIELD] = entries
        obj = await mutate(self._mutators, attributes, obj, {})
        check_url(attributes.resource, namespace, "", obj.setdefault("metadata", {}))
        return with_unique_owners(obj, attributes.warnings, is_admitted=True)

    async def mutate_changed(self, draft: Draft, subresource: str, size: int) -> None:
        """Let plug-ins change what the request wants; `draft.new` follows. The managers of fields stay.

        `size` is that of the object in bytes.
        """
        attributes = self._attributes
        if attributes is None:
            return
        if self._mutators:
            await self._change(attributes, draft, subresource, size)
        draft.new = with_unique_owners(draft.new, attributes.warnings, is_admitted=True)

    async def _change(self, attributes: Attributes, draft: Draft, subresource: str, size: int) -> None:
        if not self.changes:
            await mutate(self._mutators, attributes, self._show(draft.wanted), self._show(draft.old))
            return
        wanted = await run_long(size, partial(self._attempts.completed, self._resource, draft))
        old = with_managers(draft.old, draft.before)
        admitted = await mutate(self._mutators, attributes, self._show(wanted), self._show(old))
        check_identity(self._resource, admitted.setdefault("metadata", {}), draft.old)
        wanted = admitted if self._view is None else self._view.merge(wanted, admitted)
        wanted.setdefault("metadata", {})
        again = partial(self._attempts.default_changed, self._resource, wanted, draft.old, subresource)
        draft.new = await run_long(size, again)

    async def validate_new(self, obj: JsonObject) -> None:
        """Ask plug-ins about an object that is going to be created. Raises `ApiStatus`."""
        if self._attributes is not None and self._validators:
            await validate(self._validators, self._attributes, obj, {})

    async def validate_changed(self, new: JsonObject, draft: Draft) -> None:
        """Ask plug-ins about an object that is going to be stored. Raises `ApiStatus`."""
        if self._attributes is not None and self._validators:
            old = with_managers(draft.old, draft.before)
            await validate(self._validators, self._attributes, self._show(new), self._show(old))

    def warn(self, texts: list[str]) -> None:
        """Add warnings about the stored object to the request's; those of a view would be about hidden fields."""
        if self._attributes is not None and self._view is None:
            self._attributes.warnings += texts

    def _show(self, obj: JsonObject) -> JsonObject:
        return obj if self._view is None else self._view.show(obj)
