"""A PolicyRule as a value, and the requests that it allows.

Pure: no I/O, no clock, no randomness. Source: Kubernetes pkg/apis/rbac/v1/evaluation_helpers.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

GROUP = "rbac.authorization.k8s.io"
ALL = "*"


class Rule(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A PolicyRule; decodes from its JSON. "*" stands for all verbs, groups, resources or URLs.

    A resource may be `pods/status` or `*/scale`; a URL may end in `*`. No `names`: objects of any name.
    """

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = msgspec.field(default=(), name="apiGroups")
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = msgspec.field(default=(), name="resourceNames")
    urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    def allows(self, verb: str, group: str, resource: str, subresource: str, name: str) -> bool:
        """Whether the rule allows a request for a resource. `name` is "" when the request names no object."""
        return (
            (verb in self.verbs or ALL in self.verbs)
            and (group in self.groups or ALL in self.groups)
            and self.includes_resource(resource, subresource)
            and (not self.names or name in self.names)
        )

    def includes_resource(self, resource: str, subresource: str) -> bool:
        if ALL in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def allows_path(self, verb: str, path: str) -> bool:
        """Whether the rule allows a request for a path that is not a resource's."""
        return (verb in self.verbs or ALL in self.verbs) and any(url_includes(url, path) for url in self.urls)

    def __str__(self) -> str:
        """Return the rule as refusals show it: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in parts if values) + "}"


def url_includes(url: str, path: str) -> bool:
    """Whether a rule's URL includes a path, which may itself be a URL of a rule."""
    return url in (ALL, path) or (url.endswith("*") and path.startswith(url.rstrip("*")))


def quoted(values: Iterable[str]) -> str:
    """Render a list of strings as Go's `%q` does: `["a" "b"]`."""
    return "[" + " ".join(json.dumps(value, ensure_ascii=False) for value in values) + "]"
