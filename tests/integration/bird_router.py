"""A router for tests: BIRD (Debian bird2) in a network namespace of its own, joined to the test's by a link.

For tests that run `in_namespace`. The router has BGP on TCP port 179, BFD, and a kernel routing table.
"""

from __future__ import annotations

import ipaddress
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from .namespaced import sh

DEADLINE_SECONDS = 60
ROUTER4, ROUTER6 = "10.0.0.1", "fd00:a::1"
# The test may have moved to another namespace; its first process has not.
_ROOT_NAMESPACE = "nsenter --net=/run/netns/fabric"
COMMON = """
log stderr all;
timeformat protocol "%T";
router id 10.0.0.1;
protocol device { scan time 1; }
"""


def eventually(condition: Callable[[], object], what: str, seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until the condition holds; fail with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


def node_address(number: int, family: int = 4) -> str:
    return f"10.0.0.{200 + number}" if family == 4 else f"fd00:a::{200 + number}"


def make_fabric(nodes: int) -> None:
    """Make namespaces `router`, `node1`, ... whose eth0 are on a bridge. The caller's namespace has only the bridge."""
    names = ["router", *(f"node{number}" for number in range(1, nodes + 1))]
    sh("ip link add fabric type bridge; ip link set fabric up; ip netns attach fabric $$")
    for index, name in enumerate(names):
        addresses = (ROUTER4, ROUTER6) if name == "router" else (node_address(index), node_address(index, 6))
        sh(f"""
            set -e
            ip netns add {name}
            ip netns exec {name} sysctl -qw net.ipv6.conf.default.accept_dad=0
            ip link add {name} type veth peer name eth0 netns {name}
            ip link set {name} master fabric up
            ip -n {name} link set lo up
            ip -n {name} link set eth0 up
            ip -n {name} address add {addresses[0]}/24 dev eth0
            ip -n {name} -6 address add {addresses[1]}/64 dev eth0 nodad
        """)


def cut(name: str) -> None:
    """Let all packets of a namespace be lost, in both directions, while its link stays up."""
    # A queue that no packet fits into: the kernel of a test may lack netem.
    sh(f"{_ROOT_NAMESPACE} tc qdisc add dev {name} root tbf rate 8bit burst 1 limit 1")
    sh(f"nsenter --net=/run/netns/{name} tc qdisc add dev eth0 root tbf rate 8bit burst 1 limit 1")


def heal(name: str) -> None:
    """Undo `cut`."""
    sh(f"{_ROOT_NAMESPACE} tc qdisc delete dev {name} root")
    sh(f"nsenter --net=/run/netns/{name} tc qdisc delete dev eth0 root")


class Bird:
    """BIRD in a network namespace, "" for that of the test. Use as a context manager."""

    def __init__(self, configuration: str, namespace: str = "router") -> None:
        self._inside = ["ip", "netns", "exec", namespace] if namespace else []
        self._directory = tempfile.TemporaryDirectory()
        self._path = Path(self._directory.name, "bird.conf")
        self._socket = Path(self._directory.name, "bird.ctl")
        self._path.write_text(COMMON + configuration)
        self._log = Path(self._directory.name, "log").open("w+")  # noqa: SIM115 - closed at the end
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Bird:
        self._process = process = subprocess.Popen(
            [*self._inside, "bird", "-f", "-c", str(self._path), "-s", str(self._socket)],
            stdout=self._log,
            stderr=self._log,
        )
        eventually(lambda: self._socket.exists() or process.poll() is not None, "BIRD starts")
        if process.poll() is not None:
            raise AssertionError(self.log())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(20)
        if error is not None:
            print("BIRD's log:", self.log()[-8000:], file=sys.stderr)  # noqa: T201 - for whoever reads the failure
        self._log.close()
        self._directory.cleanup()

    def log(self) -> str:
        return Path(self._log.name).read_text()

    def reconfigure(self, configuration: str) -> None:
        self._path.write_text(COMMON + configuration)
        self.ask("configure")

    def ask(self, *command: str) -> str:
        """Return the answer of birdc to a command."""
        return subprocess.run(
            ["birdc", "-s", str(self._socket), *command], capture_output=True, text=True, check=True, timeout=60
        ).stdout

    def bfd_states(self) -> dict[str, str]:
        """Return the state of each BFD session by the neighbour's address: "Up", "Down", "Init"."""
        rows = [line.split() for line in self.ask("show", "bfd", "sessions").splitlines()]
        return {row[0]: row[2] for row in rows if len(row) >= 5 and _is_address(row[0])}

    def established_since(self) -> dict[str, str]:
        """Return the time, in seconds, since when each BGP session is established, by the protocol's name.

        Fractions are left out: BIRD reads two clocks for each answer, so that its milliseconds of one moment may
        differ.
        """
        rows = [line.split() for line in self.ask("show", "protocols").splitlines()]
        return {row[0]: row[4] for row in rows if row[1:2] == ["BGP"] and row[5:] == ["Established"]}

    def next_hops(self, prefix: str) -> list[str]:
        """Return the next hops of a route in the router's kernel, sorted."""
        family = "-6" if ":" in prefix else "-4"
        fields = sh(" ".join([*self._inside, "ip", family, "route", "show", prefix])).split()
        return sorted(value for name, value in itertools.pairwise(fields) if name == "via")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


KERNEL = """
protocol kernel { ipv4 { export all; import none; }; merge paths on; }
protocol kernel k6 { ipv6 { export all; import none; }; merge paths on; }
"""
BFD = 'protocol bfd { interface "*" { min rx interval 100 ms; min tx interval 100 ms; multiplier 3; }; }\n'
FAMILIES = "ipv4 { import all; export none; }; ipv6 { import all; export none; };"


def bgp(number: int, options: str = "", asn: int = 64512) -> str:
    """Return the configuration of the router's session with a node."""
    return (
        f"protocol bgp node{number} {{ local {ROUTER4} as 64513; neighbor {node_address(number)} as {asn};"
        f" connect delay time 1; error wait time 1, 2; {options}"
        f" {FAMILIES} }}\n"
    )
