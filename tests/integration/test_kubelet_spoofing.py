"""Spoofed packets from a pod, with sandboxes of the runtime in a network namespace of the test.

The attacker has a packet socket on its end of the veth pair and sends frames made by hand. Whether one arrived is seen
at the socket, neighbour table or counter that it was meant for, after another frame of the pod's own has arrived.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bridgehead.kubelet.runtimes.runtime import SandboxSpec
from bridgehead.kubelet.runtimes.service.sandboxes import Sandbox, SandboxMaker, host_end_name, mac_addresses
from bridgehead.network import spoofing
from bridgehead.network.spoofing import POD_GROUP, TABLE, PodGuard

from .namespaced import in_namespace, sh

pytestmark = [pytest.mark.integration, pytest.mark.needs("nft")]

NODE, NODE6 = "10.0.0.201", "fd00:10::201"
OWN, OWN6 = "10.244.1.1", "fd00:10:244:1::1"
NEIGHBOUR, NEIGHBOUR6 = "10.244.1.2", "fd00:10:244:1::2"
OUTSIDE, OUTSIDE6 = "192.0.2.7", "2001:db8::7"
PORT, FENCE = 5353, 5354
ETH_IP, ETH_ARP, ETH_IP6 = 0x0800, 0x0806, 0x86DD
UDP, TCP, ICMP, ICMP6 = 17, 6, 1, 58
PATIENCE = 20.0


class World:
    """A node (this namespace) with two pods. `attacker` is a packet socket in the first."""

    def __init__(self) -> None:
        sh(f"ip address add {NODE}/32 dev lo; ip address add {NODE6}/128 dev lo nodad")
        sh("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
        # As the proxy's iptables mode does, for node ports on the loopback address.
        sh("sysctl -qw net.ipv4.conf.all.route_localnet=1")
        self.maker = SandboxMaker(lambda *_: {})
        self.pods = [self._pod("pod1", OWN, OWN6), self._pod("pod2", NEIGHBOUR, NEIGHBOUR6)]
        self.host_mac, self.pod_mac = (bytes.fromhex(mac.replace(":", "")) for mac in mac_addresses("pod1"))
        with self.maker.in_network_of(self.pods[0]):
            self.attacker = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            self.attacker.bind(("eth0", 3))  # ETH_P_ALL

    def _pod(self, uid: str, *ips: str) -> Sandbox:
        return self.maker.make(SandboxSpec(pod_uid=uid, namespace="default", name=uid, hostname=uid, ips=ips))

    def socket(self, where: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """`where` is "node", "pod1" or "pod2"."""
        if where == "node":
            return socket.socket(family, kind, protocol)
        with self.maker.in_network_of(self.pods[int(where[-1]) - 1]):
            return socket.socket(family, kind, protocol)

    def run(self, where: str, *command: str) -> subprocess.CompletedProcess[str]:
        with self.maker.in_network_of(self.pods[int(where[-1]) - 1]) if where != "node" else contextlib.nullcontext():
            return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def send(self, protocol: int, packet: bytes, source_mac: bytes = b"") -> None:
        self.attacker.send(self.host_mac + (source_mac or self.pod_mac) + struct.pack("!H", protocol) + packet)

    def close(self) -> None:
        self.attacker.close()
        for pod in self.pods:
            self.maker.remove(pod)
        self.maker.close()


@contextlib.contextmanager
def world() -> Iterator[World]:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # so that frames arrive in the order they were sent
    made = World()
    try:
        yield made
    finally:
        made.close()


# Packets.


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(source: str, target: str, protocol: int, body: bytes, at: int) -> bytes:
    """An IP packet whose body has its checksum `at` there."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    ends = socket.inet_pton(family, source) + socket.inet_pton(family, target)
    if protocol != ICMP:
        pseudo = ends + struct.pack("!IxxxB" if family == socket.AF_INET6 else "!HxB", len(body), protocol)
        if family == socket.AF_INET:
            pseudo = ends + struct.pack("!xBH", protocol, len(body))
        body = body[:at] + struct.pack("!H", checksum(pseudo + body)) + body[at + 2 :]
    else:
        body = body[:at] + struct.pack("!H", checksum(body)) + body[at + 2 :]
    if family == socket.AF_INET6:
        return struct.pack("!IHBB", 6 << 28, len(body), protocol, 255) + ends + body
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, protocol, 0) + ends
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + body


