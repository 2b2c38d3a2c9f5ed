"""The lab's network: the bridge that is its local network, and a network namespace for each node.

Called once by the lab's first process, in the lab's own namespaces. Nothing here has a way out: the nodes' default
route ends at the lab, which has none and refuses to forward.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

from bridgehead.network import syscalls
from bridgehead.network.links import Links, write_sysctl

from .plan import FABRIC, LAB_ADDRESS, SERVICE_RANGE, NodePlan

BRIDGE = "fabric"
UPLINK = "eth0"


def build_fabric(nodes: list[NodePlan]) -> None:
    """Make the bridge and the nodes' namespaces, with routes from everywhere to every node's pods."""
    Path("/run/netns").mkdir(parents=True, exist_ok=True)
    Path("/run/bridgehead/uts").mkdir(parents=True, exist_ok=True)
    with Links() as lab:
        lab.set_up("lo")
        lab.add_bridge(BRIDGE)
        lab.add_address(BRIDGE, f"{LAB_ADDRESS}/{FABRIC.prefixlen}")
        # The lab is the nodes' router and forwards nothing: they are told so at once instead of waiting.
        write_sysctl("net/ipv4/ip_forward", 1)
        lab.refuse_forwarding(BRIDGE)
        for node in nodes:
            _in_child(functools.partial(_build_node, lab, node, nodes))
            lab.add_route(node.pod_range, via=node.address)
        # Like a router in front of the cluster that sends Service addresses to one node.
        lab.add_route(SERVICE_RANGE, via=nodes[0].address)


def _build_node(lab: Links, node: NodePlan, nodes: list[NodePlan]) -> None:
    syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS)
    syscalls.set_hostname(node.name)
    for kind, path in (("net", node.netns), ("uts", node.utsns)):
        Path(path).touch()
        syscalls.mount(f"/proc/self/ns/{kind}", path, flags=syscalls.MS_BIND)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    lab.add_veth(node.name, peer=UPLINK, peer_namespace=own, bridge=BRIDGE)
    os.close(own)
    write_sysctl("net/ipv4/ip_forward", 1)
    # Pods are routed by host routes: without this the node tells a pod that its neighbour is nearer.
    write_sysctl("net/ipv4/conf/all/send_redirects", 0)
    write_sysctl("net/ipv4/conf/default/send_redirects", 0)
    with Links() as links:
        links.set_up("lo")
        links.set_up(UPLINK)
        links.add_address(UPLINK, f"{node.address}/{FABRIC.prefixlen}")
        for other in nodes:
            if other != node:
                links.add_route(other.pod_range, via=other.address)
        # As on any machine. It also lets processes of the node reach Services: the kernel looks for a route to a
        # Service's address before the proxy rewrites it.
        links.add_route("default", via=LAB_ADDRESS)


def _in_child(work: Callable[[], None]) -> None:
    """Run `work` in a forked process, so that the namespaces it enters are not ours. Raises OSError if it fails."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - a forked child must not return into its parent's stack
            os.write(writer, str(error).encode()[:4096])
            os._exit(1)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        message = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise OSError(message or f"the child ended with status {status}")
