"""A trial of the namespaces that a lab is made of, in a child process, as `launch` makes them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bridgehead.network import syscalls
from bridgehead.network.uapi.capability import CAP_SYS_ADMIN

from . import kernel_views, user_namespace
from .errors import LabError
from .ids import IdMap
from .namespace_limits import Facts, Limit, Step, explain, is_chrooted, parse_hidden

_FAILED: Final = "\0"  # begins the answer of a trial that failed: step, errno, reason
_SYSCTLS: Final = (
    *("kernel.unprivileged_userns_clone", "kernel.apparmor_restrict_unprivileged_userns"),
    *(f"user.max_{kind}_namespaces" for kind in ("user", "net", "mnt", "pid", "uts", "ipc")),
)
_OTHERS: Final = (
    syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC
)


class _StepFailed(Exception):
    def __init__(self, step: Step, error: OSError) -> None:
        super().__init__(step, error)
        self.step, self.error = step, error


def try_in_namespaces(work: Callable[[], str], *, has_own_ids: bool = True) -> str | Limit:
    """Return the result of `work`, which is called in a child process in the namespaces of a lab, or why there can be
    none.

    `has_own_ids`: in a user namespace, as all labs but those of root with host access. The caller must have no other
    threads.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = ""
        try:
            os.close(reader)
            answer = _try(work, writer, has_own_ids=has_own_ids)
        except BaseException as error:  # noqa: BLE001 - forked: must not return into the command's stack
            answer = f"cannot try this kernel: {type(error).__name__}: {error}"
        finally:
            _write(writer, answer)
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8", errors="replace") as pipe:
        answer = pipe.read()
    ending = _describe_end(os.waitpid(pid, 0)[1])
    if ending and not answer:
        return ending
    if not answer.startswith(_FAILED):
        return answer
    step, number, reason = answer.split(_FAILED)[1:]
    return explain(Step(step), int(number), reason, read_facts())


def _write(pipe: int, answer: str) -> None:
    with contextlib.suppress(OSError):  # the parent has ended
        os.write(pipe, answer.encode(errors="replace"))


def _try(work: Callable[[], str], writer: int, *, has_own_ids: bool) -> str:
    """Return the answer, "" if a child has written it, or has none."""
    try:
        _leave(user_namespace.choose_id_map("", None)[0] if has_own_ids else None)
        pid = os.fork()  # the first process of the new PID namespace
        if pid:
            return _describe_end(os.waitpid(pid, 0)[1])
    except _StepFailed as failure:
        return _describe(failure)
    except LabError as error:
        return str(error)
    answer = ""
    try:
        _mount()
        answer = work()
    except _StepFailed as failure:
        answer = _describe(failure)
    except BaseException as error:  # noqa: BLE001 - as above
        answer = f"cannot try this kernel: {type(error).__name__}: {error}"
    finally:
        _write(writer, answer)
        os._exit(0)


def _describe_end(status: int) -> str:
    """Return why a trial has no answer, from the wait status of its process; "" for one that ended by itself."""
    code = os.waitstatus_to_exitcode(status)
    if not code:
        return ""
    if code > 0:
        return f"cannot try this kernel: the trial of its namespaces ended with code {code}"
    reason = ", as a filter of system calls kills (systemd: `SystemCallFilter=`)" if -code == signal.SIGSYS else ""
    return f"cannot try this kernel: the trial of its namespaces ended by signal {-code}{reason}"


def _describe(failure: _StepFailed) -> str:
    error = failure.error
    return _FAILED.join(("", failure.step, str(error.errno or 0), os.strerror(error.errno or 0)))


@contextlib.contextmanager
def _step(step: Step) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path = str(error.filename or "")
        is_map = path.startswith("/proc/") and path.endswith(("/uid_map", "/gid_map", "/setgroups"))
        raise _StepFailed(Step.ID_MAP if is_map else step, error) from error


def _leave(id_map: IdMap | None) -> None:
    """Enter the namespaces. Raises `_StepFailed`, and `LabError` if newuidmap refuses."""
    if id_map is not None:
        with _step(Step.USER_NAMESPACE):
            namespace = user_namespace.make(id_map)
            if user_namespace.is_full_root():
                with _step(Step.MOUNTS):
                    syscalls.unshare(syscalls.CLONE_NEWNS)
                    _mount_empty("/run")
                kernel_views.show_whole("/run")
            user_namespace.enter(namespace)
    with _step(Step.NAMESPACES):
        syscalls.unshare(_OTHERS)


def _mount() -> None:
    """Do what the lab's first process does to its mounts, and what filters of system calls may forbid."""
    with _step(Step.HOST_NAME):
        syscalls.set_hostname("lab")
    with _step(Step.MOUNTS):
        _mount_empty("/run")
        for name in ("proc", "sys", "root"):
            os.mkdir(f"/run/{name}")
    with _step(Step.PROC):
        kernel_views.mount_proc("/run/proc")
    with _step(Step.SYSFS):
        kernel_views.mount_sysfs("/run/sys")
    # `work` reads the files of the new namespaces.
    with _step(Step.MOUNTS):
        for name in ("proc", "sys"):
            syscalls.mount(f"/run/{name}", f"/{name}", flags=syscalls.MS_BIND)
        _bind_root("/run/root")
    os.chdir("/run/root")
    with _step(Step.ROOT):
        syscalls.pivot_root(".", ".")
    with _step(Step.MOUNTS):
        syscalls.umount(".", syscalls.MNT_DETACH)
    os.chdir("/")


def _bind_root(target: str) -> None:
    mount, where = syscalls.clone_mount("/"), os.open(target, os.O_PATH | os.O_CLOEXEC)
    try:
        syscalls.set_mount_attributes(mount, syscalls.MOUNT_ATTR_NODEV)
        syscalls.attach_mount(mount, where)
    finally:
        os.close(mount)
        os.close(where)


def _mount_empty(directory: str) -> None:
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", directory, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")


def read_facts() -> Facts:
    """Return the possible reasons why this process may make no namespaces."""
    mountinfo = _read("/proc/self/mountinfo")
    sysctls = {name: _read(f"/proc/sys/{name.replace('.', '/')}").strip() for name in _SYSCTLS}
    status = dict(line.partition(":")[::2] for line in _read("/proc/self/status").splitlines())
    return Facts(
        sysctls={name: int(value) for name, value in sysctls.items() if value.isdecimal()},
        profile=_read("/proc/self/attr/apparmor/current").strip("\0\n")
        or _read("/proc/self/attr/current").strip("\0\n"),
        hidden=parse_hidden(mountinfo),
        is_root=os.geteuid() == 0,
        can_mount=user_namespace.has_capability(CAP_SYS_ADMIN),
        has_filter=status.get("Seccomp", "").strip() == "2",
        is_chrooted=is_chrooted(mountinfo),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", errors="replace")
    except OSError:
        return ""
