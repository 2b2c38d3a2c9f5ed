"""Kinds that the API serves, found by group and kind, for references to objects of any kind.

Used by the disruption controller and the horizontal pod autoscaler.
"""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.client import ApiClient
from bridgehead.client.errors import NotFound


class ServedKind(NamedTuple):
    """A kind in one version. `root` is the path of the group and version, such as `/apis/apps/v1`."""

    root: str
    plural: str
    has_scale: bool

    def scale_path(self, namespace: str, name: str) -> str:
        return f"{self.root}/namespaces/{namespace}/{self.plural}/{name}/scale"


async def find_kind(client: ApiClient, api_version: str, kind: str) -> ServedKind | None:
    """Return a kind of one group and version; None if that has none of this name. Raises ClientError."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    try:
        entries = (await client.request("GET", root)).get("resources", [])
    except NotFound:
        entries = []
    plural = next((one["name"] for one in entries if one["kind"] == kind and "/" not in one["name"]), None)
    if plural is None:
        return None
    return ServedKind(root, plural, any(one["name"] == f"{plural}/scale" for one in entries))


async def find_kinds(client: ApiClient, group: str, kind: str) -> list[ServedKind]:
    """Return a kind in all versions of a group that have it, the preferred one first. Raises ClientError."""
    versions = ["v1"]
    if group:
        try:
            document = await client.request("GET", f"/apis/{group}")
        except NotFound:
            return []
        preferred = document.get("preferredVersion", {}).get("groupVersion")
        served = [one["groupVersion"] for one in document.get("versions", ())]
        versions = sorted(served, key=lambda version: version != preferred)
    found = [await find_kind(client, version, kind) for version in versions]
    return [one for one in found if one is not None]
