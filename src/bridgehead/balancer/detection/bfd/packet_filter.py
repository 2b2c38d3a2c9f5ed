"""Socket filter that lets only the neighbours' packets with a sufficient TTL into a receiving socket.

The kernel drops all others before they take room in the socket's buffer, so a flood of them displaces no neighbour's
packet (RFC 5881, section 5). The filter is a classic BPF program, which finds the IP header at SKF_NET_OFF.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping
from typing import Final

from bridgehead.network.uapi.bpf_common import BPF_ABS, BPF_B, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W
from bridgehead.network.uapi.filter import SKF_NET_OFF

_INSTRUCTION: Final = struct.Struct("=HBBI")  # struct sock_filter: code, jump if true, jump if false, operand
_ACCEPT, _DROP = 0xFFFFFFFF, 0  # bytes of the packet to keep
_SOURCE_OFFSETS = {4: 12, 6: 8}
_TTL_OFFSETS = {4: 8, 6: 7}


def render_filter(minimum_ttls: Mapping[str, int]) -> bytes:
    """Return the `struct sock_filter[]` for packets of these source addresses, each with its lowest TTL.

    The addresses are of one family.
    """
    program = []
    for text, minimum in minimum_ttls.items():
        address = ipaddress.ip_address(text.partition("%")[0])
        parts = struct.unpack(f"!{address.max_prefixlen // 32}I", address.packed)
        for index, part in enumerate(parts):
            to_next_address = 2 * (len(parts) - index - 1) + 4
            program += [
                _load(BPF_W, _SOURCE_OFFSETS[address.version] + 4 * index),
                _INSTRUCTION.pack(BPF_JMP | BPF_JEQ | BPF_K, 0, to_next_address, part),
            ]
        program += [
            _load(BPF_B, _TTL_OFFSETS[address.version]),
            _INSTRUCTION.pack(BPF_JMP | BPF_JGE | BPF_K, 0, 1, minimum),
            _INSTRUCTION.pack(BPF_RET | BPF_K, 0, 0, _ACCEPT),
            _INSTRUCTION.pack(BPF_RET | BPF_K, 0, 0, _DROP),
        ]
    return b"".join([*program, _INSTRUCTION.pack(BPF_RET | BPF_K, 0, 0, _DROP)])


def _load(size: int, offset: int) -> bytes:
    return _INSTRUCTION.pack(BPF_LD | size | BPF_ABS, 0, 0, (SKF_NET_OFF + offset) & 0xFFFFFFFF)
