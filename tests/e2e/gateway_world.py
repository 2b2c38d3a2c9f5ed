"""A machine of its own for a lab with a gateway, and the internet: two network namespaces without any way out.

    machine 203.0.113.2, 2001:db8:1::2 ── 203.0.113.1, 2001:db8:1::1 internet: WEB and WEB6, on port 80, named WEB_NAME

The machine is a network and a mount namespace: it has a resolv.conf of its own, and the device of tun. Its name server
is on its loopback, as systemd-resolved is. Addresses are those for documentation (RFC 5737, RFC 3849).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .conftest import BRIDGEHEAD, eventually, run

MACHINE, MACHINE6 = "203.0.113.2", "2001:db8:1::2"
ROUTER, ROUTER6 = "203.0.113.1", "2001:db8:1::1"
WEB, WEB6 = "198.51.100.10", "2001:db8:2::10"
WEB_NAME = "www.example.org"
RESOLVER = "127.0.0.53"
LISTENER = 8081  # a port of the machine that no pod may reach, on all of its addresses

_DIRECTORY = Path(__file__).parent
_SERVER = """
import http.server, socket, sys
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{sys.argv[2]}, {self.client_address[0]}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
Server(("::", int(sys.argv[1])), Handler).serve_forever()
"""


@dataclass
class World:
    """The machine and the internet. Commands run as `user`, a number; 0: root."""

    machine: int  # the process that holds its namespaces
    internet: int
    directory: Path
    user: int = 0
    programs: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def argv(self, *argv: object, user: int | None = None) -> list[str]:
        """Return the command line of a program on the machine."""
        user = self.user if user is None else user
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        return [*_enter(self.machine), *become, *map(str, argv)]

    def run(self, *argv: object, user: int | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program on the machine."""
        return run(*self.argv(*argv, user=user), env=self.env)

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.directory), "XDG_STATE_HOME": str(self.directory / "state")}

    def bridgehead(self, *arguments: object, user: int | None = None) -> subprocess.CompletedProcess[str]:
        return self.run(BRIDGEHEAD, *arguments, user=user)

    def must(self, *argv: object, user: int | None = None) -> str:
        """Run a program on the machine that succeeds; its output."""
        done = self.run(*argv, user=user)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    @property
    def state(self) -> Path:
        """The default parent of state directories."""
        return self.directory / "state" / "bridgehead"

    def kubectl(self, lab: str, *arguments: object, stdin: str = "") -> str:
        """Run kubectl on the machine; its output."""
        argv = self.argv("env", f"KUBECONFIG={self.state / lab / 'kubeconfig'}", "kubectl", *arguments)
        done = run(*argv, env=self.env, stdin=stdin)
        assert done.returncode == 0, f"kubectl {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def in_pod(self, lab: str, pod: str, *argv: object) -> str:
        """Run a program in a pod; its output, or its errors if it fails."""
        kubeconfig = f"KUBECONFIG={self.state / lab / 'kubeconfig'}"
        done = self.run("env", kubeconfig, "kubectl", "exec", pod, "--", *argv)
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def serve(self, process: int, *argv: object) -> None:
        """Run a program until the end of the world, in the namespaces of that process."""
        program = subprocess.Popen([*_enter(process), *map(str, argv)], stdout=subprocess.DEVNULL)
        self.programs.callback(program.wait)
        self.programs.callback(program.kill)


@contextlib.contextmanager
def gateway_world(user: int = 0) -> Iterator[World]:
    """Make the world, with a directory of the user's that is removed at the end."""
    with contextlib.ExitStack() as stack:
        # Not in pytest's directories, which are closed to other users.
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bridgehead-gateway-", dir="/var/tmp")))
        machine, internet = (stack.enter_context(_namespaces()) for _ in range(2))
        world = World(machine, internet, directory, user, stack.enter_context(contextlib.ExitStack()))
        os.chown(directory, user, user)
        _connect(machine, internet)
        _equip(world)
        names = [f"{WEB_NAME}={WEB}"]
        world.serve(internet, sys.executable, "-c", _SERVER, 80, "the internet")
        world.serve(machine, sys.executable, "-c", _SERVER, LISTENER, "the machine")
        world.serve(machine, sys.executable, _DIRECTORY / "name_server.py", RESOLVER, 53, *names)
        for url in (f"http://{WEB}", f"http://{MACHINE}:{LISTENER}", f"http://[{WEB6}]"):
            eventually(lambda url=url: world.run("curl", "-gs", url).stdout)
        yield world


@contextlib.contextmanager
def _namespaces() -> Iterator[int]:
    """Make namespaces, and yield the process that holds them."""
    with subprocess.Popen(
        ["unshare", "--net", "--mount", "--propagation=private", "sleep", "infinity"], start_new_session=True
    ) as holder:
        try:
            ours = os.stat("/proc/self/ns/net").st_ino
            eventually(lambda: os.stat(f"/proc/{holder.pid}/ns/net").st_ino != ours)
            yield holder.pid
        finally:
            holder.kill()


def _enter(process: int) -> list[str]:
    return ["nsenter", f"--target={process}", "--net", "--mount", "--"]


def _ip(process: int, line: str) -> None:
    done = run(*_enter(process), "ip", *line.split())
    assert done.returncode == 0, f"ip {line}: {done.stderr}"


def _connect(machine: int, internet: int) -> None:
    _ip(machine, f"link add wan type veth peer name wan netns {internet}")
    for process, address, address6 in ((machine, MACHINE, MACHINE6), (internet, ROUTER, ROUTER6)):
        for line in (
            "link set lo up",
            "link set wan up",
            f"address add {address}/24 dev wan",
            f"address add {address6}/64 dev wan nodad",
        ):
            _ip(process, line)
    _ip(machine, f"route add default via {ROUTER}")
    _ip(machine, f"-6 route add default via {ROUTER6}")
    _ip(internet, f"address add {WEB}/32 dev lo")
    _ip(internet, f"address add {WEB6}/128 dev lo nodad")


def _equip(world: World) -> None:
    """Give the machine its files: resolv.conf and /dev/net/tun, with the mode that udev gives it."""
    resolv = world.directory / "resolv.conf"
    resolv.write_text(f"nameserver {RESOLVER}\n")
    devices = world.directory / "devices"
    devices.mkdir()
    tun = devices / "tun"
    for argv in (
        ("mount", "--bind", resolv, os.path.realpath("/etc/resolv.conf")),
        ("mount", "-t", "tmpfs", "tmpfs", devices),
        ("mknod", "-m", "666", tun, "c", 10, 200),
        ("mount", "--bind", tun, "/dev/net/tun"),
    ):
        world.must(*argv, user=0)
