"""kube-apiserver 1.20.2 with etcd, compiled from Debian's source, to be measured beside this project's API server."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.api_world import hold_port
from tests.kubernetes_source import KUBE_APISERVER

from bridgehead.tls_certificates import verifying_context

_DEADLINE = 120.0


def why_missing() -> str:
    """Return what is missing to run it, with what to do, or ""."""
    if not KUBE_APISERVER.exists():
        return "not compiled (python -m benchmarks.kube_apiserver)"
    return "" if shutil.which("etcd") else "etcd is missing (Debian: apt-get install etcd-server)"


@dataclass
class KubeApiServer:
    """Both processes; `directory` has the files of `apiserver_process.write_files`. Owners call `close`.

    `etcd` is the URL of an etcd that runs already, in place of an own one. `options` are further ones of the server.
    """

    directory: Path
    etcd: str = ""
    options: dict[str, object] = field(default_factory=dict)
    _held: list[socket.socket] = field(default_factory=lambda: [hold_port() for _ in range(3)])
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def port(self) -> int:
        port: int = self._held[0].getsockname()[1]
        return port

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def context(self, user: str = "") -> ssl.SSLContext:
        context = verifying_context(cafile=self.directory / "ca.crt")
        if user:
            context.load_cert_chain(self.directory / f"{user}.crt", self.directory / f"{user}.key")
        return context

    def read(self, path: str, *, user: str = "") -> bytes:
        """Return the body of a path. Raises `urllib.error.HTTPError`."""
        url = f"https://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(url, context=self.context(user), timeout=_DEADLINE) as response:
            body: bytes = response.read()
        return body

    def start(self) -> None:
        """Start them and wait until they are ready. Raises RuntimeError with the end of the log."""
        here = self.directory
        client, peer = (f"http://127.0.0.1:{held.getsockname()[1]}" for held in self._held[1:])
        if not self.etcd:
            self._run(
                "etcd",
                **{
                    "data-dir": here / "etcd",
                    "listen-client-urls": client,
                    "advertise-client-urls": client,
                    "listen-peer-urls": peer,
                    "initial-advertise-peer-urls": peer,
                    "initial-cluster": f"default={peer}",
                    "quota-backend-bytes": 8 * 2**30,
                },
            )
        self._run(
            str(KUBE_APISERVER),
            **{
                "etcd-servers": self.etcd or client,
                "secure-port": self.port,
                "bind-address": "127.0.0.1",
                "advertise-address": "10.0.0.1",
                "endpoint-reconciler-type": "none",
                "tls-cert-file": here / "server.crt",
                "tls-private-key-file": here / "server.key",
                "client-ca-file": here / "ca.crt",
                "service-account-key-file": here / "sa.key",
                "service-account-signing-key-file": here / "sa.key",
                "service-account-issuer": "https://kubernetes.default.svc",
                "service-cluster-ip-range": "10.96.0.0/12",
                "authorization-mode": "RBAC",
                "allow-privileged": "true",  # as kubeadm has it
                **self.options,
            },
        )
        deadline = time.monotonic() + _DEADLINE
        while not self._is_ready():
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._processes):
                raise RuntimeError((here / "log").read_text()[-2000:])
            time.sleep(0.1)

    def _run(self, program: str, **options: object) -> None:
        argv = [program, *(f"--{name}={value}" for name, value in options.items())]
        with (self.directory / "log").open("ab") as log:
            self._processes.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def _is_ready(self) -> bool:
        try:
            self.read("/readyz", user="admin")
            self.read("/api/v1/namespaces/default", user="admin")  # which it makes after its start
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def close(self) -> None:
        """Stop the processes, kube-apiserver first: it waits for etcd."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for held in self._held:
            held.close()


if __name__ == "__main__":
    from tests.kubernetes_source import compile_kube_apiserver

    compile_kube_apiserver()
