"""Causes in the network of nodes: forwarding, routes, MTU, sysctls, and addresses that are in use twice.

Pure: no I/O, no clock, no randomness. Source: the kernel's Documentation/networking/ip-sysctl.rst.
"""

from __future__ import annotations

import ipaddress
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bridgehead.insight.facts.network_state import Interface, Listening, Route, Section
from bridgehead.insight.facts.system_object_names import DNS_SERVICE
from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.address_holders import cluster_addresses
from bridgehead.objects.core import Pod
from bridgehead.proxy.userspace.redirects import LISTENING

from .kernels import Address, Network, NodeKernel, address_of
from .policies import networks_of
from .subjects import Facts, ServiceView, make_finding, names_of

_REFUSING = ("blackhole", "unreachable", "prohibit", "throw")
_IPVS_INTERFACE = "kube-ipvs0"
_FULL, _NEARLY_FULL = 0.97, 0.8  # of the connection table
_STRICT = 1  # of rp_filter
_MOST_PODS = 3  # of each node, whose routes are looked up
_LEAST_MTU = {4: 576, 6: 1280}
_PROXIES = ("bridgehead", "kube-proxy")  # programs that have sockets of their own at node ports


def check_node_networks(facts: Facts) -> Iterator[Finding]:
    """Yield what keeps nodes from passing on packets."""
    kernels = facts.kernels
    pods = _pods_by_node(facts)
    for node in kernels.values():
        yield from _forwarding(node, pods, facts)
        yield from _bridge_calls(node)
        yield from _hairpin(node, facts)
        yield from _localhost_node_ports(node)
        yield from _connection_table(node)
        yield from _pod_routes(node, pods, facts)
        yield from _reverse_path(node, kernels)
        yield from _service_routes(node, facts)
        yield from _pod_mtu(node, pods)
    yield from _uplinks(kernels.values())


def _pods_by_node(facts: Facts) -> Mapping[str, Sequence[tuple[Pod, Address]]]:
    """Return some running pods of each node with each of their addresses."""
    found: dict[str, list[tuple[Pod, Address]]] = {}
    count: Counter[str] = Counter()
    for pod in facts.cluster.pods.values():
        name = pod.spec.node_name
        if not name or pod.spec.host_network or pod.is_finished or pod.is_terminating or not pod.is_ready:
            continue
        if count[name] < _MOST_PODS:
            count[name] += 1
            addresses = (address_of(ip.ip) for ip in pod.status.pod_ips)
            found.setdefault(name, []).extend((pod, address) for address in addresses if address is not None)
    return found


# --- Sysctls ----------------------------------------------------------------------------------------------------


def _forwarding(node: NodeKernel, pods: Mapping[str, Sequence[tuple[Pod, Address]]], facts: Facts) -> Iterator[Finding]:
    families = node.expected.settings.families
    names = ["net/ipv4/ip_forward"] if 4 in families else []
    if 6 in families and node.sysctl("net/ipv6/conf/all/disable_ipv6") != 1:
        names.append("net/ipv6/conf/all/forwarding")
    if node.sysctl("net/ipv4/ip_forward") == 1 and 4 in families:
        used = {_device(node, address) for found in pods.values() for _, address in found if address.version == 4}
        names += [f"net/ipv4/conf/{name}/forwarding" for name in sorted(used & node.interfaces.keys())]
    off = [name for name in names if node.sysctl(name) == 0]
    if off:
        yield make_finding(
            "ForwardingOff",
            node.subject,
            f"Node {node.name} does not forward packets ({_dotted(off[0])} is 0): its pods and other nodes' clients "
            "of its pods are cut off.",
            fix=shlex.join(("sysctl", "-w", f"{_dotted(off[0])}=1")),
            evidence=[f"{_dotted(name)} = 0" for name in off],
            severity=Severity.BROKEN
            if off[0] == "net/ipv4/ip_forward" or len(facts.kernels) == 1
            else Severity.DEGRADED,
        )


