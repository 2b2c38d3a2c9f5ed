"""Leads clients of local ports to ports of Services, and follows the Services.

The process has entered the cluster's network; the ports' sockets were bound before.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.client import ApiClient
from bridgehead.client.informer import Informer, running
from bridgehead.objects.core.nodes import Node
from bridgehead.objects.core.services import Service
from bridgehead.objects.kinds import NODES, SERVICES
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import AddressPort
from bridgehead.proxy.frontends import Backend
from bridgehead.proxy.userspace.balancing import Balancer, Memory
from bridgehead.proxy.userspace.tcp import Connection, TcpListener
from bridgehead.proxy.userspace.udp import Sessions, UdpListener

from .targets import NoTarget, Route, Target, find_node_port, find_ports, find_target

_UDP_IDLE_SECONDS: Final = 60.0
_MOST_SESSIONS: Final = 1024


@dataclass(eq=False)
class Forward:
    """A local port that leads to a port of a Service, or to a node port (`service` None).

    `local` is bound, and belongs to the forwarder. `shown`: the target, or why there is none, as it was reported.
    """

    service: ObjectKey | None
    port: int
    protocol: str
    local: socket.socket
    shown: str = ""

    def __str__(self) -> str:
        target = f"service/{self.service.name} port" if self.service else "node port"
        return f"{target} {self.port} ({self.protocol})"


class Forwarder:
    """Relays to the Services' targets as they change. `report` gets a line for each target, and for each change."""

    def __init__(
        self, client: ApiClient, forwards: Sequence[Forward], route: Route | None, report: Callable[[str], None]
    ) -> None:
        self._forwards = forwards
        self._route = route
        self._report = report
        self._nodes: Informer[Node] = Informer(client, NODES)
        self._services: dict[ObjectKey, Informer[Service]] = {
            key: Informer(client, SERVICES, key.namespace, field_selector=f"metadata.name={key.name}")
            for key in {forward.service for forward in forwards if forward.service}
        }

    async def run(self) -> None:
        """Relay until cancelled."""
        informers: tuple[Informer[Any], ...] = (self._nodes, *self._services.values())
        async with running(*informers):
            for informer in informers:
                await informer.wait_synced()
            with contextlib.closing(_Relay(self._forwards)) as relay:
                for informer in informers:
                    informer.on_change(lambda _old, _new: self._follow(relay))
                self._follow(relay)
                await asyncio.get_running_loop().create_future()

    def _follow(self, relay: _Relay) -> None:
        for forward in self._forwards:
            try:
                target = self._find(forward)
                shown, addresses = str(target), target.addresses
            except NoTarget as reason:
                shown, addresses = str(reason), ()
            if shown != forward.shown:
                forward.shown = shown
                relay.lead(forward, addresses)
                self._report(f"{forward}: {shown}")

    def _find(self, forward: Forward) -> Target:
        if forward.service is None:
            return find_node_port(forward.port, self._nodes.items())
        service = self._services[forward.service].get(forward.service)
        if service is None:
            raise NoTarget("the Service does not exist; connections are refused until it does")
        for port in find_ports(service, forward.port):
            if port.protocol == forward.protocol:
                return find_target(service, port, self._nodes.items(), self._route)
        raise NoTarget(f"the Service has no such port of {forward.protocol} any more")


class _Relay:
    """The listeners at the local ports, with no targets at first."""

    def __init__(self, forwards: Sequence[Forward]) -> None:
        self._loop = asyncio.get_running_loop()
        self._connections: set[Connection] = set()
        self._sessions = Sessions(self._loop, _UDP_IDLE_SECONDS, _MOST_SESSIONS)
        self._listeners = {forward: self._open(forward) for forward in forwards}

    def _open(self, forward: Forward) -> TcpListener | UdpListener:
        balancer = Balancer((), None, Memory())
        if forward.protocol == "TCP":
            return TcpListener(self._loop, forward.local, balancer, self._connections)
        return UdpListener(self._sessions, forward.local, balancer)

    def lead(self, forward: Forward, addresses: Sequence[AddressPort]) -> None:
        """Lead new clients to these addresses. Open connections go on as long as their target answers."""
        listener = self._listeners[forward]
        gone = listener.balancer.change([Backend(*each) for each in addresses], None, Memory())
        listener.on_removed(gone)

    def close(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        for connection in tuple(self._connections):
            connection.abort()
        self._sessions.close()
