"""Causes in a node's rules: altered, missing, of two proxies or modes, or for another kernel.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridgehead.insight.expectations import service_of
from bridgehead.insight.facts.network_state import Section
from bridgehead.insight.facts.system_object_names import SYSTEM
from bridgehead.insight.findings import Finding, Severity
from bridgehead.insight.rulesets.comparison import Difference, Kind, rules_mode
from bridgehead.insight.rulesets.entries import Mechanism, RulesMode

from .kernels import NodeKernel
from .proxies import proxy_pods
from .subjects import Facts, ServiceView, kubectl, make_finding, names_of

_OF_IPVS = (Kind.VIRTUAL_SERVER, Kind.SET_ELEMENT)
_MISSING = (Kind.MISSING_FRONTEND, Kind.MISSING_BACKEND, Kind.OTHER_VERDICT, Kind.CHAIN, *_OF_IPVS)
_ALTERED = (Kind.CHAIN, *_OF_IPVS, Kind.ADDRESS)  # without a Service
_FOREIGN = (Kind.FOREIGN_FRONTEND, Kind.FOREIGN_BACKEND)
_KUBE_PROXY = "kube-proxy"  # of nftables
_MOST_DIFFERENCES = 4  # shown


# --- Of a Service -----------------------------------------------------------------------------------------------


def check_rules(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield the nodes whose rules for the Service are not those that its proxy should have written."""
    if not view.service.is_proxied:
        return
    missing, foreign = [], []
    for node in facts.kernels.values():
        # `check_ipvs` finds missing addresses.
        own = [one for one in node.differences_by_service.get(str(view.key), ()) if one.kind is not Kind.ADDRESS]
        if any(difference.kind in _MISSING for difference in own):
            missing.append((node, [each for each in own if each.kind in _MISSING]))
        elif own:
            foreign.append((node, own))
    for cause, found in (("RulesMissing", missing), ("RulesForeign", foreign)):
        if not found:
            continue
        node, differences = found[0]
        nodes = names_of(each.name for each, _ in found)
        is_broken = cause == "RulesMissing" and len(found) == len(facts.kernels) and _lacks_frontend(differences)
        consequence = "its rules lack what the Service needs" if cause == "RulesMissing" else "there are foreign rules"
        yield view.finding(
            cause,
            f"The kernel of {nodes} does not have the Service as it should: {consequence}. {differences[0].text}",
            fix=_repair(node, facts),
            evidence=_lines(node, differences),
            severity=Severity.BROKEN if is_broken else Severity.DEGRADED,
        )


def _lacks_frontend(differences: Sequence[Difference]) -> bool:
    return any(difference.kind is Kind.MISSING_FRONTEND for difference in differences)


def _lines(node: NodeKernel, differences: Sequence[Difference]) -> list[str]:
    lines = []
    for difference in differences[:_MOST_DIFFERENCES]:
        lines.append(f"{node.name}: {difference.text}")
        lines += (f"{node.name}: {line}" for line in difference.evidence)
    if len(differences) > _MOST_DIFFERENCES:
        lines.append(f"{node.name}: {len(differences) - _MOST_DIFFERENCES} more differences")
    return lines


def _repair(node: NodeKernel, facts: Facts) -> str:
    """Return the remedy: the proxy repairs its rules when it starts."""
    pod = proxy_pods(facts).get(node.name)
    if pod is None:
        return f"restart the service proxy of node {node.name}, which writes all rules again"
    return kubectl(SYSTEM, "delete", "pod", pod.metadata.name)


# --- Of a node --------------------------------------------------------------------------------------------------


def check_node_rules(facts: Facts) -> Iterator[Finding]:
    """Yield nodes without rules, with altered chains, or with the rules of two proxies or modes."""
    for node in facts.kernels.values():
        yield from _mode_without_kernel(node)
        yield from _untracked_ipvs(node)
        yield from _variants(node)
        by_kind: dict[Kind, list[Difference]] = {}
        for difference in node.differences:
            if not difference.service:
                by_kind.setdefault(difference.kind, []).append(difference)
        if Kind.NO_RULES in by_kind:
            yield make_finding(
                "NodeWithoutRules",
                node.subject,
                f"The kernel of node {node.name} has no rules of mode {node.expected.mode}: no Service works there.",
                fix=_repair(node, facts),
                evidence=[each.text for each in by_kind[Kind.NO_RULES]],
            )
        elif found := [difference for kind in _ALTERED for difference in by_kind.get(kind, ())]:
            yield make_finding(
                "RulesAltered",
                node.subject,
                f"Another program, or somebody, has altered the rules of all Services on node {node.name}: "
                f"{found[0].text}",
                fix=_repair(node, facts),
                evidence=_lines(node, found),
                severity=Severity.DEGRADED,
            )
        if Kind.OTHER_MODE in by_kind:
            yield from _other_modes(node, facts)
        yield from _of_no_service(node, facts)


