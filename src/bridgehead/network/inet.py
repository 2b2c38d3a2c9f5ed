"""Address families and transport protocols, and addresses as the kernel's messages have them."""

from __future__ import annotations

import socket
from typing import Final

PROTOCOLS: Final = {"tcp": socket.IPPROTO_TCP, "udp": socket.IPPROTO_UDP, "sctp": socket.IPPROTO_SCTP}
PROTOCOL_NAMES: Final = {int(number): name for name, number in PROTOCOLS.items()}


def address_family(version: int) -> int:
    """Return AF_INET or AF_INET6 for IP version 4 or 6."""
    return int(socket.AF_INET6 if version == 6 else socket.AF_INET)


def pack_address(address: str) -> tuple[int, int, bytes]:
    """Return the family, the length in bits and the bytes of an address."""
    if ":" in address:
        return socket.AF_INET6, 128, socket.inet_pton(socket.AF_INET6, address)
    return socket.AF_INET, 32, socket.inet_aton(address)
