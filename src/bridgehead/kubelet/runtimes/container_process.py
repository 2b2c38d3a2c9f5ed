"""The forked process that becomes a container's first process, or a command in a running container.

Called by the zygote. From the moment it has its job until its program runs nobody in the pod can read its memory: it is
not dumpable, and a built-in program stays so.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

import msgspec

from bridgehead.kubelet.runtimes import privileges, processes, users
from bridgehead.kubelet.runtimes.jobs import Job, Part, Program, RunContainer
from bridgehead.kubelet.runtimes.processes import BuiltIn, SetupFailure
from bridgehead.kubelet.runtimes.rootfs import RootBuilder, RootFailure
from bridgehead.kubelet.runtimes.runtime import Security
from bridgehead.kubelet.runtimes.standins.standin import Launch
from bridgehead.kubelet.runtimes.standins.table import STAND_INS
from bridgehead.network import syscalls

_KINDS: Final = {
    "mnt": syscalls.CLONE_NEWNS,
    "net": syscalls.CLONE_NEWNET,
    "uts": syscalls.CLONE_NEWUTS,
    "ipc": syscalls.CLONE_NEWIPC,
}
_LARGEST_ACCOUNTS_FILE: Final = 1 << 20  # bytes

# Runs one of Bridgehead's parts in this process: argv without the program's name; ends with SystemExit or returns.
PartRunner = Callable[[list[str]], None]


def work(run_part: PartRunner, job: Job, descriptors: list[int], status: socket.socket) -> NoReturn:
    """Do the job; what goes wrong is reported to the runtime. Source of the steps' order: runc's init."""
    given = iter(descriptors)
    try:
        os.setsid()
        os.umask(0o022)
        with contextlib.suppress(OSError):  # to be killed less easily than the node's parts takes a privilege
            _write_oom_score(job.spec.limits.oom_score_adj)
        syscalls.set_dumpable(False)
        if job.has_cgroup:
            _join_cgroup(descriptors.pop())
        for kind in job.namespaces:
            syscalls.setns(next(given), _KINDS[kind])
        if isinstance(job, RunContainer):
            _build_container(job, given, status)
        else:
            _open_streams(given, status, has_terminal=job.has_terminal)
        processes.reset_signals()
        environment = _take_on(job.program, job.spec.security)
        os.closerange(3, status.fileno())
        os.closerange(status.fileno() + 1, 1 << 20)
        _enter_directory(job.program.working_dir)
        _start(run_part, job.program, environment, status)
    except (SetupFailure, RootFailure, users.UnknownUser) as error:
        processes.report(status, processes.FAILED, str(error))
    except OSError as error:
        what = "set up the container" if isinstance(job, RunContainer) else "enter the container"
        processes.report(status, processes.FAILED, f"failed to {what}: {error}")
    os._exit(127)


def _write_oom_score(score: int) -> None:
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(score))


def _join_cgroup(procs: int) -> None:
    os.write(procs, b"0")
    os.close(procs)


def _build_container(job: RunContainer, given: Iterator[int], status: socket.socket) -> None:
    spec = job.spec
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    # What a command in this container will enter. Nobody reads them from /proc later: this process is not dumpable.
    for kind, name in ((processes.MOUNT_NAMESPACE, "mnt"), (processes.PID_NAMESPACE, "pid")):
        namespace = os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        processes.report(status, kind, descriptor=namespace)
        os.close(namespace)
    builder = RootBuilder(job.root, job.base)
    messages = builder.build(
        files=job.files,
        mounts=spec.mounts,
        security=spec.security,
        working_dir=job.program.working_dir,
        termination_log=spec.termination_message_path,
    )
    processes.report(status, processes.TERMINATION_LOG, descriptor=messages)
    os.close(messages)
    builder.enter()
    stdin = next(given) if job.has_stdin else -1
    if spec.tty:
        _open_streams(given, status, has_terminal=True)
        return
    if stdin < 0:
        stdin = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    processes.redirect_streams(stdin, next(given), next(given))


def _open_streams(given: Iterator[int], status: socket.socket, *, has_terminal: bool) -> None:
    if has_terminal:
        slave = processes.open_terminal(status)
        processes.redirect_streams(slave, slave, slave)
    else:
        processes.redirect_streams(next(given), next(given), next(given))


def _take_on(program: Program, security: Security) -> dict[str, str]:
    """Become the container's user; returns the environment, with that user's home."""
    account = users.find_account(
        security, program.image_user, _read_accounts("/etc/passwd"), _read_accounts("/etc/group")
    )
    allowed = program.privileges
    if account.groups:
        groups = tuple(dict.fromkeys((*allowed.groups, *account.groups)))
        allowed = msgspec.structs.replace(allowed, groups=groups)
    try:
        privileges.take_on(allowed, account.user, account.group)
    except OSError as error:
        raise SetupFailure(f"cannot run as user {account.user}, group {account.group}: {error}") from error
    with contextlib.suppress(OSError):
        syscalls.set_parent_death_signal(signal.SIGKILL)  # the kernel forgets it with a change of user
    return {"HOME": account.home or "/", **program.environment}


def _read_accounts(path: str) -> str:
    """In the container: "" where there is no such file, or it is none."""
    try:
        with open(
            os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8", errors="replace"
        ) as file:
            return file.read(_LARGEST_ACCOUNTS_FILE)
    except OSError:
        return ""


def _enter_directory(path: str) -> None:
    os.chdir(path)
    # A path through a descriptor that was left open would lead out of the container: CVE-2024-21626.
    if not os.getcwd().startswith("/"):
        raise SetupFailure(f'the working directory "{path}" is outside of the container')


def _start(run_part: PartRunner, program: Program, environment: dict[str, str], status: socket.socket) -> NoReturn:
    function = _find_built_in(run_part, program, environment)
    if function is not None:
        syscalls.set_process_name(os.path.basename(program.argv[0]), " ".join(program.argv))
        processes.run_function(function, status)
    processes.execute(program.argv, environment, program.working_dir)


def _find_built_in(run_part: PartRunner, program: Program, environment: dict[str, str]) -> BuiltIn | None:
    built_in = program.built_in
    if built_in is None:
        return None
    if isinstance(built_in, Part):
        return functools.partial(_run_part, run_part, list(built_in.arguments), environment)
    stand_in = next(each for each in STAND_INS if each.name == built_in.stand_in)
    launch = Launch(argv=program.argv, tag=built_in.tag, hostname=built_in.hostname)
    started = stand_in.programs[built_in.program]
    return lambda ready: started(msgspec.structs.replace(launch, started=ready))


def _run_part(
    run_part: PartRunner, arguments: list[str], environment: dict[str, str], started: Callable[[], None]
) -> int:
    # Until the part, which has probes to tell when it is ready, has its own handlers.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    started()
    os.environ.clear()
    os.environ.update(environment)
    run_part(arguments)
    return 0
