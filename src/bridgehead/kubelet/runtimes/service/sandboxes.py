"""Sandboxes: the namespaces of a pod, and the veth pair that connects them to the node.

The runtime makes the namespaces in its own process and holds them as open descriptors. There is no pause process and no
file for them: when the runtime closes the descriptors and no container is left, the kernel removes the namespaces and
the veth pair with them.

The pod's end of the pair has the pod's addresses as a /32 and a /128 and sends everything to 169.254.1.1 or fe80::1,
permanent neighbours with the MAC address of the node's end; the node has a host route to each of the pod's addresses, a
permanent neighbour for it, and no ARP at its end (NOARP). There is therefore no broadcast domain, no ARP, no neighbour
discovery and no bridge between pods, and each packet passes the node's forward chain.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from bridgehead.kubelet.runtimes.isolation.container_cgroups import PodCgroup
from bridgehead.kubelet.runtimes.runtime import POD_IDS, RuntimeFailure, SandboxInfo, SandboxSpec
from bridgehead.network import rtnetlink_requests as rtnetlink
from bridgehead.network import syscalls
from bridgehead.network.netlink_socket import NetlinkSocket
from bridgehead.network.spoofing import POD_GROUP

GATEWAY: Final = "169.254.1.1"
GATEWAY6: Final = "fe80::1"
_ATTEMPTS, _PAUSE_SECONDS = 500, 0.001
_LONGEST_SETTING: Final = 1024  # characters of a sysctl; the longest of those that pods may set has a few numbers
_KINDS: Final = {"net": syscalls.CLONE_NEWNET, "uts": syscalls.CLONE_NEWUTS, "ipc": syscalls.CLONE_NEWIPC}


class Sandbox:
    """The namespaces of one pod. `descriptors` are of its namespace files, by kind ("net", "uts", "ipc"), without those
    that the pod shares with the node; `user_namespace` is that of a pod with users of its own."""

    def __init__(self, spec: SandboxSpec, descriptors: dict[str, int]) -> None:
        self.spec = spec
        self.descriptors = descriptors
        self.user_namespace: int | None = None
        self.group: PodCgroup | None = None  # made and removed by `runtime_service`; None where nothing is delegated

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
        if self.user_namespace is not None:
            os.close(self.user_namespace)
            self.user_namespace = None


class SandboxMaker:
    """Makes and removes sandboxes on the node whose network namespace the process is in. The process must have one
    thread only."""

    def __init__(self, make_namespaces: Callable[[int, int, dict[str, str]], dict[str, int]]) -> None:
        """`make_namespaces` is the zygote's."""
        self._make_namespaces = make_namespaces
        # A process in a user namespace may only return to namespaces that belong to it; the UTS and IPC namespaces may
        # still be the machine's.
        syscalls.unshare(syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC)
        self._node = NetlinkSocket(socket.NETLINK_ROUTE)
        self._own = {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in _KINDS}

    def close(self) -> None:
        self._node.close()
        for fd in self._own.values():
            os.close(fd)

    def make(self, spec: SandboxSpec) -> Sandbox:
        """Raises `RuntimeFailure`; nothing of the sandbox is left then."""
        _check_sysctls(spec.sysctls)
        shared = {"net": spec.host_network, "uts": False, "ipc": spec.host_ipc}
        kinds = [kind for kind in _KINDS if not shared[kind]]
        sandbox = Sandbox(spec, {})
        try:
            if spec.id_base:
                self._make_owned(sandbox)
            with self._returning(kinds):
                for kind in kinds:
                    if kind in sandbox.descriptors:
                        syscalls.setns(sandbox.descriptors[kind], _KINDS[kind])
                        continue
                    syscalls.unshare(_KINDS[kind])
                    sandbox.descriptors[kind] = os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
                syscalls.set_hostname(spec.hostname)
                if not spec.host_network:
                    self._wire_pod(spec, sandbox.descriptors["net"])
                for name, value in spec.sysctls.items():
                    if not (spec.id_base and _is_of_ipc(name)):
                        _write_sysctl(name, value)
            if spec.ips:
                self._wire_node(spec.pod_uid, spec.ips)
                if spec.has_host_ports:
                    self._accept_loopback_clients(spec.pod_uid)
        except OSError as error:
            self.remove(sandbox)
            raise RuntimeFailure(f"failed to create the pod's sandbox: {error}") from error
        return sandbox

    def _make_owned(self, sandbox: Sandbox) -> None:
        """Make a user namespace, and the pod's other namespaces in it. Raises OSError."""
        settings = {sysctl_path(name): value for name, value in sandbox.spec.sysctls.items() if _is_of_ipc(name)}
        made = self._make_namespaces(sandbox.spec.id_base, POD_IDS, settings)
        sandbox.user_namespace = made.pop("user")
        sandbox.descriptors |= made

    def remove(self, sandbox: Sandbox) -> None:
        """Remove a sandbox without processes.

        The routes to the pod's addresses are deleted at once. The kernel removes the veth pair with its namespace, a
        moment later: deleting it here would block the runtime for 20 ms.
        """
        spec = sandbox.spec
        if spec.ips:
            with contextlib.suppress(OSError):
                index = socket.if_nametoindex(host_end_name(spec.pod_uid))
                self._node.send(rtnetlink.delete_host_route(index, ip) for ip in spec.ips)
        sandbox.close()

    @contextlib.contextmanager
    def in_network_of(self, sandbox: Sandbox) -> Iterator[None]:
        """Enter the sandbox's network namespace: sockets made in the context belong to it."""
        netns = sandbox.descriptors.get("net")
        with self._returning(["net"]):
            if netns is not None:
                syscalls.setns(netns, syscalls.CLONE_NEWNET)
            yield

    @contextlib.contextmanager
    def _returning(self, kinds: list[str]) -> Iterator[None]:
        try:
            yield
        finally:
            try:
                for kind in kinds:
                    syscalls.setns(self._own[kind], _KINDS[kind])
            except OSError as error:  # the runtime must not go on in a pod's namespaces
                raise SystemExit(f"cannot return to the node's namespaces: {error}") from error

    def _wire_pod(self, spec: SandboxSpec, netns: int) -> None:
        """Called in the new namespaces; `self._node` is still a socket of the node's network namespace."""
        host_end = host_end_name(spec.pod_uid)
        host_mac, pod_mac = mac_addresses(spec.pod_uid)
        pair = rtnetlink.add_veth(
            host_end,
            "eth0",
            peer_namespace=netns,
            mtu=spec.mtu,
            mac=host_mac,
            peer_mac=pod_mac,
            group=POD_GROUP,
            has_arp=False,
        )
        try:
            self._node.send([pair])
        except FileExistsError:
            # The link is of an earlier sandbox of the pod, or of a runtime that died: the kernel removes it now, or
            # already has.
            self._node.send([rtnetlink.delete_link(host_end, may_be_absent=True), pair])
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
        with NetlinkSocket(socket.NETLINK_ROUTE) as pod:
            pod.send(requests)
            # As containerd does: a pod's ports below 1024 need no privilege, because they are the pod's own.
            with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w", encoding="ascii") as file:
                file.write("0")
            _poll(lambda: all(rtnetlink.is_local_route(pod.ask(rtnetlink.get_route(ip)) or b"") for ip in spec.ips))

    def _accept_loopback_clients(self, pod_uid: str) -> None:
        """Let the node's processes reach the pod from 127.0.0.1, and its answers return, as `portmap` does.

        `network.spoofing` drops what the pod itself sends to 127.0.0.0/8.
        """
        _write_sysctl(f"net/ipv4/conf/{host_end_name(pod_uid)}/route_localnet", "1")

    def _wire_node(self, pod_uid: str, ips: tuple[str, ...]) -> None:
        index = socket.if_nametoindex(host_end_name(pod_uid))
        _, pod_mac = mac_addresses(pod_uid)
        requests = []
        for ip in ips:
            requests += [rtnetlink.add_host_route(index, ip), rtnetlink.add_neighbour(index, ip, pod_mac)]
        self._node.send(requests)
        _poll(lambda: rtnetlink.is_operating(self._node.ask(rtnetlink.get_link(index)) or b""))


