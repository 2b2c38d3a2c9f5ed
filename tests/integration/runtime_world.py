"""A node for tests of the runtime: PID, mount and network namespaces, and optionally a user namespace, with a runtime.

The node's first process restarts the runtime when it dies, as a lab's first process does. Its address is 10.0.0.201.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from bridgehead.kubelet.runtimes.runtime import ContainerInfo, ContainerSpec, RuntimeFailure, SandboxSpec
from bridgehead.kubelet.runtimes.wire.client import RuntimeClient

T = TypeVar("T")

NODE_ADDRESS = "10.0.0.201"
NOBODY = 65534
FIRST_ID = 0x50000000  # of a range that no user has
FIRST_POD_ID = 0x60000000  # of ranges for two pods with users of their own
DEADLINE = 100.0
SHELL = "busybox"

IN_RANGE = f"""
import os, sys
from bridgehead.kubelet.runtimes.isolation import cgroups
from bridgehead.lab import ids, user_namespace
if directory := sys.argv.pop(1):
    cgroups.Prepared(directory).enter()
user_namespace.enter(user_namespace.make(ids.map_range({FIRST_ID}, ids.IdRange({FIRST_POD_ID}, 2 * 65536))))
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Node(NamedTuple):
    directory: Path
    process: subprocess.Popen[bytes]
    in_user_namespace: bool
    has_range: bool

    @property
    def images(self) -> Path:
        return self.directory / "images"


class World:
    """A node, a client of its runtime, and what tests do with them."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.directory = node.directory / uuid.uuid4().hex
        self.directory.mkdir(mode=0o777)
        self.directory.chmod(0o777)
        self.client = RuntimeClient(str(self.socket_path))
        self.images = node.images
        self._enter = ["--user"] if node.in_user_namespace else []
        if node.in_user_namespace and not node.has_range:  # such a namespace permits no change of groups
            self._enter.append("--preserve-credentials")
        self._addresses = 0

    @property
    def socket_path(self) -> Path:
        return self.node.directory / "runtime.sock"

    def run(self, *argv: str) -> str:
        """Run a command on the node, outside its pods; its output. Raises CalledProcessError with that output."""
        [first] = Path(f"/proc/{self.node.process.pid}/task/{self.node.process.pid}/children").read_text().split()
        command = ["nsenter", f"--target={first}", "--mount", "--net", "--pid", *self._enter, "--", *argv]
        done = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False, text=True)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, argv, done.stdout, done.stderr)
        return done.stdout

    async def pod(self, uid: str, *, host_network: bool = False, also: tuple[str, ...] = (), **fields: Any) -> str:
        """A sandbox of that uid; its IPv4 address. `also` are further ones."""
        self._addresses += 1
        ip = f"10.244.1.{self._addresses}"
        await self.client.run_sandbox(
            SandboxSpec(
                pod_uid=uid,
                namespace="default",
                name=uid,
                hostname=uid,
                host_network=host_network,
                ips=() if host_network else (ip, *also),
                **fields,
            )
        )
        return ip

    async def start(self, pod: str, name: str = "c", *, image: str = SHELL, **fields: Any) -> ContainerInfo:
        found = await self.client.find_image(image)
        values = {"attempt": 0, "log_path": str(self.log_path(pod, name)), **fields}
        return await self.client.start_container(ContainerSpec(pod_uid=pod, name=name, image=found, **values))

    async def run_to_end(self, pod: str, script: str, name: str = "c", **fields: Any) -> ContainerInfo:
        """A container that runs a shell script, after its end."""
        started = await self.start(pod, name, command=("sh", "-c", script), **fields)
        return await self.wait_exit(started.id)

    async def wait_exit(self, container_id: str) -> ContainerInfo:
        async def exited() -> ContainerInfo | None:
            for container in await self.client.list_containers():
                if container.id == container_id and container.state == "exited":
                    return container
            return None

        return await until(exited)

    async def sh(self, container: ContainerInfo, script: str) -> str:
        """Run a shell script in a container; its output, which must come with exit code 0."""
        result = await self.client.exec_in_container(container.id, ("sh", "-c", script), timeout=DEADLINE)
        output = result.output.decode()
        if result.exit_code:
            raise AssertionError(f"{script!r} exited with {result.exit_code}: {output}")
        return output

    async def wait_port(self, pod: str, port: int) -> None:
        """Wait until a process listens there."""

        async def listens() -> bool:
            try:
                (await self.client.open_port(pod, port)).close()
            except RuntimeFailure:
                return False
            return True

        await until(listens)

    async def until_no_process(self, command: str) -> None:
        """Wait until the kernel has ended it, on the node and in all pods."""

        async def is_gone() -> bool:
            return command not in self.run("ps", "ax")

        await until(is_gone)

    def log_path(self, pod: str, name: str) -> Path:
        return self.directory / "logs" / pod / name / "0.log"

    def log(self, pod: str, name: str = "c") -> list[str]:
        """The lines of a container's log, without their times."""
        return [line.split(" ", 1)[1] for line in self.log_path(pod, name).read_text().splitlines()]

    def runtime_pid(self) -> int:
        """Return the runtime's PID in the node's PID namespace."""
        return int(self.run("cat", str(self.node.directory / "runtime.pid")))


async def until(probe: Callable[[], Awaitable[T | None]]) -> T:
    """Return the first result of `probe` that isn't None or False."""
    async with asyncio.timeout(DEADLINE):
        while not (found := await probe()):  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.01)
        return found


