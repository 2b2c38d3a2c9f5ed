"""Discovery documents, rendered when they are first asked for after a change of the table.

Legacy discovery has /api, /apis and a document for each group version. Aggregated discovery has everything in /api and
/apis, for clients whose Accept header asks for it. Pure: no I/O, no clock, no randomness.
Source: Kubernetes API concepts "API Discovery", KEP-3352.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.table import ResourceTable, version_order
from bridgehead.media_types import parse_accept

from .external import ExternalApi

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCE_VERBS = ["get", "patch", "update"]
_AGGREGATED_VERSIONS = ("v2", "v2beta1")

# Subresources whose kind is not that of their resource: (kind, group, version, verbs). "{}" is the resource's kind.
_SUBRESOURCE_KINDS: dict[str, tuple[str, str, str, list[str]]] = {
    "scale": ("Scale", "autoscaling", "v1", ["get", "patch", "update"]),
    "binding": ("Binding", "", "v1", ["create"]),
    "eviction": ("Eviction", "policy", "v1", ["create"]),
    "token": ("TokenRequest", "authentication.k8s.io", "v1", ["create"]),
    "log": ("Pod", "", "v1", ["get"]),
    "exec": ("PodExecOptions", "", "v1", ["create", "get"]),
    "attach": ("PodAttachOptions", "", "v1", ["create", "get"]),
    "portforward": ("PodPortForwardOptions", "", "v1", ["create", "get"]),
    "proxy": ("{}ProxyOptions", "", "v1", ["create", "delete", "get", "patch", "update"]),
    "finalize": ("Namespace", "", "v1", ["update"]),
}


class CreatedKind(NamedTuple):
    """A kind that can only be created, and is not stored."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool


