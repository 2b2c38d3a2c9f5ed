"""A machine with canaries, a lab on it, and all attempts of `escape_table` made in that lab.

Canaries are what no pod may see: files of the machine and of the user who started the lab, that user's environment and
keys, a process, root's files in /etc, and the Secret and the IPC objects of another pod on the same node.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import tools

from . import escape_programs, escape_table
from .conftest import BRIDGEHEAD, Lab, eventually, run, running
from .escape_table import Attempt, Container, Row, Scenario

# A user whom no machine has.
UNUSED_ID = 1_999_999_999
PROGRAMS = Path(escape_programs.__file__).read_text()
SETTLE_SECONDS = 60  # on a slow and busy machine; all settle
# A line of a container's log, so that `kubectl logs` would show it.
CANARY_FILE = "2026-01-01T00:00:00.000000000Z stdout F {}\n"

# Run before `up`, by the same process: a key in the session that the lab must not pass on to its pods.
_WITH_A_KEY = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
keyctl, add_key = {"x86_64": (250, 248)}.get(os.uname().machine, (219, 217))
libc.syscall(keyctl, 1, None)
libc.syscall(add_key, b"user", b"canary", sys.argv[1].encode(), len(sys.argv[1]), -3)
command = "from bridgehead.cli import main; main()"
os.execv(sys.executable, [sys.executable, "-c", command, *sys.argv[2:]])
"""

_VICTIM = """
import ctypes, os, signal, socket, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
text = os.environ["IPC"].encode()
signal.signal(signal.SIGUSR1, lambda *_: print("signalled", flush=True))
libc.shmat.restype = ctypes.c_void_p
ctypes.memmove(libc.shmat(libc.shmget(0xB41D, 4096, 0o1666), None, 0), text, len(text))
queue = libc.mq_open(b"/victim", os.O_CREAT | os.O_RDWR, 0o666, None)
libc.mq_send(queue, text, len(text), 0)
open("/dev/shm/victim", "wb").write(text)
def serve():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(chr(0) + "victim")
    listener.listen()
    while True:
        listener.accept()[0].sendall(text)
threading.Thread(target=serve, daemon=True).start()
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("0.0.0.0", int(sys.argv[1])))
open("/ready", "w").close()
while True:
    data, source = datagrams.recvfrom(2000)
    print(data.decode(), "from", source[0], flush=True)
"""


class Handle(ctypes.Structure):
    _fields_ = (("size", ctypes.c_uint), ("type", ctypes.c_int), ("content", ctypes.c_ubyte * 128))


