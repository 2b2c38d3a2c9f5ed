"""Enters the namespaces of a running lab; runs a command there, or on a node, with the caller's terminal."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Mapping, Sequence

from bridgehead.network import syscalls

from . import kernel_views, user_namespace
from .errors import LabError
from .packages import how_to_install
from .plan import NodePlan, RunningLab, plan_nodes

_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT)
_FORWARDED = (signal.SIGTERM, signal.SIGHUP)


def find_node(lab: RunningLab, name: str) -> NodePlan:
    """Return the node with this name. Raises `LabError` when the lab has no such node."""
    for node in plan_nodes(lab.config):
        if node.name == name:
            return node
    raise LabError(f"no node {name!r}: this lab has node1 to node{lab.config.nodes}")


def run_inside(lab: RunningLab, argv: Sequence[str], *, node: NodePlan | None, env: dict[str, str]) -> int:
    """Run `argv` and return its exit code, with a shell's meaning (127: no such command).

    Signals that this process receives are forwarded to the command, which does not outlive this process.
    """
    # Blocked until the child exists, so that none is lost.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*_TERMINAL_SIGNALS, *_FORWARDED))
    pid = os.fork()
    if pid == 0:
        try:
            _enter(lab, node)
            syscalls.set_parent_death_signal(signal.SIGKILL)
            # A PID namespace takes effect for children only.
            inner = os.fork()
            if inner == 0:
                syscalls.set_parent_death_signal(signal.SIGKILL)
                mount_kernel_views()
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                _execute(argv, env)
            os._exit(_wait(inner, mask))
        except OSError as error:
            os.write(2, f"bridgehead: cannot enter the lab: {error}\n".encode())
            os._exit(126)
    code = _wait(pid, mask)
    _take_back_terminal()
    return code


def network_path(lab: RunningLab, node: NodePlan | None) -> str:
    """Return the path of the network namespace of a node, or of the lab itself, for a process of this machine."""
    return f"/proc/{lab.init_pid}/root{node.netns}" if node else f"/proc/{lab.init_pid}/ns/net"


def enter_network(lab: RunningLab, path: str, inode: int | None = None) -> None:
    """Enter the network namespace at `path`, with the rights of root there; the process keeps everything else.

    The process must have one thread only. Raises OSError, FileNotFoundError also if the namespace has not this `inode`.
    """
    _enter_network_of(f"/proc/{lab.init_pid}", {}, path, inode)


def enter_as_program(lab: RunningLab, path: str, inode: int | None = None) -> None:
    """Do as `enter_network`, and enter the lab's other namespaces, but keep the caller's files.

    The program has to be executed by a child, which calls `mount_kernel_views` before.
    """
    process = f"/proc/{lab.init_pid}"
    _enter_network_of(process, {kind: f"{process}/ns/{kind}" for kind in ("ipc", "uts", "pid")}, path, inode)
    _copy_mounts()


def _enter(lab: RunningLab, node: NodePlan | None) -> None:
    """Enter the namespaces of the lab or of a node, but keep the caller's files, because pods cannot be trusted."""
    process = f"/proc/{lab.init_pid}"
    others = {kind: f"{process}/ns/{kind}" for kind in ("ipc", "uts", "pid")}
    if node:
        others["uts"] = f"{process}/root{node.utsns}"
    _enter_network_of(process, others, network_path(lab, node), None)
    _copy_mounts()


def _enter_network_of(process: str, others: Mapping[str, str], path: str, inode: int | None) -> None:
    """Enter a network namespace and those at the paths `others`, as root of a user namespace to which all belong."""
    paths = {**others, "net": path}
    # Opened before the first setns, after which the paths may mean something else.
    fds = {kind: os.open(path, os.O_RDONLY | os.O_CLOEXEC) for kind, path in paths.items()}
    if inode is not None and os.fstat(fds["net"]).st_ino != inode:
        raise FileNotFoundError(errno.ENOENT, "the network namespace has been removed")
    # The machine's root keeps its id: in the lab's user namespace it would be the overflow id (nobody).
    if not user_namespace.is_full_root():
        fds = {"user": open_user_namespace(f"{process}/ns/user"), **fds}
    for kind, fd in fds.items():
        syscalls.setns(fd, syscalls.CLONE_NEWNET if kind == "net" else 0)
        os.close(fd)
    if "user" in fds:
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)


def _copy_mounts() -> None:
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)


def open_user_namespace(path: str) -> int:
    """Open the user namespace above the lab's, in which the lab's owner is root and which no pod can change.

    Root of the lab, which privileged pods are, could register an interpreter (binfmt_misc) for programs that are
    executed in the lab's own user namespace. A lab with host access has only one user namespace.
    """
    own = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    parent = syscalls.open_parent_namespace(own)
    if os.path.samestat(os.fstat(parent), os.stat("/proc/self/ns/user")):
        os.close(parent)
        return own
    os.close(own)
    return parent


def mount_kernel_views() -> None:
    """Mount /proc and /sys, which show the namespaces of the process that mounts them."""
    kernel_views.mount_proc("/proc")
    kernel_views.mount_sysfs("/sys")


def _execute(argv: Sequence[str], env: dict[str, str]) -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and ignored signals stay ignored after exec
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), env)
    except FileNotFoundError:
        advice = how_to_install(argv[0])
        os.write(2, f"bridgehead: {argv[0]}: command not found{advice and f'; {advice}'}\n".encode())
        os._exit(127)
    except OSError as error:
        os.write(2, f"bridgehead: {argv[0]}: {error.strerror}\n".encode())
        os._exit(126)


def _wait(pid: int, mask: set[int | signal.Signals]) -> int:
    """Wait for a child that shares our terminal: Ctrl-C goes to the child, and this process ends with it."""

    def forward(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    for number in _TERMINAL_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    for number in _FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores SIGHUP
            signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _take_back_terminal() -> None:
    """Make this process group the terminal's foreground group again. An interactive shell takes the terminal for itself
    and, in another PID namespace, cannot restore the former group."""
    with contextlib.suppress(OSError):  # no terminal, or another session's
        try:
            os.killpg(os.tcgetpgrp(0), 0)
        except ProcessLookupError:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, os.getpgrp())
