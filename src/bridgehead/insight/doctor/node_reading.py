"""Reads the kernels of nodes, asks the cluster's DNS from nodes and from a pod, and reads resolv.conf of pods."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import struct
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError
from bridgehead.client.pod_exec import exec_in_pod
from bridgehead.dns.messages.wire import HEADER_SIZE, IN, RCODE_NAMES, RD, TYPES, encode_name
from bridgehead.insight.facts.network_reading import ALL, read_network
from bridgehead.insight.facts.network_state import NetworkState, Section
from bridgehead.insight.facts.system_object_names import DNS_SERVICE
from bridgehead.insight.findings import Unseen, printable
from bridgehead.insight.network_namespaces import NetworkNamespace, NetworkNamespaces, NotEntered
from bridgehead.insight.remote_namespaces import running_container
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import NODES, SERVICES

from .subjects import DnsAnswer, Facts, Resolver, mapping

MOST_NODES: Final = 16  # whose kernels are read
MOST_CLIENTS: Final = 4  # nodes that ask the DNS
_MOST_RESOLVERS: Final = 3  # pods whose resolv.conf is read
_AT_ONCE: Final = 4
_NODE_SECONDS: Final = 6.0
_ALL_SECONDS: Final = 9.0
_DNS_SECONDS: Final = 2.0
_EXEC_SECONDS: Final = 2.0
_HAIRPIN: Final = ("sh", "-c", "grep -s . /sys/class/net/*/brport/hairpin_mode /dev/null")
_PORT = 53
_PACKETS = 2  # a lost one is no verdict: resolvers send another one, too


class NodesSeen(NamedTuple):
    """`networks`: by node. `hairpin_off`: ports of bridges that are not in hairpin mode, by node."""

    networks: dict[str, NetworkState]
    answers: tuple[DnsAnswer, ...]
    hairpin_off: dict[str, tuple[str, ...]]
    unseen: tuple[Unseen, ...]


async def read_nodes(client: ApiClient, namespaces: NetworkNamespaces) -> NodesSeen:
    """Read the kernels of at most `MOST_NODES` nodes, some at once, and send one DNS query from some of these.

    Raises nothing: what cannot be read is unseen.
    """
    reading = _Reading(namespaces)
    try:
        async with asyncio.timeout(_ALL_SECONDS):
            nodes = sorted(node.metadata.name for node in (await client.list(NODES)).items if node.is_ready)
            with contextlib.suppress(ClientError):
                reading.dns = (await client.get(SERVICES, DNS_SERVICE.name, DNS_SERVICE.namespace)).spec.cluster_ip
    except (ClientError, TimeoutError) as error:
        why = printable(str(error)) or f"no answer within {_ALL_SECONDS:g} s"
        return NodesSeen({}, (), {}, (Unseen("the kernels of nodes", why),))
    chosen = nodes[:MOST_NODES]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ALL_SECONDS), asyncio.TaskGroup() as group:
            for number, name in enumerate(chosen):
                group.create_task(reading.read(name, is_client=number < MOST_CLIENTS))
    return reading.result(nodes)


class _Reading:
    def __init__(self, namespaces: NetworkNamespaces) -> None:
        self._namespaces = namespaces
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self.dns = ""
        self._networks: dict[str, NetworkState] = {}
        self._answers: list[DnsAnswer] = []
        self._hairpin: dict[str, tuple[str, ...]] = {}
        self._reasons: dict[str, str] = {}

    async def read(self, name: str, *, is_client: bool) -> None:
        async with self._limit:
            try:
                namespace = await self._namespaces.node(name)
                asking = [self._ask(namespace)] if is_client else []
                reading = asyncio.gather(*asking)
                state = await read_network(namespace, ALL, seconds=_NODE_SECONDS)
                await reading
                if any(interface.kind == "bridge" for interface in state.interfaces):
                    self._hairpin[name] = await _ports_without_hairpin(namespace)
            except NotEntered as error:
                self._reasons[name] = printable(str(error))
                return
        if all(section in state.unseen for section in Section):
            self._reasons[name] = next(iter(state.unseen.values()))
        else:
            self._networks[name] = state

    async def _ask(self, namespace: NetworkNamespace) -> None:
        if self.dns and self.dns != "None":
            answer = await ask_from(namespace, self.dns)
            self._answers += [answer] if answer is not None else []

    def result(self, nodes: Sequence[str]) -> NodesSeen:
        late = [name for name in nodes[:MOST_NODES] if name not in self._networks and name not in self._reasons]
        reasons = self._reasons | dict.fromkeys(late, f"no answer within {_ALL_SECONDS:g} s")
        unseen = [Unseen(f"the kernel of {_joined(found)}", why) for why, found in _grouped(reasons).items()]
        halves: dict[tuple[str, str], list[str]] = {}
        for name, state in sorted(self._networks.items()):
            for why, sections in _grouped({str(key): value for key, value in state.unseen.items()}).items():
                halves.setdefault((_joined(sections), why), []).append(name)
        for (sections_text, why), names in halves.items():
            unseen.append(Unseen(f"{sections_text} of node{'s' if len(names) > 1 else ''} {_joined(names)}", why))
        if len(nodes) > MOST_NODES:
            unseen.append(Unseen(f"the kernels of {len(nodes) - MOST_NODES} more nodes", f"{MOST_NODES} are looked at"))
        return NodesSeen(self._networks, tuple(sorted(self._answers)), self._hairpin, tuple(unseen))


async def ask_from(namespace: NetworkNamespace, server: str, domain: str = "cluster.local") -> DnsAnswer | None:
    """Send one query for the Service kubernetes; None where no query can be sent."""
    name = f"kubernetes.default.svc.{domain}"
    try:
        result = await namespace.call(ask, Query(server, name, _DNS_SECONDS), seconds=_DNS_SECONDS + 2)
    except NotEntered:
        return None
    return DnsAnswer(namespace.name, server, name, result, _DNS_SECONDS)


async def _ports_without_hairpin(namespace: NetworkNamespace) -> tuple[str, ...]:
    try:
        output = (await namespace.run(_HAIRPIN, seconds=_EXEC_SECONDS)).stdout.decode(errors="replace")
    except NotEntered:
        return ()
    lines = (line.partition(":") for line in output.splitlines())
    return tuple(path.split("/")[4] for path, _, value in lines if value.strip() == "0" and path.count("/") > 4)


# --- Pods -------------------------------------------------------------------------------------------------------


async def ask_from_pod(namespaces: NetworkNamespaces, facts: Facts) -> tuple[DnsAnswer, ...]:
    """Send one DNS query from a pod that should be able to ask."""
    server = min(facts.dns_addresses, default="")
    pod = next(iter(_clients(facts)), None)
    if pod is None or not server:
        return ()
    try:
        answer = await ask_from(await namespaces.pod(pod.key), server, facts.cluster.domain)
    except NotEntered:
        return ()
    return (answer,) if answer is not None else ()


async def read_resolvers(client: ApiClient, facts: Facts) -> tuple[Resolver, ...]:
    """Return the name servers in resolv.conf of one pod of each of some nodes; what cannot be read is missing."""
    chosen: dict[str, Pod] = {}
    for pod in _clients(facts):
        if running_container(pod):
            chosen.setdefault(pod.spec.node_name, pod)
    found = await asyncio.gather(*(_resolver(client, pod) for pod in list(chosen.values())[:_MOST_RESOLVERS]))
    return tuple(each for each in found if each is not None)


async def _resolver(client: ApiClient, pod: Pod) -> Resolver | None:
    argv = ("cat", "/etc/resolv.conf")
    with contextlib.suppress(ClientError):
        code, output, _ = await exec_in_pod(
            client, pod.key, running_container(pod), argv, seconds=_EXEC_SECONDS, most_bytes=65536
        )
        if code == 0:
            lines = (line.split() for line in output.decode(errors="replace").splitlines())
            servers = [printable(line[1], 100) for line in lines if len(line) > 1 and line[0] == "nameserver"]
            return Resolver(pod.key, tuple(servers[:8]))
    return None


def _clients(facts: Facts) -> list[Pod]:
    """Return running pods that should ask the cluster's DNS, and that no NetworkPolicy of their namespace selects."""
    restricted = {
        str(mapping(policy.get("metadata")).get("namespace", "")) for policy in facts.cluster.network_policies
    }
    wanted = {target.key.namespace for target in facts.targets}
    found = [
        pod
        for pod in facts.cluster.pods.values()
        if pod.is_ready
        and not pod.is_terminating
        and not pod.spec.host_network
        and pod.spec.dns_policy == "ClusterFirst"
        and pod.metadata.namespace not in restricted
    ]
    return sorted(found, key=lambda pod: (pod.metadata.namespace not in wanted, pod.key))


