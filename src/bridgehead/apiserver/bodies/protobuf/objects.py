"""Objects of the schema's kinds in protobuf, with their envelopes.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import Shape, StructShape

from .encoding import Encoder
from .fields import has_fields
from .framing import envelope, metadata_only


def is_encodable(shape: Shape) -> bool:
    """Whether objects of this shape have a form in protobuf, which custom resources have not."""
    return isinstance(shape, StructShape) and has_fields(shape.definition)


class ProtobufObjects:
    """Encodes objects. `message` and `metadata` return messages, the others whole bodies."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._encoder = Encoder()

    def message(self, obj: JsonObject, shape: Shape) -> bytes:
        """Return the message of an object whose shape `is_encodable`."""
        if not isinstance(shape, StructShape):
            raise TypeError(f"objects of the shape {shape.go} have no form in protobuf")
        return self._encoder.message(obj, shape)

    def metadata(self, metadata: JsonObject) -> bytes:
        """Return the message of an object's metadata, whatever its kind."""
        return self.message(metadata, self._schema.of_kind("", "v1", "Namespace").child("metadata"))

    def list_metadata(self, metadata: JsonObject) -> bytes:
        return self.message(metadata, self._schema.of_kind("", "v1", "NamespaceList").child("metadata"))

    def status(self, status: JsonObject) -> bytes:
        """Return the message of a Status."""
        return self.message(status, self._schema.of_kind("", "v1", "Status"))

    def partial(self, metadata: JsonObject, version: str) -> bytes:
        """Return the body of a PartialObjectMetadata. `version` is that of meta.k8s.io."""
        return envelope(f"meta.k8s.io/{version}", "PartialObjectMetadata", metadata_only(self.metadata(metadata)))

    def body(self, obj: JsonObject) -> bytes | None:
        """Return an object with kind and apiVersion, such as a Status; None for a kind without a form in protobuf."""
        kind, api_version = obj.get("kind", ""), obj.get("apiVersion", "")
        group, _, version = api_version.rpartition("/")
        try:
            shape = self._schema.of_kind(group, version, kind)
        except KeyError:
            return None
        return envelope(api_version, kind, self.message(obj, shape)) if is_encodable(shape) else None