def datagram(source: str, target: str, text: bytes, port: int = PORT) -> bytes:
    return packet(source, target, UDP, struct.pack("!HHHH", 4000, port, 8 + len(text), 0) + text, 6)


def syn(source: str, target: str, sequence: int) -> bytes:
    return packet(source, target, TCP, struct.pack("!HHIIBBHHH", 4000, PORT, sequence, 0, 5 << 4, 2, 1024, 0, 0), 16)


def frame_of(target: str) -> int:
    return ETH_IP6 if ":" in target else ETH_IP


# Addresses.


class Attempt(NamedTuple):
    source: str
    target: str
    where: str  # whose address that is
    is_today: bool = True  # whether it arrives without the guard


ATTEMPTS = [
    Attempt(NEIGHBOUR, NODE, "node"),
    Attempt(OUTSIDE, NODE, "node"),
    Attempt("10.244.2.9", NODE, "node"),  # a pod of another node
    Attempt("127.0.0.1", NODE, "node", is_today=False),  # the kernel itself refuses its own
    Attempt("127.0.0.1", "127.0.0.1", "node", is_today=False),
    Attempt(OWN, "127.0.0.1", "node"),
    Attempt("169.254.1.1", NODE, "node"),
    Attempt(NODE, NODE, "node", is_today=False),
    Attempt("224.0.0.251", NODE, "node", is_today=False),
    Attempt("255.255.255.255", NODE, "node", is_today=False),
    Attempt("0.0.0.0", "255.255.255.255", "node"),
    Attempt(NODE, NEIGHBOUR, "pod2", is_today=False),
    Attempt(OUTSIDE, NEIGHBOUR, "pod2"),
    Attempt("10.96.0.1", NEIGHBOUR, "pod2"),
    Attempt("127.0.0.1", NEIGHBOUR, "pod2", is_today=False),
    Attempt(NEIGHBOUR6, NODE6, "node"),
    Attempt(OUTSIDE6, NODE6, "node"),
    Attempt("fd00:10:244:2::9", NODE6, "node"),
    Attempt(NODE6, NODE6, "node"),
    Attempt("fe80::bad", NODE6, "node"),
    Attempt("fe80::1", NODE6, "node"),
    Attempt("::1", NODE6, "node", is_today=False),
    Attempt("ff02::1", NODE6, "node", is_today=False),
    Attempt(NODE6, NEIGHBOUR6, "pod2"),
    Attempt(OUTSIDE6, NEIGHBOUR6, "pod2"),
    Attempt("fd00:10:96::1", NEIGHBOUR6, "pod2"),
]


class Arrivals:
    """Receives what comes to the node or a pod, of both families."""

    def __init__(self, made: World, where: str, addresses: tuple[str, ...]) -> None:
        self._sockets: list[socket.socket] = []
        self._fences: list[tuple[str, socket.socket]] = []
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            for port in (PORT, FENCE):
                made_here = made.socket(where, family, socket.SOCK_DGRAM)
                made_here.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                if family == socket.AF_INET6:
                    made_here.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                made_here.bind(("", port))
                if port == FENCE:
                    self._fences.append((address, made_here))
            self._sockets.append(made.socket(where, family, socket.SOCK_RAW, UDP))
            self._sockets.append(made.socket(where, family, socket.SOCK_RAW, TCP))
        self._made = made

    def close(self) -> None:
        for each in (*self._sockets, *(fence for _, fence in self._fences)):
            each.close()

    def have(self, mark: bytes) -> bool:
        """Whether the mark has come, with anything that was sent before now."""
        for address, fence in self._fences:
            self._made.send(frame_of(address), datagram(OWN6 if ":" in address else OWN, address, b"fence", FENCE))
            fence.settimeout(PATIENCE)
            assert fence.recv(100) == b"fence"
        has_come = False
        while ready := select.select(self._sockets, [], [], 0)[0]:
            for each in ready:
                has_come |= mark in each.recv(2000)
        return has_come


