"""Supervisor of the lab's parts: starts them, restarts those that die or hang, and stops them at the end.

This is the loop of process 1 of the lab's PID namespace. It stays single-threaded, because every part (and, through the
runtimes, every pod) is a fork of it: all of them share the modules that are imported here.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from bridgehead.backoff import Backoff
from bridgehead.kubelet.runtimes.spawn.container_init import run_job
from bridgehead.kubelet.runtimes.spawn.forking import prepare_to_fork
from bridgehead.kubelet.runtimes.spawn.zygote import fork_zygote
from bridgehead.network import syscalls

from .node_init import NodeInit
from .part_watch import SILENT_SECONDS, PartWatch
from .plan import LabFiles, PartPlan, PartStatus

log = logging.getLogger(__name__)

# Kubernetes waits 10 s and more for containers; the lab's own parts are restarted immediately. A part that does not
# come up waits longer each time; a part that ran for a few seconds works, so its end is no reason to wait.
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 5.0
_STABLE_AFTER = 2.0
_STOP_BOUND = 5.0
# A member of etcd that leads looks for a successor for 7 s, also when all others end. The disk already has all that it
# has acknowledged.
_ETCD_STOP_BOUND = 1.0
# Time until the statuses of the parts are written again, after an error (seconds).
_PUBLISH_AGAIN = 1.0
# Signals whose handlers, or ignored state, parts must not inherit from init or from the user's shell.
_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)

RunPart = Callable[[list[str]], None]


def restart_backoff() -> Backoff:
    return Backoff(_FIRST_DELAY, _LONGEST_DELAY)


def restart_delay(backoff: Backoff, lived: float) -> float:
    """Return the seconds after which a part is started again that ran for `lived` seconds."""
    if lived > _STABLE_AFTER:
        backoff.reset()
    return backoff.next()


@dataclass
class _Part:
    plan: PartPlan
    status: PartStatus
    backoff: Backoff = field(default_factory=restart_backoff)
    due: float = 0.0  # monotonic, as the next one: time of the next start, time of the last start
    began: float = 0.0
    watch: PartWatch | None = None  # None: the part does not run, or is another program, which sends no heartbeats


class Supervisor:
    """Runs `plans` with `run_part` until SIGTERM, SIGINT or the deletion of the state directory.

    `node_inits` are by node name; a node without one shares the lab's processes and files. A part that hangs for
    `silent_seconds` is restarted.
    """

    def __init__(
        self,
        plans: Sequence[PartPlan],
        files: LabFiles,
        run_part: RunPart,
        node_inits: Mapping[str, NodeInit] | None = None,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._node_inits = node_inits or {}
        self._parts = [_Part(plan, PartStatus(name=plan.name)) for plan in plans]
        self._files = files
        self._run_part = run_part
        self._lock = _LockWatch(files.lock)
        self._stopping = False
        self._is_published = True
        self._silent_seconds = silent_seconds

    def start_first(self) -> None:
        """Start the parts for which the others wait; `run` watches them later. From now on, signals stop `run`."""
        self._handle_signals()
        prepare_to_fork()
        self._start_due([part for part in self._parts if part.plan.starts_first])

    def run(self) -> None:
        """Run until a signal stops it."""
        wakeup, signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        self._handle_signals()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        prepare_to_fork()
        while not self._stopping and not self._lock.is_gone():
            self._start_due(self._parts)
            watches = [part.watch for part in self._parts if part.watch]
            descriptors = (wakeup, *self._lock.fds, *(watch.pipe for watch in watches))
            readable = _wait_readable(descriptors, self._time_to_next_work())
            for watch in watches:
                watch.check(has_beat=watch.pipe in readable)
            self._reap()
            if not self._is_published:
                self._publish()
        if self._stopping:
            log.info("the lab is stopped")  # the reason that a waiting `up` prints
        self._stop_parts(wakeup)

    def _handle_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _start_due(self, parts: Iterable[_Part]) -> None:
        now, changed = time.monotonic(), False
        for part in parts:
            if part.status.pid == 0 and part.due <= now:
                changed = True
                part.status.started_at, part.began = time.time(), now
                try:
                    part.status.pid = self._fork_watched(part)
                except OSError as error:
                    self._record_end(part, f"cannot fork: {error.strerror}")
        if changed:
            self._publish()

    def _time_to_next_work(self) -> float | None:
        now = time.monotonic()
        waiting = [max(0.0, part.due - now) for part in self._parts if part.status.pid == 0]
        checks = [part.watch.seconds_to_check() for part in self._parts if part.watch]
        return min([*waiting, *checks, *(() if self._is_published else (_PUBLISH_AGAIN,))], default=None)

    def _fork_watched(self, part: _Part) -> int:
        if part.plan.is_program:
            return self._fork(part.plan, None)
        watch = PartWatch(part.plan.name, self._silent_seconds)
        try:
            pid = self._fork(part.plan, watch)
        except OSError:
            watch.close()
            raise
        watch.watch(pid)
        part.watch = watch
        return pid

    def _fork(self, plan: PartPlan, watch: PartWatch | None) -> int:
        node_init = self._node_inits.get(plan.node.name) if plan.node else None
        # Blocked, so that no signal runs the parent's handlers in the child.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        pid = -1
        try:
            pid = node_init.fork() if node_init else os.fork()
        finally:
            if pid:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if pid:
            return pid
        # The child must never return into the supervisor's loop.
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            self._lock.close()
            for number in _HANDLED:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.setsid()
            _redirect_output(self._files.log(plan.name))
            syscalls.set_process_name(plan.name, f"bridgehead {plan.name}")
            if plan.node:
                syscalls.setns(plan.node.netns, syscalls.CLONE_NEWNET)
                syscalls.setns(plan.node.utsns, syscalls.CLONE_NEWUTS)
            if node_init:
                node_init.enter_root()
            _close_all_but((*plan.descriptors, *((watch.keep(),) if watch else ())))
            if plan.is_program:
                os.execvp(plan.argv[0], plan.argv)
            if plan.zygote is not None:
                _move(fork_zygote(partial(run_job, self._run_part)).detach(), plan.zygote)
            if watch:
                watch.install()  # not in the zygote, whose forks are containers
            self._run_part(list(plan.argv))
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            logging.getLogger(plan.name).exception("died")
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:  # flushing fails when the disk is full
                os._exit(code)

    def _reap(self) -> None:
        """Collect all ended children: parts, and orphans, which the kernel gives to process 1."""
        changed = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            for part in self._parts:
                if part.status.pid == pid:
                    code = os.waitstatus_to_exitcode(status)
                    self._record_end(part, f"exit code {code}" if code >= 0 else f"signal {_signal_name(-code)}")
                    changed = True
        if changed:
            self._publish()

    def _record_end(self, part: _Part, reason: str) -> None:
        now = time.monotonic()
        lived = now - part.began
        delay = restart_delay(part.backoff, lived)
        part.due = now + delay
        if part.watch:
            part.watch.close()
            reason = part.watch.hang or reason
            part.watch = None
        part.status.pid = 0
        part.status.restarts += 1
        part.status.last_exit = reason
        if not self._stopping:
            text = "%s ended: %s after %.1f s; restarting it in %.1f s"
            log.warning(text, part.plan.name, reason, lived, delay)

    def _publish(self) -> None:
        temporary = self._files.parts.with_suffix(".new")
        try:
            temporary.write_bytes(msgspec.json.encode([part.status for part in self._parts]))
            temporary.rename(self._files.parts)
        except OSError as error:  # a full disk breaks only the table of `bridgehead status`, until it has space
            if self._is_published:
                log.warning("cannot write %s: %s; trying again", self._files.parts, error.strerror)
            self._is_published = False
        else:
            self._is_published = True

    def _stop_parts(self, wakeup: int) -> None:
        """Stop the parts: kubelets before the runtimes, whose end they would take for the pods' failure, and the API
        servers and then etcd last, so that the others can finish their writes."""
        deadline = time.monotonic() + _STOP_BOUND
        groups: list[list[_Part]] = [[], [], [], []]
        for part in self._parts:
            groups[_stop_phase(part.plan.name)].append(part)
        for group in groups:
            for part in group:
                if part.status.pid:
                    _signal(part.status.pid, signal.SIGTERM)
            if group is groups[-1]:
                deadline = min(deadline, time.monotonic() + _ETCD_STOP_BOUND)
            while any(part.status.pid for part in group) and time.monotonic() < deadline:
                _wait_readable((wakeup,), deadline - time.monotonic())
                self._reap()


def _stop_phase(name: str) -> int:
    """Return the phase of the lab's end, 0 to 3, in which the part `name` is stopped."""
    return {"runtime": 1, "apiserver": 2, "etcd": 3}.get(name.partition("-")[0], 0)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return str(number)


