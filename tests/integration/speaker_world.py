"""Nodes with real speakers on one network, for tests of takeovers: use inside `namespaced.in_namespace`.

    the test: API server, client and switch ("fabric", 10.0.0.1, fd00:10::1) ── node1 10.0.0.201, node2, node3

The nodes are network namespaces, their speakers `bridgehead speaker` processes. On each node an UDP server answers at
the load-balancer addresses with the node's name, in the place of the proxy and the pods. It is a forked child, like the
`Prober`, so that the test's own event loop does not delay answers.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import selectors
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from bridgehead.balancer.definitions.install import install
from bridgehead.balancer.heartbeat_key import OWN_NAMESPACE
from bridgehead.client import ApiClient
from bridgehead.network.syscalls import setns
from bridgehead.objects import metallb
from bridgehead.objects.kinds import ENDPOINT_SLICES, EVENTS, NODES, SECRETS, SERVICES

from .api_world import DEADLINE, ApiWorld
from .certificates import server_certificate

NAMESPACE = "metallb-system"
CLIENT, CLIENT6 = "10.0.0.1", "fd00:10::1"
NODES_IN_WORLD = ("node1", "node2", "node3")
PORT = 8080
PAGES_PORT, SECURE_PAGES_PORT = 7472, 9120
PROBE_SECONDS = 0.005
LOOK_SECONDS = 0.05
_CLONE_NEWNET = 0x40000000
IPV6_FREEBIND = 78  # linux/in6.h
_HOOKS = ("prerouting", "forward", "output")
_RESPONDER_NAMES = {name: name.encode() for name in NODES_IN_WORLD}


def node_ip(name: str, version: int = 4) -> str:
    number = int(name.removeprefix("node"))
    return f"10.0.0.{200 + number}" if version == 4 else f"fd00:10::{200 + number}"


def vip(number: int, version: int = 4) -> str:
    return f"10.0.0.{number}" if version == 4 else f"fd00:10::{number}"


VIPS = [vip(number, version) for number in range(10, 20) for version in (4, 6)]


def sh(*lines: str) -> None:
    subprocess.run(["sh", "-ec", "\n".join(lines)], check=True, stdout=subprocess.DEVNULL)


def run_on(node: str, *command: str) -> str:
    """Run a command on a node; return its output."""
    return subprocess.run(
        ["ip", "netns", "exec", node, *command], check=True, capture_output=True, text=True
    ).stdout.strip()


# --- The network ----------------------------------------------------------------------------------------------------


def make_network() -> None:
    """Make the switch and the nodes. A node receives packets for all load-balancer addresses, but has none of them."""
    sh(
        "ip link add fabric type bridge forward_delay 0 mcast_snooping 0",
        "echo 0 > /proc/sys/net/ipv6/conf/all/accept_dad; echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad",
        "ip link set fabric address 02:00:00:00:00:01 up",
        f"ip address add {CLIENT}/24 dev fabric; ip address add {CLIENT6}/64 dev fabric nodad",
        "nft add table bridge faults",
        *(f"nft 'add chain bridge faults {hook} {{ type filter hook {hook} priority 0; }}'" for hook in _HOOKS),
    )
    for number, name in enumerate(NODES_IN_WORLD, 1):
        inside = f"ip netns exec {name}"
        sh(
            f"ip netns add {name}",
            f"ip link add {name} type veth peer name eth0 netns {name}",
            f"ip link set {name} master fabric up",
            f"{inside} sh -ec 'echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore;"
            " echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad;"
            f" ip link set lo up; ip link set eth0 address 02:00:00:00:01:0{number} up;"
            f" ip address add {node_ip(name)}/24 dev eth0; ip address add {node_ip(name, 6)}/64 dev eth0 nodad;"
            + "".join(f" ip route add local {address} dev lo;" for address in VIPS)
            + "'",
        )


def set_faults(*, mute: Sequence[str] = (), deaf: Sequence[str] = ()) -> None:
    """Drop packets from the nodes in `mute`, and packets to those in `deaf`, and no others; links stay up."""
    lines = ["flush table bridge faults"]
    lines += [f'add rule bridge faults prerouting iifname "{node}" drop' for node in mute]
    for hook in ("forward", "output"):
        lines += [f'add rule bridge faults {hook} oifname "{node}" drop' for node in deaf]
    subprocess.run(["nft", "-f", "-"], input="\n".join(lines), text=True, check=True)


@contextlib.contextmanager
def inside(name: str) -> Any:
    """Let this thread be in a node's network namespace during the block; sockets stay there."""
    with open("/proc/self/ns/net", "rb") as own:
        setns(f"/run/netns/{name}", _CLONE_NEWNET)
        try:
            yield
        finally:
            setns(own.fileno(), _CLONE_NEWNET)


