"""What every Kubernetes object has: metadata, owners, selectors, and the way fields are spelled in JSON.

Objects here are frozen msgspec structs that hold the fields our parts reason about. Decoding ignores
fields that are not listed, so these types are for reading and for creating; changes to an object that
somebody else may have written travel as patches (`client.ApiClient.patch`), never as a re-encoded struct.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

# Words that the Kubernetes API spells in capitals when they do not begin a name: podIP, imageID, podCIDRs.
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
    """The JSON spelling of a field: `cluster_ip` -> `clusterIP`, `api_version` -> `apiVersion`."""
    first, *rest = python_name.rstrip("_").split("_")
    return first + "".join(_INITIALISMS.get(word, word.capitalize()) for word in rest)


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=json_name):
    """Base of everything inside an object."""


class ObjectKey(NamedTuple):
    """Names one object of a kind. `namespace` is "" for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def version_number(resource_version: str) -> int:
    """A resourceVersion as a number, as which those of one kind may be compared (KEP-5504); 0 for one that is none."""
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
        """The owner that manages this object, if it has one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Object(Part, frozen=True, kw_only=True):
    """Base of every stored kind. `Kind` (see `kinds.py`) knows its apiVersion and kind."""

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


class PodTemplate(Part, frozen=True, kw_only=True):
    """A pod template as its owner wrote it. `spec` stays untyped so that nothing in it is lost."""

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