def arrivals_of_all(made: World) -> dict[str, bool]:
    """Return whether a UDP packet or a TCP SYN arrived, by attempt."""
    receivers = {
        "node": Arrivals(made, "node", (NODE, NODE6)),
        "pod2": Arrivals(made, "pod2", (NEIGHBOUR, NEIGHBOUR6)),
    }
    found = {}
    for number, attempt in enumerate(ATTEMPTS):
        for kind in ("UDP", "SYN"):
            mark = struct.pack("!I", 0xB41D0000 + number * 2 + (kind == "SYN"))
            build = datagram if kind == "UDP" else None
            text = (
                build(attempt.source, attempt.target, mark)
                if build is not None
                else syn(attempt.source, attempt.target, int.from_bytes(mark))
            )
            made.send(frame_of(attempt.target), text)
            found[f"{kind} {attempt.source} > {attempt.target}"] = receivers[attempt.where].have(mark)
    for receiver in receivers.values():
        receiver.close()
    return found


@in_namespace
def test_packets_of_a_pod_with_a_foreign_source_address_are_dropped():
    with world() as made:
        today = arrivals_of_all(made)
        with PodGuard() as guard:
            assert guard.missing == ""
            guarded = arrivals_of_all(made)
            assert {name for name, arrived in guarded.items() if arrived} == set()
            expected = {
                f"{kind} {attempt.source} > {attempt.target}": attempt.is_today
                for attempt in ATTEMPTS
                for kind in ("UDP", "SYN")
                # The kernel takes no SYN to a broadcast address, and nothing to see is no proof.
                if not (kind == "SYN" and attempt.target == "255.255.255.255")
            }
            assert [name for name in expected if today[name] != expected[name]] == [], today
        assert arrivals_of_all(made) == today, "without its table everything is as before"


@in_namespace
def test_forged_fragments_are_dropped_before_reassembly():
    with world() as made:
        whole = datagram(OUTSIDE, NODE, b"x" * 64)
        first = whole[:6] + b"\x20\x00" + whole[8:10] + b"\0\0" + whole[12 : 20 + 24]
        first = struct.pack("!BBH", 0x45, 0, len(first)) + first[4:]
        first = first[:10] + struct.pack("!H", checksum(first[:20])) + first[12:]
        receiver = Arrivals(made, "node", (NODE,))
        before = _counter("Ip", "ReasmReqds")
        made.send(ETH_IP, first)
        receiver.have(b"")
        assert _counter("Ip", "ReasmReqds") == before + 1
        with PodGuard():
            made.send(ETH_IP, first)
            receiver.have(b"")
            assert _counter("Ip", "ReasmReqds") == before + 1
        receiver.close()


# Neighbours, routers, redirects.


def _counter(protocol: str, name: str) -> int:
    """Return a counter of this namespace (/proc/net/snmp); 0 when it has not counted yet."""
    with open("/proc/net/snmp", encoding="ascii") as file:
        lines = [line.split() for line in file]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        if names[0] == f"{protocol}:" and name in names:
            return int(values[names.index(name)])
    return 0


def _counter6(name: str) -> int:
    with open("/proc/net/snmp6", encoding="ascii") as file:
        return {line.split()[0]: int(line.split()[1]) for line in file}.get(name, 0)


def _arp(operation: int, mac: bytes, sender: str, target: str) -> bytes:
    ends = mac + socket.inet_aton(sender) + mac + socket.inet_aton(target)
    return struct.pack("!HHBBH", 1, ETH_IP, 6, 4, operation) + ends