def _bridge_calls(node: NodeKernel) -> Iterator[Finding]:
    """Yield a finding if pods of the node talk through a bridge that passes no rules."""
    if node.expected.mode == "userspace":
        return
    ranges = networks_of(node.expected.settings.own_pod_cidrs)
    for interface in node.interfaces.values():
        if interface.kind != "bridge" or not interface.is_up or not _holds(interface, ranges):
            continue
        for family in (4, 6):
            name = f"net/bridge/bridge-nf-call-ip{'6' if family == 6 else ''}tables"
            if node.sysctl(name) == 0 and family in node.expected.settings.families:
                yield make_finding(
                    "BridgeBypassesRules",
                    node.subject,
                    f"Frames between pods of node {node.name} pass the bridge {interface.name} without the rules "
                    f"({_dotted(name)} is 0): replies of a Service's pod to a client on the same node keep the pod's "
                    "address, and the client drops them.",
                    fix=f"sysctl -w {_dotted(name)}=1",
                    evidence=[f"{interface.name} has {names_of(interface.addresses)}"],
                    severity=Severity.DEGRADED,
                )
                return


def _hairpin(node: NodeKernel, facts: Facts) -> Iterator[Finding]:
    off = facts.hairpin_off.get(node.name, ())
    ranges = networks_of(node.expected.settings.own_pod_cidrs)
    bridges = [each.name for each in node.interfaces.values() if each.kind == "bridge" and _holds(each, ranges)]
    if off and bridges:
        yield make_finding(
            "HairpinOff",
            node.subject,
            f"Pods of node {node.name} do not reach themselves through their own Service: their ports of the bridge "
            f"{bridges[0]} are not in hairpin mode.",
            fix=f"{shlex.join(('bridge', 'link', 'set', 'dev', off[0], 'hairpin', 'on'))}"
            "    # hairpinMode in the configuration of the CNI bridge",
            evidence=[f"hairpin_mode of {name}: 0" for name in off[:3]],
            severity=Severity.NOTICE,
        )


def _holds(interface: Interface, ranges: Sequence[Network]) -> bool:
    """Whether an interface has an address in one of the ranges."""
    held = [address_of(each) for each in interface.addresses]
    return any(one is not None and one.version == each.version and one in each for one in held for each in ranges)


def _localhost_node_ports(node: NodeKernel) -> Iterator[Finding]:
    expected = node.expected
    if not node.has_proxy or expected.mode != "iptables" or not expected.settings.localhost_node_ports:
        return
    if node.sysctl("net/ipv4/conf/all/route_localnet") == 0 and any(one.key.is_node_port for one in expected.table):
        yield make_finding(
            "LocalhostNodePortsOff",
            node.subject,
            f"Node ports do not answer on 127.0.0.1 of node {node.name}: net.ipv4.conf.all.route_localnet is 0.",
            fix="sysctl -w net.ipv4.conf.all.route_localnet=1",
            evidence=["iptables.localhostNodePorts is true in the proxy's configuration"],
            severity=Severity.NOTICE,
        )


def _connection_table(node: NodeKernel) -> Iterator[Finding]:
    count, most = node.sysctl("net/netfilter/nf_conntrack_count"), node.sysctl("net/netfilter/nf_conntrack_max")
    if count is None or not most or count < most * _NEARLY_FULL:
        return
    is_full = count >= most * _FULL
    yield make_finding(
        "ConnectionTableFull" if is_full else "ConnectionTableNearlyFull",
        node.subject,
        f"The connection table of node {node.name} is {'full' if is_full else 'nearly full'} ({count} of {most}): "
        + ("the kernel drops new connections." if is_full else "once it is full, the kernel drops new connections."),
        fix=f"sysctl -w net.netfilter.nf_conntrack_max={most * 2}",
        evidence=[f"nf_conntrack_count = {count}", f"nf_conntrack_max = {most}"],
        severity=Severity.BROKEN if is_full else Severity.NOTICE,
    )


