"""The advertisement by which a master resigns."""

from __future__ import annotations

import ipaddress
import struct

from bridgehead.balancer.vrrp.advertisement import encode_resignation
from bridgehead.balancer.vrrp.keepalived import identity_address

SOURCE = "10.0.0.201"


def identity(router_id: int, *, has_ipv4: bool) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_interface(identity_address(router_id, has_ipv4)).ip


def test_it_has_the_priority_zero_and_a_checksum_over_the_pseudo_header():
    message = encode_resignation(7, identity(7, has_ipv4=True), 0.1, SOURCE)
    kind, router_id, priority, count, interval, _ = struct.unpack_from("!BBBBHH", message)
    assert (kind, router_id, priority, count, interval) == (0x31, 7, 0, 1, 10)
    assert message[8:] == bytes([169, 254, 254, 7])
    pseudo = ipaddress.IPv4Address(SOURCE).packed + bytes([224, 0, 0, 18, 0, 112, 0, len(message)])
    total = sum(struct.unpack(f"!{(len(pseudo) + len(message)) // 2}H", pseudo + message))
    assert total % 0xFFFF == 0  # RFC 1071: the sum of the whole is minus zero


def test_the_kernel_fills_in_the_checksum_of_ipv6():
    message = encode_resignation(255, identity(255, has_ipv4=False), 0.1, "")
    assert message[6:8] == bytes(2)
    assert message[8:] == ipaddress.IPv6Address("fe80::5afe:ff").packed
