"""`bridgehead apiserver` as a process with its own CA, for tests with real clients."""

from __future__ import annotations

import contextlib
import functools
import http.client
import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bridgehead.tls_certificates import verifying_context
from tests import forks
from tests.forks import Forked

from .api_world import hold_port
from .certificates import PEM, PKCS8, Authority

DEADLINE = 100.0

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: nginx, ports: [{containerPort: 80}]}
"""


def write_files(directory: Path) -> None:
    """Write the files of a server and its clients: certificates of the server and an admin, keys, a token."""
    authority = Authority(directory)
    authority.issue("server", "apiserver")
    authority.issue("admin", "kubernetes-admin", "system:masters")
    authority.issue("node1", "system:node:node1", "system:nodes")
    (directory / "sa.key").write_bytes(_signing_key())
    (directory / "tokens.csv").write_text('admin-token,token-admin,1,"system:masters"\nbob-token,bob,2\n')


@functools.cache
def _signing_key() -> bytes:
    """Make a key once for all servers, because it takes a tenth of a second."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(PEM, PKCS8, serialization.NoEncryption())


@dataclass
class ServerProcess:
    """An API server process with an inherited listening socket. `kubectl` runs as the admin. Owners call `close`."""

    directory: Path
    store: str = "memory"  # "": that of `options`
    options: dict[str, object] = field(default_factory=dict)  # further ones of the command; True: without a value
    inherits_socket: bool = True  # False: clients are refused until it serves
    probe: str = "/readyz"  # a path that needs no credentials
    _held: socket.socket = field(default_factory=hold_port)  # keeps the port between two starts
    _process: Forked | None = field(default=None)

    @property
    def port(self) -> int:
        port: int = self._held.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def context(self, user: str = "") -> ssl.SSLContext:
        context = verifying_context(cafile=self.directory / "ca.crt")
        if user:
            context.load_cert_chain(self.directory / f"{user}.crt", self.directory / f"{user}.key")
        return context

    def start(self) -> None:
        here = self.directory
        with contextlib.ExitStack() as stack:
            log = stack.enter_context((here / "log").open("ab")).fileno()
            streams = [stack.enter_context(open(os.devnull, "rb")).fileno(), log, log]
            if self.inherits_socket:
                listener = stack.enter_context(socket.create_server(("127.0.0.1", self.port)))
                streams.append(listener.fileno())
            options = {
                **({"listen-fd": 3} if self.inherits_socket else {"listen": f"127.0.0.1:{self.port}"}),  # see `streams`
                "tls-cert-file": here / "server.crt",
                "tls-private-key-file": here / "server.key",
                "client-ca-file": here / "ca.crt",
                "token-auth-file": here / "tokens.csv",
                "service-account-key-file": here / "sa.key",
                "advertise-address": "10.0.0.1:6443",
                "store": self.store,
                **self.options,
            }
            arguments = [f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items()]
            self._process = forks.fork_bridgehead("apiserver", *arguments, streams=streams)
        try:
            self._wait(self._process)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise RuntimeError((here / "log").read_text()) from error

    def _wait(self, process: Forked) -> None:
        """Wait until it serves. At an inherited socket, which is open already, the first request waits."""
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                self.read(self.probe)
                return
            except (OSError, http.client.HTTPException):
                if self.inherits_socket or not process.is_running() or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)

    def read(self, path: str, *, user: str = "", token: str = "") -> bytes:
        """Return the body of a path. Raises `urllib.error.HTTPError`."""
        request = urllib.request.Request(self.url + path)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, context=self.context(user), timeout=DEADLINE) as response:
                body: bytes = response.read()
        except urllib.error.HTTPError as error:
            error.close()  # the connection, whose end nobody has read
            raise
        return body

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    def memory_bytes(self) -> int:
        return self._memory("VmRSS:")

    def peak_memory_bytes(self) -> int:
        """Return the peak memory of the process."""
        return self._memory("VmHWM:")

    def _memory(self, field: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * int(status.partition(field)[2].split()[0])

    def send_signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop the process by a signal; return its exit code."""
        if self._process is None:
            return 0
        self.send_signal(number)
        process, self._process = self._process, None
        return process.wait(DEADLINE)

    def kill(self) -> None:
        """End the process without notice; it may be started again."""
        self.stop(signal.SIGKILL)

    def close(self) -> None:
        """Stop the process, also after a failure."""
        self._held.close()
        self.kill()

    @contextlib.contextmanager
    def running(self) -> Iterator[ServerProcess]:
        """Serve new clients, who have a kubeconfig, during the block; then end without an error."""
        with contextlib.closing(self):
            write_files(self.directory)
            self.start()
            self.write_kubeconfig()
            yield self
            assert self.stop() == 0

    def write_kubeconfig(self) -> None:
        here = self.directory
        (here / "kubeconfig").write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
            f"clusters: [{{name: c, cluster: {{server: '{self.url}', certificate-authority: {here / 'ca.crt'}}}}}]\n"
            f"users: [{{name: u, user: {{client-certificate: {here}/admin.crt, client-key: {here}/admin.key}}}}]\n"
            "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
        )

    def environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.directory / "kubeconfig"), "HOME": str(self.directory)}

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            env=self.environment(),
        )
