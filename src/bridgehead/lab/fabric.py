"""The lab's network: a bridge as the local network, and a network namespace for each node.

Built once by the lab's first process, in the lab's own namespaces. No packet can leave: the nodes' default route is
the lab, which has no default route and does not forward. `gateway` can add both.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from bridgehead.network import syscalls
from bridgehead.network.links import Links, write_sysctl

from .addressing import Ranges
from .plan import NodePlan, ServerPlan

BRIDGE = "fabric"
UPLINK = "eth0"


def build_bridge(servers: Sequence[ServerPlan], families: Sequence[Ranges]) -> None:
    """Create the bridge, with an address for each API server."""
    Path("/run/netns").mkdir(parents=True, exist_ok=True)
    Path("/run/bridgehead/uts").mkdir(parents=True, exist_ok=True)
    with Links() as lab:
        lab.set_up("lo")
        _prepare_namespace(families)
        lab.add_bridge(BRIDGE)
        _prepare_link(BRIDGE, families)
        for server in servers:
            for ranges, address in zip(families, server.addresses, strict=True):
                lab.add_address(BRIDGE, f"{address}/{ranges.prefix_length}")
        for ranges in families:
            # The lab is the nodes' router but forwards nothing; nodes get an ICMP error at once instead of a timeout.
            lab.refuse_forwarding(BRIDGE, ranges.version)


def build_nodes(nodes: Sequence[NodePlan], families: Sequence[Ranges]) -> None:
    """Create the nodes' namespaces, with routes from each of them, and from the lab, to every node's pods.

    The calling process, a child of the lab's first process, is left in the last node's namespaces.
    """
    with Links() as lab:  # stays in the lab's namespace
        for node in nodes:
            _build_node(lab, node, nodes)
            for pod_range, address in zip(node.pod_ranges, node.addresses, strict=True):
                lab.add_route(pod_range, via=address)
        for ranges, address in zip(families, nodes[0].addresses, strict=True):
            # As a router in front of the cluster does, with Service addresses routed to one node.
            lab.add_route(ranges.services, via=address)


def _build_node(lab: Links, node: NodePlan, nodes: Sequence[NodePlan]) -> None:
    syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS)
    syscalls.set_hostname(node.name)
    for kind, path in (("net", node.netns), ("uts", node.utsns)):
        Path(path).touch()
        syscalls.mount(f"/proc/self/ns/{kind}", path, flags=syscalls.MS_BIND)
    _prepare_namespace(node.ranges)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    lab.add_veth(node.name, peer=UPLINK, peer_namespace=own, bridge=BRIDGE)
    os.close(own)
    _prepare_link(UPLINK, node.ranges)
    with Links() as links:
        links.set_up("lo")
        links.set_up(UPLINK)
        for ranges, address in zip(node.ranges, node.addresses, strict=True):
            links.add_address(UPLINK, f"{address}/{ranges.prefix_length}")
            # As on any machine. Processes of the node need it to reach Services: the kernel looks up a route to a
            # Service's address before the proxy rewrites it.
            links.add_route("default", via=ranges.lab)
        for other in nodes:
            if other != node:
                for pod_range, address in zip(other.pod_ranges, other.addresses, strict=True):
                    links.add_route(pod_range, via=address)


def _prepare_namespace(families: Sequence[Ranges]) -> None:
    """Set the sysctls of the current network namespace, the lab's or a node's."""
    for name in ("acct", "timestamp"):  # `bridgehead flows` shows bytes and ages of connections
        with contextlib.suppress(OSError):  # a kernel without them
            write_sysctl(f"net/netfilter/nf_conntrack_{name}", 1)
    for ranges in families:
        if ranges.version == 4:
            write_sysctl("net/ipv4/ip_forward", 1)
            # Pods are reached by host routes. Without this, the node redirects a pod to its neighbour by ICMP.
            write_sysctl("net/ipv4/conf/all/send_redirects", 0)
            write_sysctl("net/ipv4/conf/default/send_redirects", 0)
        else:
            write_sysctl("net/ipv6/conf/all/disable_ipv6", 0)
            write_sysctl(
                "net/ipv6/conf/all/forwarding", 1
            )  # a forwarding node ignores router advertisements and sends no solicitations
            # The lab assigns each address once, so duplicate address detection would only delay its use.
            write_sysctl("net/ipv6/conf/default/accept_dad", 0)
            # No link-local addresses: a pod's link has no neighbours, and without one the kernel sends no redirects.
            write_sysctl("net/ipv6/conf/default/addr_gen_mode", 1)


def _prepare_link(name: str, families: Sequence[Ranges]) -> None:
    """Enable IPv6 neighbour discovery on the local network, for which the kernel needs a link-local address."""
    if any(ranges.version == 6 for ranges in families):
        write_sysctl(f"net/ipv6/conf/{name}/addr_gen_mode", 0)
