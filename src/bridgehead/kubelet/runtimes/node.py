"""The sandboxes and containers of one node: what the runtime knows, and what it does when it is asked.

Called by `server` with a callback where an answer has to wait for a process. Nothing here waits.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from bridgehead.kubelet.runtimes import busybox, cgroups, images, leftovers, privileges, rootfs, seccomp
from bridgehead.kubelet.runtimes.containers import (
    Container,
    Tap,
    plan_argv,
    plan_environment,
    plan_working_dir,
    root_of,
)
from bridgehead.kubelet.runtimes.execs import Capture, Session
from bridgehead.kubelet.runtimes.images import FoundImage
from bridgehead.kubelet.runtimes.jobs import Part, Program, RunContainer, StandInProgram
from bridgehead.kubelet.runtimes.privileges import Privileges
from bridgehead.kubelet.runtimes.reactor import Reactor
from bridgehead.kubelet.runtimes.runtime import (
    ContainerInfo,
    ContainerSpec,
    ExecResult,
    Image,
    Limits,
    Mount,
    RuntimeFailure,
    RuntimeFeatures,
    SandboxInfo,
    SandboxSpec,
    Seccomp,
    Security,
    port_refused,
)
from bridgehead.kubelet.runtimes.sandboxes import Sandbox, SandboxMaker
from bridgehead.kubelet.runtimes.standins import launcher
from bridgehead.kubelet.runtimes.zygote import Zygote

_UID_MAP: Final = "/proc/self/uid_map"
_GID_MAP: Final = "/proc/self/gid_map"


class Pod:
    """A sandbox and its containers: the newest attempt of each name, and older ones that still run."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.containers: list[Container] = []
        self.on_empty: list[Callable[[], None]] = []  # someone waits for the last container to exit


