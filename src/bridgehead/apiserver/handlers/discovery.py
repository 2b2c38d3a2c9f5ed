"""Discovery documents, rendered once at the start.

Legacy discovery has /api, /apis and a document for each group version. Aggregated discovery has everything in /api and
/apis, for clients whose Accept header asks for it. Pure: no I/O, no clock, no randomness.
Source: Kubernetes API concepts "API Discovery", KEP-3352.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from bridgehead.apiserver.http.negotiation import parse_accept
from bridgehead.apiserver.resource import JsonObject, Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCE_VERBS = ["get", "patch", "update"]

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

# Kinds that can only be created and are not stored: (group, version, plural, kind, namespaced).
REVIEWS: tuple[tuple[str, str, str, str, bool], ...] = (
    ("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False),
    ("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False),
    ("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", True),
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
    ("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False),
    ("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False),
)


class Discovery:
    """Rendered documents by path, and `aggregated` ones by path and version, with their ETags."""

    def __init__(self, table: Sequence[Resource]) -> None:
        versions = _group_versions(table)
        self.documents: dict[str, bytes] = {
            "/api": _encode(
                {
                    "kind": "APIVersions",
                    "versions": ["v1"],
                    "serverAddressByClientCIDRs": [],
                }
            ),
            "/apis": _encode(
                {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(g, v) for g, v in versions if g]}
            ),
        }
        for group, version in versions:
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            self.documents[path] = _encode(_resource_list(group, version, table))
            if group:
                self.documents[f"/apis/{group}"] = _encode(
                    {"kind": "APIGroup", "apiVersion": "v1"} | _group(group, version)
                )
        health = [f"/{kind}" for kind in ("healthz", "livez", "readyz")]
        index = sorted({*self.documents, *health, "/metrics", "/openapi/v2", "/openapi/v3", "/version"})
        self.documents["/"] = _encode({"paths": index})
        self.aggregated: dict[tuple[str, str], tuple[bytes, str]] = {}
        for path, groups in (("/api", [v for v in versions if not v[0]]), ("/apis", [v for v in versions if v[0]])):
            for form in ("v2", "v2beta1"):
                body = _encode(_aggregated(groups, table, form))
                self.aggregated[path, form] = (body, f'"{hashlib.sha512(body).hexdigest().upper()}"')

    def aggregated_for(self, path: str, accept: str) -> tuple[bytes, str, str] | None:
        """Return body, content type and ETag if the client prefers the aggregated form, else None."""
        if path not in ("/api", "/apis"):
            return None
        for accepted in parse_accept(accept) if accept else ():
            if accepted.type != "application/json":
                continue
            if not accepted.form:
                return None
            if accepted.form == "APIGroupDiscoveryList" and (path, accepted.version) in self.aggregated:
                body, etag = self.aggregated[path, accepted.version]
                return body, AGGREGATED.format(version=accepted.version), etag
        return None


def _encode(value: JsonObject) -> bytes:
    return msgspec.json.encode(value)


def _group_versions(table: Sequence[Resource]) -> list[tuple[str, str]]:
    """Return groups and versions in a fixed order, which `kubectl api-resources` shows."""
    found = {(r.group, r.version) for r in table} | {(group, version) for group, version, *_ in REVIEWS}
    return sorted(found)


def _group(group: str, version: str) -> JsonObject:
    entry = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [entry], "preferredVersion": entry}


def _resource_list(group: str, version: str, table: Sequence[Resource]) -> JsonObject:
    entries: list[JsonObject] = []
    for resource in table:
        if (resource.group, resource.version) != (group, version):
            continue
        entry: JsonObject = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": _verbs(resource),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        entry["storageVersionHash"] = hashlib.sha256(resource.id.encode()).hexdigest()[:11] + "="
        entries.append(entry)
        entries += [_subresource(resource, name) for name in resource.subresources]
    for its_group, its_version, plural, kind, namespaced in REVIEWS:
        if (its_group, its_version) == (group, version):
            entries.append(
                {
                    "name": plural,
                    "singularName": kind.lower(),
                    "namespaced": namespaced,
                    "kind": kind,
                    "verbs": ["create"],
                }
            )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": sorted(entries, key=lambda entry: str(entry["name"])),
    }


def _verbs(resource: Resource) -> list[str]:
    if resource.is_read_only:
        return ["get", "list"]
    return [verb for verb in _VERBS if verb != "deletecollection" or resource.deletes_collections]


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


def _aggregated(groups: Sequence[tuple[str, str]], table: Sequence[Resource], form: str) -> JsonObject:
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{form}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": version,
                        "resources": _aggregated_resources(group, version, table),
                        "freshness": "Current",
                    }
                ],
            }
            for group, version in groups
        ],
    }


def _aggregated_resources(group: str, version: str, table: Sequence[Resource]) -> list[JsonObject]:
    found: dict[str, JsonObject] = {}
    for entry in _resource_list(group, version, table)["resources"]:
        plural, _, subresource = entry["name"].partition("/")
        kind = {
            "group": entry.get("group", group),
            "version": entry.get("version", version),
            "kind": entry["kind"],
        }
        if subresource:
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
