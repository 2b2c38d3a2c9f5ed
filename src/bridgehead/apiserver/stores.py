"""Stores on etcd for the resources of the API: opening one, and its backup and restoration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bridgehead.media_types import JSON
from bridgehead.storage import Record

from .build import api_schema
from .registry.expiry import seconds_left
from .resources import build_table

if TYPE_CHECKING:
    from bridgehead.storage.backups import Copied, OnProgress
    from bridgehead.storage.etcd import EtcdSettings, Layout, ObjectCodec
    from bridgehead.storage.etcd.backups import Restored
    from bridgehead.storage.etcd.client.etcd_client import EtcdClient
    from bridgehead.storage.etcd.etcd_store import EtcdStore
    from bridgehead.storage.sealing import Encryption

    from .resource import Resource

T = TypeVar("T")

# The keys and the form of objects do not depend on the ranges of a server.
_SERVICE_CIDRS, _NODE_PORTS = ("10.96.0.0/12",), (30000, 32767)


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdOptions:
    """Options of a store on etcd.

    `media_type`: the form of built-in objects there. `storage_versions`: the release of Kubernetes whose versions of
    the API they have, 1.36 or 1.20.
    """

    servers: tuple[str, ...]
    prefix: str = "/registry"
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    user: str = ""
    password: str = ""
    compaction_seconds: float = 300.0
    media_type: str = JSON
    storage_versions: str = "1.36"


async def open_on_etcd(
    options: EtcdOptions, table: Sequence[Resource], encryption: Encryption | None, lifetimes: Mapping[str, int]
) -> EtcdStore:
    """Open a store on etcd. `lifetimes`: see `EtcdStoreOptions`. Raises `StoreBroken` with a one-line advice."""
    from bridgehead.storage.etcd import EtcdStoreOptions, open_etcd_store

    store_options = EtcdStoreOptions(
        lifetimes=lifetimes, compaction_seconds=options.compaction_seconds, encryption=encryption
    )
    layout, codec = _form(options, table)
    return await open_etcd_store(_settings(options), layout, codec, store_options)


def back_up_etcd(
    options: EtcdOptions,
    encryption: Encryption | None,
    target: Path,
    on_progress: OnProgress,
    on_left_out: Callable[[str, str], None],
) -> Copied:
    """Write a copy of a store on etcd to `target`. Raises `StorageError`.

    `on_left_out` is called with the key of each object that cannot be decoded, and the reason.
    """
    from bridgehead.storage.etcd.backups import back_up

    layout, codec = _form(options, _table())

    async def run(client: EtcdClient) -> Copied:
        return await back_up(client, layout, codec, encryption, target, on_progress, on_left_out)

    return asyncio.run(_with_client(options, run))


def restore_etcd(
    options: EtcdOptions, encryption: Encryption | None, copy: Path, on_progress: OnProgress, event_seconds: float
) -> Restored:
    """Write the objects of a copy to etcd, below an empty prefix. Raises `StorageError`.

    Events get what is left of their lifetime, and are left out if it is over.
    """
    from bridgehead.storage.etcd.backups import restore

    layout, codec = _form(options, _table())
    lifetime = partial(_lifetime, now=time.time(), event_seconds=event_seconds)

    async def run(client: EtcdClient) -> Restored:
        return await restore(client, layout, codec, encryption, copy, lifetime, on_progress)

    return asyncio.run(_with_client(options, run))


def _lifetime(record: Record, *, now: float, event_seconds: float) -> float | None:
    return seconds_left(record.value, event_seconds, now) if record.key.resource == "events" else None


async def _with_client(options: EtcdOptions, run: Callable[[EtcdClient], Awaitable[T]]) -> T:
    from bridgehead.storage.etcd.client import open_client

    client = open_client(_settings(options))
    try:
        return await run(client)
    finally:
        await client.close()


def _table() -> Sequence[Resource]:
    return build_table(service_cidrs=_SERVICE_CIDRS, node_port_range=_NODE_PORTS)


def _form(options: EtcdOptions, table: Sequence[Resource]) -> tuple[Layout, ObjectCodec]:
    from .storedobjects import STORAGE_VERSIONS, STORAGE_VERSIONS_1_20, StoredObjects, layout_of

    versions = STORAGE_VERSIONS_1_20 if options.storage_versions == "1.20" else STORAGE_VERSIONS
    return layout_of(table, options.prefix), StoredObjects(table, api_schema(), options.media_type, versions)


def _settings(options: EtcdOptions) -> EtcdSettings:
    from bridgehead.storage.etcd import EtcdSettings

    return EtcdSettings(
        endpoints=options.servers,
        ca_file=options.ca_file,
        cert_file=options.cert_file,
        key_file=options.key_file,
        user=options.user,
        password=options.password,
    )
