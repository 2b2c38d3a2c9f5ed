"""Parts that all Kubernetes objects share: metadata, owner references, selectors, conditions, JSON field names.

Objects are frozen msgspec structs with the fields that Bridgehead uses. Decoding ignores fields that are not listed, so
these types serve to read and to create objects. An object that another client may have written is changed by a patch
(`client.ApiClient.patch`), never by writing an encoded struct, which would drop the other fields.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

# Abbreviations that the Kubernetes API writes in capitals unless they begin a name: podIP, imageID, podCIDRs.
_INITIALISMS = {
    "ip": "IP",
    "ips": "IPs",
    "id": "ID",
    "ids": "IDs",
    "pid": "PID",
    "ipc": "IPC",
    "cidr": "CIDR",
    "cidrs": "CIDRs",
    "fqdn": "FQDN",
    "os": "OS",
    "url": "URL",
    "uuid": "UUID",
    "api": "API",
}


def json_name(python_name: str) -> str:
    """Return the JSON name of a field: `cluster_ip` -> `clusterIP`, `api_version` -> `apiVersion`."""
    first, *rest = python_name.rstrip("_").split("_")
    return first + "".join(_INITIALISMS.get(word, word.capitalize()) for word in rest)


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=json_name):
    """Base of every struct inside an object."""


class ObjectKey(NamedTuple):
    """Namespace and name of an object. `namespace` is "" for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def version_number(resource_version: str) -> int:
    """Return a resourceVersion as a number, 0 for an invalid one. Versions of one kind are comparable (KEP-5504)."""
    return int(resource_version) if resource_version.isascii() and resource_version.isdigit() else 0


class OwnerReference(Part, frozen=True, kw_only=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Part, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`, if there is one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Object(Part, frozen=True, kw_only=True):
    """Base of every stored kind. The apiVersion and kind are in `kinds.Kind`."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.metadata.namespace, self.metadata.name)


class LabelSelectorRequirement(Part, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Part, frozen=True, kw_only=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Part, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    last_heartbeat_time: str | None = None
    last_update_time: str | None = None
    observed_generation: int | None = None


def find_condition(conditions: Sequence[Condition], type: str) -> Condition | None:
    """Return the condition of this type, of which there is at most one."""
    return next((condition for condition in conditions if condition.type == type), None)


def is_condition_true(conditions: Sequence[Condition], type: str) -> bool:
    """Whether the condition of this type is there with status True."""
    condition = find_condition(conditions, type)
    return condition is not None and condition.status == "True"


class PodTemplate(Part, frozen=True, kw_only=True):
    """A pod template as its owner wrote it. `spec` is untyped so that no field is lost."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


class ObjectReference(Part, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""