def _of_no_service(node: NodeKernel, facts: Facts) -> Iterator[Finding]:
    """Yield a finding for rules of Services that do not exist."""
    if not facts.is_whole:
        return  # those may be of host ports of pods that were not read
    known = {str(key) for key in facts.cluster.services}
    foreign = [each for each in node.differences if each.kind in _FOREIGN]
    found = [each for each in foreign if not each.service or str(service_of(each.service)) not in known]
    if found:
        yield make_finding(
            "RulesForeign",
            node.subject,
            f"The kernel of node {node.name} has rules of Services that do not exist. {found[0].text}",
            fix=_repair(node, facts),
            evidence=_lines(node, found),
            severity=Severity.DEGRADED,
        )


def _other_modes(node: NodeKernel, facts: Facts) -> Iterator[Finding]:
    wanted = rules_mode(node.expected)
    for mode, served in node.rules.frontends.items():
        if mode is wanted or not served:
            continue
        current = [key for key in served if node.expected.table.get(key) is not None]
        lines = [entry.text for entry in node.rules.entries if entry.mode is mode][:3]
        if mode is RulesMode.KUBE_PROXY_NFTABLES or RulesMode.KUBE_PROXY_NFTABLES is wanted or len(current) > 1:
            yield make_finding(
                "TwoProxies",
                node.subject,
                f"Node {node.name} has the rules of two proxies: those of mode {wanted}, and those of mode {mode} for "
                f"{len(served)} destinations. Whichever comes first in the kernel takes a connection.",
                fix=kubectl(SYSTEM, "get", "pods", "-o", "wide", f"--field-selector=spec.nodeName={node.name}"),
                evidence=[*(f"{mode}: {line}" for line in lines), f"{len(current)} of these are of present Services"],
                severity=Severity.DEGRADED,
            )
        else:
            yield make_finding(
                "RulesOfOtherMode",
                node.subject,
                f"Node {node.name} still has rules of mode {mode}; its proxy is in mode {wanted}.",
                fix=_removal(mode),
                evidence=[f"{mode}: {line}" for line in lines],
                severity=Severity.DEGRADED,
            )


def _removal(mode: RulesMode) -> str:
    match mode:
        case RulesMode.KUBE_PROXY_NFTABLES:
            return f"nft delete table ip {_KUBE_PROXY}; nft delete table ip6 {_KUBE_PROXY}"
        case RulesMode.NFTABLES:
            return "nft delete table ip bridgehead; nft delete table ip6 bridgehead"
        case RulesMode.USERSPACE:
            return "nft delete table ip bridgehead-userspace; nft delete table ip6 bridgehead-userspace"
        case _:
            return "kube-proxy --cleanup on the node, while its proxy does not run"


def _variants(node: NodeKernel) -> Iterator[Finding]:
    """Yield a finding if both variants of iptables have rules of proxies."""
    found: dict[Mechanism, list[str]] = {}
    for entry in node.rules.entries:
        if entry.mechanism in (Mechanism.IPTABLES, Mechanism.IPTABLES_LEGACY) and "KUBE-SERVICES" in entry.text:
            found.setdefault(entry.mechanism, []).append(entry.text)
    if len(found) > 1:
        yield make_finding(
            "IptablesVariantsMixed",
            node.subject,
            f"Node {node.name} has KUBE-* chains in iptables-legacy and in the variant nf_tables: packets pass both, "
            "and one of them is not kept up to date.",
            fix="iptables-legacy-save > rules.txt; iptables-legacy -t nat -F; iptables-legacy -t filter -F",
            evidence=[f"{mechanism}: {lines[0]}" for mechanism, lines in found.items()],
            severity=Severity.DEGRADED,
        )


