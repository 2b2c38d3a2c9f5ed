"""The API servers that are alive: an entry with a lease for each, where kube-apiserver has its own.

Source: pkg/controlplane/reconcilers/lease.go (`PREFIX/masterleases/IP`, an Endpoints object with the address).
"""

from __future__ import annotations

import msgspec

from .client.etcd_client import EtcdClient
from .client.requests import delete, prefix_end, put

_encode = msgspec.json.Encoder().encode


class EtcdServerLeases:
    """The addresses of the servers on one etcd. `prefix` is that of the layout."""

    def __init__(self, client: EtcdClient, prefix: bytes) -> None:
        self._client = client
        self._prefix = prefix + b"masterleases/"
        self._leases: dict[str, int] = {}

    async def renew(self, address: str, seconds: int) -> None:
        """Count an address as alive for this time. Raises `EtcdError`."""
        lease = self._leases.get(address, 0)
        if not lease or not await self._client.lease_keep_alive(lease):
            lease = self._leases[address] = await self._client.lease_grant(seconds)
        # Also when the lease is the same: somebody may have removed the entry.
        await self._client.txn([], [put(self._prefix + address.encode(), _endpoints(address), lease=lease)])

    async def alive(self) -> set[str]:
        """Return the addresses of all servers that are alive. Raises `EtcdError`."""
        found = await self._client.range(self._prefix, prefix_end(self._prefix), keys_only=True)
        return {kv.key[len(self._prefix) :].decode(errors="replace") for kv in found.kvs}

    async def remove(self, address: str) -> None:
        """Count an address as gone. Raises `EtcdError`."""
        await self._client.txn([], [delete(self._prefix + address.encode())])
        if lease := self._leases.pop(address, 0):
            await self._client.lease_revoke(lease)


def _endpoints(address: str) -> bytes:
    return _encode(
        {
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": {"name": address},
            "subsets": [{"addresses": [{"ip": address}]}],
        }
    )
