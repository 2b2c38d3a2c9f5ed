"""Options of a store on etcd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridgehead.storage.sealing import Encryption
from bridgehead.storage.watch_cache import DEFAULT_BYTES, DEFAULT_CHANGES


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdStoreOptions:
    """`lifetimes` are the seconds after which etcd deletes the objects of a resource, such as Events.

    `compaction_seconds` 0: never.
    """

    lifetimes: Mapping[str, int] = field(default_factory=dict)
    compaction_seconds: float = 300.0
    encryption: Encryption | None = None
    history_changes: int = DEFAULT_CHANGES
    history_bytes: int = DEFAULT_BYTES