class Node:
    """`on_exit` is told of each container that exits, in time order."""

    def __init__(
        self,
        *,
        reactor: Reactor,
        root_dir: str,
        image_dir: str,
        zygote: Zygote,
        lack_of_cgroup: str,
        on_exit: Callable[[ContainerInfo], None],
    ) -> None:
        self._reactor = reactor
        self._image_dir = image_dir
        self._on_exit = on_exit
        self._maker = SandboxMaker()
        self._host = rootfs.observe_host_root(os.path.join(root_dir, "copies"))
        self._base = os.path.join(root_dir, "container")
        self._leftovers = leftovers.Ledger(os.path.join(root_dir, "processes"))
        self._applets = busybox.prepare_applets(os.path.join(root_dir, "busybox"))
        self._own_paths = rootfs.own_paths()
        found = cgroups.find_delegated()
        self._delegation = None if isinstance(found, str) else found.for_runtime(root_dir)
        lacking = (lack_of_cgroup or found) if isinstance(found, str) else _describe_lacking(found)
        self.features = RuntimeFeatures(limits=lacking)
        self._pods: dict[str, Pod] = {}
        self._containers: dict[str, Container] = {}
        os.makedirs(self._base, exist_ok=True)
        self._leftovers.end_all()
        self._remove_groups()
        self._zygote = zygote

    def close(self) -> None:
        """After `end_all` has emptied it."""
        self._remove_groups()
        self._maker.close()
        self._zygote.close()

    def _remove_groups(self) -> None:
        if self._delegation is not None:
            with contextlib.suppress(OSError):  # they are empty directories; the next run tries again
                self._delegation.remove_leftovers()

    # Images and sandboxes.

    def find_image(self, name: str) -> Image:
        """Raises `ImageUnavailable`."""
        return images.find_image(name, self._image_dir).image

    def run_sandbox(self, spec: SandboxSpec) -> SandboxInfo:
        """Raises `RuntimeFailure`."""
        pod = self._pods.get(spec.pod_uid)
        if pod is None:
            pod = self._pods[spec.pod_uid] = Pod(self._maker.make(spec))
        return pod.sandbox.info

    def list_sandboxes(self) -> list[SandboxInfo]:
        return [pod.sandbox.info for pod in self._pods.values()]

    def remove_sandbox(self, pod_uid: str, on_done: Callable[[], None]) -> None:
        pod = self._pods.get(pod_uid)
        if pod is None:
            on_done()
            return
        pod.on_empty.append(on_done)
        for container in pod.containers:
            container.signal(signal.SIGKILL)
        self._remove_if_empty(pod)

    def end_all(self, on_done: Callable[[], None]) -> None:
        """Remove everything; `on_done` is called when no container is left."""
        left = set(self._pods)
        if not left:
            on_done()
        for uid in list(left):

            def removed(uid: str = uid) -> None:
                left.discard(uid)
                if not left:
                    on_done()

            self.remove_sandbox(uid, removed)

    def _remove_if_empty(self, pod: Pod) -> None:
        if not pod.on_empty or any(container.is_running for container in pod.containers):
            return
        for container in pod.containers:
            self._containers.pop(container.id, None)
        self._pods.pop(pod.sandbox.spec.pod_uid, None)
        self._maker.remove(pod.sandbox)
        for on_done in pod.on_empty:
            on_done()

    def connect(self, pod_uid: str, port: int, address: str) -> socket.socket:
        """A stream to a port on the pod's own loopback address; still connecting, perhaps. Raises `RuntimeFailure`."""
        pod = self._pods.get(pod_uid)
        if pod is None:
            raise RuntimeFailure("the pod has no sandbox")
        with self._maker.inside_network(pod.sandbox):
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

    def start_container(self, spec: ContainerSpec, on_done: Callable[[ContainerInfo | RuntimeFailure], None]) -> None:
        """Raises `RuntimeFailure` or `ImageUnavailable` for what is known at once."""
        pod = self._pods.get(spec.pod_uid)
        if pod is None or pod.on_empty:
            raise RuntimeFailure("the pod has no sandbox")
        same = self._named(pod, spec.name)
        for container in same:
            if container.spec.attempt == spec.attempt and container.is_started:
                on_done(container.info)  # asked again by a kubelet that did not hear the answer
                return
        found = images.find_image(spec.image.name, self._image_dir)
        job = self._plan(spec, pod.sandbox, found)

        def started(container: Container, failure: RuntimeFailure | None) -> None:
            if failure is not None:
                self._forget(pod, container)
                on_done(failure)
                self._remove_if_empty(pod)
                return
            self._leftovers.add(container.pid)
            for older in same:
                if not older.is_running:
                    self._forget(pod, older)
            on_done(container.info)

        def ended(container: Container) -> None:
            self._leftovers.remove(container.pid)
            self._on_exit(container.info)
            if any(other.spec.attempt > spec.attempt for other in self._named(pod, spec.name)):
                self._forget(pod, container)
            self._remove_if_empty(pod)

        container = Container(self._reactor, job, pod.sandbox, found, self._delegation, on_start=started, on_end=ended)
        container.fork(self._zygote)
        pod.containers.append(container)
        self._containers[container.id] = container

    @staticmethod
    def _named(pod: Pod, name: str) -> list[Container]:
        """All attempts of one container of the Pod."""
        return [container for container in pod.containers if container.spec.name == name]

    def _forget(self, pod: Pod, container: Container) -> None:
        with contextlib.suppress(ValueError):
            pod.containers.remove(container)
        self._containers.pop(container.id, None)

    def signal_container(self, container_id: str, number: int) -> None:
        container = self._containers.get(container_id)
        if container is not None:
            container.signal(number)

    def list_containers(self) -> list[ContainerInfo]:
        return [container.info for container in self._containers.values() if container.is_started]

    def exec_in_container(
        self,
        container_id: str,
        argv: tuple[str, ...],
        timeout: float,
        on_done: Callable[[ExecResult | Exception], None],
    ) -> None:
        """Raises `RuntimeFailure`."""
        container = self._running(container_id)
        Capture(self._reactor, self._zygote, container, self._plan_exec(container, argv), timeout, on_done)

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
    ) -> Session:
        """Raises `RuntimeFailure`."""
        container = self._running(container_id)
        return Session(
            self._reactor,
            self._zygote,
            container,
            self._plan_exec(container, argv, terminal=tty),
            stdin=stdin,
            tty=tty,
            stderr=stderr,
            on_open=on_open,
            on_end=on_end,
        )

    def attach(
        self, container_id: str, *, stdin: bool, stderr: bool, on_end: Callable[[int], None]
    ) -> tuple[Tap, list[int], bool]:
        """The tap, the descriptors for the other side and whether the first is a terminal. Raises `RuntimeFailure`."""
        container = self._running(container_id)
        tap, descriptors = container.attach(stdin=stdin, stderr=stderr, on_end=on_end)
        return tap, descriptors, container.spec.tty

    def _running(self, container_id: str) -> Container:
        container = self._containers.get(container_id)
        if container is None:
            raise RuntimeFailure(f'container "{container_id}" not found')
        if not container.is_running:
            raise RuntimeFailure("container is not running")
        return container

    # Plans.

    def _plan(self, spec: ContainerSpec, sandbox: Sandbox, found: FoundImage) -> RunContainer:
        hostname = sandbox.spec.hostname
        argv = plan_argv(found.image, spec)
        environment = plan_environment(found.image, spec, hostname)
        mounts = list(spec.mounts)
        files = {} if found.rootfs else {"/etc/hostname": f"{hostname}\n"}
        if found.stand_in is not None:
            files |= {**found.stand_in.files, **launcher.scripts(found.stand_in, found.tag)}
            if found.stand_in.busybox and self._applets:
                mounts.append(Mount(source=self._applets, target=busybox.APPLETS, read_only=True))
                environment["PATH"] = f"{busybox.APPLETS}:{environment['PATH']}"
        if found.part or (found.stand_in is not None and found.stand_in.programs):
            mounts += [
                Mount(source=path, target=path, read_only=True)
                for path in self._own_paths
                if not rootfs.is_shown(self._host, path)
            ]
        security = spec.security
        if not found.part:  # which has to be root of the node's network, whatever its image may say
            check_ids(security, read_id_map(_UID_MAP), read_id_map(_GID_MAP))
        return RunContainer(
            spec=msgspec.structs.replace(spec, mounts=tuple(mounts)),
            program=Program(
                argv=argv,
                environment=environment,
                working_dir=plan_working_dir(found.image, spec),
                privileges=self._plan_privileges(security),
                image_user=found.image.user,
                built_in=_find_built_in(argv, found, hostname),
            ),
            root=root_of(found, self._host),
            files=files,
            base=self._base,
            namespaces=tuple(sandbox.descriptors),
            has_stdin=spec.stdin and not spec.tty,
            has_cgroup=self._delegation is not None,
        )

    @staticmethod
    def _plan_privileges(security: Security) -> Privileges:
        names = privileges.plan_capabilities(security)
        return Privileges(
            capabilities=privileges.numbers_of(names),
            groups=security.supplemental_groups,
            no_new_privileges=security.no_new_privileges,
            filter=_find_filter(security.seccomp, names),
        )

    def _plan_exec(self, container: Container, argv: tuple[str, ...], *, terminal: bool = False) -> Program:
        program = container.job.program
        environment = {**program.environment, "TERM": "xterm"} if terminal else program.environment
        return msgspec.structs.replace(program, argv=argv, environment=environment, built_in=None)


