"""Real etcds, on loopback or other hosts: a cluster of one member or more, with TLS and authentication if wanted."""

from __future__ import annotations

import contextlib
import datetime
import functools
import http.client
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .api_world import hold_port
from .certificates import Authority

DEADLINE = 60.0
# Each member reserves two segments of 64 MB for its log.
_NEEDED_BYTES = 2**30


@dataclass(frozen=True)
class Host:
    """Where a member runs: its address, and a command that runs another one there, such as `ip netns exec NAME`."""

    address: str = "127.0.0.1"
    command: tuple[str, ...] = ()


class EtcdMember:
    """One etcd process. Its ports stay reserved between two starts, if its host is this one."""

    def __init__(self, name: str, directory: Path, scheme: str, host: Host) -> None:
        self.name = name
        self.directory = directory
        self._scheme = scheme
        self._host = host
        self._held = [hold_port() for _ in range(3)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def client_url(self) -> str:
        return f"{self._scheme}://{self._host.address}:{self.port}"

    @property
    def port(self) -> int:
        return _port(self._held[0])

    @property
    def peer_url(self) -> str:
        return f"http://{self._host.address}:{_port(self._held[1])}"

    @property
    def metrics_url(self) -> str:
        """The URL of /health and /metrics, always without TLS."""
        return f"http://{self._host.address}:{_port(self._held[2])}"

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def start(self, initial_cluster: str, options: dict[str, object]) -> None:
        """Start the process without waiting for it."""
        chosen = {
            "name": self.name,
            "data-dir": self.directory / f"{self.name}.etcd",
            "listen-client-urls": self.client_url,
            "advertise-client-urls": self.client_url,
            "listen-peer-urls": self.peer_url,
            "initial-advertise-peer-urls": self.peer_url,
            "listen-metrics-urls": self.metrics_url,
            "initial-cluster": initial_cluster,
            **({"unsafe-no-fsync": "true"} if _can_skip_fsync() else {}),
            **options,
        }
        argv = [*self._host.command, "etcd", *(f"--{name}={value}" for name, value in chosen.items())]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def is_healthy(self) -> bool:
        """Return whether the member serves requests of clients, with a leader."""
        try:
            with urllib.request.urlopen(f"{self.metrics_url}/health", timeout=5) as answer:
                healthy: bool = b"true" in answer.read()
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except (OSError, http.client.HTTPException):
            return False
        return healthy

    def wait(self) -> None:
        """Wait until it is healthy. Raises RuntimeError with the end of the log."""
        deadline = time.monotonic() + DEADLINE
        while not self.is_healthy():
            if time.monotonic() > deadline or self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"{self.name} does not serve:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.05)

    def pause(self) -> None:
        """Make the member hang, with its connections open; return when all its threads have stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        deadline = time.monotonic() + DEADLINE
        while any(_state(task) != "T" for task in Path(f"/proc/{self.pid}/task").iterdir()):
            assert time.monotonic() < deadline, f"{self.name} does not stop"
            time.sleep(0.001)

    def resume(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the process, in order or by SIGKILL; it may be started again with its data."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(signal.SIGCONT)
        process.send_signal(number)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        for held in self._held:
            held.close()


@dataclass
class EtcdCluster:
    """Members of one cluster, each a process. Owners call `close`, or use `running`.

    `directory` gets certificates: with `tls`, `ca.crt`, `etcd.crt` of the members and `client.crt` of clients, which
    must have one (and `expired.crt`, of a client as well).
    `options` are further ones of `etcd`, such as {"quota-backend-bytes": 2**24}. `data` is where its files are; None:
    in memory if there is room.
    """

    directory: Path
    size: int = 1
    tls: bool = False
    options: dict[str, object] = field(default_factory=dict)
    certificate_until: datetime.datetime | None = None  # the end of the members' certificate; None: tomorrow
    data: Path | None = None
    hosts: Sequence[Host] = ()  # of each member, instead of loopback
    members: list[EtcdMember] = field(default_factory=list)
    _data: Path = field(default_factory=Path)

    def __post_init__(self) -> None:
        self._data = Path(tempfile.mkdtemp(prefix="etcd-", dir=self.data or _fast_directory(self.directory)))
        scheme = "https" if self.tls else "http"
        hosts = self.hosts or [Host()] * self.size
        self.members = [EtcdMember(f"etcd{number}", self._data, scheme, host) for number, host in enumerate(hosts)]
        if self.tls:
            authority = Authority(self.directory)
            yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
            authority.issue("etcd", "etcd", until=self.certificate_until)
            authority.issue("expired", "client", until=yesterday)
            authority.issue("client", "client")
            self.options = {
                "cert-file": self.directory / "etcd.crt",
                "key-file": self.directory / "etcd.key",
                "trusted-ca-file": self.directory / "ca.crt",
                "client-cert-auth": "true",
                **self.options,
            }

    @property
    def client_urls(self) -> tuple[str, ...]:
        return tuple(member.client_url for member in self.members)

    def start(self) -> None:
        """Start all members that do not run, and wait until they serve."""
        for member in self.members:
            self.start_member(member)
        for member in self.members:
            member.wait()

    def start_member(self, member: EtcdMember) -> None:
        """Start a member that may have been stopped, without waiting."""
        if member._process is None:
            cluster = ",".join(f"{each.name}={each.peer_url}" for each in self.members)
            member.start(cluster, self.options)

    def etcdctl(self, *arguments: str, user: str = "") -> str:
        """Return the output of an `etcdctl` command; `user` is NAME:PASSWORD."""
        argv = ["etcdctl", f"--endpoints={','.join(self.client_urls)}", "--command-timeout=30s"]
        if user:
            argv.append(f"--user={user}")
        if self.tls:
            here = self.directory
            argv += [f"--cacert={here}/ca.crt", f"--cert={here}/client.crt", f"--key={here}/client.key"]
        result = subprocess.run(
            [*argv, *arguments],
            env={"ETCDCTL_API": "3", "PATH": "/usr/bin:/bin:/usr/local/bin"},
            capture_output=True,
            text=True,
            errors="replace",  # values may be encrypted
            timeout=DEADLINE,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    def enable_authentication(self, password: str) -> None:
        """Demand a user and password from now on; `root` has this password."""
        self.etcdctl("user", "add", f"root:{password}")
        self.etcdctl("user", "grant-role", "root", "root")
        self.etcdctl("auth", "enable")

    def close(self) -> None:
        """End all members and delete their data."""
        for member in self.members:
            member.close()
        shutil.rmtree(self._data, ignore_errors=True)

    @contextlib.contextmanager
    def running(self) -> Iterator[EtcdCluster]:
        with contextlib.closing(self):
            self.start()
            yield self


def _state(task: Path) -> str:
    """Return the state of a thread by its directory in /proc."""
    return (task / "stat").read_text().rpartition(") ")[2][0]


def _port(held: socket.socket) -> int:
    port: int = held.getsockname()[1]
    return port


def _fast_directory(otherwise: Path) -> Path:
    """Return a directory in memory if it has room: etcd waits for the disk at every write."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > _NEEDED_BYTES else otherwise


@functools.cache
def _can_skip_fsync() -> bool:
    help_text = subprocess.run(["etcd", "--help"], capture_output=True, text=True, timeout=DEADLINE)
    return "--unsafe-no-fsync" in help_text.stdout + help_text.stderr