def _grouped(reasons: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, reason in sorted(reasons.items()):
        found.setdefault(reason, []).append(name)
    return found


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"


class Query(NamedTuple):
    """`server`: an address. `name`: without the dot at its end. `seconds`: the bound of the wait for both packets."""

    server: str
    name: str
    seconds: float


def ask(query: Query) -> str:
    """Send a query over UDP and return the response code of the answer; "" without one. Blocks.

    Runs in a network namespace of a node or pod.
    """
    number = secrets.randbelow(1 << 16)
    message = struct.pack("!6H", number, RD << 8, 1, 0, 0, 0) + encode_name(query.name)
    message += struct.pack("!2H", TYPES["A"], IN)
    family = socket.AF_INET6 if ":" in query.server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        with contextlib.suppress(OSError):
            client.connect((query.server, _PORT))
        for _ in range(_PACKETS):
            deadline = time.monotonic() + query.seconds / _PACKETS
            with contextlib.suppress(OSError):  # no answer in time, or an ICMP error
                client.send(message)
                while (left := deadline - time.monotonic()) > 0:
                    client.settimeout(left)
                    answer = client.recv(4096)
                    if len(answer) >= HEADER_SIZE and answer[:2] == message[:2]:
                        code = answer[3] & 0x0F
                        return RCODE_NAMES[code] if code < len(RCODE_NAMES) else f"RCODE {code}"
    return ""
