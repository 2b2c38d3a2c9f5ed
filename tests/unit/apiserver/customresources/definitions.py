"""CustomResourceDefinitions for tests, and the errors of validators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from bridgehead.apiserver.field import Field
from tests.unit.apiserver.world import World

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "crontabs.stable.example.com"
SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["cronSpec"],
    "properties": {
        "cronSpec": {"type": "string", "description": "When it runs."},
        "image": {"type": "string", "default": "busybox"},
        "replicas": {"type": "integer", "minimum": 0},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": SPEC,
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    },
}
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def texts(validate: Callable[..., None], obj: dict[str, Any], *arguments: Any) -> list[str]:
    """Return the errors that a validator finds in an object."""
    root = Field(obj)
    validate(root, *arguments)
    return [f"{error.field}: {error.message}" for error in root.errors]


def version(name: str = "v1", *, storage: bool = True, schema: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def definition(
    *versions: dict[str, Any],
    plural: str = "crontabs",
    kind: str = "CronTab",
    group: str = "stable.example.com",
    names: Any = None,
    **spec: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **(names or {})},
            "versions": list(versions) or [version()],
            **spec,
        },
    }


def url(version: str = "v1", name: str = "", plural: str = "crontabs") -> str:
    base = f"/apis/stable.example.com/{version}/namespaces/default/{plural}"
    return f"{base}/{name}" if name else base


def crontab(name: str = "a", version: str = "v1", **fields: Any) -> dict[str, Any]:
    names = {"apiVersion": f"stable.example.com/{version}", "kind": "CronTab", "metadata": {"name": name}}
    return names | (fields or {"spec": {"cronSpec": "* * * * *"}})


async def conditions(world: World, name: str = NAME) -> dict[str, tuple[str, str]]:
    """Status and reason of a definition's conditions."""
    status = (await world.get(f"{DEFINITIONS}/{name}"))["status"]
    return {one["type"]: (one["status"], one["reason"]) for one in status.get("conditions") or ()}


async def until(check: Any) -> Any:
    """Wait until `await check()` is true; return it."""
    async with asyncio.timeout(30):
        while True:
            value = await check()
            if value:
                return value
            await asyncio.sleep(0)


async def define(world: World, crd: dict[str, Any]) -> None:
    """Create a definition and wait until it is established."""
    await world.create(DEFINITIONS, crd)
    name = crd["metadata"]["name"]

    async def is_established() -> bool:
        return (await conditions(world, name)).get("Established", ("",))[0] == "True"

    await until(is_established)


async def redefine(world: World, crd: dict[str, Any]) -> None:
    """Exchange the spec of a definition and wait until the table follows."""
    revision = world.parts.table.revision
    answer = await world.patch(
        f"{DEFINITIONS}/{crd['metadata']['name']}",
        [{"op": "replace", "path": "/spec", "value": crd["spec"]}],
        "json-patch",
    )
    assert answer.status == 200, answer.body

    async def has_followed() -> bool:
        return world.parts.table.revision > revision

    await until(has_followed)