def _reverse_path(node: NodeKernel, kernels: Mapping[str, NodeKernel]) -> Iterator[Finding]:
    """Yield a finding if packets from another node's pods arrive on an interface that the kernel does not expect."""
    everywhere = node.sysctl("net/ipv4/conf/all/rp_filter") or 0
    if not node.has_seen(Section.ROUTES, Section.SYSCTLS):
        return
    for other in kernels.values():
        if other is node or not other.has_seen(Section.ROUTES):
            continue
        to_us = _route_to_node(other, node)
        back = _route_to_node(node, other)
        arrives = node.addresses.get(to_us.via) if to_us is not None else None
        if back is None or arrives is None or arrives == back.device:
            continue
        if max(everywhere, node.sysctl(f"net/ipv4/conf/{arrives}/rp_filter") or 0) == _STRICT:
            yield make_finding(
                "ReversePathFiltered",
                node.subject,
                f"Node {node.name} drops packets of node {other.name}'s pods: they arrive on {arrives}, its route to "
                f"them leads through {back.device}, and rp_filter is strict.",
                fix=shlex.join(("sysctl", "-w", f"net/ipv4/conf/{arrives}/rp_filter=2")),
                evidence=[f"route to the pods of {other.name}: {_route_text(back)}"],
                severity=Severity.DEGRADED,
            )
            return


def _route_to_node(node: NodeKernel, other: NodeKernel) -> Route | None:
    """Return a node's route to the IPv4 pod range of another one."""
    for network in networks_of(other.expected.settings.own_pod_cidrs):
        if network.version == 4:
            return node.routes.lookup(network.network_address + min(2, network.num_addresses - 1))
    return None


# --- Routes -----------------------------------------------------------------------------------------------------


def _pod_routes(node: NodeKernel, pods: Mapping[str, Sequence[tuple[Pod, Address]]], facts: Facts) -> Iterator[Finding]:
    if not node.has_seen(Section.ROUTES) or not node.state.routes:
        return
    routes = [
        (owner, pod, address, node.routes.lookup(address))
        for owner, found in sorted(pods.items())
        for pod, address in found
        if address.version in node.expected.settings.families
    ]
    # Where all packets to pods take the default route, the network outside knows the way.
    has_own = {
        address.version
        for owner, _, address, route in routes
        if owner != node.name and route is not None and _is_specific(route)
    }
    is_known_there = {
        address.version
        for other in facts.kernels.values()
        if other is not node
        for _, address in pods.get(node.name, ())
        if (route := other.routes.lookup(address)) is not None and _is_specific(route)
    }
    for owner, pod, address, route in routes:
        where = f"pod {pod.key} ({address}) of node {owner}"
        if owner == node.name:
            if route is None or not _is_specific(route) or (route.via and route.via not in node.addresses):
                yield _route_finding(node, "PodRouteMissing", where, route, facts)
                return
        elif (
            route is None
            or route.kind in _REFUSING
            or (not _is_specific(route) and address.version in has_own | is_known_there)
        ):
            yield _route_finding(node, "PodRouteMissing", where, route, facts)
            return
        elif route.via:
            held = facts.cluster.nodes_by_address.get(route.via)
            if held is not None and held.metadata.name not in (owner, node.name):
                yield _route_finding(node, "PodRouteWrong", where, route, facts)
                return


def _route_finding(node: NodeKernel, cause: str, where: str, route: Route | None, facts: Facts) -> Finding:
    what = "has no route to" if cause == "PodRouteMissing" else "sends packets to another node than that of"
    return make_finding(
        cause,
        node.subject,
        f"Node {node.name} {what} {where}: its connections to Services with endpoints there get no answer.",
        fix="restart the network plugin of the node, which writes the routes to pods",
        evidence=[f"route in use: {_route_text(route) if route is not None else 'none'}"],
        severity=Severity.DEGRADED if len(facts.cluster.nodes) > 1 else Severity.BROKEN,
    )


def _is_specific(route: Route) -> bool:
    """Whether a route is for some destinations and leads somewhere."""
    return route.destination not in ("default", "0.0.0.0/0", "::/0") and route.kind not in _REFUSING


