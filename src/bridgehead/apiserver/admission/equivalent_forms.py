"""Objects in the version that a webhook or a policy asks for (matchPolicy Equivalent), and back."""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject, Resource

from .attributes import Attributes


class Forms:
    """The forms of one request's objects.

    Plug-ins get and return objects as the request's resource stores them (`stored_form`), and custom resources in the
    version of the request.
    """

    def __init__(self, attributes: Attributes) -> None:
        # Objects of other kinds, such as a Scale, have one form.
        self._is_converted = attributes.kind is None
        self._own = attributes.resource
        # Forms of unchanged objects. The object is kept, too, so that its identity stays its own.
        self._shown: dict[tuple[int, str], tuple[JsonObject, JsonObject]] = {}

    async def shown(self, obj: JsonObject, resource: Resource) -> JsonObject:
        """Return an object as `resource` serves it. Raises `ApiStatus` when its conversion fails."""
        if not obj or not self._is_converted:
            return obj
        if resource.stored_form is not None:
            return resource.stored_form.from_stored(obj)
        converter = self._own.converter
        if converter is None or resource.version == self._own.version:
            return obj
        key = id(obj), resource.version
        if key not in self._shown:
            self._shown[key] = obj, await converter.converted(obj, resource)
        return self._shown[key][1]

    async def taken(self, obj: JsonObject, resource: Resource) -> JsonObject:
        """Return an object that `resource` serves in the form that plug-ins get. Raises `ApiStatus`."""
        if not self._is_converted:
            return obj
        if resource.stored_form is not None:
            return resource.stored_form.to_stored(obj)
        if resource.converter is None:
            return obj
        return await resource.converter.converted(obj, self._own)
