"""Application of manifests by server-side apply, of kinds that the API server names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from bridgehead.client import ApiClient
from bridgehead.client.discovery import metadata_kind
from bridgehead.client.errors import NotFound
from bridgehead.objects.kinds import Kind

from .manifests import Identity, Json, UnusableManifest, identify, order

_MANAGER: Final = "bridgehead-testing"
_ESTABLISHED_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.02
_DEFINITION: Final = "CustomResourceDefinition"

Resources = dict[tuple[str, str], list[dict[str, Any]]]


async def apply_all(client: ApiClient, objects: Iterable[Json], namespace: str, known: Resources) -> list[Json]:
    """Apply objects and return them as the API server has them. `namespace` is for objects without one.

    `known` keeps the resources of groups and versions for later calls. Raises ClientError, `UnusableManifest`.
    """
    applied = []
    for manifest in order(objects):
        identity = identify(manifest)
        kind = await _find_kind(client, identity, known)
        where = (identity.namespace or namespace) if kind.namespaced else ""
        await client.patch(kind, identity.name, where, manifest, "apply", field_manager=_MANAGER)
        if identity.kind == _DEFINITION:
            await _wait_established(client, kind, identity.name)
            known.clear()
        applied.append(await client.request("GET", kind.path(where, identity.name)))
    return applied


async def _find_kind(client: ApiClient, identity: Identity, known: Resources) -> Kind[Any]:
    key = identity.group, identity.version
    if key not in known:
        path = f"/apis/{identity.group}/{identity.version}" if identity.group else f"/api/{identity.version}"
        try:
            known[key] = (await client.request("GET", path)).get("resources") or []
        except NotFound:
            known.pop(key, None)
    for resource in known.get(key, ()):
        if resource["kind"] == identity.kind and "/" not in resource["name"]:
            return metadata_kind(*key, resource["name"], identity.kind, resource["namespaced"])
    known.pop(key, None)  # it may be defined later
    group = f"{identity.group}/" if identity.group else ""
    raise UnusableManifest(f"the API server has no kind {identity.kind} of {group}{identity.version}")


async def _wait_established(client: ApiClient, kind: Kind[Any], name: str) -> None:
    """Wait until the API server serves a kind that has just been defined. Raises TimeoutError."""
    async with asyncio.timeout(_ESTABLISHED_SECONDS):
        while True:
            status = (await client.request("GET", kind.path("", name))).get("status") or {}
            conditions = status.get("conditions") or ()
            if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
                return
            await asyncio.sleep(_PAUSE_SECONDS)
