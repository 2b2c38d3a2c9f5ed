"""The packet filter of a gateway."""

from __future__ import annotations

from ipaddress import ip_network

from bridgehead.lab.addressing import IPV4, IPV6
from bridgehead.lab.gateway.addressing import GatewayPlan, choose_pairs
from bridgehead.lab.gateway.ruleset import own_networks, render_machine_sets, render_ruleset
from bridgehead.network.rtnetlink_listing import RouteRecord

NONE = own_networks(())


def route(destination: str, kind: str, device: str = "eth0", table: str = "local") -> RouteRecord:
    return RouteRecord(6 if ":" in destination else 4, destination, device, "", kind, table, 0, "")


def rules_of(text: str, chain: str) -> list[str]:
    _, _, rest = text.partition(f"chain {chain} {{")
    return [line.strip() for line in rest.partition("    }")[0].splitlines() if line.strip()]


def test_what_the_machine_receives_itself_is_its_own() -> None:
    found = own_networks(
        [
            route("192.0.2.2/32", "local"),
            route("127.0.0.0/8", "local", "lo"),
            route("127.0.0.1/32", "local", "lo"),
            route("192.0.2.255/32", "broadcast"),
            route("192.0.2.0/24", "unicast", table="main"),
            route("default", "unicast", table="main"),
            route("10.244.0.0/16", "unicast", "bh-other", "main"),
            route("2001:db8::1/128", "local"),
            route("2001:db8::/128", "anycast"),
            route("ff00::/8", "multicast"),
        ]
    )
    assert [str(each) for each in found[4]] == ["10.244.0.0/16", "127.0.0.0/8", "192.0.2.2/32", "192.0.2.255/32"]
    assert [str(each) for each in found[6]] == ["2001:db8::/127"]


def test_only_the_machine_itself_may_open_connections_to_the_lab() -> None:
    pairs = choose_pairs("dev", (4, 6), ())
    assert pairs is not None
    text = render_ruleset(GatewayPlan((IPV4, IPV6), outside=False, link="bh-dev", pairs=pairs), NONE)
    accepted = [rule for rule in rules_of(text, "forward") if rule.startswith('iifname "machine"')]
    assert accepted == [
        f'iifname "machine" oifname "lab" ip saddr {pairs[0].near} ip daddr {{ 10.0.0.0/24, 10.244.0.0/16,'
        " 10.96.0.0/12 } accept",
        f'iifname "machine" oifname "lab" ip6 saddr {pairs[1].near} ip6 daddr {{ fd00:10::/64, fd00:10:244::/56,'
        " fd00:10:96::/112 } accept",
    ]
    assert rules_of(text, "forward")[-1] == "reject with icmpx no-route"
    assert "policy drop" in rules_of(text, "forward")[0]
    assert rules_of(text, "outside") == []


def test_the_outside_is_neither_the_machine_nor_the_lab() -> None:
    machine = {4: [ip_network("192.0.2.2/32")], 6: []}
    text = render_ruleset(GatewayPlan((IPV4,), outside=True), machine)  # type: ignore[arg-type]
    first, never, own, last = rules_of(text, "outside")
    assert first == "ip daddr 169.254.253.3 meta l4proto { tcp, udp } th dport 53 accept"
    for network in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", *("10.0.0.0/24", "10.244.0.0/16")):
        assert network in never
    assert never.endswith("reject with icmpx no-route")
    assert own == "ip daddr @machine4 reject with icmpx no-route"
    assert last == "meta nfproto ipv4 accept"
    assert "set machine4 { type ipv4_addr; flags interval; auto-merge; elements = { 192.0.2.2/32 }; }" in text
    assert "set machine6 { type ipv6_addr; flags interval; auto-merge; }" in text
    assert 'iifname "machine"' not in text


def test_a_change_of_the_machines_addresses_is_one_transaction() -> None:
    machine = {4: [ip_network("192.0.2.2/32"), ip_network("127.0.0.0/8")], 6: []}
    assert render_machine_sets(machine) == (  # type: ignore[arg-type]
        "flush set inet bridgehead machine4\n"
        "add element inet bridgehead machine4 { 192.0.2.2/32, 127.0.0.0/8 }\n"
        "flush set inet bridgehead machine6\n"
    )
