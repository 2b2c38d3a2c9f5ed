"""Causes in the packet filters of nodes: rules of other programs that drop the packets of Services.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from bridgehead.insight.facts.network_state import Section
from bridgehead.insight.findings import Finding, Severity
from bridgehead.proxy.address_texts import family_of
from bridgehead.proxy.frontends import Backend, Frontend

from .filter_rules import Drop, Packet
from .kernels import NodeKernel, address_of
from .subjects import Facts, ServiceView, make_finding

_DNAT_PRIORITY = -100  # of the hook prerouting: base chains before it see the Service's address
_MOST_BACKENDS = 2  # of a Frontend on a node
_OUTSIDE = {4: "192.0.2.1", 6: "2001:db8::1"}  # addresses for documentation, as a client outside of the cluster
_NEEDED = (Section.NFTABLES, Section.IPTABLES, Section.ROUTES, Section.INTERFACES)


class _Passage(NamedTuple):
    """A packet at a hook. `what`: the packets that it stands for, as text."""

    packet: Packet
    hook: str
    what: str
    before: int | None = None


def check_forwarding_filters(facts: Facts) -> Iterator[Finding]:
    """Yield nodes whose filters drop all packets between pods of different nodes, whatever their ports."""
    for node in facts.kernels.values():
        drop = general_drop(node, facts)
        if drop is None:
            continue
        chain = drop.chain.rpartition("chain ")[2]
        what = f"the policy of chain {chain} is drop" if drop.is_policy else f"a rule of chain {chain} drops them"
        yield make_finding(
            "ForwardDropped",
            node.subject,
            f"Node {node.name} drops packets that it has to forward to and from its pods: {what}.",
            fix=how_to_accept(drop),
            evidence=[f"{drop.chain}: {drop.text}"],
        )


def check_service_filters(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield nodes whose filters drop the packets of one Service."""
    if not view.service.is_proxied:
        return
    for node in facts.kernels.values():
        if not _can_drop(node) or general_drop(node, facts) is not None:
            continue
        for frontend in node.expected.frontends_of(view.key):
            for passage in _passages(node, frontend, facts):
                drop = node.filters.find_drop(passage.packet, passage.hook, passage.before)
                if drop is not None:
                    yield view.finding(
                        "PacketsDropped",
                        f"A packet filter on node {node.name} drops {passage.what}: {drop.text}",
                        fix=how_to_accept(drop),
                        evidence=[f"{node.name}: {drop.chain}: {drop.text}", _packet_text(passage)],
                        severity=Severity.BROKEN if len(facts.kernels) == 1 else Severity.DEGRADED,
                    )
                    return


def general_drop(node: NodeKernel, facts: Facts) -> Drop | None:
    """Return what drops forwarded packets of pods, for one packet to a pod of the node and one from it."""
    if not _can_drop(node):
        return None
    return node.memo(("general drop",), lambda: _find_general_drop(node, facts))


def _find_general_drop(node: NodeKernel, facts: Facts) -> Drop | None:
    own: dict[int, str] = {}
    others: dict[int, str] = {}
    for pod in facts.cluster.pods.values():
        if pod.spec.host_network or pod.is_finished or not pod.spec.node_name:
            continue
        for ip in pod.status.pod_ips:
            address = address_of(ip.ip)
            if address is not None:
                (own if pod.spec.node_name == node.name else others).setdefault(address.version, ip.ip)
    for version in sorted(own.keys() & others.keys()):
        for source, destination in ((others[version], own[version]), (own[version], others[version])):
            iif, oif = _device(node, source), _device(node, destination)
            if not iif or not oif:
                continue
            packet = Packet(version, "tcp", source, destination, 0, iif, oif, True, False, mark=0)
            drop = node.filters.find_drop(packet, "forward")
            if drop is not None:
                return drop
    return None


def _can_drop(node: NodeKernel) -> bool:
    # With masqueradeAll, all packets have the mark that the proxy's own rules accept.
    return node.memo(
        ("can drop",),
        lambda: (
            node.has_proxy
            and node.has_seen(*_NEEDED)
            and not node.expected.config.masquerade_all
            and node.filters.may_drop
        ),
    )


