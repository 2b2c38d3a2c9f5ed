"""Custom resources as decoding and field management see them: whole objects.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apiserver/customresource_handler.go (unstructuredSchemaCoercer).
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.shapes import ANYTHING, MAP, OBJECT, JsonPath, Shape, conform

from .embedded import coerced
from .node import Node
from .numbers import decoded
from .pruning import pruned


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
