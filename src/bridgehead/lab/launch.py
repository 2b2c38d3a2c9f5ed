"""Leaves the host: from the `up` command into the lab's own namespaces, where the lab's first process (init) starts.

    up ── fork ── middle ── fork ── new user, PID, mount, network ... namespaces ── fork ── init (pid 1)

The middle process stays in the host's namespaces, records the PID of init, and ends. Init has no parent on the host and
holds the lab's lock until it ends. While init builds the network and loads the code of the parts, `up` writes the files
that the parts need.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bridgehead.heap import no_collection
from bridgehead.kubelet.runtimes.isolation import cgroups, privileges, seccomp
from bridgehead.network import syscalls

from . import kernel_views, roots, state_directories, user_namespace
from .child_calls import ChildCall
from .errors import StartFailed
from .fabric import build_bridge, build_nodes
from .ids import IdMap
from .node_init import NodeInit
from .outside_names import render_node_resolver
from .plan import (
    LabConfig,
    LabFiles,
    PartPlan,
    RunningLab,
    plan_container_capabilities,
    plan_container_lines,
    plan_nodes,
    plan_parts,
    plan_servers,
)
from .puller import fork_puller
from .supervisor import RunPart, Supervisor

log = logging.getLogger(__name__)

_NAMESPACES = (
    syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC
)
# Variables of the user's environment that the lab keeps. Other variables can contain secrets.
_KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")

Preload = Callable[[Iterable[Sequence[str]]], None]

# Init's answer to `launch`; any other answer is the text of an error.
_READY = "ready"


def launch(
    config: LabConfig,
    files: LabFiles,
    *,
    id_map: IdMap | None,
    api_socket: socket.socket,
    published: Sequence[socket.socket] = (),
    lock_fd: int,
    run_part: RunPart,
    preload: Preload,
    puller: Sequence[str],
    prepare: Callable[[], None],
) -> None:
    """Start the lab's first process and return when it has built the lab's network. Raises `StartFailed`.

    `id_map` is the map of the lab's user namespace; None for no user namespace, so that the lab's root is the
    machine's. `api_socket` listens on the host's loopback and is passed to init, as are the sockets of the ports that
    the configuration publishes. `lock_fd` holds the lock of the state
    directory and stays open in init. `run_part(argv)` runs one part in the calling process; `preload(lines)` loads the
    code that these command lines need. `puller` is the program that pulls images (see `fork_puller`). `prepare()` is
    called meanwhile in this process; no part starts before it has returned, and its exceptions are raised here. The
    caller must have no other threads. SIGINT, SIGTERM and SIGHUP are blocked meanwhile: after the return, or the
    exception, the caller can stop the lab.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    cgroup = None
    try:
        reader, writer = os.pipe()
        prepared, release = os.pipe()
        user, group = id_map.root if id_map else (os.geteuid(), os.getegid())
        delegated = cgroups.prepare_delegation(config.name, user, group)
        cgroup, lack_of_cgroup = (None, delegated) if isinstance(delegated, str) else (delegated, "")
        middle = os.fork()
        if middle == 0:
            try:
                os.close(reader)
                os.close(release)
                shown = () if config.host_access else tuple(roots.shown_paths(files))
                # O_NOFOLLOW: the directory belongs to the lab, which could have put a link there.
                log_fd = os.open(files.log("init"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
                inherited = _Inherited(
                    api_socket, tuple(published), lock_fd, log_fd, writer, prepared, shown, cgroup, lack_of_cgroup
                )
                pid = _fork_init(config, files, id_map, held, inherited, run_part, preload)
                fork_puller(config, files, id_map, pid, puller)
                # Recorded here, not by `up`, so that the lab can be found and stopped even if `up` is killed.
                running = RunningLab(
                    config=config,
                    init_pid=pid,
                    started_at=time.time(),
                    pid_namespace=state_directories.pid_namespace(),
                    cgroup=cgroup.directory if cgroup else "",
                )
                files.running.write_bytes(msgspec.json.encode(running))
                os._exit(0)
            except BaseException as error:  # noqa: BLE001 - forked: must not return into the command's stack
                with contextlib.suppress(OSError):  # `up` was killed, or has already received the answer
                    os.write(writer, f"{type(error).__name__}: {error}\n".encode())
                os._exit(1)
        os.close(writer)
        os.close(prepared)
        with open(reader, encoding="utf-8") as answers:
            try:
                with open(release, "wb", buffering=0) as go:
                    prepare()
                    with contextlib.suppress(BrokenPipeError):  # init has ended and reported the reason
                        go.write(b"!")
            finally:
                answer = answers.read().strip()
                os.waitpid(middle, 0)
        if answer != _READY:
            raise StartFailed(answer or "the lab's first process ended without an error message")
    except BaseException:
        if cgroup:
            with contextlib.suppress(OSError):  # the next `up` tries again
                cgroups.remove_delegation(cgroup.directory)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _fork_init(
    config: LabConfig,
    files: LabFiles,
    id_map: IdMap | None,
    signal_mask: set[int | signal.Signals],
    inherited: _Inherited,
    run_part: RunPart,
    preload: Preload,
) -> int:
    """Fork a process that leaves the host and forks init. Return init's PID in the host's PID namespace."""
    reader, writer = os.pipe()
    leaver = os.fork()
    if leaver == 0:
        try:
            os.close(reader)
            _leave_host(files, id_map, inherited, signal_mask)
            pid = os.fork()
            if pid:
                os.write(writer, str(pid).encode())
                os._exit(0)
            os.close(writer)
            _become_init(config, files, inherited, run_part, preload)
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - forked: must not return into the command's stack
            with contextlib.suppress(OSError):
                os.write(inherited.progress, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
    os.close(writer)
    with open(reader, encoding="ascii") as answers:
        answer = answers.read()
    os.waitpid(leaver, 0)
    if not answer:
        os._exit(1)  # the process has reported the reason itself
    return int(answer)


def _leave_host(
    files: LabFiles, id_map: IdMap | None, inherited: _Inherited, signal_mask: set[int | signal.Signals]
) -> None:
    """Enter new namespaces, and stage the files of the machine that the lab will show."""
    os.setsid()
    with contextlib.suppress(OSError):  # the session keyring can contain the user's keys
        syscalls.join_session_keyring()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Until there is a supervisor that stops the parts in order. (Process 1 ignores signals without a handler.)
        signal.signal(number, lambda *_: os._exit(1))
    signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
    if inherited.cgroup:
        inherited.cgroup.enter()
    if id_map is not None and inherited.shown:
        _stage_and_enter(files, id_map, inherited)
    elif id_map is not None:
        user_namespace.enter(user_namespace.make(id_map))
    syscalls.unshare(_NAMESPACES)


def _stage_and_enter(files: LabFiles, id_map: IdMap, inherited: _Inherited) -> None:
    """Stage in a mount namespace of a user namespace above the lab's own.

    For root, that is the present user namespace. Other users, and root without CAP_SYS_ADMIN, cannot mount there, so
    they get two user namespaces with the same ids: one for staging, and one below it for the lab.
    """
    namespace = user_namespace.make(id_map)
    if user_namespace.is_full_root():
        syscalls.unshare(syscalls.CLONE_NEWNS)
        roots.stage(inherited.shown, files, namespace, inherited.cgroup)
        user_namespace.enter(namespace)
    else:
        user_namespace.enter(namespace)
        syscalls.unshare(syscalls.CLONE_NEWNS)
        roots.stage(inherited.shown, files, None, inherited.cgroup)
        user_namespace.enter(user_namespace.make(id_map.nested))


class _Inherited(NamedTuple):
    """Descriptors and paths that init inherits from `up`. `progress` (written) and `prepared` (read) are pipes, `shown`
    are paths (see `roots`); `lack_of_cgroup` is the reason why there is no `cgroup`."""

    api_socket: socket.socket
    published: tuple[socket.socket, ...]
    lock_fd: int
    log_fd: int
    progress: int
    prepared: int
    shown: tuple[str, ...]
    cgroup: cgroups.Prepared | None
    lack_of_cgroup: str


def _become_init(
    config: LabConfig,
    files: LabFiles,
    inherited: _Inherited,
    run_part: RunPart,
    preload: Preload,
) -> None:
    api_socket, published, lock_fd, log_fd, progress, prepared, shown, cgroup, lack_of_cgroup = inherited
    listening = [api_socket.fileno(), *(bound.fileno() for bound in published)]
    os.set_inheritable(lock_fd, False)
    os.chdir("/")
    os.umask(0o022)
    _redirect_standard_streams(log_fd)
    _close_inherited({*listening, lock_fd, progress, prepared})
    syscalls.set_hostname("lab")
    syscalls.set_process_name("bridgehead-lab", f"bridgehead-lab {config.name}")
    _forget_environment(_KEPT_ENVIRONMENT)
    if config.host_access:
        _mount_own_view(cgroup)
    else:
        roots.enter_lab_root(shown)
    nodes, resolver = plan_nodes(config), render_node_resolver(config)
    build_bridge(plan_servers(config), config.ranges)
    fabric = ChildCall(lambda: build_nodes(nodes, config.ranges))  # beside the start of the API server
    for node in nodes:
        files.manifests(node).mkdir(parents=True, exist_ok=True)
        if config.host_access:
            roots.make_runtime_root(node, resolver)
    parts = plan_parts(
        config, files, listen_fd=listening[0], lack_of_cgroup=lack_of_cgroup, published_fds=listening[1:]
    )
    with no_collection():
        preload(_command_lines(part for part in parts if part.starts_first))
    if not os.read(prepared, 1):
        os._exit(1)  # `up` has failed and reports the reason itself
    os.close(prepared)
    node_inits = {} if config.host_access else {node.name: NodeInit(files, node, resolver) for node in nodes}
    supervisor = Supervisor(parts, files, run_part, node_inits)
    supervisor.start_first()
    fabric.wait()
    for node_init in node_inits.values():
        node_init.start()
    for node_init in node_inits.values():
        node_init.wait_built()
    os.write(progress, _READY.encode())
    os.close(progress)  # later errors go to the log
    log.info("lab %s with %s", config.name, "1 node" if config.nodes == 1 else f"{config.nodes} nodes")
    try:
        _load_rest(preload, config, parts)
        supervisor.run()
    except Exception:
        log.exception("the lab's first process ends")
        os._exit(1)


def _command_lines(parts: Iterable[PartPlan]) -> list[Sequence[str]]:
    return [part.argv for part in parts if not part.is_program]


def _load_rest(preload: Preload, config: LabConfig, parts: Sequence[PartPlan]) -> None:
    """Load what the parts that start first do not need, and compile the runtimes' seccomp filters (25 ms each) once for
    all of them."""
    with no_collection():
        later = _command_lines(part for part in parts if not part.starts_first)
        preload([*later, *plan_container_lines(config)])
    with contextlib.suppress(seccomp.SeccompUnavailable):  # reported when a container starts
        for capabilities in (privileges.DEFAULT_CAPABILITIES, *plan_container_capabilities(config)):
            seccomp.default_filter(capabilities)


def _forget_environment(kept: Collection[str]) -> None:
    """Remove all variables but `kept` from this process, and from /proc/PID/environ, which shows the initial ones.

    Every process of the lab is a fork and would keep them in memory.
    """
    for name in list(os.environ):
        if name not in kept:
            del os.environ[name]
    for name, value in list(os.environ.items()):
        os.environ[name] = value  # set again, because the memory of the old strings is overwritten below
    # The fields from the 3rd on, after the name, which can contain any character: proc_pid_stat(5).
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)


def _mount_own_view(cgroup: cgroups.Prepared | None) -> None:
    """Mount /proc and /sys, which show the lab's namespaces, and a /run of the lab's own."""
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    kernel_views.mount_proc("/proc")
    syscalls.mount("tmpfs", "/run", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    Path("/run/bridgehead").mkdir()
    if cgroup:
        cgroup.show("/run/bridgehead/cgroup")
    kernel_views.mount_sysfs("/sys")


def _redirect_standard_streams(output: int) -> None:
    """Detach init from the terminal of `up`: it reads nothing and writes to its log."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(null)
    os.close(output)


def _close_inherited(kept: set[int]) -> None:
    """Close all inherited descriptors but `kept`: a caller of `up` may wait for the end of file of its pipe."""
    for entry in os.listdir("/proc/self/fd"):
        fd = int(entry)
        if fd > 2 and fd not in kept:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(fd)
