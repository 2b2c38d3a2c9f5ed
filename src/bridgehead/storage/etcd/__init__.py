"""The store on etcd, in Kubernetes' own layout.

    etcd_store        the store: objects in memory, and writes as transactions
    options           its options
    prefix_watch      etcd's content and changes, from the start and through failures
    consistent_reads  reads that see all that was acknowledged before them
    fences            the end of writes whose answers are lost
    transactions      writes as etcd's comparisons and operations
    area              the layout of the keys below the prefix, and unfinished restores
    backups           backups, and their restoration
    foreign_keys      keys below the prefix that are no object's
    claims            addresses and ports that one object holds, as keys of etcd
    health            what is wrong with etcd
    retries           retries while etcd elects a leader, and its errors as the store's
    server_leases     the API servers that are alive
    leases            objects with a lifetime
    compaction        the end of etcd's history
    stored_form       objects as bytes: encoded, perhaps encrypted
    codec             the interface of the conversion to stored bytes, which `apiserver.storedobjects` implements
    layout            keys of objects as etcd's keys, and back
    client/           etcd's API

Imported only when a store is on etcd. Other packages import from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridgehead.storage.errors import StoreBroken

from .client import EtcdSettings, open_client
from .client.errors import EtcdError
from .codec import ObjectCodec, Undecodable
from .layout import Layout
from .options import EtcdStoreOptions

if TYPE_CHECKING:
    from .etcd_store import EtcdStore

__all__ = [
    "EtcdSettings",
    "EtcdStoreOptions",
    "Layout",
    "ObjectCodec",
    "Undecodable",
    "open_etcd_store",
]


async def open_etcd_store(
    settings: EtcdSettings, layout: Layout, codec: ObjectCodec, options: EtcdStoreOptions
) -> EtcdStore:
    """Connect to etcd and read all objects. Raises `StoreBroken` with a one-line advice."""
    try:
        client = open_client(settings)
    except EtcdError as error:
        raise StoreBroken(str(error)) from error
    from .etcd_store import EtcdStore  # imports packages that only this store needs

    store = EtcdStore(client, layout, codec, options)
    try:
        await store.open()
    except EtcdError as error:
        await store.close()
        raise StoreBroken(str(error)) from error
    return store
