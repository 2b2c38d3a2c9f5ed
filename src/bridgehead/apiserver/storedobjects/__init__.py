"""Objects as a store on etcd has them: in the storage version of their kinds, in JSON or protobuf.

    codec             the conversion of all resources' objects: a `storage.etcd.ObjectCodec`; the layout of etcd's keys
    kinds             the objects of one built-in kind: media types, versions, default values
    custom_resources  custom resources, which are JSON in the versions of their definitions
    older_versions    versions that older kube-apiservers store, and their conversions; older_shapes has their fields
    definitions       CustomResourceDefinitions as v1beta1, in which Kubernetes stores them
    values            JSON, names, what is never stored

Nothing here does I/O or reads a clock.
"""

from __future__ import annotations

from .codec import StoredObjects, layout_of
from .older_versions import STORAGE_VERSIONS, STORAGE_VERSIONS_1_20

__all__ = ["STORAGE_VERSIONS", "STORAGE_VERSIONS_1_20", "StoredObjects", "layout_of"]
