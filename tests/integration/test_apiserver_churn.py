"""Clients that disconnect at any moment leave no descriptors, memory or open watches behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web

from .apiserver_process import DEADLINE, ServerProcess, write_files
from .test_apiserver_process import send

pytestmark = pytest.mark.integration

DEFAULT = "/api/v1/namespaces/default"
AT_ONCE = 6


async def endless_log(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(b"a line\n" * 200)
            await asyncio.sleep(0.001)
    return response


async def echo(request: web.Request) -> web.WebSocketResponse:
    answer = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
    await answer.prepare(request)
    async for message in answer:
        if message.type is WSMsgType.BINARY:
            await answer.send_bytes(b"\x01" + message.data[1:])
    return answer


@contextlib.asynccontextmanager
async def kubelet() -> AsyncIterator[int]:
    """Return the port of a kubelet that streams until its client disconnects."""
    application = web.Application()
    application.add_routes([web.get("/containerLogs/{rest:.*}", endless_log), web.get("/exec/{rest:.*}", echo)])
    runner = web.AppRunner(application, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class Churn:
    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.context = server.context("admin")

    def connect(self) -> socket.socket:
        raw = socket.create_connection(("127.0.0.1", self.server.port), timeout=DEADLINE)
        # Closing it resets the connection.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return raw

    def ask(self, text: str, *, waits: bool = True) -> None:
        """Send a request, wait for the beginning of its answer, and disconnect."""
        with self.context.wrap_socket(self.connect(), server_hostname="127.0.0.1") as client:
            client.sendall(text.encode())
            if waits:
                assert client.recv(65536).startswith(b"HTTP/1.1 "), text

    def get(self, path: str, *headers: str) -> str:
        return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""])

    def watches(self) -> None:
        self.ask(self.get(f"{DEFAULT}/configmaps?watch=true"))
        self.ask(self.get(f"{DEFAULT}/configmaps?watch=true"), waits=False)
        table = "Accept: application/json;as=Table;g=meta.k8s.io;v=v1"
        self.ask(self.get("/api/v1/pods?watch=true&resourceVersion=1", table))

    def unfinished_requests(self) -> None:
        head = f"POST {DEFAULT}/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        self.ask(f"{head}Content-Length: 1000\r\n\r\n{{", waits=False)
        self.ask(f"{head}Transfer-Encoding: chunked\r\n\r\n5\r\n{{", waits=False)
        self.ask(head, waits=False)
        self.ask(self.get(f"{DEFAULT}/configmaps"), waits=False)

    def handshakes(self) -> None:
        for sent in (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"):
            with self.connect() as raw:
                raw.sendall(sent)
        # A whole first message of a client, and nothing after it.
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        begun = self.context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with contextlib.suppress(ssl.SSLWantReadError):
            begun.do_handshake()
        with self.connect() as raw:
            raw.sendall(outgoing.read())

    def streams(self) -> None:
        self.ask(self.get(f"{DEFAULT}/pods/p/log?follow=true"))
        socket_headers = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
        socket_headers += ("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol: v5.channel.k8s.io")
        self.ask(self.get(f"{DEFAULT}/pods/p/exec?command=cat&stdin=true&stdout=true", *socket_headers))
        spdy = ("Connection: Upgrade", "Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io")
        self.ask(self.get(f"{DEFAULT}/pods/p/exec?command=cat&stdin=true&stdout=true", *spdy))

    def round(self) -> None:
        self.watches()
        self.unfinished_requests()
        self.handshakes()
        self.streams()

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))

    def open_watches(self) -> float:
        text = self.server.read("/metrics", user="admin").decode()
        found = re.findall(r"^apiserver_longrunning_requests\{[^}]*\} ([0-9.]+)$", text, re.MULTILINE)
        assert found  # the server counted the watches that this test opened
        return sum(float(count) for count in found)

    def settle(self, at_most: int) -> int:
        """Return the descriptors once they are few and no watch is open, or at a deadline."""
        end = time.monotonic() + DEADLINE / 2
        while True:
            open_watches = self.open_watches()
            time.sleep(0.1)  # until the connection of this request is closed
            found = self.descriptors()
            if (found <= at_most and not open_watches) or time.monotonic() > end:
                return found


def create_pod(server: ServerProcess, port: int) -> None:
    node = {"metadata": {"name": "n"}}
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    send(server, "POST", "/api/v1/nodes", {**node, "status": status})
    send(server, "POST", f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "default"}})
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]}}
    send(server, "POST", f"{DEFAULT}/pods", pod)


async def test_connections_that_open_and_close_leave_no_memory_behind(tmp_path: Path) -> None:
    write_files(tmp_path)
    with contextlib.closing(ServerProcess(tmp_path, store=f"sqlite://{tmp_path}/state.db")) as server:
        async with kubelet() as port:
            await asyncio.to_thread(server.start)
            await asyncio.to_thread(create_pod, server, port)
            churn = Churn(server)
            for _ in range(2):
                await asyncio.gather(*(asyncio.to_thread(churn.round) for _ in range(AT_ONCE)))
            before = await asyncio.to_thread(churn.settle, 30)
            memory = server.memory_bytes()
            for _ in range(3):
                await asyncio.gather(*(asyncio.to_thread(churn.round) for _ in range(AT_ONCE)))
            after = await asyncio.to_thread(churn.settle, before)
            assert after <= before
            assert await asyncio.to_thread(churn.open_watches) == 0
            assert server.memory_bytes() < memory + 30e6
            log = await asyncio.to_thread((tmp_path / "log").read_text)
            assert "Traceback" not in log, log[-3000:]
