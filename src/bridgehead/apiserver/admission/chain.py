"""The chain of admission plug-ins.

A plug-in is a `Plugin`. The chain asks each whether it handles a request, and calls those that do, one after the other.
Source: apiserver/pkg/admission/chain.go, reinvocation.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage import Companions

from .attributes import Attributes

_MAX_KEPT = 4096  # kinds of requests


class Plugin:
    """The hooks of one plug-in. A plug-in overrides `handles`, and at least one of the others.

    Objects are decoded JSON in the form that is stored, or of the kind `attributes.kind`. `obj` is {} for a DELETE;
    `old`, the stored object, is {} for a CREATE and a CONNECT. For an UPDATE, `mutate` gets the object as the client
    wants it, with changes that the resource's hooks are going to drop; `validate` and `charge` get what will be stored.
    """

    # Whether `handles` depends only on operation, resource and subresource, so that its result can be kept.
    is_static = False
    # Whether `mutate` may change the object. False for plug-ins that only check, before others mutate.
    changes = True

    def handles(self, attributes: Attributes) -> bool:
        """Whether to call the plug-in for this request. Called for every write, so it must be cheap."""
        raise NotImplementedError

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        """Return the object to go on with: `obj`, which may be changed in place, or another one. Raises `ApiStatus`."""
        return obj

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        """Raise `ApiStatus` for an object that must not be stored. Does not change the objects."""

    def charge(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> Companions:
        """Return the writes of other objects to commit with the object: updates of what counts it, as quotas do.

        Called after `validate` of all plug-ins, and again when another write was the first to change one of the other
        objects. Reads their newest states (`Store.latest`). Raises `ApiStatus`. Does not change the objects.
        """
        return ()


class Chain:
    """The plug-ins in the order of their calls."""

    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self._mutators = _Selection([one for one in plugins if type(one).mutate is not Plugin.mutate])
        self._validators = _Selection([one for one in plugins if type(one).validate is not Plugin.validate])
        self._chargers = _Selection([one for one in plugins if type(one).charge is not Plugin.charge])

    def mutators(self, attributes: Attributes) -> list[Plugin]:
        """Return the plug-ins to call before the resource's hooks."""
        return self._mutators.select(attributes)

    def validators(self, attributes: Attributes) -> list[Plugin]:
        """Return the plug-ins to call before the object is stored."""
        return self._validators.select(attributes)

    def chargers(self, attributes: Attributes) -> list[Plugin]:
        """Return the plug-ins whose writes are committed with the object."""
        return self._chargers.select(attributes)

    async def admit(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        """Call all plug-ins for an object that is not stored, or for a DELETE. Returns the object to go on with.

        Nothing is charged, but a plug-in may refuse what it would charge.
        """
        if mutators := self.mutators(attributes):
            obj = await mutate(mutators, attributes, obj, old)
        if validators := self.validators(attributes):
            await validate(validators, attributes, obj, old)
        charge(self.chargers(attributes), attributes, obj, old)
        return obj


class _Selection:
    """Selects the plug-ins that handle a request, and keeps the answers of static ones."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self._plugins = plugins
        self._kept: dict[tuple[str, str, bool, str], list[Plugin]] = {}

    def select(self, attributes: Attributes) -> list[Plugin]:
        resource = attributes.resource
        # A custom resource may come back with another scope.
        key = (attributes.operation, resource.id, resource.namespaced, attributes.subresource)
        plugins = self._kept.get(key)
        if plugins is None:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            plugins = [one for one in self._plugins if not one.is_static or one.handles(attributes)]
            self._kept[key] = plugins
        return [one for one in plugins if one.is_static or one.handles(attributes)]


async def mutate(plugins: Sequence[Plugin], attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
    """Call `mutate` of all plug-ins; a second time if one asks for it. Raises `ApiStatus`."""
    passes = attributes.reinvocation
    passes.is_second = passes.is_wanted = False
    passes.kept.clear()
    for plugin in plugins:
        obj = await plugin.mutate(attributes, obj, old)
    if passes.is_wanted:
        passes.is_second = True
        for plugin in plugins:
            obj = await plugin.mutate(attributes, obj, old)
    return obj


async def validate(plugins: Sequence[Plugin], attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
    """Call `validate` of all plug-ins. Raises `ApiStatus`."""
    for plugin in plugins:
        await plugin.validate(attributes, obj, old)


def charge(plugins: Sequence[Plugin], attributes: Attributes, obj: JsonObject, old: JsonObject) -> Companions:
    """Call `charge` of all plug-ins, and return all their writes. Raises `ApiStatus`."""
    return tuple(write for plugin in plugins for write in plugin.charge(attributes, obj, old))
