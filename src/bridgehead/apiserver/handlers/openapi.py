"""OpenAPI documents (/openapi/v3, /openapi/v2), for `kubectl explain`, `apply` and `diff`.

A document is built from the definitions on its first request after a change of its resources, and kept compressed.
The server itself does not use it. A document's hash changes with its resources, and with the schemas of those that
bring their own.
Source: Kubernetes "The Kubernetes API: OpenAPI V3", KEP-2896.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from bridgehead import KUBERNETES_VERSION
from bridgehead.apiserver.bodies.definitions import VERSION as SCHEMA_VERSION
from bridgehead.apiserver.bodies.definitions import definitions_by_kind, load_definitions
from bridgehead.apiserver.bodies.patch import CUSTOM_PATCH_TYPES, PATCH_TYPES
from bridgehead.apiserver.errors import PageNotFound
from bridgehead.apiserver.http.negotiation import choose
from bridgehead.apiserver.http.request import Request, Response
from bridgehead.apiserver.http.worker import LONG_BYTES, run_long
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.table import ResourceTable
from bridgehead.media_types import JSON

from .discovery import CREATED_KINDS, CreatedKind
from .external import ExternalApi
from .openapi_enums import with_enums
from .openapi_protobuf import encode_document

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_INFO = {"title": "Kubernetes", "version": KUBERNETES_VERSION}
# A document's URL contains its hash, so the answer never changes.
_IMMUTABLE = ((b"cache-control", b"public, immutable"), (b"expires", b"Thu, 31 Dec 2099 23:59:59 GMT"))

# kubectl before 1.27 accepts nothing else; later versions ask for it when version 3 does not have a kind.
_PROTOBUF_2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

_WRITE_PARAMETERS = (
    ("dryRun", "string", "When present, indicates that modifications should not be persisted."),
    ("fieldManager", "string", "A name associated with the actor or entity that is making these changes."),
    (
        "fieldValidation",
        "string",
        "Instructs the server on how to handle objects in the request containing unknown or duplicate fields.",
    ),
)
_FORCE = ("force", "boolean", "Force an apply to take over fields that other managers own.")
_LIST_PARAMETERS = (
    ("allowWatchBookmarks", "boolean", "Requests watch events with type BOOKMARK."),
    ("continue", "string", "Continue a list where its last page ended."),
    ("fieldSelector", "string", "Restrict the list of returned objects by their fields."),
    ("labelSelector", "string", "Restrict the list of returned objects by their labels."),
    ("limit", "integer", "The maximum number of responses to return for a list call."),
    ("resourceVersion", "string", "Which resource versions a request may be served from."),
    ("resourceVersionMatch", "string", "How resourceVersion is applied to list calls."),
    ("sendInitialEvents", "boolean", "Begin a watch with the existing objects."),
    ("timeoutSeconds", "integer", "Timeout for the list or watch call."),
    ("watch", "boolean", "Watch for changes to the described resources and return them as a stream of notifications."),
)
_DELETE_PARAMETERS = (
    _WRITE_PARAMETERS[0],
    ("gracePeriodSeconds", "integer", "The duration in seconds before the object should be deleted."),
    ("propagationPolicy", "string", "Whether and how garbage collection will be performed."),
)


class OpenApi:
    """OpenAPI documents of a table. `load` returns the definitions; it is called once for each document."""

    def __init__(self, table: ResourceTable, load: Callable[[], dict[str, JsonObject]] = load_definitions) -> None:
        self._table = table
        self._load = load
        self._revision = -1
        self._external: tuple[ExternalApi, ...] = ()
        self._group_versions: dict[str, tuple[Resource | CreatedKind, ...]] = {}
        self._hashes: dict[str, str] = {}  # by path
        self._built: dict[tuple[str, str], tuple[str, bytes]] = {}  # by path and media type: hash, document

    def set_external(self, apis: Iterable[ExternalApi]) -> None:
        """Set the aggregated APIs. The index lists their documents of version 3; that of version 2 includes them."""
        self._external = tuple(apis)
        self._revision = -1

    async def handle(self, path: str, request: Request) -> Response:
        """Answer a request. Raises a 404 or a 406."""
        accept = request.header(b"accept")
        self._refresh()
        if path == "/openapi/v2" and _PROTOBUF_2 in accept and "application/json" not in accept:
            content_type = _PROTOBUF_2.replace("@", ".")  # a media type may not contain "@"
            return await self._compressed(path, request, lambda: encode_document(self._version_2()), content_type)
        choose(accept, tables=False, protobuf=False)
        if path in ("/openapi/v3", "/openapi/v3/"):
            return Response(200, self._index())
        if path == "/openapi/v2":
            return await self._compressed(path, request, lambda: msgspec.json.encode(self._merged_version_2()))
        resources = self._group_versions.get(path.removeprefix("/openapi/v3/"))
        if resources is None:
            raise PageNotFound
        response = await self._compressed(path, request, lambda: msgspec.json.encode(self._version_3(resources)))
        if request.query.get("hash") == self._hashes[path]:
            response.headers += _IMMUTABLE
        return response

    def _refresh(self) -> None:
        """Compute the documents' hashes after a change of the table. Documents with the same hash stay."""
        if self._revision == self._table.revision:
            return
        self._revision = self._table.revision
        grouped: dict[str, list[Resource | CreatedKind]] = {}
        for resource in (*self._table, *CREATED_KINDS):
            root = f"apis/{resource.group}" if resource.group else "api"
            grouped.setdefault(f"{root}/{resource.version}", []).append(resource)
        self._group_versions = {gv: tuple(resources) for gv, resources in grouped.items()}
        self._hashes = {f"/openapi/v3/{gv}": _hash(resources) for gv, resources in grouped.items()}
        self._hashes["/openapi/v2"] = _hash((*self._table, *CREATED_KINDS), self._external)
        for path, content_type in list(self._built):
            if self._built[path, content_type][0] != self._hashes.get(path):
                del self._built[path, content_type]

    def _index(self) -> bytes:
        paths = {
            gv: {"serverRelativeURL": f"/openapi/v3/{gv}?hash={self._hashes[f'/openapi/v3/{gv}']}"}
            for gv in sorted(self._group_versions)
        }
        for api in self._external:
            if api.openapi_hash:
                gv = f"apis/{api.group}/{api.version}"
                paths[gv] = {"serverRelativeURL": f"/openapi/v3/{gv}?hash={api.openapi_hash}"}
        return msgspec.json.encode({"paths": paths})

    async def _compressed(
        self, path: str, request: Request, build: Callable[[], bytes], content_type: str = JSON
    ) -> Response:
        current = self._hashes[path]
        etag = f'"{current}"'
        headers: tuple[tuple[bytes, bytes], ...] = ((b"etag", etag.encode()), (b"vary", b"Accept"))
        if request.header(b"if-none-match") == etag:
            return Response(304, b"", content_type, headers)
        known, body = self._built.get((path, content_type), ("", b""))
        if known != current:
            body = await run_long(LONG_BYTES, lambda: gzip.compress(build(), compresslevel=5, mtime=0))
            self._built[path, content_type] = current, body
        if "gzip" in request.header(b"accept-encoding"):
            return Response(200, body, content_type, (*headers, (b"content-encoding", b"gzip")))
        return Response(200, await run_long(LONG_BYTES, lambda: gzip.decompress(body)), content_type, headers)

    def _version_3(self, resources: Iterable[Resource | CreatedKind]) -> JsonObject:
        paths, definitions = self._paths(resources, _body_3, 3)
        return {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": paths,
            "components": {
                "schemas": {name: with_enums(name, schema_3(schema)) for name, schema in definitions.items()}
            },
        }

    def _version_2(self) -> JsonObject:
        paths, definitions = self._paths((*self._table, *CREATED_KINDS), _body_2, 2)
        return {
            "swagger": "2.0",
            "info": _INFO,
            "paths": paths,
            "definitions": {name: schema_2(schema) for name, schema in definitions.items()},
        }

    def _merged_version_2(self) -> JsonObject:
        """Return the document of version 2 with the aggregated APIs. Definitions of this server win."""
        document = self._version_2()
        for api in self._external:
            document["paths"] = api.paths | document["paths"]
            document["definitions"] = api.definitions | document["definitions"]
        return document

    def _paths(
        self, resources: Iterable[Resource | CreatedKind], body: Body, version: int
    ) -> tuple[JsonObject, dict[str, JsonObject]]:
        """Return the paths of `resources`, and every definition that they need, by name."""
        definitions = self._load()
        kinds = definitions_by_kind(definitions)
        paths: JsonObject = {}
        roots = {f"{_META}Status", f"{_META}DeleteOptions", f"{_META}Patch"}
        for resource in resources:
            if isinstance(resource, CreatedKind):
                name = kinds[resource.group, resource.version, resource.kind]
                roots.add(name)
                paths |= created_paths(resource, name, body)
                continue
            if resource.definition is None:
                name = kinds[resource.group, resource.version, resource.kind]
            else:
                name = resource.definition.name
                definitions.update(resource.definition.openapi(version))
            roots |= {name, _list_name(resource, name)}
            paths |= resource_paths(resource, name, body)
        return paths, {name: definitions[name] for name in sorted(closure(definitions, roots))}


