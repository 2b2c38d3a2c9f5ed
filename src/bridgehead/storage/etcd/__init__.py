"""The store of the API server's objects on etcd, in Kubernetes' own layout.

layout     keys of objects as etcd's keys, and back
codec      the interface of the conversion of objects to stored bytes; `apiserver.storedobjects` implements it
"""

from __future__ import annotations

from .codec import ObjectCodec, Undecodable
from .layout import Layout

__all__ = ["Layout", "ObjectCodec", "Undecodable"]
