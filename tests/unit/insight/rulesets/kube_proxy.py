"""kube-proxy's own rules for a few Services, in the form that it publishes.

Source: kubernetes/pkg/proxy/nftables/README.md and proxier.go, pkg/proxy/iptables/proxier.go, v1.32 and later. The
Services are those of `cluster`: `web` with a node port, `lb` with policy Local and source ranges, and `lonely`.
"""

from __future__ import annotations

from bridgehead.insight.facts.cluster_state import ClusterState

from .clusters import cluster, endpoint, service, slice_


def kube_proxy_cluster(mode: str) -> ClusterState:
    """Return the cluster, whose proxy publishes no progress. Mode nftables: "nftables"."""
    services = [
        service(
            "web", type="NodePort", clusterIPs=["10.96.0.10"], ports=[{"name": "http", "port": 80, "nodePort": 30080}]
        ),
        service(
            "lb",
            type="LoadBalancer",
            clusterIPs=["10.96.0.11"],
            ports=[{"port": 443, "nodePort": 30443}],
            externalTrafficPolicy="Local",
            loadBalancerSourceRanges=["192.0.2.0/24"],
            balancer_ips=["203.0.113.7"],
        ),
        service("lonely", clusterIPs=["10.96.0.12"], ports=[{"port": 80}], sessionAffinity="ClientIP"),
    ]
    slices = [
        slice_("web", endpoint("10.244.1.2"), endpoint("10.244.2.2", "node2"), port_name="http"),
        slice_("lb", endpoint("10.244.1.3"), endpoint("10.244.2.3", "node2")),
    ]
    return cluster(services, slices, mode=mode, is_bridgehead=False)


_ENDPOINTS = {
    "default/web/tcp/http": ("10.244.1.2", "10.244.2.2"),
    "default/lb/tcp/": ("10.244.1.3", "10.244.2.3"),
}