def _list_name(resource: Resource, name: str) -> str:
    return f"{name}List" if resource.definition is None else resource.definition.list_name


def _hash(resources: Iterable[Resource | CreatedKind], external: Iterable[ExternalApi] = ()) -> str:
    names = sorted(map(_identity, resources))
    names += [f"{api.group}/{api.version} {api.openapi_hash} {len(api.paths)}" for api in external]
    return hashlib.sha256(f"{SCHEMA_VERSION} {','.join(names)}".encode()).hexdigest().upper()


def _identity(resource: Resource | CreatedKind) -> str:
    if isinstance(resource, CreatedKind):
        return ".".join((resource.plural, resource.group, resource.version))
    return f"{resource.id} {resource.version} {resource.definition.digest if resource.definition else ''}"


def closure(definitions: dict[str, JsonObject], roots: Iterable[str]) -> set[str]:
    """Return the names of the roots and of all definitions that they refer to.

    Values in a schema of a custom resource, e.g. defaults, may look like references to definitions that do not exist.
    """
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in found:
            found.add(name)
            waiting += _references(definitions[name])
    return found


def _references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        found = [
            value.removeprefix("#/$defs/") for key, value in schema.items() if key == "$ref" and isinstance(value, str)
        ]
        return found + [name for value in schema.values() for name in _references(value)]
    if isinstance(schema, list):
        return [name for value in schema for name in _references(value)]
    return []