def _service_routes(node: NodeKernel, facts: Facts) -> Iterator[Finding]:
    """Yield routes by which the node's own connections to cluster IPs fail or take another source address."""
    if not node.has_seen(Section.ROUTES) or not node.state.routes or not node.has_proxy:
        return
    for network in networks_of(facts.cluster.service_cidrs):
        if network.version not in node.expected.settings.families:
            continue
        for route in _overlapping(node, network):
            device = node.interfaces.get(route.device)
            if route.table != "main" or route.device == "lo" or (device is not None and device.kind == "dummy"):
                continue
            is_refusing = route.kind in _REFUSING
            if not is_refusing and _is_as_default(node, route, network):
                continue
            consequence = (
                "connections of the node itself to cluster IPs fail"
                if is_refusing
                else f"connections of the node itself to cluster IPs take the source address of {route.device}"
            )
            yield make_finding(
                "ServiceCidrRouted",
                node.subject,
                f"Node {node.name} has a route for {route.destination}, which overlaps with the Service CIDR "
                f"{network}: {consequence}.",
                fix=f"ip route delete {'' if not is_refusing else route.kind + ' '}{route.destination}",
                evidence=[_route_text(route)],
                severity=Severity.DEGRADED,
            )
            return
        if node.routes.lookup(network.network_address + 1) is None:
            yield make_finding(
                "NoRouteToServices",
                node.subject,
                f"Node {node.name} has neither a default route nor one to the Service CIDR {network}: connections of "
                "the node itself to cluster IPs fail before any rule is used.",
                fix="add a default route, or a route for the Service CIDR to any interface",
                evidence=["Network is unreachable"],
                severity=Severity.DEGRADED,
            )
            return


def _is_as_default(node: NodeKernel, route: Route, network: Network) -> bool:
    """Whether packets leave by the device of the default route, so that their source address is the same."""
    defaults = node.routes.by_prefix.get((network.version, 0), {}).get(0, ())
    return any(one.device == route.device and one.source in ("", route.source or one.source) for one in defaults)