def python_for_nobody() -> str | None:
    """An interpreter that an ordinary user may run, with the modules of this one; None when there is none."""
    for candidate in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        # `env` starts the program, as setpriv itself still has root's capabilities when it looks one up.
        command = [*_as_nobody(), "env", candidate, "-c", "import bridgehead, msgspec"]
        with contextlib.suppress(OSError):
            if subprocess.run(command, env=_environment(), capture_output=True, check=False).returncode == 0:
                return candidate
    return None


def _as_nobody() -> list[str]:
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def _environment() -> dict[str, str]:
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


@contextlib.contextmanager
def make_node(
    mode: str, cgroup: str = "", fill: Callable[[Path], None] | None = None, *, hidden: str = ""
) -> Iterator[Node]:
    """`mode`: "root" (no user namespace), "user" (one of the user who runs the tests), "nobody" (one of that user),
    "range" (one with a range of ids, as in a lab of root), "container" (one on a machine on which something is mounted
    in /etc, as in a Docker container), "stacked" (one on whose file systems the kernel refuses an overlay, because they
    are overlays over overlays). `cgroup`: what was delegated to `FIRST_ID`, for a node with a range. `fill` is called
    with the node's directory before the node starts. `hidden`: a program that the node's machine
    lacks, with the mode "root"."""
    python, prefix = sys.executable, []
    if mode != "user" and os.geteuid() != 0:
        pytest.skip("needs root")
    # A directory beside pytest's, into which other users may not look.
    with tempfile.TemporaryDirectory(prefix="bridgehead-node-", ignore_cleanup_errors=True) as directory:
        if mode in ("nobody", "range"):
            found = python_for_nobody()
            if found is None:
                pytest.skip("no interpreter that an ordinary user may run")
            python, user = found, NOBODY if mode == "nobody" else FIRST_ID
            prefix = _as_nobody() if mode == "nobody" else [sys.executable, "-c", IN_RANGE, cgroup]
            os.chown(directory, user, user)
        if fill is not None:
            fill(Path(directory))
        namespaces = ["--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
        if mode not in ("root", "range", "stacked"):
            namespaces += ["--user", "--map-root-user"]
        if hidden:
            prefix = ["unshare", "--mount", "sh", "-c", f'{_hide(hidden, directory)}exec "$@"', "sh"]
        if mode == "container":
            prefix = ["unshare", "--mount", "sh", "-c", 'mount --bind /etc/passwd /etc/hostname && exec "$@"', "sh"]
        if mode == "stacked":
            prefix = ["unshare", "--mount", "sh", "-c", f'{_stack(directory)}exec "$@"', "sh"]
        command = [*prefix, "unshare", *namespaces, "--", "sh", "-c", _first_process(python, directory)]
        process = subprocess.Popen(command, env=_environment())
        try:
            yield Node(Path(directory), process, mode not in ("root", "stacked"), mode == "range")
        finally:
            process.kill()
            process.wait(DEADLINE)


def _stack(directory: str) -> str:
    """Shell commands that mount two overlays over each other on what images are made of."""
    script = f"mkdir -p {directory}/content {directory}/none && "
    for path in (f"{directory}/content", "/usr", "/etc", "/opt"):
        mount = f"mount -t overlay overlay -o lowerdir={directory}/none:{path} {path}"
        script += f"if [ -d {path} ]; then {mount} && {mount} || exit 1; fi; "
    return script


def _hide(name: str, directory: str) -> str:
    """Shell commands that lay a whiteout over a program in /usr/bin."""
    whiteouts = f"{directory}/whiteouts"
    return (
        f"mkdir -p {whiteouts}/bin && mknod {whiteouts}/bin/{name} c 0 0 && "
        f"mount -t overlay overlay -o lowerdir={whiteouts}:/usr /usr && "
    )


def _first_process(python: str, directory: str) -> str:
    runtime = shlex.join(
        [
            *(python, "-c", "from bridgehead.cli import main; main()", "runtime"),
            *(f"--socket={directory}/runtime.sock", f"--root={directory}/root", f"--image-dir={directory}/images"),
            f"--content-dir={directory}/content",
        ]
    )
    return (
        f"ip link set lo up && ip address add {NODE_ADDRESS}/32 dev lo && cd {directory} || exit 1\n"
        "while :; do\n"
        f"  {runtime} 2>>runtime.log & echo $! >runtime.pid\n"
        # It ended on request, or was killed by a test; or a test has announced that it will fail.
        "  wait $!; case $? in 0 | 137) ;; *) [ -e may-fail ] || exit 1 ;; esac\n"
        "done"
    )


@contextlib.asynccontextmanager
async def enter_world(node: Node) -> AsyncIterator[World]:
    """The node for one test, which leaves it as it found it."""
    world = World(node)
    try:
        await until(lambda: _answers(world))
        yield world
        await until(lambda: _answers(world))
        for sandbox in await world.client.list_sandboxes():
            await world.client.remove_sandbox(sandbox.pod_uid)
    finally:
        await world.client.close()
        shutil.rmtree(node.directory / "logs", ignore_errors=True)
        shutil.rmtree(node.images, ignore_errors=True)


async def _answers(world: World) -> bool:
    if world.node.process.poll() is not None:
        raise AssertionError(f"the node's first process ended: {(world.node.directory / 'runtime.log').read_text()}")
    try:
        await world.client.list_containers()
    except RuntimeFailure:
        return False
    return True
