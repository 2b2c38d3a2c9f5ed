"""Leaves the host: from the `up` command into the lab's own namespaces, where its first process begins.

    up ── fork ── (new user namespace, unless root) ── new PID, mount, network ... namespaces ── fork ── init (pid 1)

The middle process notes which one init is and ends; init belongs to nobody on the host and holds the lab's lock until
it ends. While init makes the network and loads what the parts need, `up` makes what they find on the disk.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bridgehead.network import syscalls

from .errors import StartFailed
from .fabric import build_fabric
from .plan import LabConfig, LabFiles, RunningLab, plan_nodes, plan_parts
from .supervisor import RunPart, Supervisor

log = logging.getLogger(__name__)

_NAMESPACES = (
    syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC
)

# What runs in a lab in containers, which runtimes fork from themselves.
_IN_CONTAINERS = (("proxy",), ("dns",))

Preload = Callable[[Iterable[Sequence[str]]], None]

# What init answers to `launch`; anything else is an error's text.
_READY = "ready"


def launch(
    config: LabConfig,
    files: LabFiles,
    *,
    api_socket: socket.socket,
    lock_fd: int,
    run_part: RunPart,
    preload: Preload,
    prepare: Callable[[], None],
) -> None:
    """Start the lab's first process and return when it has made the lab's network. Raises `StartFailed`.

    `api_socket` listens on the host's loopback and is passed in. `lock_fd` holds the state directory's lock and is
    kept by init. `run_part(argv)` runs one part in the calling process; `preload(lines)` loads what these command lines
    need. `prepare()` is called here, in the meantime, and no part starts before it has returned; what it raises is
    raised. The caller must have no other threads. Signals that ask it to end are held back meanwhile: once it returns,
    or raises, the lab that it may have started can be stopped.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        reader, writer = os.pipe()
        prepared, release = os.pipe()
        middle = os.fork()
        if middle == 0:
            try:
                os.close(reader)
                os.close(release)
                _leave_host(held)
                pid = os.fork()
                if pid:
                    # Noted here, not by `up`: a lab must be found and stopped even if `up` is killed.
                    running = RunningLab(config=config, init_pid=pid, started_at=time.time())
                    files.running.write_bytes(msgspec.json.encode(running))
                    os._exit(0)
                _become_init(config, files, _Inherited(api_socket, lock_fd, writer, prepared), run_part, preload)
                os._exit(0)
            except BaseException as error:  # noqa: BLE001 - forked: must not return into the command's stack
                with contextlib.suppress(OSError):  # `up` was killed, or has heard already that all is well
                    os.write(writer, f"{type(error).__name__}: {error}\n".encode())
                os._exit(1)
        os.close(writer)
        os.close(prepared)
        with open(reader, encoding="utf-8") as answers:
            try:
                with open(release, "wb", buffering=0) as go:
                    prepare()
                    with contextlib.suppress(BrokenPipeError):  # it has ended, and has said why
                        go.write(b"!")
            finally:
                answer = answers.read().strip()
                os.waitpid(middle, 0)
        if answer != _READY:
            raise StartFailed(answer or "the lab's first process ended before it said anything")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _leave_host(signal_mask: set[int | signal.Signals]) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Asked to end before there is a supervisor to do it in order. (Process 1 ignores what it has no handler for.)
        signal.signal(number, lambda *_: os._exit(1))
    signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
    user, group = os.getuid(), os.getgid()
    if user != 0:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        # Without privileges on the host one can only map oneself, and must give up setgroups first: user_namespaces(7).
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")
    syscalls.unshare(_NAMESPACES)


class _Inherited(NamedTuple):
    """What init has of `up`. It writes to `progress` and reads from `prepared`, which are pipes."""

    api_socket: socket.socket
    lock_fd: int
    progress: int
    prepared: int


def _become_init(
    config: LabConfig,
    files: LabFiles,
    inherited: _Inherited,
    run_part: RunPart,
    preload: Preload,
) -> None:
    api_socket, lock_fd, progress, prepared = inherited
    os.set_inheritable(lock_fd, False)
    os.chdir("/")
    os.umask(0o022)
    _redirect_standard_streams(files.log("init"))
    _close_inherited({api_socket.fileno(), lock_fd, progress, prepared})
    syscalls.set_hostname("lab")
    syscalls.set_process_name("bridgehead-lab", f"bridgehead-lab {config.name}")
    _mount_own_view()
    nodes = plan_nodes(config)
    build_fabric(nodes, config.ranges)
    for node in nodes:
        files.node(node).mkdir(parents=True, exist_ok=True)
        Path(node.runtime_root).mkdir(parents=True, exist_ok=True)
    parts = plan_parts(config, files, listen_fd=api_socket.fileno())
    _load(preload, [parts[0].argv])
    if not os.read(prepared, 1):
        os._exit(1)  # `up` has failed, and says why itself
    os.close(prepared)
    os.write(progress, _READY.encode())
    os.close(progress)  # from here on problems go to the log
    log.info("lab %s with %d nodes", config.name, config.nodes)
    try:
        Supervisor(parts, files, run_part).run(
            lambda: _load(preload, [*(part.argv for part in parts[1:]), *_IN_CONTAINERS])
        )
    except Exception:
        log.exception("the lab's first process ends")
        os._exit(1)


def _load(preload: Preload, lines: Iterable[Sequence[str]]) -> None:
    """Nothing of what is loaded is to be freed: to look for that again and again would take a tenth of the time."""
    gc.disable()
    try:
        preload(lines)
    finally:
        gc.enable()


def _mount_own_view() -> None:
    """/proc and /sys that show the lab's namespaces, and a /run of its own."""
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
    syscalls.mount("sysfs", "/sys", "sysfs", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
    syscalls.mount("tmpfs", "/run", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    Path("/run/bridgehead").mkdir()


def _redirect_standard_streams(output: Path) -> None:
    """Init reads nothing and writes to its log; it must not hold on to the terminal of `up`."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(null)
    os.close(out)


def _close_inherited(kept: set[int]) -> None:
    """Whoever started `up` may wait for the end of a pipe that it passed on, and no pod shall have it."""
    for entry in os.listdir("/proc/self/fd"):
        fd = int(entry)
        if fd > 2 and fd not in kept:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(fd)
