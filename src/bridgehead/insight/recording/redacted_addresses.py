"""Replacement of addresses under a key, such that addresses of one network stay in one network.

Two addresses share exactly as many leading bits after the replacement as before. Private, loopback, multicast and other
special ranges, and the usual ranges of Services and pods, keep their place, so that a Service's address stays in the
range of Services. Every address is replaced by another one, but loopback and the unspecified address.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import hashlib
import ipaddress

_KEPT = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16 198.18.0.0/15"
    " 224.0.0.0/4 240.0.0.0/4"
    # The lab's networks; kubeadm's, k3s', MicroK8s' and kind's usual ranges of Services and pods.
    " 10.0.0.0/24 10.96.0.0/12 10.96.0.0/16 10.244.0.0/16 10.42.0.0/16 10.43.0.0/16 10.152.183.0/24 10.1.0.0/16"
    " 10.100.0.0/16 172.20.0.0/16 ::/8 2000::/3 fc00::/7 fd00::/8 fe80::/64 ff00::/8 fd00:10::/64 fd00:10:96::/112"
    " fd00:10:244::/56"
)
_KEPT_NETWORKS = tuple(ipaddress.ip_network(text) for text in _KEPT.split())

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _kept_prefixes() -> frozenset[tuple[int, int, int]]:
    """Return (version, length, leading bits) of all networks after whose bits the next bit is kept."""
    return frozenset(
        (network.version, length, int(network.network_address) >> (network.max_prefixlen - length))
        for network in _KEPT_NETWORKS
        for length in range(network.prefixlen)
    )


class AddressRedaction:
    """One replacement. `key`: random bytes; the same key replaces in the same way."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._kept = _kept_prefixes()
        self._known: dict[tuple[int, int, int], int] = {}

    def address(self, address: Address) -> str:
        if address.is_loopback or address.is_unspecified:
            return str(address)
        size = address.max_prefixlen
        return str(type(address)(self._replaced(address.version, int(address), size, size)))

    def network(self, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
        """Replace a network: its addresses are replaced by those of the result."""
        if network.is_loopback:
            return str(network)
        size, length = network.max_prefixlen, network.prefixlen
        bits = self._replaced(network.version, int(network.network_address), size, length)
        return f"{type(network.network_address)(bits)}/{length}"

    def _replaced(self, version: int, bits: int, size: int, length: int) -> int:
        result = 0
        for index in range(length):
            prefix = bits >> (size - index)
            bit = bits >> (size - index - 1) & 1
            result = result << 1 | bit ^ self._flip(version, index, prefix, is_last=index == size - 1)
        return result << (size - length)

    def _flip(self, version: int, length: int, prefix: int, *, is_last: bool) -> int:
        if is_last:
            return 1  # no address is its own replacement
        spot = (version, length, prefix)
        if spot in self._kept:
            return 0
        if (known := self._known.get(spot)) is None:
            text = f"{version}/{length}/{prefix}".encode()
            known = self._known[spot] = hashlib.blake2b(text, key=self._key, digest_size=1).digest()[0] & 1
        return known