def _check_sysctls(sysctls: Mapping[str, str]) -> None:
    """Raise `RuntimeFailure` for a value that no sysctl has; the API bounds none."""
    for name, value in sysctls.items():
        if not value.isascii() or len(value) > _LONGEST_SETTING:
            raise RuntimeFailure(f"invalid value of the sysctl {name}: not at most {_LONGEST_SETTING} ASCII characters")


def _is_of_ipc(name: str) -> bool:
    """Whether only root of a pod's own user namespace may write a sysctl, and not the runtime."""
    return name.startswith(("kernel.", "fs."))


def _write_sysctl(name: str, value: str) -> None:
    """Raises OSError."""
    with open(f"/proc/sys/{sysctl_path(name)}", "w", encoding="ascii") as file:
        file.write(value)


def sysctl_path(name: str) -> str:
    """The path of a sysctl below /proc/sys (sysctl.d(5)).

    The first separator in the name, "." or "/", separates its components. Within a component the other one stands for
    it: `net.ipv4.conf.eth0/1.forwarding` is `net/ipv4/conf/eth0.1/forwarding`.
    """
    first = next((letter for letter in name if letter in "./"), "/")
    return name if first == "/" else name.translate(str.maketrans("./", "/."))


def _poll(is_ready: Callable[[], bool]) -> None:
    """Wait until the kernel has applied a change, for half a second at most.

    The kernel applies some changes of links and addresses later and drops packets until then; TCP would repeat a lost
    packet only after a second. Usually the first check succeeds.
    """
    for _ in range(_ATTEMPTS):
        if is_ready():
            break
        time.sleep(_PAUSE_SECONDS)


def host_end_name(pod_uid: str) -> str:
    """The name of the node's end of the pod's veth pair."""
    return f"veth{hashlib.sha256(pod_uid.encode()).hexdigest()[:8]}"


def mac_addresses(pod_uid: str) -> tuple[str, str]:
    """Locally administered MAC addresses of the node's end and the pod's end, derived from the pod's uid."""
    digest = hashlib.sha256(f"mac:{pod_uid}".encode()).hexdigest()
    tail = ":".join(digest[at : at + 2] for at in range(0, 8, 2))
    return f"0a:00:{tail}", f"0a:01:{tail}"
