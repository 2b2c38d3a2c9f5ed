"""The structural schema of one version of a CustomResourceDefinition, and what it does with objects.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/schema/structural.go, convert.go;
for `CustomShape` pkg/apiserver/customresource_handler.go (unstructuredSchemaCoercer).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import ANYTHING, MAP, OBJECT, JsonPath, Shape, conform

from .defaulting import defaulted
from .embedded import coerced, validate_embedded
from .errors import BLOCKING, NOT_CHECKED, Check, Errors
from .lists import validate_lists
from .node import Node
from .numbers import decoded
from .pruning import pruned
from .ratcheting import ABSENT
from .values import SchemaCheck, validate_value

if TYPE_CHECKING:
    from .rules import Validator


# The checks of values are compiled when the first object has such values: about 20 ms for this many bytes of schema.
_LARGE_BYTES = 64 * 1024


class Structural:
    """A version's schema and what it does with objects. Objects are decoded JSON."""

    def __init__(self, schema: JsonObject, metadata: Shape = ANYTHING, *, preserve_unknown: bool = False) -> None:
        """Take a schema that `validate_schema` accepts, and the shape of ObjectMeta.

        `preserve_unknown`: spec.preserveUnknownFields.
        """
        self.schema = schema
        self.root = Node(schema, metadata)
        self._metadata = metadata
        self._keeps_unknown = preserve_unknown

    @classmethod
    def parse(cls, openapi_v3: JsonObject, metadata: Shape = ANYTHING, *, preserve_unknown: bool = False) -> Structural:
        """Return the structural schema of an `openAPIV3Schema`. `metadata` is the shape of ObjectMeta."""
        return cls(openapi_v3, metadata, preserve_unknown=preserve_unknown)

    def default(self, obj: JsonObject) -> None:
        """Set the defaults of fields that `obj` leaves out. Only the root of `obj` is changed in place."""
        changed = self.defaulted(obj)
        if changed is not obj:
            obj.clear()
            obj.update(changed)

    def defaulted(self, obj: JsonObject) -> JsonObject:
        """Return `obj` with defaults; the argument itself if it has them all. Results share parts with it."""
        return defaulted(obj, self.root) if self.root.has_defaults else obj

    def prune(self, obj: JsonObject) -> list[str]:
        """Drop unknown fields, and nulls where the schema has none; return the unknown fields' paths, sorted.

        Only the root of `obj` is changed in place. `metadata` stays as it is.
        """
        kept, unknown = self.pruned(obj)
        if kept is not obj:
            obj.clear()
            obj.update(kept)
        return unknown

    def pruned(self, obj: JsonObject) -> tuple[JsonObject, list[str]]:
        """Return `obj` as `prune` leaves it and the unknown fields' paths. Results share parts with the argument."""
        return (obj, []) if self._keeps_unknown else pruned(obj, self.root)

    @cached_property
    def shape(self) -> Shape:
        """The shape of whole objects."""
        return CustomShape(self.root, self._metadata, keeps_unknown=self._keeps_unknown)

    def validate(self, obj: JsonObject, old: JsonObject | None = None) -> list[FieldError]:
        """Validate a whole object: values, embedded metadata, lists, rules. `metadata` is validated elsewhere.

        `old`: the object before an update, of which unchanged parts may stay invalid (validation ratcheting): errors of
        their rules are warnings.
        """
        root = self.root
        errors = validate_value(self.check, obj, ABSENT if old is None else old, root)
        if root.has_embedded:
            embedded = Field(obj)
            validate_embedded(embedded, root)
            errors += embedded.errors
        errors += self._validate_lists(obj, old)
        return errors + self._validate_rules(obj, old, errors)

    def validate_status(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        """Validate an object of which a request changed only the status."""
        errors: Errors = []
        node = self.root.properties.get("status")
        if node is not None and "status" in obj:
            errors += validate_value(self.status_check, obj["status"], old.get("status", ABSENT), node, "status")
        errors += self._validate_lists(obj, old)
        return errors + self._validate_rules(obj, old, errors)

    def _validate_lists(self, obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
        errors = validate_lists(obj, self.root)
        return [] if errors and old is not None and validate_lists(old, self.root) else errors

    def _validate_rules(self, obj: JsonObject, old: JsonObject | None, errors: Errors) -> list[FieldError]:
        if self.rules is None:
            return []
        if any(error.reason in BLOCKING for error in errors):
            return [NOT_CHECKED]
        return self.rules.validate(obj, old)

    @cached_property
    def may_take_long(self) -> bool:
        """Whether validation may take long for small objects, too: rules are evaluated, or many checks compiled."""
        return self.rules is not None or len(msgspec.json.encode(self.schema)) > _LARGE_BYTES

    @cached_property
    def rules(self) -> Validator | None:
        """The CEL rules; None without rules."""
        if not self.root.has_rules:
            return None
        from .rules import Validator  # the CEL engine is loaded with the first rule

        return Validator(self.root, is_root=True)

    @cached_property
    def check(self) -> Check:
        """The compiled checks of values."""
        return SchemaCheck(self.schema, self.root)

    @cached_property
    def status_check(self) -> Check:
        """The compiled checks of `status`, whose schema is that of any value if it has none."""
        node = self.root.properties.get("status")
        return SchemaCheck({} if node is None else node.schema, node)


class CustomShape(Shape):
    """The shape of a custom resource: its metadata is an ObjectMeta, the rest is pruned by the structural schema.

    Types of fields are not checked here: they are validated, with all other rules, when the object is complete. Unlike
    a struct of Go, a custom resource has only the fields that somebody wrote, so that these have owners.
    """

    __slots__ = ("_keeps_unknown", "_metadata", "_root", "fields", "values")
    form, relation = OBJECT, MAP

    def __init__(self, root: Node, metadata: Shape, *, keeps_unknown: bool) -> None:
        super().__init__("unstructured.Unstructured")
        self._root = root
        self._metadata = metadata
        self._keeps_unknown = keeps_unknown
        self.fields = {**root.fields, "metadata": metadata}
        self.values = root.values

    def conform(self, value: Any, path: JsonPath, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise SchemaMismatch("json: cannot unmarshal value into an object")
        metadata = value.get("metadata")
        if metadata is None:
            obj = {name: decoded(item) for name, item in value.items() if name != "metadata"}
        else:
            # The metadata stand between kind and spec, where people expect them.
            kept, not_known = conform(metadata, self._metadata)
            unknown += (f"metadata.{one}" for one in not_known)
            obj = {name: kept if name == "metadata" else decoded(item) for name, item in value.items()}
        if not self._keeps_unknown:
            obj, paths = pruned(obj, self._root)
            unknown += paths
        if self._root.has_embedded:
            dropped: list[str] = []
            obj = coerced(obj, self._root, self._metadata, dropped)
            unknown += sorted(dropped)
        return obj

    def child(self, key: str) -> Shape:
        return self._metadata if key == "metadata" else ANYTHING