def _overlapping(node: NodeKernel, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> Iterator[Route]:
    for (version, length), networks in node.routes.by_prefix.items():
        if version != network.version or not length:
            continue
        if length <= network.prefixlen:
            bits = network.max_prefixlen
            yield from networks.get(int(network.network_address) >> (bits - length) << (bits - length), ())
        else:
            first, last = int(network.network_address), int(network.broadcast_address)
            for start, routes in networks.items():
                # A single address is of a Service (`check_addresses`), or of kube-ipvs0.
                if first <= start <= last and length < network.max_prefixlen:
                    yield from routes


# --- MTU --------------------------------------------------------------------------------------------------------


def _pod_mtu(node: NodeKernel, pods: Mapping[str, Sequence[tuple[Pod, Address]]]) -> Iterator[Finding]:
    """Yield a finding if the node's pods may send packets that are too large for the way to other nodes' pods."""
    own = [node.interfaces.get(_device(node, address)) for _, address in pods.get(node.name, ())]
    paths = [
        (owner, interface)
        for owner, found in sorted(pods.items())
        if owner != node.name
        for _, address in found[:1]
        if (interface := node.interfaces.get(_device(node, address))) is not None
    ]
    for pod_side in own:
        for owner, path in paths:
            if pod_side is not None and pod_side.mtu > path.mtu >= _LEAST_MTU[4]:
                yield make_finding(
                    "PodMtuTooLarge",
                    node.subject,
                    f"Pods of node {node.name} may send packets of {pod_side.mtu} bytes, but the way to node {owner} "
                    f"through {path.name} takes {path.mtu}: large answers are lost where ICMP is filtered.",
                    fix=f"set the MTU of the network plugin to {path.mtu} and create the pods again",
                    evidence=[f"{pod_side.name}: mtu {pod_side.mtu}", f"{path.name}: mtu {path.mtu}"],
                    severity=Severity.DEGRADED,
                )
                return


def _device(node: NodeKernel, address: Address) -> str:
    route = node.routes.lookup(address)
    return route.device if route is not None else ""


def _uplinks(nodes: Iterable[NodeKernel]) -> Iterator[Finding]:
    """Yield the nodes whose uplink has a smaller MTU than that of most nodes."""
    found: dict[str, tuple[NodeKernel, str, int]] = {}
    for node in nodes:
        primary = next((each for each in node.expected.facts.addresses if each in node.addresses), None)
        interface = node.interfaces.get(node.addresses.get(primary, "")) if primary is not None else None
        if interface is not None:
            found[node.name] = (node, interface.name, interface.mtu)
    sizes = Counter(mtu for _, _, mtu in found.values())
    if len(sizes) < 2:
        return
    usual = max(sizes, key=lambda mtu: (sizes[mtu], mtu))
    for name, (node, interface_name, mtu) in sorted(found.items()):
        if mtu != usual:
            yield make_finding(
                "MtuDiffers",
                node.subject,
                f"{interface_name} of node {name} has an MTU of {mtu}, those of other nodes have {usual}: packets of "
                f"more than {min(mtu, usual)} bytes between them are lost.",
                fix=shlex.join(("ip", "link", "set", interface_name, "mtu", str(usual))),
                evidence=[f"{each}: {device} mtu {size}" for each, (_, device, size) in sorted(found.items())],
                severity=Severity.DEGRADED,
            )


# --- Addresses and ports of Services ----------------------------------------------------------------------------


def check_addresses(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield nodes that have a cluster IP on an interface, or a route of its own for it."""
    if not view.service.is_proxied:
        return
    for node in facts.kernels.values():
        for address in cluster_addresses(view.service):
            interface = node.addresses.get(address)
            kind = node.interfaces[interface].kind if interface is not None else ""
            # A node-local DNS has the address of the cluster's DNS on purpose.
            if (
                interface is not None
                and interface != _IPVS_INTERFACE
                and not (kind == "dummy" and view.key == DNS_SERVICE)
            ):
                yield view.finding(
                    "ClusterIPOnInterface",
                    f"Node {node.name} has the cluster IP {address} on {interface}: it is the address of a machine, "
                    "too.",
                    fix=shlex.join(("ip", "address", "delete", address, "dev", interface)),
                    evidence=[f"{interface}: {names_of(node.interfaces[interface].addresses)}"],
                    severity=Severity.DEGRADED,
                )
                return


def check_node_ports(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield programs of nodes that listen on a node port of the Service."""
    if not view.service.is_proxied:
        return
    ports = {(port.protocol.lower(), port.node_port) for port in view.spec.ports if port.node_port}
    for node in facts.kernels.values() if ports else ():
        if node.expected.mode == "userspace":
            continue
        for listening in (each for port in ports for each in node.listeners.get(port, ())):
            if _is_of_program(listening):
                yield view.finding(
                    "NodePortInUse",
                    f"On node {node.name}, {listening.program} listens on {listening.port}/{listening.protocol}, which "
                    "is a node port of the Service: clients outside get the Service and not the program.",
                    fix="let the program listen on a port outside of the range of node ports (30000-32767)",
                    evidence=[f"{listening.protocol} {listening.address}:{listening.port} {listening.program}"],
                    severity=Severity.NOTICE,
                )
                return


def _is_of_program(listening: Listening) -> bool:
    address = address_of(listening.address)
    return (
        bool(listening.program)
        and listening.program not in _PROXIES
        and listening.address not in LISTENING.values()
        and (address is None or not address.is_loopback)
    )


def _route_text(route: Route) -> str:
    parts = [route.kind if route.kind != "unicast" else "", route.destination]
    parts += ["via", route.via] if route.via else []
    parts += ["dev", route.device] if route.device else []
    return " ".join(filter(None, parts))


def _dotted(name: str) -> str:
    return name.replace("/", ".")
