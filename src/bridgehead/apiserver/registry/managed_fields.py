"""managedFields of the objects of all resources: what `fieldmanagement` has to know about each of them."""

from __future__ import annotations

from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.fieldmanagement.comparing import compare
from bridgehead.apiserver.fieldmanagement.fieldset import FieldSet
from bridgehead.apiserver.fieldmanagement.managers import (
    SERVER,
    Entries,
    Kind,
    after_create,
    after_update,
    make_entry,
)
from bridgehead.apiserver.fieldmanagement.managers import reset_paths as reset
from bridgehead.apiserver.fieldmanagement.roots import as_root
from bridgehead.apiserver.resource import CLIENT_METADATA, JsonObject, Resource
from bridgehead.apiserver.shapes import Shape

from .write import Write

FIELD = "managedFields"


class Ownership:
    """The managers of fields. Shapes are compiled when the first object of a resource is written, in any thread."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._kinds: dict[tuple[str, str], tuple[Resource, Kind]] = {}
        self._companions: dict[str, FieldSet] = {}

    def root_of(self, group: str, version: str, kind: str) -> Shape:
        """Return the shape of a kind's whole objects. Raises KeyError for a kind without a definition."""
        return as_root(self._schema.of_kind(group, version, kind))

    def _root(self, resource: Resource) -> Shape:
        definition = resource.definition
        if definition is None:
            return self.root_of(resource.group, resource.version, resource.kind)
        return as_root(definition.shape)

    def is_compiled(self, resource: Resource) -> bool:
        """Whether `kind` has compiled the resource's shape."""
        known = self._kinds.get((resource.id, resource.version))
        # A custom resource whose schema has changed is another entry of the table.
        return known is not None and known[0] is resource

    def kind(self, resource: Resource) -> Kind:
        """Return what the managers of a resource's fields need to know of it, in the form that is stored."""
        known = self._kinds.get((resource.id, resource.version))
        if known is not None and known[0] is resource:
            return known[1]
        stored = resource.stored
        versions = frozenset(stored.api_versions or (stored.api_version,))
        kind = Kind(self._root(stored), stored.api_version, stored.kind, _reset_fields(stored), versions)
        self._kinds[resource.id, resource.version] = resource, kind
        return kind

    def created(self, write: Write, obj: JsonObject, sent: Entries | None, time: str) -> Entries:
        """Return the managedFields of a new object. `sent` is what its writer wrote there; no writer: none."""
        if write.writer is None:
            return []
        return after_create(self.kind(write.resource), obj, sent, write.writer, time)

    def of_companion(self, resource: Resource, obj: JsonObject, time: str) -> Entries:
        """Return the managedFields of a companion: all of a resource have the same fields, which the server owns."""
        kind = self.kind(resource)
        fields = self._companions.get(resource.id)
        if fields is None:
            fields = self._companions[resource.id] = compare({}, obj, kind.root).changed
        return [make_entry(SERVER, kind, fields, time)]

    def updated(
        self, write: Write, old: JsonObject, new: JsonObject, entries: Entries, sent: Entries | None, time: str
    ) -> Entries:
        """Return the managedFields of a changed object. `entries` are those of `old`; no writer: they stay."""
        if write.writer is None:
            return entries
        return after_update(self.kind(write.resource), old, new, entries, sent, write.writer, time)


def _reset_fields(resource: Resource) -> dict[str, FieldSet]:
    """Return the paths that a write cannot change, by subresource (GetResetFields in pkg/registry/*/strategy.go)."""
    if "status" not in resource.subresources:
        return {}
    kept = resource.kept_by_status
    by_status = ["spec", *(["metadata"] if kept == CLIENT_METADATA else [f"metadata.{name}" for name in kept])]
    fields = {"": reset("status"), "status": reset(*by_status)}
    if "approval" in resource.subresources:
        fields = {"": reset("spec", "status"), "status": reset(*by_status, "status.conditions")}
        fields["approval"] = reset(*by_status, "status.certificate")
    return fields
