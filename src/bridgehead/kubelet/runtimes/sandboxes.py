"""A pod's namespaces: made by the runtime in its own process, held as open descriptors, wired to the node by a veth
pair.

No process keeps them alive and no file names them: when the runtime lets go of the descriptors, and no container is
left, the kernel removes the namespaces and the veth pair with them. The pod's end has its addresses as a /32 and a /128
and sends everything to 169.254.1.1 or fe80::1, permanent neighbours with the MAC of the node's end; the node has a host
route to each of the pod's addresses. So there is no broadcast domain, no ARP, no neighbour discovery and no bridge
between pods, and each packet passes the node's forward chain.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Final

from bridgehead.kubelet.runtimes.runtime import RuntimeFailure, SandboxInfo, SandboxSpec
from bridgehead.network import rtnetlink, syscalls
from bridgehead.network.netlink import Netlink
from bridgehead.network.spoofing import POD_GROUP

GATEWAY: Final = "169.254.1.1"
GATEWAY6: Final = "fe80::1"
_LOOKS, _PAUSE_SECONDS = 500, 0.001
_KINDS: Final = {"net": syscalls.CLONE_NEWNET, "uts": syscalls.CLONE_NEWUTS, "ipc": syscalls.CLONE_NEWIPC}


class Sandbox:
    """The namespaces of one pod. `descriptors` are of its namespace files, by kind; no "net" with the host's
    network."""

    def __init__(self, spec: SandboxSpec, descriptors: dict[str, int]) -> None:
        self.spec = spec
        self.descriptors = descriptors

    @property
    def info(self) -> SandboxInfo:
        netns = self.descriptors.get("net")
        return SandboxInfo(
            pod_uid=self.spec.pod_uid,
            namespace=self.spec.namespace,
            name=self.spec.name,
            ips=self.spec.ips,
            netns="" if netns is None else f"/proc/{os.getpid()}/fd/{netns}",
        )

    def close(self) -> None:
        for fd in self.descriptors.values():
            os.close(fd)
        self.descriptors.clear()


class SandboxMaker:
    """Makes and removes sandboxes on the node whose network namespace the process is in. Only for a process with one
    thread."""

    def __init__(self) -> None:
        # In a user namespace one may only go back to namespaces that belong to it: these two may still be the
        # machine's.
        syscalls.unshare(syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC)
        self._node = Netlink(socket.NETLINK_ROUTE)
        self._home = {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in _KINDS}

    def close(self) -> None:
        self._node.close()
        for fd in self._home.values():
            os.close(fd)

    def make(self, spec: SandboxSpec) -> Sandbox:
        """Raises `RuntimeFailure`; then nothing of it is left."""
        shared = {"net": spec.host_network, "uts": False, "ipc": spec.host_ipc}
        kinds = [kind for kind in _KINDS if not shared[kind]]
        sandbox = Sandbox(spec, {})
        try:
            with self._coming_home(kinds):
                for kind in kinds:
                    syscalls.unshare(_KINDS[kind])
                    sandbox.descriptors[kind] = os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
                syscalls.set_hostname(spec.hostname)
                if not spec.host_network:
                    self._wire_pod(spec, sandbox.descriptors["net"])
                for name, value in spec.sysctls.items():
                    _write_sysctl(name, value)
            if spec.ips:
                self._wire_node(spec.pod_uid, spec.ips)
        except OSError as error:
            self.remove(sandbox)
            raise RuntimeFailure(f"failed to create the pod's sandbox: {error}") from error
        return sandbox

    def remove(self, sandbox: Sandbox) -> None:
        """After its last process has gone. The pod's addresses leave the node at once; the veth pair goes with its
        namespace, a moment later, because deleting it here would stop everything for 20 ms."""
        spec = sandbox.spec
        if spec.ips:
            with contextlib.suppress(OSError):
                index = socket.if_nametoindex(host_end_name(spec.pod_uid))
                self._node.send(rtnetlink.delete_host_route(index, ip) for ip in spec.ips)
        sandbox.close()

    @contextlib.contextmanager
    def inside_network(self, sandbox: Sandbox) -> Iterator[None]:
        """Within it, new sockets belong to the sandbox's network."""
        netns = sandbox.descriptors.get("net")
        with self._coming_home(["net"]):
            if netns is not None:
                syscalls.setns(netns, syscalls.CLONE_NEWNET)
            yield

    @contextlib.contextmanager
    def _coming_home(self, kinds: list[str]) -> Iterator[None]:
        try:
            yield
        finally:
            # If this fails we'd go on in a pod's namespaces: better not at all.
            for kind in kinds:
                syscalls.setns(self._home[kind], _KINDS[kind])

    def _wire_pod(self, spec: SandboxSpec, netns: int) -> None:
        """Called inside the new namespaces; `self._node` still speaks to the node's."""
        host_end = host_end_name(spec.pod_uid)
        host_mac, pod_mac = macs(spec.pod_uid)
        pair = rtnetlink.add_veth(
            host_end, host_mac, "eth0", pod_mac, peer_namespace=netns, mtu=spec.mtu, group=POD_GROUP
        )
        try:
            self._node.send([pair])
        except FileExistsError:  # of a runtime that died here: the kernel has not come to removing it yet
            self._node.send([rtnetlink.delete_link(host_end), pair])
        lo, eth0 = socket.if_nametoindex("lo"), socket.if_nametoindex("eth0")
        requests = [rtnetlink.set_up(lo)]
        if any(":" in ip for ip in spec.ips):
            requests.append(rtnetlink.set_no_link_local(eth0))
        requests.append(rtnetlink.set_up(eth0))
        for ip in spec.ips:
            gateway = GATEWAY6 if ":" in ip else GATEWAY
            requests += [
                rtnetlink.add_address(eth0, ip),
                rtnetlink.add_neighbour(eth0, gateway, host_mac),
                rtnetlink.add_default_route(eth0, gateway),
            ]
        with Netlink(socket.NETLINK_ROUTE) as pod:
            pod.send(requests)
            # As containerd does: a pod's port 80 needs no privilege, it is the pod's own.
            with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w", encoding="ascii") as file:
                file.write("0")
            _await(lambda: all(rtnetlink.is_here(pod.ask(rtnetlink.get_route(ip)) or b"") for ip in spec.ips))

    def _wire_node(self, pod_uid: str, ips: tuple[str, ...]) -> None:
        index = socket.if_nametoindex(host_end_name(pod_uid))
        _, pod_mac = macs(pod_uid)
        requests = []
        for ip in ips:
            requests += [rtnetlink.add_host_route(index, ip), rtnetlink.add_neighbour(index, ip, pod_mac)]
        self._node.send(requests)
        _await(lambda: rtnetlink.is_operating(self._node.ask(rtnetlink.get_link(index)) or b""))


