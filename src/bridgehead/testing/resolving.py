"""Names as a pod of the test's namespace resolves them, by the cluster's DNS alone."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import time
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import quote

import msgspec

from bridgehead.client import ApiClient
from bridgehead.client.errors import NotFound
from bridgehead.client.http_library import aiohttp
from bridgehead.dns.messages.wire import IN, RD, TYPES, encode_name
from bridgehead.insight.facts.system_object_names import APP_LABEL, DNS_SERVICE, SYSTEM
from bridgehead.insight.trace.dns_queries import PORT, Questions, parse_answer
from bridgehead.insight.trace.name_resolution import FAMILIES, DnsAnswer, candidate_names
from bridgehead.kubelet.node.resolv_conf import Resolver
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PODS, SERVICES

from .cluster import Cluster
from .inside import Ask
from .inside_client import Inside

_DOMAIN: Final = "cluster.local"
_NDOTS: Final = "ndots:5"  # as in pods
_NAME_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.05
_FORWARD_SECONDS: Final = 10.0
_PROTOCOL: Final = "v4.channel.k8s.io"
_DATA: Final = 0  # channel of a session of port-forward; its first packet has the port in two bytes

Answers = Callable[[tuple[str, ...]], Iterable[DnsAnswer]]


class Unresolved(AssertionError):
    """The cluster's DNS has no address for a name. The text has its answers."""


def resolve(name: str, namespace: str, ask: Answers, seconds: float) -> tuple[str, ...]:
    """Return the addresses of a name, or of an address itself, once there are any. `seconds` 0: ask once.

    Raises `Unresolved`.
    """
    try:
        return (str(ipaddress.ip_address(name)),)
    except ValueError:
        pass
    searches = (f"{namespace}.svc.{_DOMAIN}", f"svc.{_DOMAIN}", _DOMAIN)
    names = candidate_names(name.lower(), Resolver(searches=searches, options=(_NDOTS,)))
    if not names:
        raise Unresolved(f"{name!r} is not a name")
    deadline = time.monotonic() + seconds
    while True:
        answers = list(ask(names))
        if found := next((answer.addresses for answer in answers if answer.addresses), None):
            return found
        if time.monotonic() > deadline:
            codes = ", ".join(f"{answer.name}: {answer.rcode}" for answer in answers)
            raise Unresolved(f"the cluster's DNS has no address for {name!r} ({codes})")
        time.sleep(_PAUSE_SECONDS)


def ask_inside(cluster: Cluster, inside: Inside, names: tuple[str, ...]) -> Iterable[DnsAnswer]:
    """Ask the Service of the cluster's DNS from beside the nodes. Raises ClientError."""
    service = cluster.call(lambda client: client.get(SERVICES, DNS_SERVICE.name, DNS_SERVICE.namespace))
    questions = Questions(server=service.spec.cluster_ip, names=names, seconds=_NAME_SECONDS)
    return msgspec.convert(inside.ask(Ask(questions)), tuple[DnsAnswer, ...])


async def ask_by_port_forward(client: ApiClient, names: tuple[str, ...]) -> list[DnsAnswer]:
    """Ask a pod of the cluster's DNS over TCP, through the API server. Raises ClientError."""
    pods = await client.list(PODS, SYSTEM, f"{APP_LABEL}={DNS_SERVICE.name}")
    pod = next((pod for pod in pods.items if pod.is_ready), None)
    if pod is None:
        raise Unresolved(f"no pod with the label {APP_LABEL}={DNS_SERVICE.name} is ready in {SYSTEM}")
    found: list[DnsAnswer] = []
    for name in names:
        for kind in FAMILIES:
            found.append(await _ask_pod(client, pod, name, kind))
            if found[-1].addresses:
                return found
    return found


async def _ask_pod(client: ApiClient, pod: Pod, name: str, kind: str) -> DnsAnswer:
    question = encode_name(name) + TYPES[kind].to_bytes(2) + IN.to_bytes(2)
    message = os.urandom(2) + bytes([RD, 0]) + b"\0\1" + bytes(6) + question
    session = PODS.path(quote(pod.metadata.namespace, safe=""), quote(pod.metadata.name, safe=""), "portforward")
    try:
        async with (
            asyncio.timeout(_FORWARD_SECONDS),
            client.open_socket(session, [("ports", str(PORT))], (_PROTOCOL,)) as socket,
        ):
            await socket.send_bytes(bytes((_DATA,)) + len(message).to_bytes(2) + message)
            answer = await _receive(socket)
    except NotFound as error:
        return DnsAnswer(name=name, rcode=str(error))
    return parse_answer(name, answer, question, pod.metadata.name)


async def _receive(socket: aiohttp.ClientWebSocketResponse) -> bytes:
    """Return one message of DNS, which has its length in two bytes."""
    found, skip = bytearray(), 2
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data or message.data[0] != _DATA:
            continue
        content = message.data[1 + skip :]
        skip = max(0, skip - (len(message.data) - 1))
        found += content
        if len(found) >= 2 and len(found) - 2 >= int.from_bytes(found[:2]):
            break
    return bytes(found[2:])
