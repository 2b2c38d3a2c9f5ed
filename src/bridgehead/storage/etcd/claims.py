"""Claims in etcd: names that one object holds, each an entry below the store's own prefix.

The entry's value is the etcd key of the object that holds the claim. It is taken and released in the transaction of
that object's write. Objects contain what they hold, so entries can be rebuilt at any time: those of objects that
another program wrote are missing, and those whose object is gone are stale. `repair` makes them agree.
Source of the idea: the repair loops of Kubernetes' allocators (pkg/registry/core/service/portallocator/controller).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from .client.etcd_client import EtcdClient
from .client.requests import delete, mod_revision_equals, prefix_end, put
from .layout import Layout

log = logging.getLogger(__name__)


def claim_key(layout: Layout, claim: str) -> bytes:
    return claims_prefix(layout) + claim.encode()


def claims_prefix(layout: Layout) -> bytes:
    return layout.own_prefix() + b"claims/"


async def repair_claims(
    client: EtcdClient, layout: Layout, held_at: Callable[[int], Awaitable[Mapping[str, bytes]]]
) -> int:
    """Make the entries agree with what objects hold; return how many were wrong.

    `held_at` waits for a revision, and returns the etcd key of each claim's holder: an entry is as old as its object or
    younger. Entries that change meanwhile are left alone.
    """
    prefix = claims_prefix(layout)
    entries: dict[str, tuple[bytes, int]] = {}
    revision = 0
    async for page in client.pages(prefix, prefix_end(prefix)):
        revision = page.revision
        for kv in page.kvs:
            entries[kv.key[len(prefix) :].decode(errors="replace")] = (kv.value, kv.mod_revision)
    wanted, wrong = await held_at(revision), 0
    for claim, (holder, modified) in entries.items():
        if wanted.get(claim) != holder:
            key = claim_key(layout, claim)
            operation = delete(key) if claim not in wanted else put(key, wanted[claim])
            wrong += (await client.txn([mod_revision_equals(key, modified)], [operation])).succeeded
    for claim in wanted.keys() - entries.keys():
        key = claim_key(layout, claim)
        wrong += (await client.txn([mod_revision_equals(key, 0)], [put(key, wanted[claim])])).succeeded
    if wrong:
        log.info("repaired %d claims of addresses and ports", wrong)
    return wrong
