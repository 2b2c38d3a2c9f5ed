"""Descriptions of the rules of service proxies: a sentence for each kind of rule, of nftables and of iptables.

A rule of no known kind is somebody else's. The sentences are the same for a rule as it is rendered and as nft prints
it, so that both can be compared. Names and comments of kube-proxy: kubernetes/pkg/proxy/nftables and
pkg/proxy/iptables, v1.32 and later.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from functools import lru_cache

_DADDR = r"ip6? daddr"
_RANGES = r"(?:\{ (?P<ranges>[^}]*?) \}|(?P<range>\S+))"  # one address or range, or several in braces

# --- nftables, this project's tables -------------------------------------------------------------------------

_OWN_NFTABLES = (
    (
        rf"(?:ip daddr != 127\.0\.0\.0/8 )?{_DADDR} != \S+ {_DADDR} \. meta l4proto \. th dport vmap @services",
        "Looks up the destination in map services.",
    ),
    (
        rf"fib daddr type local {_DADDR} != \S+ (?:{_DADDR} {_RANGES} )?"
        rf"{_DADDR} (?:and|&) \S+ \. meta l4proto \. th dport vmap @services",
        "Looks up the port in map services, among node ports, if the destination is an address of this node{at}.",
    ),
    (
        r"ct status dnat fib saddr type != local .*@hairpin masquerade fully-random",
        "Masquerades a pod that connects to itself through a Service.",
    ),
    (
        r"meta mark (?:and|&) (?P<mark>\S+) == \S+ meta mark set meta mark (?:xor|\^) \S+ masquerade fully-random",
        "Masquerades marked connections: the backend sees an address of this node as its client.",
    ),
    (r'iif "lo" meta priority \S+ reject', "Rejects the node's own datagrams to itself that no backend takes."),
    (
        r"ct state invalid tcp flags .* drop",
        "Drops resets that answer a segment of an unknown connection: they would end the real one.",
    ),
    (
        rf"ct state new {_DADDR} @cluster-ips (?:meta l4proto tcp )?reject with tcp reset",
        "Rejects TCP to ports of cluster IPs that no Service has.",
    ),
    (rf"ct state new {_DADDR} @cluster-ips reject", "Rejects all else to ports of cluster IPs that no Service has."),
    (
        rf"ct state invalid,new {_DADDR} {_RANGES} fib daddr type != local drop",
        "Drops packets to cluster IPs that no Service has{at}.",
    ),
    (rf"ct state invalid {_DADDR} @cluster-ips drop", "Drops packets to cluster IPs that were not translated."),
    (
        r"(?P<marks>meta mark set meta mark (?:or|\|) \S+ )?"
        r"meta priority set numgen random mod 1 offset (?P<offset>\d+) dnat (?:ip6? )?to .*@endpoints",
        "Translates to the first backend{kind}, if there is one{mark}.",
    ),
    (
        r"(?P<marks>meta mark set meta mark (?:or|\|) \S+ )?"
        r"meta priority set numgen random mod (?P<count>\d+) offset (?P<offset>\d+) dnat (?:ip6? )?to .*@endpoints",
        "Draws one of {count} numbers, and translates to the backend{kind} that has it, if one has{mark}.",
    ),
    (
        rf"(?:ip6? saddr|iifname) != {_RANGES} meta mark set meta mark (?:or|\|) \S+",
        "Marks clients outside {range} for masquerading: the backend sees an address of this node.",
    ),
    (rf"ip6? saddr != {_RANGES} drop", "Drops clients outside the Service's source ranges{at}."),
    (
        rf"(?:ip6? saddr|iifname) {_RANGES} goto (?P<target>\S+)",
        "Sends clients that are pods of this node{at} to {target}.",
    ),
    (r"fib saddr type local goto (?P<target>\S+)", "Sends the node itself to {target}."),
    (r"goto (?P<target>one-of-\S+|split-\S+)", "Sends all others to {target}."),
    (r"goto (?P<target>remember-\S+)", "Goes on in {target}, which records the choice."),
    (r"goto (?P<target>reject-chain)", "Rejects all others."),
    (r"(?:meta l4proto tcp )?reject with tcp reset", "Rejects TCP with a reset."),
    (r'oif "lo" meta priority set \S+ accept', "Lets the node's own datagrams pass; they are rejected on arrival."),
    (r"reject", "Rejects with an ICMP error: port unreachable."),
    (r"drop", "Drops the packet."),
    (
        rf"(?P<marks>meta mark set meta mark (?:or|\|) \S+ )?{_DADDR} set .* map @affinity-names",
        "Replaces the destination by the name of the Service port, for a moment{mark}.",
    ),
    (r"jump (?P<target>recall-\S+)", "Uses the client's last backend, if there is one ({target})."),
    (
        r"meta priority set numgen random mod (?P<count>\d+) offset (?P<offset>\d+)",
        "Chooses one of {count} backends{kind} at random.",
    ),
    (r"meta priority set .* map @affinity-choices", "Looks up the number of the chosen backend."),
    (
        r"meta priority set .* map @affinity update @affinity .* dnat (?:ip6? )?to .*@endpoints",
        "Translates to the backend that the client had before, and extends its time.",
    ),
    (r"delete @affinity .*", "Forgets a recorded backend that the Service has no more."),
    (r"update @affinity .*", "Records the client and its backend."),
    (
        r"(?:meta priority set meta priority (?:or|\|) \S+ )?dnat (?:ip6? )?to .*@endpoints",
        "Translates the destination to the chosen backend.",
    ),
    (
        rf"{_DADDR} \S+ ct status (?:! dnat|(?:and|&) dnat == (?:0|0x0+)) drop",
        "Drops connections to listeners that did not pass a Service's rules.",
    ),
)

# --- nftables, kube-proxy's table ----------------------------------------------------------------------------

_KUBE_PROXY_NFTABLES = (
    (r"jump services", "Looks up the Service (chain services)."),
    (r"jump masquerading", "Masquerades marked connections (chain masquerading)."),
    (r"ct state new jump (?P<target>\S+)", "Checks new connections in chain {target}."),
    (rf"{_DADDR} \. meta l4proto \. th dport vmap @service-ips", "Looks up the destination in map service-ips."),
    (
        rf"{_DADDR} @nodeport-ips meta l4proto \. th dport vmap @service-nodeports",
        "Looks up the port in map service-nodeports, if the destination is in set nodeport-ips.",
    ),
    (r".* vmap @firewall-ips", "Checks the client's address where a load-balancer address has source ranges."),
    (r".* vmap @no-endpoint-(?P<target>\w+)", "Rejects or drops {target} without endpoints."),
    (rf"{_DADDR} @cluster-ips reject.*", "Rejects ports of cluster IPs that no Service has."),
    (rf"{_DADDR} {_RANGES} drop.*", "Drops packets to cluster IPs that no Service has{at}."),
    (r"(?:meta )?mark set (?:meta )?mark (?:or|\|) \S+", "Marks the connection for masquerading."),
    (r"(?:meta )?mark (?:and|&) \S+ (?:== 0|== 0x0+|!= \S+) return", "Leaves connections without the mark alone."),
    (r"(?:meta )?mark set (?:meta )?mark (?:xor|\^) \S+", "Clears the mark."),
    (r"masquerade(?: fully-random)?", "Masquerades: the backend sees an address of this node as its client."),
    (
        rf"{_DADDR} \S+ ip6? saddr != {_RANGES} jump mark-for-masquerade.*",
        "Marks clients outside {range} for masquerading: the backend sees an address of this node.",
    ),
    (rf"{_DADDR} \S+ jump mark-for-masquerade.*", "Marks all clients of the cluster IP for masquerading."),
    (
        r"ip6? saddr (?P<range>\S+) jump mark-for-masquerade",
        "Marks a pod that connects to itself for masquerading{at}.",
    ),
    (r"fib saddr type local jump mark-for-masquerade.*", "Marks connections of the node itself for masquerading."),
    (r"jump mark-for-masquerade.*", "Marks all clients for masquerading."),
    (rf"ip6? saddr {_RANGES} goto (?P<target>service-\S+).*", "Sends clients that are pods{at} to {target}."),
    (r"fib saddr type local goto (?P<target>\S+).*", "Sends the node itself to {target}."),
    (r"goto (?P<target>\S+)", "Goes on in {target}."),
    (r"ip6? saddr @\S+ goto (?P<target>\S+)", "Uses the client's last backend, {target}."),
    (r"numgen random mod (?P<count>\d+) vmap .*", "Chooses one of {count} backends at random."),
    (r"update @\S+ .*", "Records the client for its backend."),
    (r"meta l4proto \S+ dnat (?:ip6? )?to (?P<target>\S+)", "Translates the destination to {target}."),
    (r"dnat (?:ip6? )?to (?P<target>\S+)", "Translates the destination to {target}."),
    (rf"ip6? saddr != {_RANGES} drop", "Drops clients outside the Service's source ranges{at}."),
    (r"reject.*", "Rejects."),
    (r"drop", "Drops the packet."),
    (r"ct state invalid drop", "Drops packets that connection tracking cannot assign to a connection."),
)

# --- iptables ------------------------------------------------------------------------------------------------

_IPTABLES = (
    (r"KUBE-SERVICES .*(?P<what>cluster IP|external IP|loadbalancer IP)\".* -j (?P<target>KUBE-\S+)",
     "Sends connections to this {what} to {target}."),
    (r"KUBE-SERVICES .*-j KUBE-NODEPORTS", "Looks among node ports, if the destination is an address of this node."),
    (r"KUBE-SERVICES .*-j KUBE-NODE-PORT", "Looks among node ports, if the destination is an address of this node."),
    (r"KUBE-SERVICES .*-j KUBE-CLUSTER-IPS", "Checks packets to cluster IPs that nothing translated."),
    (r"KUBE-(?:SERVICES|EXTERNAL-SERVICES) .*has no local endpoints.*-j DROP",
     "Drops connections: no backend is on this node (traffic policy Local)."),
    (r"KUBE-(?:SERVICES|EXTERNAL-SERVICES) .*has no endpoints.*-j REJECT.*",
     "Rejects connections: the Service has no backends."),
    (r"KUBE-NODEPORTS .*health check node port.*", "Accepts health checks of load balancers."),
    (r"KUBE-NODEPORTS .*-j (?P<target>KUBE-\S+)", "Sends connections to this node port to {target}."),
    (r"KUBE-PROXY-FIREWALL .*-j DROP", "Drops clients that the Service's source ranges do not allow."),
    (r"KUBE-CLUSTER-IPS .*-j KUBE-REFUSE", "Rejects ports of this cluster IP that no Service has."),
    (r"KUBE-CLUSTER-IPS -j DROP", "Drops packets to cluster IPs that no Service has."),
    (r"KUBE-REFUSE .*", "Rejects."),
    (r"KUBE-(?:FIREWALL|FORWARD) .*--ctstate INVALID.*--tcp-flags.*",
     "Drops resets that answer a segment of an unknown connection: they would end the real one."),
    (r"KUBE-(?:FIREWALL|FORWARD) .*--ctstate INVALID(?: .*)? -j DROP",
     "Drops packets that connection tracking cannot assign to a connection."),
    (r"KUBE-FIREWALL .*block incoming localnet.*", "Drops connections from outside to 127.0.0.0/8."),
    (r"KUBE-FORWARD .*forwarding rules.*", "Accepts connections that are marked for masquerading."),
    (r"KUBE-FORWARD .*forwarding conntrack.*", "Accepts packets of connections that are open."),
    (r"KUBE-FIREWALL .*--mark 0x8000/0x8000 -j DROP", "Drops connections that were marked for it."),
    (r"KUBE-MARK-DROP .*", "Marks the connection to be dropped."),
    (r"KUBE-MARK-MASQ .*", "Marks the connection for masquerading."),
    (r"KUBE-POSTROUTING .*-j RETURN", "Leaves connections without the mark alone."),
    (r"KUBE-POSTROUTING .*-j MARK .*", "Clears the mark."),
    (r"KUBE-POSTROUTING .*--match-set KUBE-(?:6-)?LOOP-BACK .*",
     "Masquerades a pod that connects to itself through a Service."),
    (r"KUBE-POSTROUTING .*-j MASQUERADE.*", "Masquerades: the backend sees an address of this node as its client."),
    (r"KUBE-(?:SVC|SVL)-\S+ .*! -(?:s|i) (?P<range>\S+) .*-j KUBE-MARK-MASQ",
     "Marks clients outside {range} for masquerading: the backend sees an address of this node."),
    (r"KUBE-(?:SVC|SVL)-\S+ .*-j KUBE-MARK-MASQ", "Marks clients of the cluster IP for masquerading."),
    (r"KUBE-(?:SVC|SVL)-\S+ .*--rcheck --seconds (?P<count>\d+) .*-j (?P<target>KUBE-SEP-\S+)",
     "Uses {target} again for clients that it served within {count} s."),
    (r"KUBE-(?:SVC|SVL)-\S+ .*--probability (?P<chance>\S+) -j (?P<target>KUBE-SEP-\S+)",
     "Sends {chance} of the connections that come this far to {target}."),
    (r"KUBE-(?:SVC|SVL)-\S+ .*-j (?P<target>KUBE-SEP-\S+)", "Sends the rest of the connections to {target}."),
    (r"KUBE-(?:EXT|XLB)-\S+ .*--src-type LOCAL.*-j KUBE-MARK-MASQ",
     "Marks connections of the node itself for masquerading."),
    (r"KUBE-(?:EXT|XLB)-\S+ .*-j KUBE-MARK-MASQ", "Marks all clients for masquerading."),
    (r"KUBE-(?:EXT|XLB)-\S+ .*--src-type LOCAL.*-j (?P<target>KUBE-\S+)",
     "Sends the node itself to {target}: all backends."),
    (r"KUBE-(?:EXT|XLB)-\S+ -[si] (?P<range>\S+) .*-j (?P<target>KUBE-\S+)",
     "Sends clients that are pods{at} to {target}: all backends."),
    (r"KUBE-(?:EXT|XLB)-\S+ .*-j (?P<target>KUBE-\S+)", "Goes on in {target}."),
    (r"KUBE-FW-\S+ .*-s (?P<range>\S+) .*-j (?P<target>KUBE-\S+)", "Lets clients in {range} pass to {target}."),
    (r"KUBE-FW-\S+ .*-j KUBE-MARK-DROP", "Drops all other clients."),
    (r"KUBE-FW-\S+ .*", "Lets no other client pass: KUBE-PROXY-FIREWALL drops them."),
    (r"KUBE-SEP-\S+ .*-j KUBE-MARK-MASQ", "Marks the pod that connects to itself for masquerading."),
    (r"KUBE-SEP-\S+ .*--to-destination (?P<target>\S+)", "Translates the destination to {target}."),
    # Mode ipvs.
    (r"KUBE-\S+ .*--match-set (?P<set>\S+) \S+(?: .*)? -j ACCEPT", "Accepts packets in set {set}."),
    (r"KUBE-\S+ .*--match-set (?P<set>\S+) \S+(?: .*)? -j DROP", "Drops packets in set {set}."),
    (r"KUBE-\S+ .*--match-set (?P<set>\S+) \S+(?: .*)? -j REJECT(?: .*)?",
     "Rejects packets in set {set}: no rule before this one accepts their port."),
    (r"KUBE-\S+ .*--match-set (?P<set>\S+) \S+(?: .*)? -j RETURN", "Lets packets in set {set} pass."),
    (r"KUBE-\S+ .*--match-set (?P<set>\S+) \S+(?: .*)? -j KUBE-MARK-MASQ",
     "Marks packets in set {set} for masquerading."),
    (r"KUBE-\S+ .*--match-set (?P<set>\S+) \S+(?: .*)? -j (?P<target>\S+)(?: .*)?",
     "Sends packets in set {set} to {target}."),
    (r"KUBE-\S+ .*-j (?P<target>KUBE-\S+)", "Goes on in {target}."),
    (r"KUBE-IPVS .*-j SET --map-set (?P<set>\S+) .*", "Sets the marks in set {set}, for clients in the cluster."),
    (r"KUBE-(?:FORWARD|IPVS-OUT-FILTER) .*that no Service has.*-j DROP",
     "Drops packets to cluster IPs that no Service has."),
    (r"KUBE-SERVICES -s (?:127\.0\.0\.0/8|::1/128) -j RETURN", "Leaves connections from loopback addresses alone."),
    (r"KUBE-SOURCE-RANGES-FIREWALL -j DROP", "Drops clients that the Service's source ranges do not allow."),
    # Jumps of the built-in chains.
    (r"(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING) .*-j (?P<target>KUBE-\S+)",
     "Sends packets of this hook to {target}."),
)  # fmt: skip

_Compiled = tuple[tuple[re.Pattern[str], str], ...]


def _compiled(table: tuple[tuple[str, str], ...]) -> _Compiled:
    return tuple((re.compile(pattern), sentence) for pattern, sentence in table)


_COMPILED = {
    "own": _compiled(_OWN_NFTABLES),
    "kube-proxy": _compiled(_KUBE_PROXY_NFTABLES),
    "iptables": _compiled(_IPTABLES),
}


@lru_cache(maxsize=4096)
def rule_meaning(table: str, text: str) -> str:
    """Return the sentence for a rule; "" if no proxy writes such a rule.

    `table`: `own` or `kube-proxy` (the text is nft's), or `iptables` (the text is iptables-save's, without "-A ").
    """
    patterns = _COMPILED[table]
    if table == "iptables":
        chain = text.partition(" ")[0]
        patterns = _of_chain(f"{chain[:_KIND]}X" if chain.startswith(_PER_SERVICE) else chain)
    for pattern, sentence in patterns:
        match = pattern.fullmatch(text)
        if match is not None:
            return _fill(sentence, match)
    return ""


_PER_SERVICE = ("KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-", "KUBE-EXT-", "KUBE-XLB-", "KUBE-FW-")
_KIND = len("KUBE-SVC-")


@lru_cache(maxsize=256)
def _of_chain(chain: str) -> _Compiled:
    """Return the patterns of a chain's rules: the first word of a pattern is one of the chain's name."""
    return tuple(
        (pattern, sentence)
        for pattern, sentence in _COMPILED["iptables"]
        if re.fullmatch(pattern.pattern.split(" ", 1)[0], chain)
    )


def _fill(sentence: str, match: re.Match[str]) -> str:
    groups = {name: value for name, value in match.groupdict().items() if value is not None}
    ranges = groups.pop("ranges", None) or groups.pop("range", "")
    listed = ", ".join(sorted(_host(one.strip()) for one in ranges.split(",") if one.strip()))
    kind = " that clients in the cluster have" if int(groups.get("offset", 0)) > 0x1FFFF else ""
    mark = ", and marks the connection for masquerading" if "marks" in groups else ""
    values = {"at": f" ({listed})" if listed else "", "kind": kind, "mark": mark, **groups, "range": listed}
    if "chance" in values:
        values["chance"] = f"{float(values['chance']):.1%}"
    for name, value in values.items():
        sentence = sentence.replace(f"{{{name}}}", value)
    return sentence


def _host(text: str) -> str:
    """Return a range as nft prints it: one of a single address without its length."""
    address, _, length = text.partition("/")
    return address if length == ("128" if ":" in address else "32") else text