class _LockWatch:
    """Notices when the state directory is deleted: the link count of its lock file is then 0.

    Without the watch, the lab would run on where no command finds it, and a second one could start beside it.
    """

    def __init__(self, lock: Path) -> None:
        self._lock = lock
        # The descriptor to poll; -1 when the lock cannot be watched, so that a deletion goes unnoticed.
        self.fds: tuple[int, ...] = ()
        try:
            # An unlink changes the link count, which inotify reports as a change of attributes.
            self.fds = (syscalls.watch_inode(str(lock), syscalls.IN_ATTRIB),)
            self._locked = lock.stat()
        except OSError as error:
            log.warning("a deleted state directory will not be noticed: %s", error)

    def is_gone(self) -> bool:
        if not self.fds:
            return False
        try:
            if os.path.samestat(self._lock.stat(), self._locked):
                return False
        except FileNotFoundError:
            pass
        except OSError:
            return False
        log.warning("the state directory %s was deleted; the lab ends", self._lock.parent)
        return True

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


def _wait_readable(fds: Sequence[int], timeout: float | None) -> list[int]:
    """Wait for descriptors, and return those that had something to read, which is lost."""
    return [fd for fd in select.select(fds, [], [], timeout)[0] if os.read(fd, 4096)]


def _close_all_but(kept: Sequence[int]) -> None:
    """Close all descriptors but this part's, so that no intruder in a part can use the API server's socket, which leads
    to the machine."""
    first = 3
    for descriptor in (*sorted(kept), 1 << 16):
        os.closerange(first, descriptor)
        first = descriptor + 1


def _move(descriptor: int, number: int) -> None:
    """Give an open descriptor another number. Programs that the process executes do not inherit it."""
    if descriptor != number:
        os.dup2(descriptor, number, inheritable=False)
        os.close(descriptor)


def _redirect_output(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