def nftables() -> str:
    """Return the table as text for `nft -f`."""
    name = "ip kube-proxy"
    frontend = "type ipv4_addr . inet_proto . inet_service : verdict"
    hooks = {
        "filter-prerouting-pre-dnat": "type filter hook prerouting priority -110",
        "filter-output-pre-dnat": "type filter hook output priority -110",
        "filter-forward": "type filter hook forward priority 0",
        "filter-input": "type filter hook input priority 0",
        "filter-output": "type filter hook output priority 0",
        "nat-output": "type nat hook output priority -100",
        "nat-postrouting": "type nat hook postrouting priority 100",
        "nat-prerouting": "type nat hook prerouting priority -100",
    }
    plain = (
        "cluster-ips-check", "firewall-check", "mark-for-masquerade", "masquerading", "nodeport-endpoints-check",
        "reject-chain", "services", "service-endpoints-check",
    )  # fmt: skip
    lines = [
        f'add table {name} {{ comment "rules for kube-proxy" ; }}',
        f'add set {name} cluster-ips {{ type ipv4_addr ; comment "Active ClusterIPs" ; }}',
        f'add set {name} nodeport-ips {{ type ipv4_addr ; comment "IPs that accept NodePort traffic" ; }}',
        *(
            f"add map {name} {one} {{ {frontend} ; }}"
            for one in ("firewall-ips", "no-endpoint-services", "service-ips")
        ),
        *(
            f"add map {name} {one} {{ type inet_proto . inet_service : verdict ; }}"
            for one in ("no-endpoint-nodeports", "service-nodeports")
        ),
        *(f"add chain {name} {chain} {{ {hook} ; }}" for chain, hook in hooks.items()),
        *(f"add chain {name} {chain}" for chain in plain),
    ]
    rules = """
        cluster-ips-check ip daddr @cluster-ips reject comment "Reject traffic to invalid ports of ClusterIPs"
        cluster-ips-check ip daddr { 10.96.0.0/12 } drop comment "Drop traffic to unallocated ClusterIPs"
        filter-prerouting-pre-dnat ct state new jump firewall-check
        filter-forward ct state new jump service-endpoints-check
        filter-forward ct state new jump cluster-ips-check
        filter-input ct state new jump nodeport-endpoints-check
        filter-input ct state new jump service-endpoints-check
        filter-output ct state new jump service-endpoints-check
        filter-output-pre-dnat ct state new jump firewall-check
        filter-output ct state new jump cluster-ips-check
        firewall-check ip daddr . meta l4proto . th dport vmap @firewall-ips
        mark-for-masquerade mark set mark or 0x4000
        masquerading mark and 0x4000 == 0 return
        masquerading mark set mark xor 0x4000
        masquerading masquerade fully-random
        nat-output jump services
        nat-postrouting jump masquerading
        nat-prerouting jump services
        nodeport-endpoints-check ip daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports
        reject-chain reject
        services ip daddr . meta l4proto . th dport vmap @service-ips
        services ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
        service-endpoints-check ip daddr . meta l4proto . th dport vmap @no-endpoint-services
    """
    web, lb = "AAAAAAA2-default/web/tcp/http", "BBBBBBB2-default/lb/tcp/"
    endpoints: dict[str, list[str]] = {}
    more: list[str] = []
    for owner, addresses in _ENDPOINTS.items():
        for number, address in enumerate(addresses):
            chain = f"endpoint-{'ABCDEFG'[number] * 8}-{owner}__{address}/8080"
            endpoints.setdefault(owner, []).append(chain)
            more += [f"{chain} ip saddr {address} jump mark-for-masquerade",
                     f"{chain} meta l4proto tcp dnat to {address}:8080"]  # fmt: skip
    web_chains, lb_chains = endpoints["default/web/tcp/http"], endpoints["default/lb/tcp/"]
    more += [
        f"service-{web} ip daddr 10.96.0.10 ip saddr != 10.244.0.0/16 jump mark-for-masquerade",
        f"service-{web} numgen random mod 2 vmap {{ 0 : goto {web_chains[0]} , 1 : goto {web_chains[1]} }}",
        f"external-{web} jump mark-for-masquerade",
        f"external-{web} goto service-{web}",
        f"service-{lb} ip daddr 10.96.0.11 ip saddr != 10.244.0.0/16 jump mark-for-masquerade",
        f"service-{lb} numgen random mod 2 vmap {{ 0 : goto {lb_chains[0]} , 1 : goto {lb_chains[1]} }}",
        f"local-{lb} numgen random mod 1 vmap {{ 0 : goto {lb_chains[0]} }}",
        f'external-{lb} ip saddr 10.244.0.0/16 goto service-{lb} comment "short-circuit pod traffic"',
        f'external-{lb} fib saddr type local jump mark-for-masquerade comment "masquerade local traffic"',
        f'external-{lb} fib saddr type local goto service-{lb} comment "short-circuit local traffic"',
        f"external-{lb} goto local-{lb}",
        f"firewall-{lb} ip saddr != {{ 192.0.2.0/24 }} drop",
    ]
    all_rules = [line.strip() for line in rules.strip().splitlines()] + more
    own = dict.fromkeys(rule.split(" ", 1)[0] for rule in more)
    elements = {
        "cluster-ips": ["10.96.0.10", "10.96.0.11", "10.96.0.12"],
        "nodeport-ips": ["10.0.0.201"],
        "service-ips": [
            f"10.96.0.10 . tcp . 80 : goto service-{web}",
            f"10.96.0.11 . tcp . 443 : goto service-{lb}",
            f"203.0.113.7 . tcp . 443 : goto external-{lb}",
        ],
        "service-nodeports": [f"tcp . 30080 : goto external-{web}", f"tcp . 30443 : goto external-{lb}"],
        "firewall-ips": [f"203.0.113.7 . tcp . 443 : goto firewall-{lb}"],
        "no-endpoint-services": ['10.96.0.12 . tcp . 80 comment "default/lonely" : goto reject-chain'],
    }
    lines += (f"add chain {name} {chain}" for chain in own)
    lines += (f"add rule {name} {rule}" for rule in all_rules)
    lines += (f"add element {name} {container} {{ {', '.join(some)} }}" for container, some in elements.items())
    return "".join(f"{line}\n" for line in lines)