def _passages(node: NodeKernel, frontend: Frontend, facts: Facts) -> Iterator[_Passage]:
    """Yield packets of connections to a Frontend, at the hooks that they pass on this node."""
    key = frontend.key
    family = key.family
    uplink = next((node.addresses[each] for each in node.expected.facts.addresses if each in node.addresses), "")
    own_address = next((each for each in node.expected.facts.addresses if family_of(each) == family), "")
    if not frontend.backends:
        return
    # After the translation.
    backends = [*(each for each in frontend.backends if each.is_local)][:_MOST_BACKENDS]
    for backend in backends:
        yield from _to_backend(node, frontend, backend, uplink, facts)
    remote = [each for each in frontend.backends if not each.is_local][:_MOST_BACKENDS]
    source = _pod_address(node, family, facts)
    for backend in remote if source else ():
        iif, oif = _device(node, source), _device(node, backend.address)
        if iif and oif and node.expected.mode != "userspace":
            packet = Packet(family, key.protocol, source, backend.address, backend.port, iif, oif, True, False, 0)
            yield _Passage(packet, "forward", f"packets of its pods to the endpoint {backend.address}:{backend.port}")
    # Before it.
    if key.is_node_port and uplink and own_address:
        packet = Packet(family, key.protocol, _OUTSIDE[family], own_address, key.port, uplink, "", False, True, 0)
        yield _Passage(packet, "prerouting", f"packets to node port {key.port}", _DNAT_PRIORITY)
        if node.expected.mode in ("ipvs", "userspace"):
            yield _Passage(packet, "input", f"packets to node port {key.port}")
    elif not key.is_node_port and source:
        iif = _device(node, source)
        packet = Packet(family, key.protocol, source, key.address, key.port, iif, "", False, None, 0)
        yield _Passage(packet, "prerouting", f"packets of its pods to {key}", _DNAT_PRIORITY)
        if node.expected.mode == "ipvs":
            yield _Passage(packet._replace(is_for_node=True), "input", f"packets of its pods to {key}")


def _to_backend(
    node: NodeKernel, frontend: Frontend, backend: Backend, uplink: str, facts: Facts
) -> Iterator[_Passage]:
    family, protocol = frontend.key.family, frontend.key.protocol
    source = _pod_address(node, family, facts, is_own=False)
    what = f"packets to the endpoint {backend.address}:{backend.port}"
    if backend.address in node.addresses:  # of a pod on the host network
        packet = Packet(family, protocol, source, backend.address, backend.port, uplink, "", True, True, 0)
        if source and node.expected.mode in ("nftables", "iptables"):
            yield _Passage(packet, "input", what)
        return
    iif, oif = _device(node, source) if source else uplink, _device(node, backend.address)
    if iif and oif and source:
        packet = Packet(family, protocol, source, backend.address, backend.port, iif, oif, True, False, 0)
        yield _Passage(packet, "forward", what)


def _pod_address(node: NodeKernel, family: int, facts: Facts, *, is_own: bool = True) -> str:
    """Return the address of a pod on the node, or on another one; "" if there is none."""
    return node.memo(("pod", family, is_own), lambda: _find_pod_address(node, family, facts, is_own))


def _find_pod_address(node: NodeKernel, family: int, facts: Facts, is_own: bool) -> str:
    for pod in facts.cluster.pods.values():
        if pod.spec.host_network or pod.is_finished or not pod.spec.node_name:
            continue
        if (pod.spec.node_name == node.name) is is_own:
            for ip in pod.status.pod_ips:
                address = address_of(ip.ip)
                if address is not None and address.version == family:
                    return ip.ip
    return ""


def _device(node: NodeKernel, address: str) -> str:
    parsed = address_of(address)
    route = node.routes.lookup(parsed) if parsed is not None else None
    return route.device if route is not None else ""


def _packet_text(passage: _Passage) -> str:
    packet = passage.packet
    interfaces = "".join(f" {name} {value}" for name, value in (("iif", packet.iif), ("oif", packet.oif)) if value)
    return (
        f"{packet.protocol} {packet.source} -> {packet.destination} port {packet.port}{interfaces}, hook {passage.hook}"
    )


def how_to_accept(drop: Drop) -> str:
    """Return the command that removes what drops packets."""
    table, _, chain = drop.chain.partition(", chain ")
    if table.startswith("table "):
        listing = shlex.join(("nft", "--handle", "list", "chain", *table.split(" ")[1:], chain))
        return f"{listing}, then nft delete rule ... handle N"
    variant, _, rest = table.partition(" table ")
    family, _, name = rest.partition(" ")
    program = f"{'ip6tables' if family == 'ip6' else 'iptables'}{'-legacy' if variant.endswith('legacy') else ''}"
    if drop.is_policy:
        return shlex.join((program, "-t", name, "-P", chain, "ACCEPT"))
    try:  # a comment may contain anything, also what a shell would run
        return shlex.join((program, "-t", name, *shlex.split(drop.text.replace("-A", "-D", 1))))
    except ValueError:
        return f"delete the rule from chain {chain}"
