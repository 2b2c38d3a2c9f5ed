"""Texts of /proc and of programs become facts; lines that are not understood are left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.facts.kernel_texts import (
    parse_connections,
    parse_links,
    parse_routes,
    parse_sysctls,
    parse_virtual_servers,
)
from bridgehead.insight.facts.network_state import (
    AddressPort,
    Connection,
    Destination,
    Interface,
    Route,
    VirtualServer,
)

ESTABLISHED = (
    "ipv4     2 tcp      6 431999 ESTABLISHED src=10.244.1.2 dst=10.96.0.10 sport=40000 dport=80"
    " src=10.244.2.3 dst=10.244.1.2 sport=8080 dport=40000 [ASSURED] mark=0 zone=0 use=2"
)
COUNTED = (
    "ipv4     2 udp      17 25 src=10.0.0.1 dst=10.96.0.10 sport=5353 dport=53 packets=1 bytes=60 [UNREPLIED]"
    " src=10.244.1.9 dst=10.0.0.1 sport=53 dport=5353 packets=0 bytes=0 mark=16384 zone=7 delta-time=12 use=2"
)
IPV6 = (
    "ipv6     10 sctp     132 9 COOKIE_WAIT src=fd00:0010:0000:0000:0000:0000:0000:0001 dst=fd00:10:96::a"
    " sport=1 dport=2 [UNREPLIED] src=fd00:10:244:1::2 dst=fd00:10::1 sport=3 dport=4 mark=0 use=1"
)
PING = "ipv4     2 icmp     1 29 src=10.0.0.1 dst=10.0.0.2 type=8 code=0 id=9 src=10.0.0.2 dst=10.0.0.1 type=0 use=1"
OFFLOADED = (
    "ipv4     2 tcp      6 src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 src=10.0.0.2 dst=10.0.0.1 sport=2 dport=1"
    " [OFFLOAD] mark=0 use=3"
)


def test_a_translated_connection() -> None:
    assert list(parse_connections([ESTABLISHED])) == [
        Connection(
            protocol="tcp",
            source=AddressPort("10.244.1.2", 40000),
            destination=AddressPort("10.96.0.10", 80),
            reply_source=AddressPort("10.244.2.3", 8080),
            reply_destination=AddressPort("10.244.1.2", 40000),
            state="ESTABLISHED",
            is_assured=True,
            timeout=431999,
        )
    ]


def test_a_counted_flow_with_its_age() -> None:
    (flow,) = parse_connections([COUNTED])
    assert (flow.protocol, flow.state, flow.is_unreplied, flow.is_assured) == ("udp", "", True, False)
    assert (flow.packets, flow.bytes, flow.age) == ((1, 0), (60, 0), 12.0)
    assert (flow.mark, flow.zone, flow.timeout) == (16384, 7, 25)


def test_addresses_are_canonical() -> None:
    (flow,) = parse_connections([IPV6])
    assert (flow.source, flow.destination) == (AddressPort("fd00:10::1", 1), AddressPort("fd00:10:96::a", 2))
    assert flow.state == "COOKIE_WAIT"


def test_a_flow_without_a_timeout() -> None:
    (flow,) = parse_connections([OFFLOADED])
    assert flow.timeout is None
    assert not flow.is_unreplied


@pytest.mark.parametrize("line", ["", "conntrack v1.4.7 (conntrack-tools): 3 flow entries", PING, ESTABLISHED[:80]])
def test_other_lines_are_left_out(line: str) -> None:
    assert list(parse_connections([line, ESTABLISHED]))[:-1] == []


@given(st.lists(st.text()))
def test_no_text_is_an_error(lines: list[str]) -> None:
    list(parse_connections(lines))
    parse_virtual_servers(lines)
    parse_sysctls(lines)


def test_virtual_servers() -> None:
    text = """\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:0050 rr persistent 2700000 FFFFFFFF
  -> 0AF40102:1F90      Masq    1      2          3
  -> 0AF40203:1F90      Route   0      0          0
UDP  [fd00:0010:0096:0000:0000:0000:0000:000a]:0035 wrr
  -> [fd00:0010:0244:0001:0000:0000:0000:0002]:0035      Masq    1      0          0