def _find_filter(wanted: Seccomp, capabilities: frozenset[str]) -> bytes:
    """Raises `RuntimeFailure`."""
    if wanted.kind == "Unconfined":
        return b""
    try:
        if wanted.kind == "Localhost":
            with open(wanted.path, "rb") as file:
                return seccomp.localhost_filter(file.read(), capabilities)
        return seccomp.default_filter(capabilities)
    except OSError as error:
        raise RuntimeFailure(f"cannot load seccomp profile {wanted.path!r}: {error.strerror}") from error
    except (seccomp.BadProfile, seccomp.SeccompUnavailable) as error:
        raise RuntimeFailure(str(error)) from error


def _find_built_in(argv: tuple[str, ...], found: FoundImage, hostname: str) -> Part | StandInProgram | None:
    """What plays the program `argv`, None if it is to be executed."""
    name = os.path.basename(argv[0]) if argv else ""
    if found.part and name in ("bridgehead", f"kube-{found.part}", found.part):
        return Part(argv[1:] if name == "bridgehead" else (found.part, *argv[1:]))
    if found.stand_in is not None and name in found.stand_in.programs:
        return StandInProgram(found.stand_in.name, name, found.tag, hostname)
    return None


def _describe_lacking(delegation: cgroups.Delegation) -> str:
    lacking = delegation.lacking(Limits(memory=1, cpu_millis=1, pids=1))
    return f"the cgroup that is delegated to the lab has no controller for {', '.join(lacking)}" if lacking else ""


def check_ids(security: Security, users: list[range], groups: list[range]) -> None:
    """Raises `RuntimeFailure` when the user namespace lacks an id that is asked for."""
    asked = [("user", security.user), ("group", security.group)]
    asked += [("group", number) for number in security.supplemental_groups]
    for what, number in asked:
        if number and not any(number in each for each in (users if what == "user" else groups)):
            raise RuntimeFailure(
                f"cannot run as {what} {number}: the cluster runs in a user namespace that has no such id; it has more"
                " with newuidmap (Debian: apt-get install uidmap) and a range of yours in /etc/subuid and /etc/subgid,"
                " or when it is started as root"
            )


def read_id_map(path: str) -> list[range]:
    """The ids that exist in this user namespace."""
    with open(path, encoding="ascii") as file:
        return list(_parse_id_map(file.read()))


def _parse_id_map(text: str) -> Iterator[range]:
    for line in text.splitlines():
        first, _, count = (int(word) for word in line.split())
        yield range(first, first + count)
