"""Leases of one writer each: heartbeats of nodes.

Source: Kubernetes "Leases".
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import msgspec

from bridgehead.objects.coordination import Lease, LeaseSpec
from bridgehead.objects.kinds import LEASES
from bridgehead.objects.meta import ObjectKey, ObjectMeta, OwnerReference
from bridgehead.objects.times import format_micro_time

from .api import ApiClient
from .errors import AlreadyExists, NotFound


async def renew_lease(
    client: ApiClient,
    key: ObjectKey,
    *,
    holder: str,
    duration_seconds: int,
    owner: OwnerReference | None = None,
    is_new: bool = False,
    now: Callable[[], float] = time.time,
) -> Lease:
    """Renew the Lease of `holder`: set renewTime and `owner`, and create the Lease if it is missing.

    For leases with only one writer, such as a node's in `kube-node-lease`. `is_new`: the Lease is probably missing.
    Raises ClientError.
    """
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration_seconds,
        "renewTime": format_micro_time(now()),
    }
    changes: dict[str, Any] = {"spec": spec}
    if owner is not None:  # the Node may have been recreated, and the Lease is deleted with its owner
        changes["metadata"] = {"ownerReferences": [msgspec.to_builtins(owner)]}
    if not is_new:
        with contextlib.suppress(NotFound):
            return await client.patch(LEASES, key.name, key.namespace, changes)
    lease = Lease(
        metadata=ObjectMeta(name=key.name, namespace=key.namespace, owner_references=() if owner is None else (owner,)),
        spec=LeaseSpec(
            holder_identity=holder, lease_duration_seconds=duration_seconds, renew_time=format_micro_time(now())
        ),
    )
    try:
        return await client.create(LEASES, lease)
    except AlreadyExists:
        return await client.patch(LEASES, key.name, key.namespace, changes)
