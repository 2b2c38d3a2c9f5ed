"""Objects in the version that a webhook asks for (matchPolicy Equivalent), and back."""

from __future__ import annotations

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.resource import JsonObject, Resource


class Forms:
    """The forms of one request's objects. Plug-ins get and return objects in the form of the request's resource."""

    def __init__(self, attributes: Attributes) -> None:
        # Objects of other kinds, such as a Scale, have one form.
        self._is_converted = attributes.kind is None
        self._own = attributes.resource

    async def shown(self, obj: JsonObject, resource: Resource) -> JsonObject:
        """Return an object as `resource` serves it. Raises `ApiStatus` when its conversion fails."""
        if obj and self._is_converted and self._own.converter is not None:
            return await self._own.converter.converted(obj, resource)
        if not obj or not self._is_converted or resource.stored_form is None:
            return obj
        return resource.stored_form.from_stored(obj)

    async def taken(self, obj: JsonObject, resource: Resource) -> JsonObject:
        """Return an object that `resource` serves in the form that plug-ins get. Raises `ApiStatus`."""
        if obj and self._is_converted and resource.converter is not None:
            return await resource.converter.converted(obj, self._own)
        if not self._is_converted or resource.stored_form is None:
            return obj
        return resource.stored_form.to_stored(obj)
