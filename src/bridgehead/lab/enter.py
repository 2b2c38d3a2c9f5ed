"""Runs a command inside a running lab, or on one of its nodes, with the caller's terminal."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence

from bridgehead.network import syscalls

from .errors import LabError
from .plan import NodePlan, RunningLab, plan_nodes

_OF_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


def find_node(lab: RunningLab, name: str) -> NodePlan:
    """Raises `LabError` when the lab has no such node."""
    for node in plan_nodes(lab.config):
        if node.name == name:
            return node
    raise LabError(f"no node {name!r}: this lab has node1 to node{lab.config.nodes}")


def run_inside(lab: RunningLab, argv: Sequence[str], *, node: NodePlan | None, env: dict[str, str]) -> int:
    """Run `argv` to its end; the result is its exit code, as a shell would give it (127: no such command).

    The signals that reach this process are passed on, and the command does not outlive it.
    """
    # Until there is somebody to pass them on to.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*_OF_THE_TERMINAL, *_PASSED_ON))
    pid = os.fork()
    if pid == 0:
        try:
            _enter(lab, node)
            syscalls.set_parent_death_signal(signal.SIGKILL)
            # A PID namespace takes effect for children only.
            inner = os.fork()
            if inner == 0:
                syscalls.set_parent_death_signal(signal.SIGKILL)
                _mount_kernel_views()
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                _execute(argv, env)
            os._exit(_wait(inner, mask))
        except OSError as error:
            os.write(2, f"bridgehead: cannot enter the lab: {error}\n".encode())
            os._exit(126)
    code = _wait(pid, mask)
    _take_back_terminal()
    return code


def _enter(lab: RunningLab, node: NodePlan | None) -> None:
    """Enter the namespaces of the lab or of a node, but keep the caller's files: no pod's are to be trusted."""
    process = f"/proc/{lab.init_pid}"
    paths = {kind: f"{process}/ns/{kind}" for kind in ("ipc", "uts", "net", "pid")}
    if node:
        paths |= {"net": f"{process}/root{node.netns}", "uts": f"{process}/root{node.utsns}"}
    # Opened first: after entering one, the paths may mean something else.
    fds = {kind: os.open(path, os.O_RDONLY | os.O_CLOEXEC) for kind, path in paths.items()}
    # The machine's root stays who it is: in the lab it would be nobody.
    if os.geteuid() != 0:
        fds = {"user": _open_user_namespace(f"{process}/ns/user"), **fds}
    for fd in fds.values():
        syscalls.setns(fd)
        os.close(fd)
    if "user" in fds:
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)


def _open_user_namespace(path: str) -> int:
    """The user namespace above the lab's, in which its owner is root, too, and which no pod can change.

    Root of the lab, which privileged pods are, could register an interpreter (binfmt_misc) for what is executed in its
    own one. A lab with host access has only one.
    """
    own = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    parent = syscalls.open_parent_namespace(own)
    if os.path.samestat(os.fstat(parent), os.stat("/proc/self/ns/user")):
        os.close(parent)
        return own
    os.close(own)
    return parent


def _mount_kernel_views() -> None:
    """/proc and /sys show the namespaces of the process that mounts them."""
    for kind, target in (("proc", "/proc"), ("sysfs", "/sys")):
        syscalls.mount(kind, target, kind, syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)


def _execute(argv: Sequence[str], env: dict[str, str]) -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored stays so over exec
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), env)
    except FileNotFoundError:
        os.write(2, f"bridgehead: {argv[0]}: command not found\n".encode())
        os._exit(127)
    except OSError as error:
        os.write(2, f"bridgehead: {argv[0]}: {error.strerror}\n".encode())
        os._exit(126)


def _wait(pid: int, mask: set[int | signal.Signals]) -> int:
    """Wait for a child that shares our terminal: Ctrl-C is for it, and ends us when it ends."""

    def pass_on(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    for number in _OF_THE_TERMINAL:
        signal.signal(number, signal.SIG_IGN)
    for number in _PASSED_ON:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` wants it
            signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _take_back_terminal() -> None:
    """A shell with jobs makes the terminal its own and, in another PID namespace, cannot say whose it was before."""
    with contextlib.suppress(OSError):  # no terminal, or somebody else's
        try:
            os.killpg(os.tcgetpgrp(0), 0)
        except ProcessLookupError:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, os.getpgrp())