def schema_3(schema: JsonObject) -> JsonObject:
    """Convert a definition to OpenAPI 3.0: no null types, and no other keys beside a reference."""
    return _converted(schema, "#/components/schemas/", wrap=True)


def schema_2(schema: JsonObject) -> JsonObject:
    return _converted(schema, "#/definitions/", wrap=False)


def _converted(schema: JsonObject, prefix: str, *, wrap: bool) -> JsonObject:
    result: JsonObject = {}
    for key, value in schema.items():
        match key:
            case "$ref":
                result["$ref"] = prefix + value.removeprefix("#/$defs/")
            case "type":
                result["type"] = value[0] if isinstance(value, list) else value
            case "properties":
                result["properties"] = {name: _converted(field, prefix, wrap=wrap) for name, field in value.items()}
            case "items" | "additionalProperties" if isinstance(value, dict):
                result[key] = _converted(value, prefix, wrap=wrap)
            case "oneOf":
                if wrap:
                    result["oneOf"] = [_converted(choice, prefix, wrap=wrap) for choice in value]
                else:
                    # Version 2 has no alternatives; Kubernetes declares such types as strings.
                    result["type"] = "string"
                    result["format"] = "int-or-string"
            case "enum" if "properties" not in schema and schema.get("type") == ["string", "null"]:
                # The definitions restrict apiVersion and kind to their values; Kubernetes' own documents do not.
                pass
            case _:
                result[key] = value
    if wrap and "$ref" in result and len(result) > 1:
        result["allOf"] = [{"$ref": result.pop("$ref")}]
    return result


# Renders a request body or response: (name of a definition, media types) -> OpenAPI.
Body = Callable[[str, Sequence[str]], JsonObject]


def _body_3(name: str, types: Sequence[str]) -> JsonObject:
    return {"content": {media: {"schema": {"$ref": f"#/components/schemas/{name}"}} for media in types}}


