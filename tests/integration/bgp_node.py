"""A node that announces by BGP: the announcer and a real failure detector, in a process in the node's namespace.

`Node` is the test's side. This file as a module is the process; it takes pickled requests on standard input.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from bridgehead.balancer.bgp.announcer import BgpAnnouncer, PeerState
from bridgehead.balancer.compiled_configuration import BfdProfile, BgpAdvertisement, Configuration, Peer, Pool
from bridgehead.balancer.detection.detector import Detector
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.objects.meta import ObjectKey

from .bird_router import eventually

POOL = Pool("pool", "metallb", (parse_range("10.1.0.0/16"), parse_range("fd00:b::/64")), bgp=(BgpAdvertisement("all"),))


def configuration(*peers: Peer, profiles: tuple[BfdProfile, ...] = ()) -> Configuration:
    return Configuration(
        pools=(POOL,),
        peers={peer.name: peer for peer in peers},
        bfd_profiles={profile.name: profile for profile in profiles},
    )


def publication(
    name: str, *addresses: Any, pool: Pool = POOL, nodes: tuple[str, ...] = (), **fields: Any
) -> Publication:
    """A Service with addresses of a pool. With `nodes`, it is local and has endpoints on these."""
    key = ObjectKey("default", name)
    pairs = tuple((address, pool) for address in addresses)
    return Publication(key, f"uid-{name}", {}, pairs, bool(nodes), frozenset(nodes), fields.get("has_endpoints", True))


class Node:
    """The node's process, in the namespace of the node's name. Use as a context manager."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, "-m", "tests.integration.bgp_node"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Node:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and self._process.poll() is None:
            print(f"{self.name}:", self.ask("peers"), self.ask("events"), file=sys.stderr)  # noqa: T201
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        self._process.wait(30)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def update(self, given: Configuration, services: Mapping[ObjectKey, Publication], *changed: ObjectKey) -> None:
        """Hand a state to the announcer. All Services changed if none is named."""
        nodes = {name: NodeView(name, {}) for name in ("node1", "node2", "node3")}
        view = ClusterView(self.name, given, nodes)
        self.ask("update", view, dict(services), changed or tuple(services))

    def peers(self) -> dict[str, PeerState]:
        return {state.name: state for state in self.ask("peers")}

    def awaited(self) -> list[str]:
        """The peers that a rollout should wait for."""
        found: list[str] = self.ask("awaited")
        return found

    def events(self) -> list[tuple[str, str, str, str]]:
        return self.ask("events")

    def processes(self) -> list[int]:
        """The process ids of the node's ExaBGPs."""
        return self.ask("processes")

    def set_passwords(self, passwords: dict[tuple[str, str], str]) -> None:
        self.ask("passwords", passwords)

    def await_established(self, *names: str) -> None:
        eventually(
            lambda: (
                all(state.status == "established" for state in self.peers().values())
                and self.peers().keys() == set(names)
            ),
            f"{self.name} has its sessions",
        )

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> None:
        self._process.wait(30)

    def ask(self, what: str, *arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        body = pickle.dumps((what, arguments))
        self._process.stdin.write(struct.pack("=I", len(body)) + body)
        self._process.stdin.flush()
        (length,) = struct.unpack("=I", self._process.stdout.read(4))
        return pickle.loads(self._process.stdout.read(length))


class _Side:
    """The requests: every public method is one."""

    def __init__(self) -> None:
        self._detector = Detector()
        self._events: list[tuple[str, str, str, str]] = []
        self._passwords: dict[tuple[str, str], str] = {}
        self._configuration = Configuration()
        self._announcer = BgpAnnouncer(self._detector, self._read_password, lambda *event: self._events.append(event))

    async def _read_password(self, namespace: str, name: str) -> str:
        return self._passwords[namespace, name]

    def update(self, view: ClusterView, services: dict[ObjectKey, Publication], changed: tuple[ObjectKey, ...]) -> None:
        # As the agent does: an unchanged configuration is the same value.
        if view.configuration == self._configuration:
            view = replace(view, configuration=self._configuration)
        self._configuration = view.configuration
        self._announcer.update(view, services, changed)

    def peers(self) -> list[PeerState]:
        return self._announcer.peer_states()

    def awaited(self) -> list[str]:
        return self._announcer.awaited

    def events(self) -> list[tuple[str, str, str, str]]:
        return self._events

    def passwords(self, passwords: dict[tuple[str, str], str]) -> None:
        self._passwords = passwords

    def processes(self) -> list[int]:
        own = os.getpid()
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        return [int(pid) for pid in children if int(pid) != self._detector.pid]

    async def run(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
        running = [asyncio.create_task(self._detector.run()), asyncio.create_task(self._announcer.run())]
        ended = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        answering = asyncio.create_task(self._answer(reader))
        waiting = asyncio.create_task(ended.wait())
        await asyncio.wait([*running, waiting], return_when=asyncio.FIRST_COMPLETED)
        for task in (answering, *reversed(running)):
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is not None:
                task.print_stack()

    async def _answer(self, reader: asyncio.StreamReader) -> None:
        while True:
            (length,) = struct.unpack("=I", await reader.readexactly(4))
            what, arguments = pickle.loads(await reader.readexactly(length))
            body = pickle.dumps(getattr(self, what)(*arguments))
            sys.stdout.buffer.write(struct.pack("=I", len(body)) + body)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(_Side().run())