REVIEWS = (
    CreatedKind("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False),
    CreatedKind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False),
    CreatedKind("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", True),
    CreatedKind("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
    CreatedKind("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False),
    CreatedKind("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False),
)
# The older form of pods/binding: the Binding names the pod.
BINDINGS = CreatedKind("", "v1", "bindings", "Binding", True)
CREATED_KINDS = (BINDINGS, *REVIEWS)


def has_own_group(table: ResourceTable, group: str) -> bool:
    """Whether the group is one of Kubernetes' own, and not of custom resources."""
    return table.has_built_in(group) or any(group == created.group for created in CREATED_KINDS)


class Discovery:
    """The documents of a table, by path; /api and /apis also in the aggregated form, with their ETags.

    `paths` are those of other handlers, for the list of all paths. `address` is the server's, `host:port`.
    Groups and versions of aggregated APIs are listed, too (`set_external`). Their servers have the documents of these
    versions.
    """

    def __init__(self, table: ResourceTable, paths: Iterable[str] = (), address: str = "") -> None:
        self._table = table
        self._address = address
        self._other_paths = frozenset(paths)
        self._revision = -1
        self._groups: dict[str, dict[str, list[JsonObject]]] = {}
        self._external: dict[tuple[str, str], ExternalApi] = {}
        self._documents: dict[str, bytes] = {}
        self._aggregated: dict[tuple[str, str], tuple[bytes, str]] = {}

    def set_external(self, apis: Iterable[ExternalApi]) -> None:
        """Set the aggregated APIs."""
        self._external = {(api.group, api.version): api for api in apis}
        self._revision = -1

    def document(self, path: str) -> bytes | None:
        """Return the legacy document of a path; None without one."""
        self._refresh()
        document = self._documents.get(path)
        if document is None:
            value = self._build(path)
            if value is None:
                return None
            document = _encode(value)
            if path == "/":  # Kubernetes shows this one indented to all clients
                document = msgspec.json.format(document, indent=2)
            self._documents[path] = document
        return document

    def is_web_service(self, path: str) -> bool:
        """Whether a path is of or below /api or a version of Kubernetes' own groups: for GET only, its 404 a Status."""
        match path.split("/")[1:]:
            case ["api", *_]:
                return True
            case ["apis", group, _, *_]:
                return has_own_group(self._table, group)
        return False

    def aggregated_for(self, path: str, accept: str) -> tuple[bytes, str, str] | None:
        """Return body, content type and ETag if the client prefers the aggregated form, else None."""
        if path not in ("/api", "/apis"):
            return None
        for accepted in parse_accept(accept) if accept else ():
            if accepted.type != "application/json":
                continue
            if not accepted.form:
                return None
            if accepted.form == "APIGroupDiscoveryList" and accepted.version in _AGGREGATED_VERSIONS:
                self._refresh()
                body, etag = self._aggregated_document(path, accepted.version)
                return body, AGGREGATED.format(version=accepted.version), etag
        return None

    def _refresh(self) -> None:
        """Drop what was rendered before the last change of the table."""
        if self._revision == self._table.revision:
            return
        self._revision = self._table.revision
        self._groups = _with_external(_groups(self._table), self._external.values())
        self._documents.clear()
        self._aggregated.clear()

    def _build(self, path: str) -> JsonObject | None:
        match path.split("/")[1:]:
            case [""]:
                return {"paths": self._paths()}
            case ["api"]:
                addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": self._address}]
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
            case ["apis"]:
                groups = [_group(group, versions) for group, versions in self._groups.items() if group]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group] if group and group in self._groups:
                return {"kind": "APIGroup", "apiVersion": "v1"} | _group(group, self._groups[group])
            case ["apis", group, version] if (group, version) in self._external:
                return None
            case ["api", version] if version in self._groups.get("", {}):
                return _resource_list("", version, self._groups[""][version])
            case ["apis", group, version] if group and version in self._groups.get(group, {}):
                return _resource_list(group, version, self._groups[group][version])
        return None

    def _paths(self) -> list[str]:
        paths = {"/api", "/apis", "/apis/", *self._other_paths}
        for group, versions in self._groups.items():
            root = f"/apis/{group}" if group else "/api"
            paths |= {root, *(f"{root}/{version}" for version in versions)}
        return sorted(paths)

    def _aggregated_document(self, path: str, form: str) -> tuple[bytes, str]:
        known = self._aggregated.get((path, form))
        if known is None:
            groups = {group: versions for group, versions in self._groups.items() if bool(group) == (path == "/apis")}
            body = _encode(_aggregated(groups, self._external, form))
            known = self._aggregated[path, form] = (body, f'"{hashlib.sha512(body).hexdigest().upper()}"')
        return known


def _encode(value: JsonObject) -> bytes:
    return msgspec.json.encode(value)


def _groups(table: Iterable[Resource]) -> dict[str, dict[str, list[JsonObject]]]:
    """Return the entries of all resources by group and version, in the order in which clients see them.

    Kubernetes' own groups come first, then those of custom resources.
    """
    found: dict[str, dict[str, list[JsonObject]]] = {}
    own: set[str] = set()
    for resource in table:
        entries = found.setdefault(resource.group, {}).setdefault(resource.version, [])
        entries.append(_resource(resource))
        entries += [_subresource(resource, name) for name in resource.subresources]
        if resource.definition is None:
            own.add(resource.group)
    for group, version, plural, kind, namespaced in CREATED_KINDS:
        own.add(group)
        found.setdefault(group, {}).setdefault(version, []).append(
            {
                "name": plural,
                "singularName": kind.lower(),
                "namespaced": namespaced,
                "kind": kind,
                "verbs": ["create"],
            }
        )
    return {
        group: {
            version: sorted(found[group][version], key=lambda entry: str(entry["name"]))
            for version in sorted(found[group], key=version_order)
        }
        for group in sorted(found, key=lambda group: (group not in own, group))
    }


def _with_external(
    groups: dict[str, dict[str, list[JsonObject]]], apis: Iterable[ExternalApi]
) -> dict[str, dict[str, list[JsonObject]]]:
    """Add aggregated APIs, those of the highest priority first, after the groups of this server."""
    for api in sorted(apis, key=lambda api: (-api.priorities[0], api.group, -api.priorities[1], api.version)):
        groups.setdefault(api.group, {})[api.version] = []
    return groups


def _group(group: str, versions: Iterable[str]) -> JsonObject:
    entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(group: str, version: str, entries: Sequence[JsonObject]) -> JsonObject:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": entries,
    }


def _resource(resource: Resource) -> JsonObject:
    entry: JsonObject = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": [verb for verb in _VERBS if resource.allows(verb)],
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if not resource.is_read_only:
        entry["storageVersionHash"] = _storage_version_hash(resource)
    return entry


def _storage_version_hash(resource: Resource) -> str:
    """Return the hash of the stored kind and version (apiserver/pkg/endpoints/discovery/storageversionhash.go)."""
    stored = resource.stored if resource.converter is None else resource.converter.storage
    digest = hashlib.sha256(f"{stored.group}/{stored.version}/{stored.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _subresource(resource: Resource, name: str) -> JsonObject:
    kind, group, version, verbs = _SUBRESOURCE_KINDS.get(
        name, (resource.kind, resource.group, resource.version, _SUBRESOURCE_VERBS)
    )
    entry: JsonObject = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind.format(resource.kind),
        "verbs": verbs,
    }
    if (group, version) != (resource.group, resource.version):
        entry["group"], entry["version"] = group, version
    return entry


def _aggregated(
    groups: Mapping[str, Mapping[str, Sequence[JsonObject]]],
    external: Mapping[tuple[str, str], ExternalApi],
    form: str,
) -> JsonObject:
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{form}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    _aggregated_version(group, version, entries, external.get((group, version)))
                    for version, entries in versions.items()
                ],
            }
            for group, versions in groups.items()
        ],
    }


def _aggregated_version(
    group: str, version: str, entries: Sequence[JsonObject], external: ExternalApi | None
) -> JsonObject:
    if external is None:
        resources, is_current = aggregated_resources(group, version, entries), True
    else:
        resources, is_current = external.resources, external.is_current
    return {"version": version, "resources": resources, "freshness": "Current" if is_current else "Stale"}


def aggregated_resources(group: str, version: str, entries: Iterable[JsonObject]) -> list[JsonObject]:
    """Convert the entries of an APIResourceList, in which a resource is before its subresources."""
    found: dict[str, JsonObject] = {}
    for entry in entries:
        plural, _, subresource = entry["name"].partition("/")
        kind = {
            "group": entry.get("group", group),
            "version": entry.get("version", version),
            "kind": entry["kind"],
        }
        if subresource:
            if plural in found:
                found[plural].setdefault("subresources", []).append(
                    {"subresource": subresource, "responseKind": kind, "verbs": entry["verbs"]}
                )
            continue
        item: JsonObject = {
            "resource": plural,
            "responseKind": kind,
            "scope": "Namespaced" if entry["namespaced"] else "Cluster",
            "singularResource": entry["singularName"],
            "verbs": entry["verbs"],
        }
        for field in ("shortNames", "categories"):
            if field in entry:
                item[field] = entry[field]
        found[plural] = item
    return list(found.values())
