"""Types of whole objects: with the fields that all objects have, of which some have no owner.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.apiserver.shapes import DEDUCED_MAP, MAP, OBJECT, Shape, StringShape

# Fields that identify an object or that the server alone sets (apimachinery/pkg/util/managedfields, stripmeta.go).
_UNTRACKED_META = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)
# The types of the fields that identify a whole object's type.
TYPE_META = dict.fromkeys(("apiVersion", "kind"), StringShape("string"))


class RootShape(Shape):
    """The type of a whole object or of its metadata: `untracked` fields have no owner."""

    __slots__ = ("fields", "nulls", "untracked", "values", "zeroed")
    form, relation = OBJECT, MAP

    def __init__(self, shape: Shape, fields: Mapping[str, Shape], untracked: frozenset[str]) -> None:
        super().__init__(shape.go)
        self.fields = fields
        self.values, self.zeroed, self.nulls = shape.values, shape.zeroed, shape.nulls
        self.untracked = untracked


def as_root(shape: Shape) -> RootShape:
    """Return the type of whole objects of a shape. Objects of other types than structs have fields of any type."""
    of_object = shape if shape.form == OBJECT else DEDUCED_MAP
    meta = of_object.fields.get("metadata", DEDUCED_MAP)
    of_metadata = meta if meta.form == OBJECT else DEDUCED_MAP
    metadata = RootShape(of_metadata, of_metadata.fields, _UNTRACKED_META)
    fields = {**of_object.fields, **TYPE_META, "metadata": metadata}
    root = RootShape(of_object, fields, frozenset(TYPE_META))
    root.zeroed |= {"metadata"}
    return root
