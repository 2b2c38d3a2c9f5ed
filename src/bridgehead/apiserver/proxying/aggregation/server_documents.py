"""The discovery and OpenAPI documents of the server of an aggregated API."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from bridgehead.apiserver.handlers.discovery import AGGREGATED, aggregated_resources
from bridgehead.apiserver.handlers.external import ExternalApi
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.proxying.targets import Target
from bridgehead.apiserver.resource import JsonObject

from .api_service_status import RemoteApi
from .fetching import Fetcher, FetchFailed

log = logging.getLogger(__name__)

_ACCEPT = f"{AGGREGATED.format(version='v2')},{AGGREGATED.format(version='v2beta1')},application/json"


class _Version(msgspec.Struct):
    version: str
    resources: list[JsonObject] = []


class _Group(msgspec.Struct):
    metadata: dict[str, Any] = {}
    versions: list[_Version] = []


class _GroupList(msgspec.Struct):
    """An APIGroupDiscoveryList, or an APIGroupList, which has no `items`."""

    items: list[_Group] | None = None


class _Resource(msgspec.Struct, rename="camel"):
    name: str
    namespaced: bool
    kind: str
    verbs: list[str]
    singular_name: str = ""
    group: str | msgspec.UnsetType = msgspec.UNSET
    version: str | msgspec.UnsetType = msgspec.UNSET
    short_names: list[str] | msgspec.UnsetType = msgspec.UNSET
    categories: list[str] | msgspec.UnsetType = msgspec.UNSET


class _ResourceList(msgspec.Struct):
    resources: list[_Resource] = []


class _Path(msgspec.Struct):
    url: str = msgspec.field(name="serverRelativeURL", default="")


class _Index(msgspec.Struct):
    paths: dict[str, _Path] = {}


class _Swagger(msgspec.Struct):
    paths: dict[str, Any] = {}
    definitions: dict[str, Any] = {}


async def fetch_documents(api: RemoteApi, target: Target, fetcher: Fetcher, known: ExternalApi | None) -> ExternalApi:
    """Fetch the documents; without an answer, return the known ones. OpenAPI stays while its hash is the same."""
    priorities = (api.group_priority, api.version_priority)
    resources: list[JsonObject] | None = None
    openapi_hash, paths, definitions = "", {}, {}
    try:
        resources = await _fetch_resources(api, target, fetcher)
        openapi_hash = await _fetch_hash(api, target, fetcher)
        if known is not None and known.openapi_hash == openapi_hash and known.paths:
            paths, definitions = known.paths, known.definitions
        else:
            paths, definitions = await _fetch_swagger(api, target, fetcher)
    except (FetchFailed, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        log.info("documents of the APIService %s: %s", api.name, error)
    if resources is None:
        return ExternalApi(api.group, api.version, known.resources if known else [], False, priorities)
    return ExternalApi(api.group, api.version, resources, True, priorities, openapi_hash, paths, definitions)


async def _fetch_resources(api: RemoteApi, target: Target, fetcher: Fetcher) -> list[JsonObject]:
    status, body = await fetcher.get(api, target, "/apis", accept=_ACCEPT)
    if status == 200:
        groups = msgspec.json.decode(body, type=_GroupList)
        if groups.items is not None:
            return [
                resource
                for group in groups.items
                if group.metadata.get("name") == api.group
                for version in group.versions
                if version.version == api.version
                for resource in version.resources
            ]
    status, body = await fetcher.get(api, target, api.path)
    if status != 200:
        raise FetchFailed(f"status {status} for {api.path}")
    entries = sorted(msgspec.json.decode(body, type=_ResourceList).resources, key=lambda entry: entry.name)
    return aggregated_resources(api.group, api.version, map(msgspec.to_builtins, entries))


async def _fetch_hash(api: RemoteApi, target: Target, fetcher: Fetcher) -> str:
    """Return the hash of the document of version 3, "" if the server has none."""
    status, body = await fetcher.get(api, target, "/openapi/v3")
    if status != 200:
        return ""
    index = msgspec.json.decode(body, type=_Index)
    entry = index.paths.get(api.path.removeprefix("/"))
    if entry is None:
        return ""
    return parse_qs(urlsplit(entry.url).query).get("hash", ["0"])[0]


async def _fetch_swagger(api: RemoteApi, target: Target, fetcher: Fetcher) -> tuple[JsonObject, JsonObject]:
    """Return paths and definitions of the API in the document of version 2."""
    status, body = await fetcher.get(api, target, "/openapi/v2")
    if status != 200:
        return {}, {}
    document = await run_long(len(body), lambda: msgspec.json.decode(body, type=_Swagger))
    paths = {path: item for path, item in document.paths.items() if f"{path}/".startswith(f"{api.path}/")}
    return paths, document.definitions if paths else {}
