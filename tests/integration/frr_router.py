"""A router for tests: FRR's bgpd alone (Debian frr), in the namespace `router` of `bird_router.make_fabric`.

It has no zebra, so it installs no routes and has no BFD. It needs neither root outside the test's user namespace nor
FRR's own user.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from .bird_router import eventually

BGPD = "/usr/lib/frr/bgpd"
_END_OF_ANSWER = b"\0\0\0"  # before one byte with the status


def takes_ipv6_routes() -> bool:
    """Return whether bgpd alone takes IPv6 routes over IPv4: from FRR 10 on it asks zebra for a next hop of its own."""
    version = subprocess.run([BGPD, "--version"], capture_output=True, text=True, check=True).stdout
    return int(version.split()[2].partition(".")[0]) < 10


class Frr:
    """bgpd with a configuration. Use as a context manager."""

    def __init__(self, configuration: str) -> None:
        self._directory = tempfile.TemporaryDirectory()
        path = Path(self._directory.name)
        (path / "bgpd.conf").write_text(configuration)
        self._log = path / "log"
        self._socket = path / "bgpd.vty"
        self._command = ["ip", "netns", "exec", "router", BGPD, "--no_zebra", "--skip_runas", "--vty_port", "0"]
        self._command += ["--config_file", str(path / "bgpd.conf"), "--pid_file", str(path / "bgpd.pid")]
        self._command += ["--vty_socket", str(path), "--log", f"file:{self._log}"]

    def __enter__(self) -> Frr:
        self._process = subprocess.Popen(self._command)
        eventually(lambda: self._socket.exists() or self._process.poll() is not None, "bgpd starts")
        assert self._process.poll() is None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(20)
        if error is not None and self._log.exists():
            print("bgpd's log:", self._log.read_text()[-8000:], file=sys.stderr)  # noqa: T201
        self._directory.cleanup()

    def ask(self, command: str) -> str:
        """Return the answer to a command of its shell."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(os.fspath(self._socket))
            for line in ("enable", command):
                sock.sendall(line.encode() + b"\0")
                answer = b""
                while _END_OF_ANSWER not in answer[:-1]:
                    data = sock.recv(1 << 16)
                    assert data, "bgpd has ended"
                    answer += data
        return answer[: answer.index(_END_OF_ANSWER)].decode()

    def route(self, prefix: str) -> dict[str, Any]:
        """Return what bgpd knows of a route, {} without one. Paths are in the list "paths"."""
        family = "ipv6" if ":" in prefix else "ipv4"
        found: dict[str, Any] = json.loads(self.ask(f"show bgp {family} unicast {prefix} json") or "{}")
        return found

    def next_hops(self, prefix: str) -> list[str]:
        """Return the global addresses of the next hops of a route, sorted."""
        paths = self.route(prefix).get("paths", ())
        return sorted(hop["ip"] for path in paths for hop in path["nexthops"] if hop.get("scope", "global") == "global")

    def keepalives_of(self, address: str) -> int:
        """Return how many KEEPALIVE messages of a neighbour have arrived."""
        found = json.loads(self.ask(f"show bgp neighbors {address} json"))
        return int(found[address]["messageStats"]["keepalivesRecv"])