FWM  00000005 sh
  -> [fd00:0010:0244:0001:0000:0000:0000:0002]:0000      Tunnel  1      0          0
SCTP 0A600002:0051 rr
"""
    assert parse_virtual_servers(text.splitlines(), 250) == (
        VirtualServer(
            protocol="tcp",
            address="10.96.0.1",
            port=80,
            scheduler="rr",
            persistent_seconds=10800,
            destinations=(
                Destination(address="10.244.1.2", port=8080, weight=1, forwarding="Masq", active=2, inactive=3),
                Destination(address="10.244.2.3", port=8080, weight=0, forwarding="Route"),
            ),
        ),
        VirtualServer(
            protocol="udp",
            address="fd00:10:96::a",
            port=53,
            family=6,
            scheduler="wrr",
            destinations=(Destination(address="fd00:10:244:1::2", port=53, weight=1, forwarding="Masq"),),
        ),
        VirtualServer(
            mark=5,
            family=6,
            scheduler="sh",
            destinations=(Destination(address="fd00:10:244:1::2", port=0, weight=1, forwarding="Tunnel"),),
        ),
        VirtualServer(protocol="sctp", address="10.96.0.2", port=81, scheduler="rr"),
    )


def test_links() -> None:
    document = b"""[
      {"ifindex": 1, "ifname": "lo", "flags": ["LOOPBACK", "UP", "LOWER_UP"], "mtu": 65536, "addr_info": [
        {"family": "inet", "local": "127.0.0.1", "prefixlen": 8}, {"family": "inet6", "local": "::1", "prefixlen": 128}
      ]},
      {"ifindex": 2, "ifname": "kube-ipvs0", "flags": ["NOARP"], "mtu": 1500, "linkinfo": {"info_kind": "dummy"}},
      {}
    ]"""
    assert parse_links(document) == (
        Interface(name="lo", index=1, mtu=65536, is_up=True, addresses=("127.0.0.1/8", "::1/128")),
        Interface(name="kube-ipvs0", index=2, mtu=1500, is_up=False, kind="dummy"),
    )


def test_routes() -> None:
    document = b"""[
      {"dst": "default", "gateway": "10.0.0.1", "dev": "eth0", "metric": 100, "flags": []},
      {"type": "local", "dst": "10.0.0.201", "dev": "eth0", "table": "local", "prefsrc": "10.0.0.201"},
      {"type": "blackhole", "dst": "10.9.0.0/16", "table": 7},
      {"dst": "10.8.0.0/16", "nexthops": [{"gateway": "10.0.0.2", "dev": "eth0"}, {"dev": "eth1"}]}
    ]"""
    assert parse_routes(document, 4) == (
        Route(destination="default", device="eth0", via="10.0.0.1", metric=100),
        Route(destination="10.0.0.201/32", device="eth0", kind="local", table="local", source="10.0.0.201"),
        Route(destination="10.9.0.0/16", kind="blackhole", table="7"),
        Route(destination="10.8.0.0/16", device="eth0", via="10.0.0.2"),
        Route(destination="10.8.0.0/16", device="eth1"),
    )
    assert parse_routes(b'[{"dst": "fd00::1", "dev": "lo"}]', 6) == (
        Route(destination="fd00::1/128", family=6, device="lo"),
    )
    assert parse_routes(b"", 6) == ()


@pytest.mark.parametrize("document", [b"{", b'{"dst": 1}', b"[[]]", b"[" * 100_000])
def test_a_document_that_is_not_of_ip_is_an_error(document: bytes) -> None:
    with pytest.raises(ValueError, match="not the output of ip -j"):
        parse_routes(document, 4)
    with pytest.raises(ValueError, match="not the output of ip -j"):
        parse_links(document)


def test_sysctls() -> None:
    lines = [
        "/proc/sys/net/ipv4/ip_forward:1",
        "/proc/sys/net/ipv4/ip_local_port_range:32768\t60999",
        "/proc/sys/net/ipv4/conf/eth0.1/rp_filter:2",
        "grep: /proc/sys/net/x: No such file or directory",
    ]
    assert parse_sysctls(lines) == {
        "net/ipv4/ip_forward": "1",
        "net/ipv4/ip_local_port_range": "32768 60999",
        "net/ipv4/conf/eth0.1/rp_filter": "2",
    }