def _body_2(name: str, types: Sequence[str]) -> JsonObject:
    return {"schema": {"$ref": f"#/definitions/{name}"}}


def resource_paths(resource: Resource, name: str, body: Body) -> JsonObject:
    """Return the paths of a resource with their operations and parameters."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    where = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    collection, item = f"{where}/{resource.plural}", f"{where}/{resource.plural}/{{name}}"
    operations = _Operations(resource, name, body, _list_name(resource, name))
    scope = [operations.path_parameter("namespace")] if resource.namespaced else []
    named = [operations.path_parameter("name"), *scope]
    types = PATCH_TYPES if resource.definition is None else CUSTOM_PATCH_TYPES
    paths: JsonObject = {
        collection: {
            "get": operations.list(),
            "post": operations.write("post", "create", [JSON]),
            "parameters": scope,
        },
        item: {
            "get": operations.get(),
            "put": operations.write("put", "update", [JSON]),
            "patch": operations.write("patch", "patch", types),
            "delete": operations.delete("delete"),
            "parameters": named,
        },
    }
    if resource.is_read_only:
        return {
            collection: {"get": operations.list(), "parameters": scope},
            item: {"get": operations.get(), "parameters": named},
        }
    if resource.deletes_collections:
        paths[collection]["delete"] = operations.delete("deletecollection")
    if resource.namespaced:
        paths[f"{root}/{resource.plural}"] = {"get": operations.list(), "parameters": []}
    if "status" in resource.subresources:
        paths[f"{item}/status"] = {
            "get": operations.get(),
            "put": operations.write("put", "update", [JSON]),
            "patch": operations.write("patch", "patch", types),
            "parameters": named,
        }
    return paths


def created_paths(kind: CreatedKind, name: str, body: Body) -> JsonObject:
    """Return the path of a kind that can only be created."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    where = f"{root}/namespaces/{{namespace}}" if kind.namespaced else root
    operations = _Operations(kind, name, body)
    scope = [operations.path_parameter("namespace")] if kind.namespaced else []
    return {f"{where}/{kind.plural}": {"post": operations.write("post", "create", [JSON]), "parameters": scope}}


class _Operations:
    """Operations of a resource whose definition is `name`. `list_name` is that of its lists."""

    def __init__(self, resource: Resource | CreatedKind, name: str, body: Body, list_name: str = "") -> None:
        self._resource = resource
        self._name = name
        self._list_name = list_name
        self._body = body
        self._is_3 = "content" in body(name, [JSON])
        self._gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}

    def list(self) -> JsonObject:
        return self._operation("list", _LIST_PARAMETERS, self._list_name)

    def get(self) -> JsonObject:
        return self._operation("get", (), self._name)

    def delete(self, action: str) -> JsonObject:
        return self._operation(action, _DELETE_PARAMETERS, f"{_META}Status")

    def write(self, method: str, action: str, types: Sequence[str]) -> JsonObject:
        parameters = (*_WRITE_PARAMETERS, _FORCE) if method == "patch" else _WRITE_PARAMETERS
        operation = self._operation(action, parameters, self._name)
        sent = f"{_META}Patch" if method == "patch" else self._name
        if self._is_3:
            operation["requestBody"] = self._body(sent, types) | {"required": True}
        else:
            operation["consumes"] = list(types)
            operation["parameters"].append({"name": "body", "in": "body", "required": True, **self._body(sent, types)})
        return operation

    def _operation(self, action: str, parameters: Sequence[tuple[str, str, str]], answer: str) -> JsonObject:
        return {
            "description": f"{action} {self._resource.kind}",
            "parameters": [self._parameter(*parameter) for parameter in parameters],
            "responses": {"200": {"description": "OK", **self._body(answer, [JSON])}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self._gvk,
        }

    def _parameter(self, name: str, type: str, description: str) -> JsonObject:
        return {"name": name, "in": "query", "description": description} | self._of_type(type)

    def path_parameter(self, name: str) -> JsonObject:
        return {"name": name, "in": "path", "required": True} | self._of_type("string")

    def _of_type(self, type: str) -> JsonObject:
        return {"schema": {"type": type, "uniqueItems": True}} if self._is_3 else {"type": type}
