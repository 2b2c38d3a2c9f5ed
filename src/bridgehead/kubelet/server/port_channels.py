"""A port-forward session over channels of a WebSocket, one connection for each port.

Called by the kubelet's server. Port number i of the request has channel 2i for data and 2i+1 for errors. Both begin
with the port in two bytes, the lower one first. Source: kubelet `pkg/cri/streaming/portforward/websocket.go`.
"""

from __future__ import annotations

import asyncio
import json
import socket as sockets
from collections.abc import Awaitable, Callable, Iterable, Sequence

from bridgehead.kubelet.runtimes.runtime import RuntimeFailure

from .channels import Channels
from .port_copy import Input, PortCopy

# The number of a channel is one byte.
_MAX_PORTS = 127
_MAX_DIGITS = 5

OpenPort = Callable[[int], Awaitable[sockets.socket]]


def parse_ports(values: Sequence[str]) -> tuple[int, ...]:
    """Parse the values of the parameter `port`, each a number or several with commas. Raises ValueError."""
    if not values:
        raise ValueError('query parameter "port" is required')
    ports = tuple(parse_port(text, value) for value in values for text in value.split(","))
    if len(ports) > _MAX_PORTS:
        raise ValueError(f"at most {_MAX_PORTS} ports may be forwarded")
    return ports


def parse_port(text: str, value: str) -> int:
    """Parse a port, which is `value` or a part of it. Raises ValueError."""
    quoted = json.dumps(value)
    if not value:
        raise ValueError('query parameter "port" cannot be empty')
    if not (text.isascii() and text.isdigit()):
        why = f"strconv.ParseUint: parsing {json.dumps(text)}: invalid syntax"
        raise ValueError(f"unable to parse {quoted} as a port: {why}")
    if len(text.lstrip("0")) > _MAX_DIGITS or int(text) > 65535:
        why = f"strconv.ParseUint: parsing {json.dumps(text)}: value out of range"
        raise ValueError(f"unable to parse {quoted} as a port: {why}")
    if int(text) < 1:
        raise ValueError(f"port {quoted} must be > 0")
    return int(text)


class PortChannels:
    """One session. `open_port` connects to a port of the pod; it raises `RuntimeFailure`."""

    def __init__(self, channels: Channels, pod_name: str, pod_uid: str, open_port: OpenPort) -> None:
        self._channels = channels
        self._pod_name = pod_name
        self._pod_uid = pod_uid
        self._open_port = open_port

    async def run(self, ports: Iterable[int]) -> None:
        """Run until all connections have ended or the client has left, and what it sent is delivered."""
        inputs: list[Input] = []
        has_left = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            forwarding = []
            for number, port in enumerate(ports):
                inputs.append(Input())
                forwarding.append(tasks.create_task(self._forward(number, port, inputs[number], has_left)))
            receiving = tasks.create_task(self._receive(inputs, has_left))
            await asyncio.wait(forwarding)
            receiving.cancel()
        await self._channels.finish()

    async def _receive(self, inputs: Sequence[Input], has_left: asyncio.Event) -> None:
        async for channel, data in self._channels.messages():
            if channel % 2 == 0 and channel // 2 < len(inputs) and data:
                await inputs[channel // 2].put(data)
        has_left.set()
        for one in inputs:
            one.end()

    async def _forward(self, number: int, port: int, given: Input, has_left: asyncio.Event) -> None:
        for channel in (2 * number, 2 * number + 1):
            await self._channels.send(channel, port.to_bytes(2, "little"))
        try:
            connection = await self._open_port(port)
        except RuntimeFailure as error:
            given.drop()
            text = f"error forwarding port {port} to pod {self._pod_name}, uid {self._pod_uid}: {error}"
            await self._channels.send(2 * number + 1, text.encode())
            return

        async def send(data: bytes) -> None:
            await self._channels.send(2 * number, data)

        with connection:
            await PortCopy(connection, given, send, has_left).run(_ignore_end)


async def _ignore_end() -> None:
    """The protocol has no sign for the end of one direction."""