def _write_sysctl(name: str, value: str) -> None:
    """Raises OSError."""
    with open(f"/proc/sys/{sysctl_path(name)}", "w", encoding="ascii") as file:
        file.write(value)


def sysctl_path(name: str) -> str:
    """Below /proc/sys. The first separator in the name is the one between its parts, and within a part the other stands
    for it: `net.ipv4.conf.eth0/1.forwarding` is `net/ipv4/conf/eth0.1/forwarding` (sysctl.d(5))."""
    first = next((letter for letter in name if letter in "./"), "/")
    return name if first == "/" else name.translate(str.maketrans("./", "/."))


def _await(is_so: Callable[[], bool]) -> None:
    """The kernel finishes some of what it was told in its own time, and drops packets until then; TCP sends again what
    it lost, after a whole second. Half a second at most is waited for the kernel, most often none at all."""
    for _ in range(_LOOKS):
        if is_so():
            break
        time.sleep(_PAUSE_SECONDS)


def host_end_name(pod_uid: str) -> str:
    """The node's end of the pod's veth pair."""
    return f"veth{hashlib.sha256(pod_uid.encode()).hexdigest()[:8]}"


def macs(pod_uid: str) -> tuple[str, str]:
    """Locally administered addresses of the node's and the pod's end, the same whenever the pod is made."""
    digest = hashlib.sha256(f"mac:{pod_uid}".encode()).hexdigest()
    tail = ":".join(digest[at : at + 2] for at in range(0, 8, 2))
    return f"0a:00:{tail}", f"0a:01:{tail}"