def _discovery(kind: int, source: str, target: str, body: bytes) -> bytes:
    return packet(source, target, ICMP6, struct.pack("!BBH", kind, 0, 0) + body, 2)


def _neighbours(device: str) -> dict[str, str]:
    """The node's learned neighbours on a link: address -> MAC address."""
    listed = json.loads(sh(f"ip -j neighbour show dev {device}"))
    return {each["dst"]: each.get("lladdr", "") for each in listed if "PERMANENT" not in each["state"]}


FORGED = bytes.fromhex("0abad0000001")
FORGED_AGAIN = bytes.fromhex("0abad0000002")


def forge_neighbours(made: World) -> dict[str, object]:
    """Send forged neighbour messages; return what the node has accepted."""
    device = host_end_name("pod1")
    sh(f"ip neighbour flush dev {device}")
    while not (ready := json.loads(sh(f"ip -j -6 address show dev {device} scope link -tentative"))):
        time.sleep(0.05)  # duplicates are still looked for
    link_local = ready[0]["addr_info"][0]["local"]
    receiver = Arrivals(made, "node", (NODE, NODE6))
    found: dict[str, object] = {}
    made.send(ETH_ARP, _arp(1, FORGED, NEIGHBOUR, NODE), FORGED)
    receiver.have(b"")
    found["ARP request"] = _neighbours(device).get(NEIGHBOUR)
    made.send(ETH_ARP, _arp(2, FORGED_AGAIN, NEIGHBOUR, NEIGHBOUR), FORGED_AGAIN)
    receiver.have(b"")
    found["gratuitous ARP"] = _neighbours(device).get(NEIGHBOUR)
    target = socket.inet_pton(socket.AF_INET6, link_local)
    forged = socket.inet_pton(socket.AF_INET6, NEIGHBOUR6)
    solicitation = bytes(4) + target + b"\1\1" + FORGED
    before = {kind: _counter6(f"Icmp6InType{kind}") for kind in range(133, 138)}
    made.send(ETH_IP6, _discovery(135, OWN6, link_local, solicitation), FORGED)
    made.send(ETH_IP6, _discovery(135, "fe80::bad", link_local, solicitation), FORGED)
    made.send(ETH_IP6, _discovery(135, "::", link_local, bytes(4) + target))
    made.send(ETH_IP6, _discovery(136, OWN6, link_local, b"\x20\0\0\0" + forged + b"\2\1" + FORGED), FORGED)
    made.send(ETH_IP6, _discovery(136, "fe80::bad", link_local, b"\x20\0\0\0" + forged + b"\2\1" + FORGED), FORGED)
    made.send(ETH_IP6, _discovery(133, "fe80::bad", link_local, bytes(4)))
    made.send(ETH_IP6, _discovery(134, "fe80::bad", link_local, bytes(12)))
    made.send(ETH_IP6, _discovery(137, "fe80::1", link_local, bytes(4) + target + forged))
    receiver.have(b"")
    found["neighbour discovery"] = {kind: _counter6(f"Icmp6InType{kind}") - before[kind] for kind in before}
    found["neighbours"] = set(_neighbours(device)) - {NEIGHBOUR}
    redirects = _counter("IcmpMsg", "InType5")
    gateway, original = socket.inet_aton(OWN), datagram(NODE, OUTSIDE, b"8 bytes.")[:28]
    made.send(ETH_IP, packet(OWN, NODE, ICMP, struct.pack("!BBH", 5, 1, 0) + gateway + original, 2))
    receiver.have(b"")
    found["ICMP redirect"] = _counter("IcmpMsg", "InType5") - redirects
    receiver.close()
    return found


