"""Compaction of etcd's history, which one of the servers carries out at each interval.

All servers, also kube-apiservers, agree by the version of one key. The server that increments it compacts up to the
revision of the increment before, so that five to ten minutes of history remain.
Source: apiserver/pkg/storage/etcd3/compact.go.
"""

from __future__ import annotations

import asyncio
import logging

from .client.errors import Compacted, EtcdError
from .client.etcd_client import EtcdClient
from .client.requests import get, put, version_equals
from .transactions import found_keys

log = logging.getLogger(__name__)

_KEY = b"compact_rev_key"


async def compact_periodically(client: EtcdClient, interval: float) -> None:
    """Compact at every interval (seconds), until cancelled."""
    version, revision = 0, 0
    while True:
        await asyncio.sleep(interval)
        try:
            version, revision = await compact_once(client, version, revision)
        except EtcdError as error:
            log.warning("cannot compact etcd's history: %s", error)


async def compact_once(client: EtcdClient, version: int, revision: int) -> tuple[int, int]:
    """Compact up to `revision` if the key still has this version; return the version and revision for the next time."""
    result = await client.txn([version_equals(_KEY, version)], [put(_KEY, b"%d" % revision)], [get(_KEY)])
    if not result.succeeded:
        return found_keys(result)[0].version, result.revision
    if revision:
        try:
            await client.compact(revision)
        except Compacted:
            log.debug("etcd's history up to %d was compacted before", revision)
        else:
            log.info("compacted etcd's history up to revision %d", revision)
    return version + 1, result.revision