def _fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        _run_child(work)
    return pid


def _run_child(work: Callable[[], None]) -> NoReturn:
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        work()
    finally:
        os._exit(0)


def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def answer_on_nodes() -> int:
    """Start the servers at the load-balancer addresses; return the process id."""
    sockets: dict[socket.socket, bytes] = {}
    for name in NODES_IN_WORLD:
        with inside(name):
            for address in VIPS:
                sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
                if ":" in address:
                    sock.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
                sock.bind((address, PORT))
                sock.setblocking(False)
                sockets[sock] = _RESPONDER_NAMES[name]

    def work() -> None:
        selector = selectors.DefaultSelector()
        for sock in sockets:
            selector.register(sock, selectors.EVENT_READ, sock)
        while True:
            for key, _ in selector.select():
                with contextlib.suppress(OSError):
                    data, sender = key.data.recvfrom(100)
                    key.data.sendto(data[:8] + sockets[key.data], sender)

    pid = _fork(work)
    for sock in sockets:
        sock.close()
    return pid


class Child:
    """A forked process that does `work` until `stop`. `work` gets a descriptor that is readable when it has to end."""

    def __init__(self, work: Callable[[int], str]) -> None:
        self._result, theirs = os.pipe()
        stopping, self._stopping = os.pipe()

        def run() -> None:
            os.close(self._stopping)
            result = work(stopping)
            with os.fdopen(theirs, "w") as file:
                file.write(result)

        self._pid = _fork(run)
        os.close(theirs)
        os.close(stopping)

    def stop(self) -> str:
        """Return the result of the work."""
        os.close(self._stopping)
        with os.fdopen(self._result) as file:
            result = file.read()
        os.waitpid(self._pid, 0)
        return result


class Answer(NamedTuple):
    """`at`: CLOCK_MONOTONIC when the request was sent. `node`: who answered."""

    at: float
    node: str


class Prober:
    """Asks an address each `PROBE_SECONDS` in a process of its own, from its construction until `stop`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._child = Child(lambda stopping: json.dumps(_probe(address, stopping)))

    def stop(self) -> list[Answer]:
        """Return all answers, in the order of their requests."""
        return sorted(Answer(at, node) for at, node in json.loads(self._child.stop()))


def _probe(address: str, stopping: int) -> list[tuple[float, str]]:
    answers = []
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        selector = selectors.DefaultSelector()
        selector.register(sock, selectors.EVENT_READ)
        selector.register(stopping, selectors.EVENT_READ)
        planned = time.monotonic()
        while True:
            for key, _ in selector.select(max(0.0, planned - time.monotonic())):
                if key.fileobj == stopping:
                    return answers
                with contextlib.suppress(OSError):
                    data = sock.recv(100)
                    answers.append((struct.unpack("!d", data[:8])[0], data[8:].decode()))
            now = time.monotonic()
            if now >= planned:
                planned = max(planned + PROBE_SECONDS, now)
                with contextlib.suppress(OSError):
                    sock.sendto(struct.pack("!d", now), (address, PORT))


def longest_gap(answers: Sequence[Answer]) -> float:
    """Return the longest time between the requests of two answers, in seconds."""
    return max(second.at - first.at for first, second in itertools.pairwise(answers))


# --- Speakers -------------------------------------------------------------------------------------------------------


@dataclass
class SpeakerProcess:
    """A speaker on a node."""

    node: str
    process: subprocess.Popen[bytes]

    @property
    def detector_pid(self) -> int:
        """The process id of its failure detector."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def status(self) -> dict[str, Any]:
        """Return the page /status, {} while it is not served."""
        try:
            found: dict[str, Any] = json.loads(self.page("/status"))
        except (OSError, HTTPException):  # a page may end in its midst
            return {}
        return found

    def metrics(self, token: str = "admin") -> str:
        """Return the metrics, as a client with the token of an administrator gets them. Raises OSError."""
        url = f"https://{node_ip(self.node)}:{SECURE_PAGES_PORT}/metrics"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            found: bytes = answer.read()
        return found.decode()

    def page(self, path: str) -> bytes:
        """Return an HTTP page. Raises OSError and HTTPException."""
        with urllib.request.urlopen(f"http://{node_ip(self.node)}:{PAGES_PORT}{path}", timeout=5) as answer:
            found: bytes = answer.read()
        return found


