"""The kernel's lists of sockets, as text."""

from __future__ import annotations

import sys

import pytest

from bridgehead.network.listening_ports import (
    Listener,
    ListeningSocket,
    parse_all_sockets,
    parse_sctp,
    parse_sockets,
)

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def line(number: int, local: str, state: str) -> str:
    return f"{number:4}: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 {number}\n"


def hexadecimal(*numbers: int) -> str:
    """Return an address of 32-bit numbers, as the kernel writes it on this machine."""
    packed = (number.to_bytes(4, "big") for number in numbers)
    return "".join(f"{int.from_bytes(four, sys.byteorder):08X}" for four in packed)


def test_listening_tcp_sockets_come_first():
    lines = [
        HEADER,
        line(0, f"{hexadecimal(0)}:0016", "0A"),
        line(1, f"{hexadecimal(0x7F000001)}:0277", "0A"),
        line(2, f"{hexadecimal(0x0A0000C9)}:280A", "0A"),
        line(3, f"{hexadecimal(0x0A0000C9)}:8000", "01"),
        "the rest is not read",
    ]

    assert list(parse_sockets(lines, "tcp", "0A")) == [
        Listener("tcp", "0.0.0.0", 22),
        Listener("tcp", "127.0.0.1", 631),
        Listener("tcp", "10.0.0.201", 10250),
    ]


@pytest.mark.parametrize(
    ("local", "address"),
    [
        ((0, 0, 0, 0), "::"),
        ((0xFD000010, 0, 0, 0x201), "fd00:10::201"),
        ((0, 0, 0xFFFF, 0x0A0000C9), "10.0.0.201"),
    ],
)
def test_addresses_of_ipv6_sockets_are_canonical(local: tuple[int, ...], address: str) -> None:
    assert list(parse_sockets([line(0, f"{hexadecimal(*local)}:0016", "0A")], "tcp", "0A")) == [
        Listener("tcp", address, 22)
    ]


def test_connected_udp_sockets_do_not_count():
    lines = [HEADER, line(0, f"{hexadecimal(0)}:1F0A", "01"), line(1, f"{hexadecimal(0)}:0035", "07")]

    assert list(parse_sockets(lines, "udp", "07")) == [Listener("udp", "0.0.0.0", 53)]


def test_sctp_endpoints_have_several_addresses():
    lines = [
        " ENDPT     SOCK   STY SST HBKT LPORT   UID INODE LADDRS",
        "ffff ffff 2   10  29   9     0 4711 10.0.0.201 fd00:10::201 odd",
        "ffff ffff 2   10  29   7     0 4712",
    ]

    assert list(parse_sctp(lines)) == [
        Listener("sctp", "10.0.0.201", 9),
        Listener("sctp", "fd00:10::201", 9),
        Listener("sctp", "0.0.0.0", 7),
    ]


def test_all_sockets_with_their_inodes_and_waiting_connections():
    tcp = line(77, f"{hexadecimal(0)}:C350", "0A").replace("00000000:00000000 00:", "00000000:00000003 00:")
    assert list(parse_all_sockets([HEADER, tcp], "tcp")) == [ListeningSocket(Listener("tcp", "0.0.0.0", 50000), 3, 77)]
    udp = [HEADER, line(1, f"{hexadecimal(0)}:0035", "01"), line(2, f"{hexadecimal(0)}:0035", "07")]
    assert list(parse_all_sockets(udp, "udp")) == [ListeningSocket(Listener("udp", "0.0.0.0", 53), 0, 2)]