@in_namespace
def test_a_pod_cannot_answer_for_another_pod_or_act_as_a_router():
    with world() as made:
        today = forge_neighbours(made)
        assert today == {
            "ARP request": None,  # the kernel drops ARP at an interface with NOARP
            "gratuitous ARP": None,
            "neighbour discovery": {133: 1, 134: 1, 135: 3, 136: 2, 137: 1},
            "neighbours": set(),
            "ICMP redirect": 1,
        }, today
        with PodGuard():
            assert forge_neighbours(made) == {
                "ARP request": None,
                "gratuitous ARP": None,
                "neighbour discovery": {133: 0, 134: 0, 135: 0, 136: 0, 137: 0},
                "neighbours": set(),
                "ICMP redirect": 0,
            }


# Ordinary traffic of pods.

SERVICE, SERVICE6, EXTERNAL, UPLINK = "10.96.0.10", "fd00:10:96::10", "10.0.0.9", "10.0.0.202"
NAT = f"""
table inet nat {{
    chain prerouting {{ type nat hook prerouting priority -100;
        ip daddr {SERVICE} tcp dport 80 dnat ip to {NEIGHBOUR}:8080
        ip6 daddr {SERVICE6} tcp dport 80 dnat ip6 to [{NEIGHBOUR6}]:8080
        ip daddr {UPLINK} tcp dport 30080 dnat ip to {NEIGHBOUR}:8080
    }}
    chain output {{ type nat hook output priority -100;
        ip daddr {SERVICE} tcp dport 80 dnat ip to {NEIGHBOUR}:8080
        ip6 daddr {SERVICE6} tcp dport 80 dnat ip6 to [{NEIGHBOUR6}]:8080
    }}
    chain postrouting {{ type nat hook postrouting priority 100;
        ip saddr {NEIGHBOUR} ip daddr {NEIGHBOUR} masquerade
        ip6 saddr {NEIGHBOUR6} ip6 daddr {NEIGHBOUR6} masquerade
    }}
}}
"""
ANSWER = """
import socket, sys, threading
def serve(listener):
    while True:
        with listener.accept()[0] as connection:
            connection.sendall(b"answer")
listeners = [socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True) for port in (8080,)]
print("ready", flush=True)
serve(listeners[0])
"""


