"""Creation of objects that the server itself needs, if they are missing."""

from __future__ import annotations

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.resource import JsonObject, copied
from bridgehead.storage import Key

from .registry import Registry
from .write import Write


async def ensure(
    registry: Registry, path: tuple[str, str, str], namespace: str, obj: JsonObject, *, replace: tuple[str, ...] = ()
) -> None:
    """Create an object of the resource `path` (group, version, plural) if it is missing.

    The fields `replace` of an object that exists become those of `obj`; it is written only if that changes it.
    Raises `ApiStatus`.
    """
    resource = registry.find(*path)
    if resource is None:
        return
    name = obj["metadata"]["name"]
    if registry.store.get(Key(resource.id, namespace, name)) is not None:
        if replace:
            wanted = {field: obj[field] for field in replace}
            await registry.update(Write(resource, namespace, name), lambda old: {**old, **wanted})
        return
    try:
        await registry.create(Write(resource, namespace), copied(obj))
    except ApiStatus as status:
        # Another server on the same store may have been first.
        if status.reason != "AlreadyExists":
            raise
