"""The kernel's routes, as text."""

from __future__ import annotations

import sys

from bridgehead.network.gateways import parse_ipv6_routes, parse_routes

HEADER = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT"


def hexadecimal(number: int) -> str:
    """Return an address as the kernel of this machine writes it."""
    return f"{int.from_bytes(number.to_bytes(4, 'big'), sys.byteorder):08X}"


def test_gateways_of_default_routes():
    router, network = hexadecimal(0x0A000001), hexadecimal(0x0A000000)
    lines = [
        HEADER,
        f"eth0 00000000 {router} 0003 0 0 0 00000000 0 0 0",
        f"eth0 {network} 00000000 0001 0 0 0 {hexadecimal(0xFFFFFF00)} 0 0 0",
        f"eth0 {network} {hexadecimal(0x0A000002)} 0003 0 0 0 {hexadecimal(0xFFFFFF00)} 0 0 0",
        "tun0 00000000 00000000 0001 0 0 0 00000000 0 0 0",  # without a gateway
        f"eth0 00000000 {hexadecimal(0x0A000003)} 0003 0 0 0 {hexadecimal(0x80000000)} 0 0 0",  # a half of everything
    ]
    assert list(parse_routes(lines)) == ["10.0.0.1"]


def test_gateways_of_ipv6_default_routes():
    nothing, router = "0" * 32, "fd000010000000000000000000000001"
    lines = [
        f"{nothing} 00 {nothing} 00 {router} 00000400 00000001 00000000 00000003 eth0",
        f"{nothing} 00 {nothing} 00 {nothing} ffffffff 00000001 00000000 00200200 lo",
        f"fd000010000000000000000000000000 40 {nothing} 00 {nothing} 00000100 00000001 00000000 00000001 eth0",
    ]
    assert list(parse_ipv6_routes(lines)) == ["fd00:10::1"]