def _ask(made: World, where: str, address: str, port: int) -> bytes:
    with made.socket(where, socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(PATIENCE)
        client.connect((address, port))
        return client.recv(100)


@in_namespace
def test_ordinary_traffic_passes():
    """Services, hairpin, node ports, path MTU and ICMP errors pass strict source checks, in both directions."""
    with world() as made, PodGuard() as guard:
        assert guard.missing == ""
        sh("ip link add outside type veth peer name fabric0; ip link set outside up; ip link set fabric0 up")
        sh(f"ip address add {UPLINK}/24 dev fabric0")
        subprocess.run(["nft", "-f", "-"], input=NAT, text=True, check=True)
        processes = []
        for where in ("node", "pod1", "pod2"):
            with (
                made.maker.in_network_of(made.pods[int(where[-1]) - 1]) if where != "node" else contextlib.nullcontext()
            ):
                processes.append(subprocess.Popen([sys.executable, "-c", ANSWER], stdout=subprocess.PIPE, text=True))
        try:
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            for address in (NEIGHBOUR, NEIGHBOUR6, NODE, NODE6):
                assert _ask(made, "pod1", address, 8080) == b"answer"
            for address in (OWN, OWN6, NODE, NODE6):
                assert _ask(made, "pod2", address, 8080) == b"answer"
            for address in (OWN, OWN6, NEIGHBOUR, NEIGHBOUR6):
                assert _ask(made, "node", address, 8080) == b"answer"
            for address in (SERVICE, SERVICE6):
                assert _ask(made, "pod1", address, 80) == b"answer"
                assert _ask(made, "pod2", address, 80) == b"answer", "hairpin: the pod itself behind its Service"
            # The node itself has no route to Services in here but this one.
            sh(f"ip route add {SERVICE}/32 dev lo src {NODE}")
            sh(f"ip route add {SERVICE6}/128 dev lo src {NODE6}")
            for address in (SERVICE, SERVICE6):
                assert _ask(made, "node", address, 80) == b"answer"
            # A client outside uses a node port.
            sh("ip netns add outside 2>/dev/null || (mkdir -p /run/netns && ip netns add outside)")
            sh("ip link set outside netns outside; ip netns exec outside ip link set outside up")
            sh(f"ip netns exec outside ip address add {EXTERNAL}/24 dev outside")
            program = f"import socket; print(socket.create_connection(('{UPLINK}', 30080), {PATIENCE}).recv(100))"
            assert sh(f'ip netns exec outside {sys.executable} -c "{program}"') == "b'answer'\n"
            # A port where nobody is: the refusal comes back, by the pod's own ICMP for UDP.
            with made.socket("pod1", socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.settimeout(PATIENCE)
                client.connect((NEIGHBOUR, 9))
                client.send(b"?")
                with pytest.raises(ConnectionRefusedError):
                    client.recv(100)
            # No packet of these was taken for forged.
            listed = json.loads(sh("nft -j list ruleset"))["nftables"]
            counted = [
                expression["counter"]["packets"]
                for each in listed
                if each.get("rule", {}).get("table") == TABLE
                for expression in each["rule"]["expr"]
                if "counter" in expression
            ]
            assert len(counted) == 6
            assert sum(counted) == 0
        finally:
            for process in processes:
                process.kill()
                process.wait()


# The table itself.


@in_namespace
def test_foreign_interfaces_are_not_filtered():
    """A foreign `veth*` interface sends from a source that is routed elsewhere."""
    with world() as made, PodGuard():
        assert f'"group":"{POD_GROUP}"' in sh(f"ip -j link show {host_end_name('pod1')}")
        sh(f"ip link set {host_end_name('pod1')} group 0")
        receiver = Arrivals(made, "node", (NODE,))
        made.send(ETH_IP, datagram(OUTSIDE, NODE, b"mark"))
        assert receiver.have(b"mark")
        sh(f"ip link set {host_end_name('pod1')} group {POD_GROUP}")
        made.send(ETH_IP, datagram(OUTSIDE, NODE, b"mark"))
        assert not receiver.have(b"mark")
        receiver.close()


@in_namespace
def test_the_table_survives_a_flush_and_a_proxys_cleanup_and_ends_with_its_process():
    tables = sh("nft list tables")
    assert TABLE not in tables
    with PodGuard() as guard:
        assert sh("nft list tables").count(TABLE) == 1
        sh("nft flush ruleset")
        sh(f"{Path(sys.executable).with_name('bridgehead')} proxy --cleanup")
        assert sh("nft list tables").count(TABLE) == 1
        with PodGuard() as second:
            assert "belongs to another process" in second.missing
        assert sh("nft list tables").count(TABLE) == 1
        assert guard.missing == ""
    assert TABLE not in sh("nft list tables")
    program = "import os, signal; from bridgehead.network.spoofing import PodGuard; guard = PodGuard(); "
    sh(f'{sys.executable} -c "{program} print(guard.missing); os.kill(os.getpid(), signal.SIGKILL)" || true')
    assert TABLE not in sh("nft list tables")
    # A table that a runtime on an older kernel has left is replaced.
    sh(f"nft add table inet {TABLE}; nft add chain inet {TABLE} old")
    with PodGuard() as guard:
        assert guard.missing == ""
        assert "chain old" not in sh("nft list ruleset")


@in_namespace
def test_without_the_table_the_kernels_own_checks_apply():
    def refuse(*_: object, **__: object) -> Any:
        raise OSError(2, "no such expression")

    spoofing._table = refuse  # this process is the test's own
    with PodGuard() as guard:
        assert "foreign source addresses" in guard.missing
        assert "rp_filter instead" in guard.missing
        assert "\n" not in guard.missing
        assert sh("cat /proc/sys/net/ipv4/conf/default/rp_filter") == "1\n"
    assert sh("cat /proc/sys/net/ipv4/conf/default/rp_filter") == "0\n"