def file_handle(path: Path) -> str:
    """Return a handle of name_to_handle_at(2): the type, a colon, the bytes in hexadecimal."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle, mount = Handle(128, 0), ctypes.c_int()
    if libc.name_to_handle_at(-100, str(path).encode(), ctypes.byref(handle), ctypes.byref(mount), 0) < 0:
        return "1:0200000000000000"
    return f"{handle.type}:{bytes(handle.content[: handle.size]).hex()}"


@dataclass
class Machine:
    """Files and ids of the machine, in a directory that is removed at the end."""

    base: Path
    canaries: dict[str, list[str]] = field(default_factory=dict)

    @property
    def open_directory(self) -> Path:
        """A directory of the machine that every user may read: an escaped process without privileges sees it."""
        return self.base / "machine"

    @property
    def home(self) -> Path:
        return self.base / "home"

    def make_canary(self, kind: str) -> str:
        text = f"CANARY-{kind}-{secrets.token_hex(8)}"
        self.canaries[kind] = [text]
        return text

    def escaped(self) -> set[str]:
        """Return files on the machine whose names only attempts use."""
        found = set()
        for directory in ("/", "/etc", "/root", "/tmp", "/var/tmp", "/home", "/run", str(self.home), str(self.base)):
            with contextlib.suppress(OSError):
                found |= {f"{directory}/{name}" for name in os.listdir(directory) if name.startswith("escaped-")}
        for directory, names, files in os.walk(self.open_directory):
            found |= {f"{directory}/{name}" for name in (*names, *files) if name not in ("canary", "kept")}
        return found


@contextlib.contextmanager
def make_machine(uid: int) -> Iterator[Machine]:
    """`uid` is of the user who will start the lab."""
    base = Path(tempfile.mkdtemp(prefix="bridgehead-escapes-", dir="/var/tmp"))
    machine = Machine(base)
    try:
        base.chmod(0o755)
        for kind, directory, mode in (("machine", machine.open_directory, 0o777), ("home", machine.home, 0o700)):
            directory.mkdir()
            text = machine.make_canary(kind)
            for name in ("canary", "kept"):
                (directory / name).write_text(CANARY_FILE.format(text))
            directory.chmod(mode)
        (base / "state").mkdir(mode=0o700)
        for path in (machine.home, *machine.home.iterdir(), base / "state"):
            os.chown(path, uid, uid)
        for kind in ("state", "environ", "process", "keyring", "secret", "ipc"):
            machine.make_canary(kind)
        machine.canaries["etc"] = list(_root_only("/etc"))
        machine.canaries["homes"] = [text for directory in ("/root", "/home") for text in _entries(directory)]
        yield machine
    finally:
        for name in machine.escaped():
            with contextlib.suppress(OSError):
                os.rmdir(name) if os.path.isdir(name) else os.unlink(name)
        shutil.rmtree(base, ignore_errors=True)


def _root_only(top: str) -> Iterator[str]:
    """Hashes of the files that only root may read."""
    for directory, _, files in os.walk(top):
        for name in files:
            with contextlib.suppress(OSError):
                about = os.lstat(f"{directory}/{name}")
                if stat.S_ISREG(about.st_mode) and about.st_size and not about.st_mode & stat.S_IROTH:
                    yield hashlib.sha256(Path(directory, name).read_bytes()).hexdigest()


def _entries(directory: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            about = entry.stat(follow_symlinks=False)
            yield f"{entry.name}:{about.st_mtime_ns}:{about.st_size}"


def interpreter_for(uid: int) -> str | None:
    """A Python that this user may run, with the modules of ours."""
    for candidate in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        command = [*_as(uid), "env", candidate, "-c", "import bridgehead, msgspec"]
        with contextlib.suppress(OSError):
            if subprocess.run(command, env=_environment(), capture_output=True, check=False).returncode == 0:
                return candidate
    return None


def _as(uid: int) -> list[str]:
    """Arguments to run a program as the user, in the group that may read /etc/shadow, as some users are: no pod may
    read what they may."""
    group = os.stat("/etc/shadow").st_gid
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", f"--groups={group}"] if uid != os.getuid() else []


def _environment() -> dict[str, str]:
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass
class UsersLab(Lab):
    """A lab that another user starts, who has a key and a variable in the environment."""

    uid: int
    python: str
    machine: Machine

    def argv(self, verb: str, *args: object) -> list[object]:
        if self.uid == os.getuid() and verb != "up":
            return [BRIDGEHEAD, verb, "--name", self.name, "--state-dir", self.state_dir, *args]
        variables = {
            "HOME": self.machine.home,
            "PYTHONPATH": f"{_environment()['PYTHONPATH']}{os.pathsep}{self.machine.home}",  # where users keep modules
            "ATTEMPTS": self.machine.canaries["environ"][0],
        }
        assignments = [f"{name}={value}" for name, value in variables.items()]
        start = [self.python, "-c", _WITH_A_KEY, self.machine.canaries["keyring"][0]]
        return [
            *_as(self.uid),
            "env",
            *assignments,
            *start,
            verb,
            "--name",
            self.name,
            "--state-dir",
            self.state_dir,
            *args,
        ]


@dataclass
class Seen:
    """The output of an attempt, and the files that it left on the machine."""

    text: str
    left: set[str] = field(default_factory=set)


class EscapeLab:
    """A lab in which all attempts are made, once; `judge` returns what is wrong with an attempt."""

    def __init__(self, lab: UsersLab, machine: Machine) -> None:
        self.lab = lab
        self.machine = machine
        self.seen: dict[str, Seen] = {}
        self.timings: list[str] = []
        self._began = time.monotonic()
        self.config: dict[str, str] = {}
        self.known: set[str] = set()
        self.escaped: set[str] = set()

    def judge(self, row: Row) -> list[str]:
        seen = self.seen.get(row.name)
        if seen is None or not seen.text or seen.text.startswith(("the attempt failed", "no answer")):
            return ["was not made"]
        problems = [
            f"shows the {kind} canary"
            for kind in row.hidden
            if any(text and text in seen.text for text in self.machine.canaries[kind])
        ]
        problems += [f"left {path} on the machine" for path in sorted(seen.left)]
        if row.expect and not re.search(row.expect, seen.text):
            problems.append(f"does not answer {row.expect!r}")
        if row.forbid and re.search(row.forbid, seen.text):
            problems.append(f"answers {row.forbid!r}")
        return problems

    def damaged(self) -> list[str]:
        """Canaries that are not what they were."""
        directories = {"machine": self.machine.open_directory, "home": self.machine.home}
        return [
            f"{kind}/{name}"
            for kind, directory in directories.items()
            for name in ("canary", "kept")
            if (directory / name).read_text() != CANARY_FILE.format(self.machine.canaries[kind][0])
        ]

    def lap(self, what: str) -> None:
        self.timings.append(f"{time.monotonic() - self._began:5.1f} s {what}")

    # Making it.

    def kubectl(self, *args: object, stdin: str | None = None) -> str:
        result = self.lab.kubectl(*args, stdin=stdin)
        assert result.returncode == 0, f"kubectl {args}: {result.stderr}"
        return result.stdout

    def request(self, path: str, body: Any = None) -> tuple[int, str]:
        """One request to the API, a POST where there is a body; its status and answer."""
        data = None if body is None else json.dumps(body)
        status, answer = self.lab.api.request("GET" if data is None else "POST", path, data)
        return status, answer.decode("utf-8", "replace")

    def get(self, path: str) -> Any:
        status, answer = self.request(path)
        assert status == 200, answer
        return json.loads(answer)

    def events(self) -> list[dict[str, Any]]:
        return self.get("/api/v1/namespaces/attacker/events")["items"]

    def log(self, namespace: str, pod: str, container: str = "c") -> str:
        return self.request(f"/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}")[1]

    def fill(self, manifest: Any) -> str:
        text = json.dumps(manifest)
        for name, path in (
            ("@MACHINE@", self.machine.open_directory),
            ("@HOME@", self.machine.home),
            ("@STATE@", self.lab.state_dir),
        ):
            text = text.replace(name, str(path))
        return text

    def apply(self, namespace: str, pods: list[dict[str, Any]]) -> None:
        self.kubectl(
            "-n", namespace, "apply", "-f", "-", stdin=self.fill({"apiVersion": "v1", "kind": "List", "items": pods})
        )

    def pods(self, namespace: str) -> dict[str, dict[str, Any]]:
        items = self.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return {item["metadata"]["name"]: item for item in items}

    def wait_running(self, namespace: str, names: set[str]) -> None:
        """Attempts in a pod that does not become ready fail by themselves."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            found = self.pods(namespace)
            ready = {
                name
                for name, pod in found.items()
                if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
            }
            if ready >= names:
                break
            time.sleep(0.2)

    def make_attempts(self) -> None:
        """All of them; afterwards `seen` is complete."""
        (self.lab.state_dir / "canary").write_text(self.machine.canaries["state"][0])
        self.make_images()
        self.start_victim()
        self.lap("victim")
        with self.machine_server() as port, self.machine_process():
            config = self.configuration(port)
            self.apply("attacker", escape_table.RUNNING_PODS)
            self.apply("attacker", [self.first_process_pod(config)])
            names = {pod["metadata"]["name"] for pod in escape_table.RUNNING_PODS}
            self.wait_running("attacker", names)
            config["neighbour"] = self.pods("attacker")["nginx"]["status"]["podIP"]
            self.lap("pods")
            self.config = config
            self.apply("attacker", escape_table.once_pods())
            with ThreadPoolExecutor(4) as pool:
                by_pod: dict[str, list[Attempt]] = {}
                for row in escape_table.attempts():
                    if not row.main:
                        by_pod.setdefault(row.pod, []).append(row)
                list(pool.map(lambda rows: self.run_in_pod(rows, config), by_pod.values()))
            self.lap("attempts")
            self.observe_first_process()
            self.observe_containers()
            self.lap("containers")
            self.make_scenarios()
            self.escaped = self.machine.escaped()
            self.lap("scenarios")

    def make_scenarios(self) -> None:
        from .escape_scenarios import SCENARIOS

        def make(item: tuple[str, tuple[Callable[[EscapeLab], str], Scenario]]) -> None:
            name, (function, _) = item
            began = time.monotonic()
            try:
                self.seen[name] = Seen(function(self))
            except Exception as error:  # noqa: BLE001 - the row fails, the others are made
                self.seen[name] = Seen(f"the attempt failed: {type(error).__name__}: {error}")
            self.timings.append(f"{time.monotonic() - began:5.2f} s scenario: {name}")

        together = [item for item in SCENARIOS.items() if not item[1][1].is_alone]
        alone = [item for item in SCENARIOS.items() if item[1][1].is_alone]
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(make, together))
        for item in alone:
            make(item)

    def start_victim(self) -> None:
        for namespace in ("victim", "attacker"):
            self.kubectl("create", "namespace", namespace)
        self.kubectl(
            "-n", "victim", "create", "secret", "generic", "canary",
            f"--from-literal=password={self.machine.canaries['secret'][0]}",
        )  # fmt: skip
        for namespace in ("victim", "attacker"):
            eventually(
                lambda namespace=namespace: (
                    self.lab.kubectl(
                        "-n", namespace, "get", "serviceaccount/default", "configmap/kube-root-ca.crt"
                    ).returncode
                    == 0
                )
            )
        container = {
            "name": "c",
            "image": "busybox",
            "command": ["python3", "-c", _VICTIM, str(escape_table.UDP_PORT)],
            "env": [
                {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "canary", "key": "password"}}},
                {"name": "IPC", "value": self.machine.canaries["ipc"][0]},
            ],
            "volumeMounts": [escape_table.at("/secret")],
            "readinessProbe": {"exec": {"command": ["test", "-e", "/ready"]}, "periodSeconds": 1},
        }
        self.apply(
            "victim",
            [escape_table.pod("victim", container, volumes=[{"name": "v", "secret": {"secretName": "canary"}}])],
        )
        self.wait_running("victim", {"victim"})

    def configuration(self, port: int) -> dict[str, str]:
        node = json.loads(self.kubectl("get", "node", "node1", "-o", "json"))
        return {
            "machine": str(self.machine.open_directory),
            "home": str(self.machine.home),
            "handle": file_handle(self.machine.open_directory / "canary"),
            "port": str(port),
            "udp": str(escape_table.UDP_PORT),
            "victim": self.pods("victim")["victim"]["status"]["podIP"],
            "node": next(a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"),
            "volume": "/volume",
            "api": self.lab.api.host,
            "state": str(self.lab.state_dir),
        }

    def run_in_pod(self, rows: list[Attempt], config: dict[str, str]) -> None:
        """Rows with the same configuration in one go."""
        groups: dict[str, list[Attempt]] = {}
        for row in rows:
            groups.setdefault(json.dumps(config | row.config), []).append(row)
        for configuration, group in groups.items():
            programs = list(dict.fromkeys(row.program for row in group))
            result = self.run_programs(group[0].pod, configuration, *programs)
            self.record(group, result.stdout, result.stderr)

    def run_programs(self, pod: str, configuration: str, *programs: str) -> subprocess.CompletedProcess[str]:
        return self.execute(pod, "python3", "-", configuration, *programs, stdin=PROGRAMS)

    def execute(self, pod: str, *argv: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in a running pod, as `kubectl exec` does, which takes 0.1 s more."""
        return self.lab.api.execute(f"/api/v1/namespaces/attacker/pods/{pod}", argv, stdin)

    def run_program(self, pod: str, program: str) -> str:
        """The output of one attempt in a running pod."""
        result = self.run_programs(pod, json.dumps(self.config), program)
        return json.loads(result.stdout)["seen"] if result.returncode == 0 else result.stderr

    def record(self, rows: list[Attempt], output: str, errors: str) -> None:
        answers = {}
        for line in output.splitlines():
            with contextlib.suppress(ValueError, TypeError, KeyError):
                answer = json.loads(line)
                answers[answer["attempt"]] = answer["seen"]
                self.timings.append(f"{answer['seconds']:5.2f} s {rows[0].pod}: {answer['attempt']}")
        for row in rows:
            self.seen[row.name] = Seen(answers.get(row.program, f"no answer: {errors}"))

    # Attempts of a container's first process.

    def first_process_pod(self, config: dict[str, str]) -> dict[str, Any]:
        programs = list(dict.fromkeys(row.program for row in escape_table.attempts() if row.main))
        command = ["python3", "-c", PROGRAMS, json.dumps(config), *programs]
        assert "$(" not in PROGRAMS, "a container's command expands $(NAME)"
        return escape_table.pod(escape_table.MAIN_POD, {"name": "c", "image": "busybox", "command": command})

    def observe_first_process(self) -> None:
        self.settle({escape_table.MAIN_POD})
        rows = [row for row in escape_table.attempts() if row.main]
        self.record(rows, self.log("attacker", escape_table.MAIN_POD), "")

    # Containers that are looked at.

    def settle(self, names: set[str]) -> dict[str, dict[str, Any]]:
        """Wait until each container has ended or has a reason why it does not start, for a bounded time."""

        def is_settled(pod: dict[str, Any]) -> bool:
            if pod["status"]["phase"] in ("Succeeded", "Failed"):
                return True
            statuses = pod["status"].get("containerStatuses", [])
            states = [status["state"] for status in statuses]
            return len(states) == len(pod["spec"]["containers"]) and all(
                "terminated" in state
                or state.get("waiting", {}).get("reason", "ContainerCreating")
                not in ("ContainerCreating", "PodInitializing")
                for state in states
            )

        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            pods = {name: pod for name, pod in self.pods("attacker").items() if name in names}
            waiting = {name for name, pod in pods.items() if not is_settled(pod)}
            waiting -= self.pods_with_failed_mounts() if waiting else set()
            if time.monotonic() > deadline:
                self.timings.append(f"not settled: {waiting}")
            if not waiting or time.monotonic() > deadline:
                return pods
            time.sleep(0.3)

    def pods_with_failed_mounts(self) -> set[str]:
        events = self.events()
        return {
            e["involvedObject"]["name"] for e in events if e["reason"] in ("FailedMount", "InspectFailed", "Failed")
        }

    def observe_containers(self) -> None:
        rows = escape_table.containers()
        pods = self.settle({row.pod for row in rows})
        events = self.events()

        def observe(row: Container) -> None:
            log = self.log("attacker", row.pod, row.container)
            messages = [e["message"] for e in events if e["involvedObject"]["name"] == row.pod]
            statuses = pods[row.pod]["status"].get("containerStatuses", [])
            state = [status for status in statuses if status["name"] == row.container]
            self.seen[row.name] = Seen("\n".join([log, json.dumps(state), *messages]))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(observe, rows))

    # The machine's side.

    def make_images(self) -> None:
        """The store's hostile images: BusyBox with its libraries, and links where directories should be."""
        store = self.lab.state_dir / "images"
        binary = shutil.which("busybox")
        assert binary is not None
        libraries = re.findall(r"(/\S+) \(0x", run("ldd", binary).stdout)
        for name, image in escape_table.IMAGES.items():
            directory = store / "example.com" / "attempts" / f"{name}:1"
            root = directory / "rootfs"
            for path in ("bin", "etc", "tmp", "proc", "dev", "sys"):
                (root / path).mkdir(parents=True)
            (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
            shutil.copy(binary, root / "bin/busybox")
            for library in libraries:
                (root / library.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, root / library.lstrip("/"))
            for path, target in image.links.items():
                link = root / path
                if link.is_dir():
                    shutil.rmtree(link)
                link.unlink(missing_ok=True)
                link.symlink_to(json.loads(self.fill(target)))
            if image.device and os.geteuid() == 0:
                os.mknod(root / "device", stat.S_IFBLK | 0o666, os.makedev(7, 0))
            if image.archive:
                (root / "archive").write_bytes(self.archive())
                (root / "bin/tar").write_text("#!/bin/busybox sh\nexec /bin/busybox cat /archive\n")
                (root / "bin/tar").chmod(0o755)
            (directory / "image.json").write_text(json.dumps(image.configuration))
        program = self.machine.open_directory / "program"
        program.write_text(f"#!/bin/sh\necho OPEN {self.machine.canaries['machine'][0]}\n")
        program.chmod(0o755)
        self.known = self.machine.escaped()
        for top, names, files in os.walk(store):
            for owned in (top, *(f"{top}/{name}" for name in (*names, *files))):
                os.chown(owned, self.lab.uid, self.lab.uid, follow_symlinks=False)

    def archive(self) -> bytes:
        """An archive as `kubectl cp POD:/data` would get it; only `good` is where it belongs."""
        buffer = io.BytesIO()
        machine = str(self.machine.open_directory)
        entries = [
            ("data/good", b"", ""),
            ("data/../../escaped-copy", b"", ""),
            ("../escaped-copy", b"", ""),
            (f"{machine}/escaped-copy", b"", ""),
            ("data/link", tarfile.SYMTYPE, machine),
            ("data/link/escaped-copy", b"", ""),
            ("data/up", tarfile.SYMTYPE, ".."),
            ("data/up/escaped-copy", b"", ""),
            ("data/hard", tarfile.LNKTYPE, f"{machine}/canary"),
        ]
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name, kind, link in entries:
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname, entry.mode = kind or tarfile.REGTYPE, link, 0o644
                archive.addfile(entry)
        return buffer.getvalue()

    @contextlib.contextmanager
    def machine_server(self) -> Iterator[int]:
        """A server on the machine's loopback that answers with a canary."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            text = self.machine.canaries["machine"][0].encode()

            def serve() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        stream, _ = listener.accept()
                        with stream:
                            stream.sendall(text)

            threading.Thread(target=serve, daemon=True).start()
            yield listener.getsockname()[1]
            listener.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def machine_process(self) -> Iterator[None]:
        with running(self.machine.canaries["process"][0], "600", executable=shutil.which("sleep")):
            yield


@contextlib.contextmanager
def make_escape_lab(kind: str) -> Iterator[EscapeLab]:
    """`kind`: "root" or "ordinary user"."""
    for tool in ("python3", "busybox"):  # in /usr/bin, where pods see the machine's programs
        tools.require(tool, path="/usr/bin:/bin")
    uid = os.getuid()
    if kind == "root" and uid != 0:
        pytest.skip("needs root")
    python: str | None = sys.executable
    if kind == "ordinary user" and uid == 0:
        uid = UNUSED_ID
        python = interpreter_for(uid)
        if python is None:
            pytest.skip("no interpreter that an ordinary user may run")
    with make_machine(uid) as machine:
        lab = UsersLab(
            f"escapes-{'root' if kind == 'root' else 'user'}", machine.base / "state", uid, str(python), machine
        )
        try:
            up = lab.command("up", "--detach", "--nodes=1", "--no-balancer")
            assert up.returncode == 0, up.stderr
            escape_lab = EscapeLab(lab, machine)
            escape_lab.make_attempts()
            yield escape_lab
        finally:
            lab.command("down", "--delete")
