"""Set-up of a forked process that becomes a container's first process, or a command in a running container.

The zygote calls `run_job` in the new process. No process in the pod can read its memory from the moment it has its job
until its program runs: it is not dumpable (prctl(2), PR_SET_DUMPABLE), and a built-in program stays so.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

import msgspec

from bridgehead.kubelet.runtimes.isolation import privileges, users
from bridgehead.kubelet.runtimes.isolation.privileges import Privileges
from bridgehead.kubelet.runtimes.isolation.root_builder import RootBuilder
from bridgehead.kubelet.runtimes.isolation.rootfs import MissingInImage, RootFailure
from bridgehead.kubelet.runtimes.isolation.users import Account
from bridgehead.network import syscalls
from bridgehead.standins.standin import Launch, load_program

from . import program_start
from .jobs import Job, Part, Program, RunContainer
from .program_start import BuiltIn, SetupFailure

_NAMESPACE_FLAGS: Final = {
    "mnt": syscalls.CLONE_NEWNS,
    "net": syscalls.CLONE_NEWNET,
    "uts": syscalls.CLONE_NEWUTS,
    "ipc": syscalls.CLONE_NEWIPC,
}
_LARGEST_ACCOUNTS_FILE: Final = 1 << 20  # bytes
_NULL: Final = os.makedev(1, 3)  # /dev/null

# Runs one of Bridgehead's parts in this process: argv without the program's name; ends with SystemExit or returns.
PartRunner = Callable[[list[str]], None]


def run_job(run_part: PartRunner, job: Job, descriptors: list[int], status: socket.socket) -> NoReturn:
    """Do a job in the forked process; failures are reported to the runtime. The steps are in the order of runc's
    init."""
    remaining = iter(descriptors)
    try:
        os.setsid()
        os.umask(0o022)
        with contextlib.suppress(OSError):  # a score lower than the node's parts have needs CAP_SYS_RESOURCE
            _write_oom_score(job.spec.limits.oom_score_adj)
        syscalls.set_dumpable(False)
        if job.has_cgroup:
            _join_cgroup(descriptors.pop())
        user_namespace = descriptors.pop() if job.id_base else None
        for kind in job.namespaces:
            syscalls.setns(next(remaining), _NAMESPACE_FLAGS[kind])
        if isinstance(job, RunContainer):
            _build_container(job, remaining, status)
        else:
            _open_streams(remaining, status, has_terminal=job.has_terminal)
        program_start.reset_signals()
        account = users.find_account(
            job.spec.security, job.program.image_user, _read_accounts("/etc/passwd"), _read_accounts("/etc/group")
        )
        if isinstance(job, RunContainer):
            program_start.report(status, program_start.USER, msgspec.json.encode(users.shown(account)).decode())
        _give_streams(job.id_base + account.user, job.id_base or -1)
        if user_namespace is not None:
            _enter_user_namespace(user_namespace)
            if isinstance(job, RunContainer):
                _own_mounts(status)
        _set_credentials(job.program.privileges, account)
        environment = {"HOME": account.home or "/", **job.program.environment}
        program_start.close_other_descriptors(status.fileno())
        _enter_directory(job.program.working_dir)
        _start(run_part, job.program, environment, status)
    except (users.UnknownUser, MissingInImage) as error:
        program_start.report(status, program_start.REFUSED, str(error))
    except (SetupFailure, RootFailure) as error:
        program_start.report(status, program_start.FAILED, str(error))
    except (OSError, ValueError) as error:  # ValueError: a name in the image's configuration that no file can have
        what = "set up the container" if isinstance(job, RunContainer) else "enter the container"
        program_start.report(status, program_start.FAILED, f"failed to {what}: {error}")
    os._exit(127)


def _write_oom_score(score: int) -> None:
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(score))


def _join_cgroup(procs: int) -> None:
    os.write(procs, b"0")
    os.close(procs)


def _build_container(job: RunContainer, remaining: Iterator[int], status: socket.socket) -> None:
    spec = job.spec
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    _report_namespace(status, program_start.PID_NAMESPACE, "pid")
    if not job.id_base:  # else it has another one in the end
        _report_namespace(status, program_start.MOUNT_NAMESPACE, "mnt")
    builder = RootBuilder(
        job.root, job.base, spec.volume_directory, copies_images=job.copies_images, id_base=job.id_base
    )
    messages = builder.build(
        files=job.files,
        mounts=spec.mounts,
        image_volumes=job.image_volumes,
        security=spec.security,
        working_dir=job.program.working_dir,
        termination_log=spec.termination_message_path,
    )
    program_start.report(status, program_start.TERMINATION_LOG, descriptor=messages)
    os.close(messages)
    builder.enter()
    stdin = next(remaining) if job.has_stdin else -1
    if spec.tty:
        _open_streams(remaining, status, has_terminal=True)
        return
    if stdin < 0:
        stdin = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    program_start.redirect_streams(stdin, next(remaining), next(remaining))


def _report_namespace(status: socket.socket, kind: bytes, name: str) -> None:
    """Send the runtime a namespace, for commands to enter: they cannot open it in /proc of what is not dumpable."""
    namespace = os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    program_start.report(status, kind, descriptor=namespace)
    os.close(namespace)


def _enter_user_namespace(namespace: int) -> None:
    """Become root of the pod's user namespace, with all capabilities in it and none outside."""
    syscalls.setns(namespace, syscalls.CLONE_NEWUSER)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    syscalls.set_dumpable(False)


