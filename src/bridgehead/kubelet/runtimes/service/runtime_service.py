"""The runtime service: the sandboxes, containers and images of one node, and the operations on them (after the CRI).

`connections` calls it, with a callback where an answer has to wait for a process. Nothing here blocks.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
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
    ImageUnavailable,
    Limits,
    RuntimeFailure,
    SandboxInfo,
    SandboxMissing,
    SandboxSpec,
    port_refused,
)
from bridgehead.kubelet.runtimes.service.attachments import Attachment
from bridgehead.kubelet.runtimes.service.cgroup_removal import remove_cgroup
from bridgehead.kubelet.runtimes.service.container_plan import plan_exec
from bridgehead.kubelet.runtimes.service.exec_tasks import ExecStreams, ExecSync
from bridgehead.kubelet.runtimes.service.launcher import Launcher
from bridgehead.kubelet.runtimes.service.pause_process import PauseProcess
from bridgehead.kubelet.runtimes.service.reactor import Reactor
from bridgehead.kubelet.runtimes.service.sandboxes import Sandbox, SandboxMaker
from bridgehead.kubelet.runtimes.service.shared_memory import SharedMemory
from bridgehead.kubelet.runtimes.service.stop_signals import parse_signal
from bridgehead.kubelet.runtimes.service.tasks import Task
from bridgehead.kubelet.runtimes.spawn.zygote import Zygote

OnStarted = Callable[[ContainerInfo | RuntimeFailure | ImageUnavailable], None]


class SandboxRecord:
    """A sandbox and its tasks: the newest attempt of each container, and older attempts that still run."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.tasks: list[Task] = []
        self.starting: dict[str, list[OnStarted]] = {}  # id of a task that starts -> callbacks that wait for it
        self.pause: PauseProcess | None = None  # first of the PID namespace that all containers share, if they do
        self.on_empty: list[Callable[[], None]] = []  # not empty: the sandbox is removed after the last task's exit

    def attempts_of(self, name: str) -> list[Task]:
        """The tasks of the container `name`."""
        return [task for task in self.tasks if task.spec.name == name]


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
            record = self._sandboxes[spec.pod_uid] = self._make_record(sandbox)
        return record.sandbox.info

    def _make_record(self, sandbox: Sandbox) -> SandboxRecord:
        record = SandboxRecord(sandbox)
        if sandbox.spec.share_processes:
            on_end = functools.partial(self._remove_if_empty, record)
            record.pause = PauseProcess(self._launcher, sandbox, self.find_image, on_end)
        return record

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

    def remove_sandbox(self, pod_uid: str, on_done: Callable[[], None]) -> None:
        record = self._sandboxes.get(pod_uid)
        if record is None:
            on_done()
            return
        record.on_empty.append(on_done)
        if record.pause is not None:
            record.pause.kill()
        for task in record.tasks:
            task.signal(signal.SIGKILL)
        self._remove_if_empty(record)

    def end_all(self, on_done: Callable[[], None]) -> None:
        """Remove all sandboxes; `on_done` is called when no container is left."""
        left = set(self._sandboxes)
        if not left:
            on_done()
        for uid in list(left):

            def on_removed(uid: str = uid) -> None:
                left.discard(uid)
                if not left:
                    on_done()

            self.remove_sandbox(uid, on_removed)

    def _remove_if_empty(self, record: SandboxRecord) -> None:
        has_pause = record.pause is not None and record.pause.is_there
        if not record.on_empty or has_pause or any(task.is_running for task in record.tasks):
            return
        for task in record.tasks:
            self._drop(task)
        self._sandboxes.pop(record.sandbox.spec.pod_uid, None)
        self._remove_parts(record.sandbox)
        for on_done in record.on_empty:
            on_done()

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

    def start_container(self, spec: ContainerSpec, on_done: OnStarted) -> None:
        """Raises `RuntimeFailure` or `ImageUnavailable` for what is known at once."""
        record = self._sandboxes.get(spec.pod_uid)
        if record is None or record.on_empty:
            raise SandboxMissing
        if self._joins_start(record, spec, on_done):
            return
        if record.pause is None:
            self._start(record, spec, self._running(spec.target) if spec.target else None, on_done)
            return

        def on_pause(host: Task | RuntimeFailure) -> None:
            if isinstance(host, RuntimeFailure):
                on_done(host)
                return
            try:
                self._start(record, spec, host, on_done)
            except (RuntimeFailure, ImageUnavailable) as failure:
                on_done(failure)

        record.pause.find(on_pause)

    def _start(
        self,
        record: SandboxRecord,
        spec: ContainerSpec,
        host: Task | None,
        on_done: OnStarted,
    ) -> None:
        """Start a container, in the PID namespace of `host` if there is one. Raises as `start_container`."""
        if self._joins_start(record, spec, on_done):  # begun while the first process of the namespace started
            return
        earlier = record.attempts_of(spec.name)

        def on_start(task: Task, failure: RuntimeFailure | None) -> None:
            waiting = record.starting.pop(task.id)
            if failure is not None:
                self._forget(record, task)
            else:
                for other in earlier:
                    if not other.is_running:
                        self._forget(record, other)
            for one in waiting:
                one(task.info if failure is None else failure)
            if failure is not None:
                self._remove_if_empty(record)

        def on_end(task: Task) -> None:
            self._on_exit(task.info)
            if any(other.spec.attempt > spec.attempt for other in record.attempts_of(spec.name)):
                self._forget(record, task)
            self._remove_if_empty(record)

        mounts = self._shared_memory.add_mount(record.sandbox.spec, spec.mounts)
        spec = msgspec.structs.replace(spec, mounts=mounts)
        task = self._launcher.launch(spec, record.sandbox, on_start=on_start, on_end=on_end, host=host)
        record.tasks.append(task)
        record.starting[task.id] = [on_done]
        self._tasks[task.id] = task

    def _joins_start(self, record: SandboxRecord, spec: ContainerSpec, on_done: OnStarted) -> bool:
        """Whether this attempt has begun already, for a kubelet that has lost the answer; `on_done` gets it then."""
        for task in record.attempts_of(spec.name):
            if task.spec.attempt != spec.attempt:
                continue
            if task.is_started:
                on_done(task.info)
            else:
                record.starting[task.id].append(on_done)
            return True
        return False

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

    def exec_in_container(
        self,
        container_id: str,
        argv: tuple[str, ...],
        timeout: float,
        on_done: Callable[[ExecResult | Exception], None],
    ) -> None:
        """Raises `RuntimeFailure`."""
        task = self._running(container_id)
        ExecSync(self._reactor, self._zygote, task, plan_exec(task.job, argv), timeout, on_done)

    def open_exec(
        self,
        container_id: str,
        argv: tuple[str, ...],
        *,
        stdin: bool,
        tty: bool,
        stderr: bool,
        on_open: Callable[[list[int] | RuntimeFailure], None],
        on_end: Callable[[int], None],
    ) -> ExecStreams:
        """Raises `RuntimeFailure`."""
        task = self._running(container_id)
        return ExecStreams(
            self._reactor,
            self._zygote,
            task,
            plan_exec(task.job, argv, has_terminal=tty),
            stdin=stdin,
            tty=tty,
            stderr=stderr,
            on_open=on_open,
            on_end=on_end,
        )

    def attach(
        self, container_id: str, *, stdin: bool, stderr: bool, on_end: Callable[[int], None]
    ) -> tuple[Attachment, list[int], bool]:
        """The attachment, the descriptors for the kubelet, and whether the first of them is a terminal. Raises
        `RuntimeFailure`."""
        task = self._running(container_id)
        attachment, descriptors = task.attach(stdin=stdin, stderr=stderr, on_end=on_end)
        return attachment, descriptors, task.spec.tty

    def _running(self, container_id: str) -> Task:
        task = self._tasks.get(container_id)
        if task is None:
            raise RuntimeFailure(f'container "{container_id}" not found')
        if not task.is_running:
            raise RuntimeFailure("container is not running")
        return task
