"""The runtime service: the sandboxes, containers and images of one node, and the operations on them (after the CRI).

`kubelet_connections` calls it. Calls that have to wait for a process are coroutines (see `coroutines`). Nothing here
blocks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import socket
from collections.abc import Callable

import msgspec

from bridgehead.kubelet.runtimes.image_resolver import ImageDirectories, resolve_image
from bridgehead.kubelet.runtimes.runtime import (
    ContainerInfo,
    ContainerSpec,
    ExecResult,
    Image,
    Limits,
    RuntimeFailure,
    SandboxInfo,
    SandboxMissing,
    SandboxSpec,
    port_refused,
)
from bridgehead.kubelet.runtimes.spawn.zygote import Zygote

from . import coroutines
from .attached_output import Attachment
from .cgroup_removal import remove_cgroup
from .container_plan import plan_exec
from .coroutines import Outcome
from .exec_tasks import ExecStreams, run_command
from .launcher import Launcher
from .pause_process import PauseProcess
from .reactor import Reactor
from .sandboxes import Sandbox, SandboxMaker
from .shared_memory import SharedMemory
from .tasks import Task

_SIGNAL = re.compile(r"(\w{0,16})([+-]\d{1,2})?", re.ASCII)  # of an image's configuration


class SandboxRecord:
    """A sandbox and its tasks: the newest attempt of each container, and older attempts that still run.

    `removal` is there when its removal has begun.
    """

    def __init__(self, sandbox: Sandbox, pause: PauseProcess | None) -> None:
        self.sandbox = sandbox
        self.tasks: list[Task] = []
        self.pause = pause  # first of the PID namespace that all containers share, if they do
        self.removal: Outcome[None] | None = None

    def attempts_of(self, name: str) -> list[Task]:
        """The tasks of the container `name`."""
        return [task for task in self.tasks if task.spec.name == name]

    def find_attempt(self, spec: ContainerSpec) -> Task | None:
        """The task of the same attempt, which has begun already."""
        return next((task for task in self.attempts_of(spec.name) if task.spec.attempt == spec.attempt), None)

    def living(self) -> list[Task]:
        """The tasks that run or start, that of the pause process included."""
        tasks = self.tasks if self.pause is None or self.pause.task is None else [self.pause.task, *self.tasks]
        return [task for task in tasks if not task.ended.is_known]


class RuntimeService:
    """The state of one node. `on_exit` is called for each container that exits, in the order of their exits."""

    def __init__(
        self,
        *,
        reactor: Reactor,
        root_dir: str,
        images: ImageDirectories,
        zygote: Zygote,
        lack_of_cgroup: str,
        on_exit: Callable[[ContainerInfo], None],
    ) -> None:
        self._reactor = reactor
        self._images = images
        self._on_exit = on_exit
        self._zygote = zygote
        self._sandbox_maker = SandboxMaker(zygote.make_namespaces)
        self._shared_memory = SharedMemory(os.path.join(root_dir, "shm"))
        self._launcher = Launcher(
            reactor=reactor, root_dir=root_dir, images=images, zygote=zygote, lack_of_cgroup=lack_of_cgroup
        )
        self.features = self._launcher.features
        self._sandboxes: dict[str, SandboxRecord] = {}  # by the pod's uid
        self._tasks: dict[str, Task] = {}  # by container id

    def close(self) -> None:
        """Release what is left after `end_all`."""
        self._launcher.close()
        self._sandbox_maker.close()
        self._zygote.close()

    # Images and sandboxes.

    def find_image(self, name: str) -> Image:
        """Raises `ImageUnavailable`."""
        return resolve_image(name, self._images).image

    def run_sandbox(self, spec: SandboxSpec) -> SandboxInfo:
        """Raises `RuntimeFailure`."""
        record = self._sandboxes.get(spec.pod_uid)
        if record is None:
            sandbox = self._sandbox_maker.make(spec)
            with contextlib.ExitStack() as undo:
                undo.callback(self._remove_parts, sandbox)
                self._shared_memory.make(spec)
                sandbox.group = self._launcher.make_pod_group(spec)
                undo.pop_all()
            pause = PauseProcess(self._launcher, sandbox, self.find_image) if spec.share_processes else None
            record = self._sandboxes[spec.pod_uid] = SandboxRecord(sandbox, pause)
        return record.sandbox.info

    def update_sandbox(self, pod_uid: str, limits: Limits) -> None:
        """Raises `RuntimeFailure`."""
        record = self._sandboxes.get(pod_uid)
        if record is None:
            raise SandboxMissing
        if record.sandbox.group is not None:
            try:
                record.sandbox.group.update(limits)
            except OSError as error:
                raise RuntimeFailure(f"failed to update the limits of the pod: {error}") from error

    def list_sandboxes(self) -> list[SandboxInfo]:
        return [record.sandbox.info for record in self._sandboxes.values()]

    async def remove_sandbox(self, pod_uid: str) -> None:
        """Kill its containers and remove it after their end. Does nothing without a sandbox."""
        record = self._sandboxes.get(pod_uid)
        if record is not None:
            await self._begin_removal(record)

    async def end_all(self) -> None:
        """Remove all sandboxes."""
        for removal in [self._begin_removal(record) for record in list(self._sandboxes.values())]:
            await removal

    def _begin_removal(self, record: SandboxRecord) -> Outcome[None]:
        if record.removal is None:
            record.removal = coroutines.start(self._remove(record))
        return record.removal

    async def _remove(self, record: SandboxRecord) -> None:
        for task in record.living():
            task.signal(signal.SIGKILL)
        while living := record.living():
            await living[0].ended
        for task in record.tasks:
            self._drop(task)
        self._sandboxes.pop(record.sandbox.spec.pod_uid, None)
        self._remove_parts(record.sandbox)

    def _remove_parts(self, sandbox: Sandbox) -> None:
        self._sandbox_maker.remove(sandbox)
        self._shared_memory.remove(sandbox.spec)
        if sandbox.group is not None:
            remove_cgroup(self._reactor, sandbox.group)

    def connect(self, pod_uid: str, port: int, address: str) -> socket.socket:
        """A stream to a port on the pod's own loopback address; still connecting, perhaps. Raises `RuntimeFailure`."""
        record = self._sandboxes.get(pod_uid)
        if record is None:
            raise SandboxMissing
        with self._sandbox_maker.in_network_of(record.sandbox):
            try:
                stream = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            except OSError as error:
                raise RuntimeFailure(port_refused(address, port, error.errno or 0)) from error
        stream.setblocking(False)
        code = stream.connect_ex((address, port))
        if code not in (0, errno.EINPROGRESS):
            stream.close()
            raise RuntimeFailure(port_refused(address, port, code))
        return stream

    # Containers.

    async def start_container(self, spec: ContainerSpec) -> ContainerInfo:
        """Return the container once its program runs. Raises `RuntimeFailure` or `ImageUnavailable`."""
        record = self._sandboxes.get(spec.pod_uid)
        if record is None or record.removal is not None:
            raise SandboxMissing
        task = record.find_attempt(spec)  # for a kubelet that has lost the answer
        if task is None:
            host = await self._find_host(record, spec)
            # It may have begun while the first process of the namespace started.
            task = record.find_attempt(spec) or self._launch(record, spec, host)
        await task.started
        return task.info

    async def _find_host(self, record: SandboxRecord, spec: ContainerSpec) -> Task | None:
        """The task whose PID namespace a container shares. Raises as `start_container`."""
        if record.pause is not None:
            return await record.pause.find()
        return self._running(spec.target) if spec.target else None

    def _launch(self, record: SandboxRecord, spec: ContainerSpec, host: Task | None) -> Task:
        mounts = self._shared_memory.add_mount(record.sandbox.spec, spec.mounts)
        task = self._launcher.launch(msgspec.structs.replace(spec, mounts=mounts), record.sandbox, host)
        coroutines.start(self._follow(record, task, record.attempts_of(spec.name)))
        record.tasks.append(task)
        self._tasks[task.id] = task
        return task

    async def _follow(self, record: SandboxRecord, task: Task, earlier: list[Task]) -> None:
        """The life of a container: it replaces earlier attempts when it has started, and is reported when it exits."""
        try:
            await task.started
        except RuntimeFailure:
            self._forget(record, task)
            return
        for other in earlier:
            if not other.is_running:
                self._forget(record, other)
        await task.ended
        self._on_exit(task.info)
        if any(other.spec.attempt > task.spec.attempt for other in record.attempts_of(task.spec.name)):
            self._forget(record, task)

    def _forget(self, record: SandboxRecord, task: Task) -> None:
        with contextlib.suppress(ValueError):
            record.tasks.remove(task)
        self._drop(task)

    def _drop(self, task: Task) -> None:
        self._tasks.pop(task.id, None)
        self._launcher.release(task)

    def update_container(self, container_id: str, limits: Limits) -> None:
        """Raises `RuntimeFailure`."""
        self._running(container_id).update(limits)

    def signal_container(self, container_id: str, number: int) -> None:
        task = self._tasks.get(container_id)
        if task is not None:
            task.signal(parse_signal(task.info.image.stop_signal) if number == signal.SIGTERM else number)

    def measure_layers(self, pod_uid: str) -> dict[str, int]:
        usage = {}
        for task in self._tasks.values():
            if task.spec.pod_uid == pod_uid and task.is_running:
                with contextlib.suppress(OSError):  # the container ends
                    usage[task.spec.name] = task.measure_layer()
        return usage

    def list_containers(self) -> list[ContainerInfo]:
        return [task.info for task in self._tasks.values() if task.is_started]

    async def exec_in_container(self, container_id: str, argv: tuple[str, ...], timeout: float) -> ExecResult:
        """Run a command to its end. Raises `RuntimeFailure` or `TimeoutError`."""
        task = self._running(container_id)
        return await run_command(self._reactor, self._zygote, task, plan_exec(task.job, argv), timeout)

    def open_exec(
        self, container_id: str, argv: tuple[str, ...], *, stdin: bool, tty: bool, stderr: bool
    ) -> ExecStreams:
        """Raises `RuntimeFailure`."""
        task = self._running(container_id)
        program = plan_exec(task.job, argv, has_terminal=tty)
        return ExecStreams(self._reactor, self._zygote, task, program, stdin=stdin, tty=tty, stderr=stderr)

    def attach(self, container_id: str, *, stdin: bool, stderr: bool) -> tuple[Attachment, list[int], bool]:
        """The attachment, the descriptors for the kubelet, and whether the first of them is a terminal. Raises
        `RuntimeFailure`."""
        task = self._running(container_id)
        return *task.attach(stdin=stdin, stderr=stderr), task.spec.tty

    def _running(self, container_id: str) -> Task:
        task = self._tasks.get(container_id)
        if task is None:
            raise RuntimeFailure(f'container "{container_id}" not found')
        if not task.is_running:
            raise RuntimeFailure("container is not running")
        return task


def parse_signal(text: str) -> int:
    """Return the number of a stop signal ("SIGQUIT", "RTMIN+3", "3"), SIGTERM if it names none that exists.

    Source: containerd's `moby/sys/signal` (`ParseSignal`).
    """
    found = _SIGNAL.fullmatch(text.strip().upper())
    if found is None:
        return signal.SIGTERM
    name, offset = found[1], int(found[2] or 0)
    base = int(name) if name.isdecimal() else int(getattr(signal.Signals, f"SIG{name.removeprefix('SIG')}", 0))
    return base + offset if base and base + offset in signal.valid_signals() else signal.SIGTERM