# ruff: noqa: E501 - lines of iptables-save
IPTABLES = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-PROXY-FIREWALL -d 203.0.113.7/32 -p tcp -m comment --comment "default/lb traffic not accepted by KUBE-FW-AAAAAAAAAAAAAAAA" -m tcp --dport 443 -j DROP
-A KUBE-SERVICES -d 10.96.0.12/32 -p tcp -m comment --comment "default/lonely has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-EXT-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-EXT-BBBBBBBBBBBBBBBB - [0:0]
:KUBE-FW-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAA2 - [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAA3 - [0:0]
:KUBE-SEP-BBBBBBBBBBBBBBB2 - [0:0]
:KUBE-SEP-BBBBBBBBBBBBBBB3 - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SVC-BBBBBBBBBBBBBBBB - [0:0]
:KUBE-SVL-AAAAAAAAAAAAAAAA - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-EXT-AAAAAAAAAAAAAAAA -s 10.244.0.0/16 -m comment --comment "pod traffic for default/lb external destinations" -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-EXT-AAAAAAAAAAAAAAAA -m comment --comment "masquerade LOCAL traffic for default/lb external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
-A KUBE-EXT-AAAAAAAAAAAAAAAA -m comment --comment "route LOCAL traffic for default/lb external destinations" -m addrtype --src-type LOCAL -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-EXT-AAAAAAAAAAAAAAAA -j KUBE-SVL-AAAAAAAAAAAAAAAA
-A KUBE-EXT-BBBBBBBBBBBBBBBB -m comment --comment "masquerade traffic for default/web:http external destinations" -j KUBE-MARK-MASQ
-A KUBE-EXT-BBBBBBBBBBBBBBBB -j KUBE-SVC-BBBBBBBBBBBBBBBB
-A KUBE-FW-AAAAAAAAAAAAAAAA -s 192.0.2.0/24 -m comment --comment "default/lb loadbalancer IP" -j KUBE-EXT-AAAAAAAAAAAAAAAA
-A KUBE-FW-AAAAAAAAAAAAAAAA -m comment --comment "other traffic to default/lb will be dropped by KUBE-PROXY-FIREWALL"
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-NODEPORTS -p tcp -m comment --comment "default/lb" -m tcp --dport 30443 -j KUBE-EXT-AAAAAAAAAAAAAAAA
-A KUBE-NODEPORTS -p tcp -m comment --comment "default/web:http" -m tcp --dport 30080 -j KUBE-EXT-BBBBBBBBBBBBBBBB
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-SEP-AAAAAAAAAAAAAAA2 -s 10.244.1.3/32 -m comment --comment "default/lb" -j KUBE-MARK-MASQ
-A KUBE-SEP-AAAAAAAAAAAAAAA2 -p tcp -m comment --comment "default/lb" -m tcp -j DNAT --to-destination 10.244.1.3:8080
-A KUBE-SEP-AAAAAAAAAAAAAAA3 -s 10.244.2.3/32 -m comment --comment "default/lb" -j KUBE-MARK-MASQ
-A KUBE-SEP-AAAAAAAAAAAAAAA3 -p tcp -m comment --comment "default/lb" -m tcp -j DNAT --to-destination 10.244.2.3:8080
-A KUBE-SEP-BBBBBBBBBBBBBBB2 -s 10.244.1.2/32 -m comment --comment "default/web:http" -j KUBE-MARK-MASQ
-A KUBE-SEP-BBBBBBBBBBBBBBB2 -p tcp -m comment --comment "default/web:http" -m tcp -j DNAT --to-destination 10.244.1.2:8080
-A KUBE-SEP-BBBBBBBBBBBBBBB3 -s 10.244.2.2/32 -m comment --comment "default/web:http" -j KUBE-MARK-MASQ
-A KUBE-SEP-BBBBBBBBBBBBBBB3 -p tcp -m comment --comment "default/web:http" -m tcp -j DNAT --to-destination 10.244.2.2:8080
-A KUBE-SERVICES -d 10.96.0.11/32 -p tcp -m comment --comment "default/lb cluster IP" -m tcp --dport 443 -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES -d 203.0.113.7/32 -p tcp -m comment --comment "default/lb loadbalancer IP" -m tcp --dport 443 -j KUBE-FW-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-BBBBBBBBBBBBBBBB
-A KUBE-SERVICES ! -d 127.0.0.0/8 -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-SVC-AAAAAAAAAAAAAAAA ! -s 10.244.0.0/16 -d 10.96.0.11/32 -p tcp -m comment --comment "default/lb cluster IP" -m tcp --dport 443 -j KUBE-MARK-MASQ
-A KUBE-SVC-AAAAAAAAAAAAAAAA -m comment --comment "default/lb -> 10.244.1.3:8080" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-AAAAAAAAAAAAAAA2
-A KUBE-SVC-AAAAAAAAAAAAAAAA -m comment --comment "default/lb -> 10.244.2.3:8080" -j KUBE-SEP-AAAAAAAAAAAAAAA3
-A KUBE-SVC-BBBBBBBBBBBBBBBB ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SVC-BBBBBBBBBBBBBBBB -m comment --comment "default/web:http -> 10.244.1.2:8080" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-BBBBBBBBBBBBBBB2
-A KUBE-SVC-BBBBBBBBBBBBBBBB -m comment --comment "default/web:http -> 10.244.2.2:8080" -j KUBE-SEP-BBBBBBBBBBBBBBB3
-A KUBE-SVL-AAAAAAAAAAAAAAAA -m comment --comment "default/lb -> 10.244.1.3:8080" -j KUBE-SEP-AAAAAAAAAAAAAAA2
COMMIT
"""
