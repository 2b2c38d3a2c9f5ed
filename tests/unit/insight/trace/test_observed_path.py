"""Events of traced packets as a journey, with the texts of the rules."""

from __future__ import annotations

from bridgehead.insight.trace.observed_path import Hop, chains_of, journey, translations
from bridgehead.insight.trace.rule_texts import parse_listing
from bridgehead.network.flow_trace import Header, TraceEvent, parse_header

LISTING = """\
# Warning: table ip nat is managed by iptables-nft, do not touch!
table ip nat { # handle 2
\tchain PREROUTING { # handle 1
\t\ttype nat hook prerouting priority dstnat; policy accept;
\t\tcounter packets 3 bytes 180 jump KUBE-SERVICES # handle 5
\t}

\tchain KUBE-SERVICES { # handle 4
\t\tip daddr 10.96.0.10 tcp dport 80 counter packets 1 bytes 60 jump KUBE-SVC-X # handle 6
\t}
}
table ip own {
\tmap services { # handle 1
\t\ttype ipv4_addr . inet_proto : verdict
\t}

\tchain forward {
\t\ttype filter hook forward priority filter; policy drop;
\t\tiif "lo" counter packets 7 bytes 70 reject with tcp reset # handle 9
\t}
}
"""
SAVED = """\
*nat
:PREROUTING ACCEPT [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
[1:60] -A KUBE-SERVICES -d 10.96.0.10/32 -j KUBE-SVC-X
COMMIT
"""
TO_SERVICE = Header("tcp", "10.244.1.5", 61234, "10.96.0.10", 80)
TO_POD = Header("tcp", "10.244.1.5", 61234, "10.244.2.7", 8080)
REPLY = Header("tcp", "10.244.2.7", 8080, "10.244.1.5", 61234)


def event(packet=1, chain="PREROUTING", table="nat", kind="rule", handle=5, verdict="continue", **more):
    return TraceEvent(
        packet=packet, family="ip", table=table, chain=chain, kind=kind, handle=handle, verdict=verdict, **more
    )


EVENTS = [
    event(table="bridgehead-trace-1", chain="prerouting", header=TO_SERVICE, interfaces=(4, 0)),
    event(verdict="jump", target="KUBE-SERVICES", header=TO_SERVICE, interfaces=(4, 0)),
    event(chain="KUBE-SERVICES", handle=6, verdict="accept"),
    event(chain="KUBE-SERVICES", handle=0),  # the end of a chain
    event(table="own", chain="forward", kind="policy", handle=0, verdict="drop", header=TO_POD, interfaces=(4, 2)),
    event(2, table="own", chain="forward", handle=9, verdict="drop", header=REPLY, interfaces=(2, 4)),
]


def test_rules_have_their_users_texts_by_handle():
    texts = parse_listing(LISTING, {"ip": SAVED})
    assert texts["ip", "nat", 5] == '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES'
    assert texts["ip", "nat", 6] == "-A KUBE-SERVICES -d 10.96.0.10/32 -j KUBE-SVC-X"
    assert texts["ip", "own", 9] == 'iif "lo" reject with tcp reset'
    assert len(texts) == 3


def test_without_a_fitting_iptables_save_the_texts_are_nfts():
    texts = parse_listing(LISTING, {"ip": "*nat\n-A KUBE-SERVICES -j A\n-A KUBE-SERVICES -j B\n"})
    assert texts["ip", "nat", 6] == "ip daddr 10.96.0.10 tcp dport 80 jump KUBE-SVC-X"


def test_a_text_is_one_printable_line():
    hostile = 'table ip t {\n\tchain c {\n\t\tcomment "\x1b[31m' + "x" * 5000 + '" accept # handle 3\n\t}\n}\n'
    text = parse_listing(hostile)["ip", "t", 3]
    assert text.isprintable()
    assert len(text) <= 400


def test_a_journey_has_the_packets_with_their_hops():
    found = journey("node1", EVENTS, parse_listing(LISTING, {"ip": SAVED}), 61234)
    request, reply = found.packets
    assert found.request == request
    assert [(hop.chain, hop.verdict) for hop in request.hops] == [
        ("ip nat PREROUTING", "jump KUBE-SERVICES"),
        ("ip nat KUBE-SERVICES", "accept"),
        ("ip own forward", "drop"),
    ]
    assert request.end == Hop(chain="ip own forward", rule="policy drop", verdict="drop")
    assert request.interfaces == (4, 2)
    assert translations(request) == ("destination 10.96.0.10:80 -> 10.244.2.7:8080",)
    assert reply.is_reply
    assert reply.end == Hop(chain="ip own forward", rule='iif "lo" reject with tcp reset', verdict="reject")


def test_chains_of_the_trace_itself_are_left_out():
    assert chains_of(EVENTS) == {("ip", "nat", "PREROUTING"), ("ip", "nat", "KUBE-SERVICES"), ("ip", "own", "forward")}


def test_packets_without_addresses_are_left_out():
    assert journey("node1", [event()], {}, 1).packets == ()
    assert journey("node1", [], {}, 1).request is None


def test_headers():
    packet = bytes.fromhex("4500003c0000400040060000") + bytes([10, 0, 0, 1, 10, 0, 0, 2])
    assert parse_header(packet, bytes.fromhex("ef320050")) == Header("tcp", "10.0.0.1", 61234, "10.0.0.2", 80)
    assert parse_header(packet[:15], b"") is None
    assert parse_header(b"", b"") is None
    assert parse_header(b"\x00" * 40, b"") is None
    v6 = bytes.fromhex("6000000000081140") + bytes(15) + b"\x01" + bytes(15) + b"\x02"
    assert parse_header(v6, b"") == Header("udp", "::1", 0, "::2", 0)
