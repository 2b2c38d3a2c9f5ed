"""Objects as a store on etcd has them: in the storage version of their kinds, in JSON or protobuf.

    codec      the conversion of all resources' objects: a `storage.etcd.ObjectCodec`

Nothing here does I/O or reads a clock.
"""

from __future__ import annotations

from .codec import StoredObjects, layout_of

__all__ = ["StoredObjects", "layout_of"]