def _mode_without_kernel(node: NodeKernel) -> Iterator[Finding]:
    if node.expected.mode == "ipvs" and Section.VIRTUAL_SERVERS in node.state.absent:
        yield make_finding(
            "KernelLacksMode",
            node.subject,
            f"The kernel of node {node.name} has no IPVS, which the proxy's mode ipvs needs.",
            fix=kubectl(SYSTEM, "edit", "configmap", "kube-proxy"),
            evidence=["no /proc/net/ip_vs: the module ip_vs is not loaded"],
        )


def _untracked_ipvs(node: NodeKernel) -> Iterator[Finding]:
    if node.expected.mode == "ipvs" and node.sysctl("net/ipv4/vs/conntrack") == 0:
        yield make_finding(
            "IpvsUntracked",
            node.subject,
            f"The kernel of node {node.name} does not track the connections of IPVS, so it does not masquerade them: "
            "pods get no answer from themselves, and clients outside of the cluster none from pods of other nodes.",
            fix="sysctl -w net.ipv4.vs.conntrack=1",
            evidence=["net.ipv4.vs.conntrack = 0"],
            severity=Severity.DEGRADED,
        )


# --- Listeners, virtual servers ---------------------------------------------------------------------------------


def check_proxy_listeners(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield nodes on which rules of mode userspace lead to a port on which the proxy does not listen."""
    for node in facts.kernels.values():
        if node.expected.mode != "userspace" or not node.sees_rules:
            continue
        listening = {(each.protocol, each.address, each.port) for each in node.state.listeners}
        served = node.rules.frontends.get(RulesMode.USERSPACE, {})
        for frontend in node.expected.frontends_of(view.key):
            present = served.get(frontend.key)
            targets = (*present.backends, *(present.cluster_backends or ())) if present is not None else ()
            lost = [each for each in targets if (frontend.key.protocol, *each) not in listening]
            if lost:
                yield view.finding(
                    "ProxyListenerMissing",
                    f"On node {node.name}, {frontend.key} leads to port {lost[0][1]} of the proxy, on which nobody "
                    "listens.",
                    fix=_repair(node, facts),
                    evidence=[f"{address}:{port}" for address, port in lost],
                    severity=Severity.DEGRADED if len(facts.kernels) > 1 else Severity.BROKEN,
                )
                return


def check_ipvs(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield nodes of mode ipvs on which a cluster IP is on no interface, or clients stick to a weightless server."""
    for node in facts.kernels.values():
        if node.expected.mode != "ipvs" or Section.VIRTUAL_SERVERS in node.state.absent:
            continue
        frontends = [each for each in node.expected.frontends_of(view.key) if not each.key.is_node_port]
        if node.has_seen(Section.INTERFACES):
            lost = sorted({each.key.address for each in frontends} - node.addresses.keys())
            if lost:
                yield view.finding(
                    "IpvsAddressMissing",
                    f"On node {node.name}, {names_of(lost)} is not on kube-ipvs0: the kernel does not take packets to "
                    "it for its own, and IPVS does not see them.",
                    fix=_repair(node, facts),
                    evidence=[f"ip address show kube-ipvs0: {names_of(_addresses_of(node, 'kube-ipvs0')) or 'none'}"],
                    severity=Severity.DEGRADED if len(facts.kernels) > 1 else Severity.BROKEN,
                )
                return
        keys = {(each.key.protocol, each.key.address, each.key.port) for each in frontends}
        if node.sysctl("net/ipv4/vs/expire_quiescent_template") != 0:
            continue
        for server in node.state.virtual_servers:
            if (server.protocol, server.address, server.port) in keys and server.persistent_seconds is not None:
                draining = [each for each in server.destinations if not each.weight and each.active + each.inactive]
                if draining:
                    yield view.finding(
                        "AffinityToGonePod",
                        f"On node {node.name}, clients with session affinity stay at {draining[0].address}, which is "
                        "no endpoint any more, for as long as they keep coming.",
                        fix="sysctl -w net.ipv4.vs.expire_quiescent_template=1",
                        evidence=[f"{each.address}:{each.port}, weight 0" for each in draining],
                        severity=Severity.DEGRADED,
                    )
                    return


def _addresses_of(node: NodeKernel, interface: str) -> Sequence[str]:
    found = node.interfaces.get(interface)
    return found.addresses if found is not None else ()
