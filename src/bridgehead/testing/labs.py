"""A running lab, and what tests do with it."""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabFiles
from bridgehead.suggestions import did_you_mean

from .inside import ChangeRules, Connect, Kill
from .inside_client import Inside, LabNetworkError

_RESTART_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.01


class CommandFailed(AssertionError):
    """A command of Bridgehead failed. The text has its arguments and its errors."""


@dataclass
class Lab:
    """A running lab. `name` is for `bridgehead --name`; `nodes` are the primary addresses of nodes by their names."""

    name: str
    files: LabFiles
    nodes: dict[str, str]
    context: str | None = None  # of its kubeconfig
    _inside: dict[str | None, Inside] = field(default_factory=dict, repr=False)

    @property
    def kubeconfig(self) -> Path:
        return self.files.kubeconfig

    @property
    def state_directory(self) -> Path:
        return self.files.root

    def bridgehead(self, command: str, *arguments: object, stdin: str = "") -> str:
        """Run a command of Bridgehead for this lab and return its output; for example `image`, `exec`, `doctor`.

        Raises `CommandFailed`.
        """
        options = ("--name", self.name)
        texts = tuple(map(str, arguments))
        # `image` has subcommands, which take the options.
        texts = (*texts[:1], *options, *texts[1:]) if command == "image" else (*options, *texts)
        argv = [sys.executable, "-P", "-c", "from bridgehead.cli import main; main()", command, *texts]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True)
        if done.returncode:
            raise CommandFailed(f"bridgehead {command} {' '.join(texts)}: exit code {done.returncode}\n{done.stderr}")
        return done.stdout

    def inside(self, node: str | None = None) -> Inside:
        """Return the program on a node, or beside the nodes, which runs as long as the lab is used."""
        if node is not None:
            self.check_node(node)
        if node not in self._inside:
            self._inside[node] = Inside(self.files.root, node)
        return self._inside[node]

    def connect(self, address: str, port: int, seconds: float, node: str | None = None) -> socket.socket:
        """Return a connected socket. Raises OSError."""
        opened = self.inside(node).connect(Connect(address, port, seconds))
        opened.settimeout(seconds)
        return opened

    @contextlib.contextmanager
    def partition(self, node: str) -> Iterator[None]:
        """Drop all packets between a node and the others inside the block."""
        self.check_node(node)
        table = f"bridgehead-testing-{secrets.token_hex(4)}"
        chains = "".join(
            f'chain {hook} {{ type filter hook {hook} device "{node}" priority 0; drop; }}\n'
            for hook in ("ingress", "egress")
        )
        inside = self.inside()
        inside.ask(ChangeRules(f"table netdev {table} {{\n{chains}}}\n"))
        try:
            yield
        finally:
            inside.ask(ChangeRules(f"delete table netdev {table}\n"))

    def kill(self, part: str) -> None:
        """Kill a part of the lab, and wait until the lab has started it again. Raises `LabNetworkError`."""
        killed = self._running_part(part)
        self.inside().ask(Kill(killed))
        deadline = time.monotonic() + _RESTART_SECONDS
        while self._part(part) in (0, killed):
            if time.monotonic() > deadline:
                raise LabNetworkError(f"{part} has not started again within {_RESTART_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)

    def _running_part(self, part: str) -> int:
        deadline = time.monotonic() + _RESTART_SECONDS
        while (pid := self._part(part)) == 0:  # it waits for its start
            if time.monotonic() > deadline:
                raise LabNetworkError(f"{part} does not run")
            time.sleep(_POLL_SECONDS)
        return pid

    def _part(self, name: str) -> int:
        """Return the PID of a part in the lab's PID namespace, 0 while it does not run."""
        parts = {part.name: part.pid for part in state_directories.read_parts(self.files)}
        if parts and name not in parts:
            advice = did_you_mean(name, parts) or f"; the parts are {', '.join(parts)}"
            raise LabNetworkError(f"the lab has no part {name!r}{advice}")
        return parts.get(name, 0)

    def check_node(self, node: str) -> None:
        """Raise `LabNetworkError` if there is no such node."""
        if node not in self.nodes:
            raise LabNetworkError(f"the lab has no node {node!r}; it has {', '.join(self.nodes)}")

    def close(self) -> None:
        """End the programs inside the lab."""
        while self._inside:
            self._inside.popitem()[1].close()