class SpeakerWorld:
    """The API server with objects, and speakers. Made by `speaker_world`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.api = ApiWorld(server_certificate(), address=CLIENT)
        self.client: ApiClient
        self.speakers: dict[str, SpeakerProcess] = {}

    async def start(self) -> None:
        await self.api.start()
        self.client = ApiClient(self.api.config)
        await self.client.__aenter__()
        await install(self.client, NAMESPACE, OWN_NAMESPACE)
        key = base64.b64encode(bytes(range(32))).decode()
        await self.create(SECRETS, {"metadata": _meta("bridgehead-speakers", OWN_NAMESPACE), "data": {"key": key}})
        for name in NODES_IN_WORLD:
            await self.create(NODES, {"metadata": _meta(name, labels={"kubernetes.io/hostname": name})})
            addresses = [{"type": "InternalIP", "address": node_ip(name)}]
            await self.client.patch(NODES, name, "", {"status": {"addresses": addresses}}, subresource="status")
        ranges = ["10.0.0.10-10.0.0.50", "fd00:10::10-fd00:10::50"]
        await self.create(
            metallb.IP_ADDRESS_POOLS, {"metadata": _meta("pool", NAMESPACE), "spec": {"addresses": ranges}}
        )
        await self.create(metallb.L2_ADVERTISEMENTS, {"metadata": _meta("all", NAMESPACE)})
        self._directory.mkdir(exist_ok=True)
        self.api.write_kubeconfig(self._directory / "kubeconfig")

    async def close(self) -> None:
        set_faults()
        for speaker in self.speakers.values():
            speaker.process.kill()
            speaker.process.wait()
        await self.client.__aexit__(None, None, None)
        await self.api.close()

    def start_speaker(self, node: str, *options: str) -> SpeakerProcess:
        command = ["ip", "netns", "exec", node, sys.executable, "-c", "from bridgehead.cli import main; main()"]
        command += ["speaker", "--kubeconfig", str(self._directory / "kubeconfig"), "--node-name", node, *options]
        # The log of a failed test shows the speakers' logs.
        self.speakers[node] = SpeakerProcess(node, subprocess.Popen(command))
        return self.speakers[node]

    async def start_speakers(self) -> None:
        """Start a speaker on each node, and wait until they know each other."""
        for node in NODES_IN_WORLD:
            self.start_speaker(node)
        await self.until_members(*NODES_IN_WORLD)

    async def create(self, kind: Any, obj: dict[str, Any]) -> None:
        await self.client.create(kind, {"apiVersion": kind.api_version, "kind": kind.name, **obj})

    async def add_service(
        self, name: str, *addresses: str, nodes: Sequence[str] = NODES_IN_WORLD, policy: str = "Cluster"
    ) -> None:
        """Create a Service of type LoadBalancer that has these addresses, with one endpoint on each of the nodes."""
        port = {"port": PORT, "protocol": "UDP"}
        spec = {"type": "LoadBalancer", "ports": [port], "externalTrafficPolicy": policy}
        await self.create(SERVICES, {"metadata": _meta(name, "default"), "spec": spec})
        await self.set_endpoints(name, nodes, is_new=True)
        status = {"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"} for address in addresses]}}
        await self.client.patch(SERVICES, name, "default", {"status": status}, subresource="status")

    async def set_endpoints(self, name: str, nodes: Sequence[str], *, is_new: bool = False) -> None:
        """Set the nodes on which the Service has endpoints."""
        endpoints = [
            {"addresses": [f"10.244.{node[-1]}.2"], "nodeName": node, "conditions": {"ready": True}} for node in nodes
        ]
        if not is_new:
            await self.client.patch(ENDPOINT_SLICES, name, "default", {"endpoints": endpoints})
            return
        await self.create(
            ENDPOINT_SLICES,
            {
                "metadata": _meta(name, "default", labels={"kubernetes.io/service-name": name}),
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": [{"port": PORT, "protocol": "UDP"}],
            },
        )

    async def events(self, name: str, namespace: str = "default") -> list[tuple[str, str]]:
        """Return reasons and messages of the Events about a Service, or another object of this name."""
        found = await self.client.list(EVENTS, namespace)
        return [(event.reason, event.message) for event in found.items if event.involved_object.name == name]

    async def read_status(self, node: str) -> dict[str, Any]:
        return await asyncio.to_thread(self.speakers[node].status)

    async def until_members(self, *members: str) -> None:
        """Wait until exactly the speakers of these nodes announce, as each of them believes."""
        for node in members:

            async def agrees(node: str = node) -> bool:
                found = await self.read_status(node)
                return found.get("members") == sorted(members) and not found["notReady"]

            await until(agrees)

    async def holder(self, address: str) -> str:
        """Return the node that announces an address, after all speakers agree; "" if none does."""
        holders = []
        for node, speaker in self.speakers.items():
            if speaker.process.poll() is None:
                found = await self.read_status(node)
                holders += [node for held in found.get("held", ()) if held["address"] == address]
        return holders[0] if len(holders) == 1 else ""

    async def until_held(self, address: str, *nodes: str) -> str:
        """Wait until exactly one node, one of `nodes` if given, announces an address; return the node."""

        async def held() -> str:
            node = await self.holder(address)
            return node if not nodes or node in nodes else ""

        found: str = await until(held)
        return found


def _meta(name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    return {"name": name, **({"namespace": namespace} if namespace else {}), **fields}


@contextlib.asynccontextmanager
async def speaker_world(directory: Path) -> AsyncIterator[SpeakerWorld]:
    make_network()
    servers = answer_on_nodes()
    world = SpeakerWorld(directory)
    try:
        await world.start()
        yield world
    finally:
        await world.close()
        _stop(servers)


async def until(what: Callable[[], Awaitable[Any]]) -> Any:
    """Return the first true result of `what()`. Looks are rare, since pages of three speakers cost processor time."""
    async with asyncio.timeout(DEADLINE):
        while True:
            value = await what()
            if value:
                return value
            await asyncio.sleep(LOOK_SECONDS)


async def answered_by(address: str) -> str:
    """Return the node that answers the client at an address now, "" without an answer."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        with contextlib.suppress(OSError, TimeoutError):
            await loop.sock_sendto(sock, bytes(8), (address, PORT))
            async with asyncio.timeout(0.5):
                return (await loop.sock_recv(sock, 100))[8:].decode()
    return ""


FAULTS = (
    "black hole",
    "cannot send",
    "cannot receive",
    "cable pulled",
    "speaker stopped",
    "detector stopped",
    "both stopped",
)


@contextlib.contextmanager
def fault(world: SpeakerWorld, what: str, node: str) -> Iterator[None]:
    """Let a node fail during the block: one of `FAULTS`."""
    speaker = world.speakers[node]
    pids = {
        "speaker stopped": [speaker.process.pid],
        "detector stopped": [speaker.detector_pid],
        "both stopped": [speaker.process.pid, speaker.detector_pid],
    }.get(what, [])
    set_faults(
        mute=[node] if what in ("black hole", "cannot send") else [],
        deaf=[node] if what in ("black hole", "cannot receive") else [],
    )
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    if what == "cable pulled":
        sh(f"ip link set {node} down")
    try:
        yield
    finally:
        set_faults()
        sh(f"ip link set {node} up")
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
