"""API discovery: the kinds that an API server serves, for emptying a namespace and collecting garbage.

Source: Kubernetes "API concepts", "API discovery" (the unaggregated form, which every server has).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from bridgehead.objects.kinds import ALL_KINDS, Kind
from bridgehead.objects.meta import Object

from .api import ApiClient
from .errors import ApiError, BadAnswer, NotFound


@dataclass(frozen=True)
class ServedKind:
    """A kind and the verbs that the API server allows for it."""

    kind: Kind[Object]
    verbs: frozenset[str]


class _Entry(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False
    verbs: list[str] = []


class _Document(msgspec.Struct):
    resources: list[_Entry] = []


class _Version(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, rename="camel"):
    name: str
    versions: list[_Version] = []
    preferred_version: _Version | None = None


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


_typed: dict[tuple[str, str, str], Kind[Object]] = {(kind.group, kind.version, kind.plural): kind for kind in ALL_KINDS}
_metadata_only: dict[tuple[str, str, str], Kind[Object]] = {}


def metadata_kind(group: str, version: str, plural: str, name: str, namespaced: bool) -> Kind[Object]:
    """Return a kind of which only the metadata is read."""
    resource = (group, version, plural)
    kind = _metadata_only.get(resource)
    if kind is None:
        struct: Any = msgspec.defstruct(name, [], bases=(Object,), frozen=True, kw_only=True)
        kind = _metadata_only[resource] = Kind(struct, group, version, plural, namespaced)
    return kind


@dataclass(frozen=True)
class Discovered:
    """All kinds that can be listed, each in the first version of its group that has it.

    `failures` are the groups and versions whose resources are not known, with the reasons: an aggregated API may not
    answer while all others do.
    """

    kinds: list[ServedKind]
    failures: dict[str, str]


async def discover(client: ApiClient) -> Discovered:
    """Ask for all groups. Raises ClientError when the API server itself does not answer."""
    served = _served("", "v1", await client.request("GET", "/api/v1"))
    failures: dict[str, str] = {}
    groups = _decode(await client.request("GET", "/apis"), _Groups)
    for group in groups.groups:
        preferred = [group.preferred_version] if group.preferred_version is not None else []
        versions = dict.fromkeys(one.group_version.rpartition("/")[2] for one in (*preferred, *group.versions))
        known: set[str] = set()
        for version in versions:
            try:
                document = await client.request("GET", f"/apis/{group.name}/{version}")
                of_version = _served(group.name, version, document)
            except NotFound:
                continue  # a custom resource that has just been removed
            except (ApiError, BadAnswer) as error:
                failures[f"{group.name}/{version}"] = str(error)
                continue
            found = [one for one in of_version if one.kind.plural not in known]
            known |= {one.kind.plural for one in found}
            served += found
    return Discovered(served, failures)


def _served(group: str, version: str, document: dict[str, Any]) -> list[ServedKind]:
    found = []
    for entry in _decode(document, _Document).resources:
        verbs = frozenset(entry.verbs)
        if "/" not in entry.name and "list" in verbs:
            kind = _typed.get((group, version, entry.name)) or metadata_kind(
                group, version, entry.name, entry.kind, entry.namespaced
            )
            found.append(ServedKind(kind, verbs))
    return found


def _decode(document: dict[str, Any], type: Any) -> Any:
    try:
        return msgspec.convert(document, type)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"discovery: {error}") from error