def _own_mounts(status: socket.socket) -> None:
    """Get a mount namespace that belongs to the pod's user namespace, so that its root may mount, if it has the
    capability, and unmount nothing of what was made for the container."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    _report_namespace(status, program_start.MOUNT_NAMESPACE, "mnt")


def _open_streams(remaining: Iterator[int], status: socket.socket, *, has_terminal: bool) -> None:
    if has_terminal:
        slave = program_start.open_terminal(status)
        program_start.redirect_streams(slave, slave, slave)
    else:
        program_start.redirect_streams(next(remaining), next(remaining), next(remaining))


def _set_credentials(allowed: Privileges, account: Account) -> None:
    """Change to the container's user and privileges."""
    if account.groups:
        groups = tuple(dict.fromkeys((*allowed.groups, *account.groups)))
        allowed = msgspec.structs.replace(allowed, groups=groups)
    try:
        privileges.apply(allowed, account.user, account.group)
    except OSError as error:
        raise SetupFailure(f"cannot run as user {account.user}, group {account.group}: {error}") from error
    with contextlib.suppress(OSError):
        syscalls.set_parent_death_signal(signal.SIGKILL)  # a change of user resets it


def _give_streams(user: int, group: int) -> None:
    """Give the standard streams to the user, who may then open /dev/stdout, and to the group; -1 keeps theirs.

    As runc's `fixStdioPermissions`; /dev/null belongs to all.
    """
    for stream in range(3):
        found = os.fstat(stream)
        if not (stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL):
            with contextlib.suppress(OSError):  # an id that this user namespace lacks
                os.fchown(stream, user, group)


def _read_accounts(path: str) -> str:
    """The text of a file in the container, "" where there is no such file or it can't be read."""
    try:
        with open(
            os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8", errors="replace"
        ) as file:
            return file.read(_LARGEST_ACCOUNTS_FILE)
    except OSError:
        return ""


def _enter_directory(path: str) -> None:
    try:
        os.chdir(path)
    except OSError as error:
        raise SetupFailure(f'cannot enter the working directory "{path}": {error.strerror}') from error
    # A path through a descriptor that was left open would lead out of the container: CVE-2024-21626.
    if not os.getcwd().startswith("/"):
        raise SetupFailure(f'the working directory "{path}" is outside of the container')


def _start(run_part: PartRunner, program: Program, environment: dict[str, str], status: socket.socket) -> NoReturn:
    function = _find_built_in(run_part, program, environment)
    if function is not None:
        syscalls.set_process_name(os.path.basename(program.argv[0]), " ".join(program.argv))
        program_start.run_function(function, status)
    program_start.execute(program.argv, environment, program.working_dir)


def _find_built_in(run_part: PartRunner, program: Program, environment: dict[str, str]) -> BuiltIn | None:
    built_in = program.built_in
    if built_in is None:
        return None
    if isinstance(built_in, Part):
        return functools.partial(_run_part, run_part, list(built_in.arguments), environment)
    launch = Launch(
        argv=program.argv,
        tag=built_in.tag,
        hostname=built_in.hostname,
        environment=environment,
        setup=built_in.setup,
    )
    run = load_program(built_in.name)
    return lambda ready: run(msgspec.structs.replace(launch, started=ready))


def _run_part(
    run_part: PartRunner, arguments: list[str], environment: dict[str, str], started: Callable[[], None]
) -> int:
    # Until the part has installed its own handlers; its probes report when it is ready.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    started()
    os.environ.clear()
    os.environ.update(environment)
    run_part(arguments)
    return 0
