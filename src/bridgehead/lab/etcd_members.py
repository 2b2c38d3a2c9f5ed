"""The members of etcd of a stopped lab, alone: they run with new data until a restore has filled it.

    restore ── fork ── new user, network and PID namespaces ── fork ── process 1 ── etcd, etcd-2, etcd-3

They have the addresses that they have in the lab, on the loopback of their own network namespace.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bridgehead.network import syscalls
from bridgehead.network.links import Links

from . import user_namespace
from .enter import enter_network
from .errors import LabError
from .ids import IdMap
from .plan import LabConfig, LabFiles, PartPlan, RunningLab, ServerPlan, plan_etcd, plan_servers

_SHOWN = "/mnt"
_START_SECONDS = 60.0
# The disk has all that is acknowledged; a leader would look for a successor for 7 s.
_STOP_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_HEALTH_SECONDS = 5.0


def set_members_aside(files: LabFiles) -> Sequence[Path]:
    """Give the data of all members of etcd the suffix `.old`; return their new paths."""
    former = []
    for path in sorted(files.store.parent.glob("etcd*")):
        if path.suffix != ".old":
            kept = path.with_name(f"{path.name}.old")
            shutil.rmtree(kept, ignore_errors=True)
            path.rename(kept)
            former.append(kept)
    return former


class NewMembers:
    """Members that run with data of their own, below a directory that is removed at the end."""

    def __init__(self, files: LabFiles, names: Sequence[str], directory: Path, pid: int) -> None:
        self._files = files
        self._names = names
        self._directory = directory
        self._pid = pid

    def keep(self) -> Sequence[Path]:
        """Stop the members, and exchange the lab's data for theirs. Returns the former data, with the suffix `.old`."""
        self.stop()
        former = set_members_aside(self._files)
        for name in self._names:
            (self._directory / name).rename(self._files.etcd_data(name))
        return former

    def stop(self) -> None:
        if self._pid:
            pid, self._pid = self._pid, 0
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)

    def has_ended(self) -> bool:
        """Return whether a member, and so all of them, have ended."""
        if self._pid and os.waitpid(self._pid, os.WNOHANG)[0]:
            self._pid = 0
        return not self._pid


@contextlib.contextmanager
def run_new_members(config: LabConfig, files: LabFiles) -> Iterator[NewMembers]:
    """Run new members for the block, and enter their network. `NewMembers.keep` makes their data the lab's.

    The caller holds the lab's lock and has one thread only; it stays in the network. Raises `LabError`, OSError.
    """
    servers = plan_servers(config)
    names = [server.part("etcd") for server in servers]
    directory = files.store.parent / "restoring"
    shutil.rmtree(directory, ignore_errors=True)
    pid = _start(config, files, directory.name)
    members = NewMembers(files, names, directory, pid)
    try:
        lab = RunningLab(config=config, init_pid=pid, started_at=time.time())
        enter_network(lab, f"/proc/{pid}/ns/net")
        _wait_healthy(servers, members, files)
        yield members
    finally:
        members.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _start(config: LabConfig, files: LabFiles, name: str) -> int:
    """Start the members with their data below the directory `name` beside the lab's own.

    Return the id of a process in their network namespace that ends with them.
    """
    reader, writer = os.pipe()
    has_own_ids = not (config.host_access and user_namespace.is_full_root())
    id_map = user_namespace.choose_id_map(str(files.root), config.id_base)[0] if has_own_ids else None
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            if id_map is not None:
                files = _leave_to(id_map, files)
            syscalls.set_parent_death_signal(signal.SIGKILL)
            syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWPID)
            _add_addresses(config)
            directory = files.store.parent / name
            directory.mkdir(mode=0o700)
            os.write(writer, b"ready")
            os.close(writer)
            servers = plan_servers(config)
            code = _run([plan_etcd(config, files, one, directory / one.part("etcd")) for one in servers], files)
        except BaseException as error:  # noqa: BLE001 - forked: must not return into the command's stack
            with contextlib.suppress(OSError):
                os.write(writer, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(code)
    os.close(writer)
    with open(reader, encoding="utf-8") as answers:
        answer = answers.read()
    if answer != "ready":
        os.waitpid(pid, 0)
        raise LabError(f"cannot start the lab's etcd: {answer}")
    return pid


def _leave_to(id_map: IdMap, files: LabFiles) -> LabFiles:
    """Become root of the lab's ids. Return the lab's files as these see them.

    Ids that belong to no user of the machine may not pass through the directories above the lab's.
    """
    namespace = user_namespace.make(id_map)
    if user_namespace.is_full_root():
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
        syscalls.mount(str(files.root), _SHOWN, flags=syscalls.MS_BIND)
        files = LabFiles(Path(_SHOWN))
    user_namespace.enter(namespace)
    return files


def _add_addresses(config: LabConfig) -> None:
    with Links() as links:
        links.set_up("lo")
        for server in plan_servers(config):
            for ranges, address in zip(config.ranges, server.addresses, strict=True):
                links.add_address("lo", f"{address}/{ranges.prefix_length}")


def _run(plans: Sequence[PartPlan], files: LabFiles) -> int:
    """Run the members until one of them ends, or until SIGTERM. Return an exit code."""
    init = os.fork()
    if init == 0:  # process 1 of the namespace, with which all others end
        code = 1
        try:
            syscalls.set_parent_death_signal(signal.SIGKILL)
            code = _supervise(plans, files)
        finally:
            os._exit(code)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(init, signal.SIGTERM))
    return os.waitstatus_to_exitcode(os.waitpid(init, 0)[1])


def _supervise(plans: Sequence[PartPlan], files: LabFiles) -> int:
    stopping = (signal.SIGTERM, signal.SIGCHLD)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    pids = [_execute(plan, files.log(plan.name)) for plan in plans]
    if signal.sigwait(stopping) != signal.SIGTERM:
        return 1
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                signal.sigtimedwait((signal.SIGCHLD,), _LOOK_SECONDS)
    return 0


def _execute(plan: PartPlan, log: Path) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            for target in (1, 2):
                os.dup2(output, target)
            os.execvp(plan.argv[0], plan.argv)
        finally:
            os._exit(127)
    return pid


def _wait_healthy(servers: Sequence[ServerPlan], members: NewMembers, files: LabFiles) -> None:
    """Wait until all members serve. Raises `LabError`."""
    deadline = time.monotonic() + _START_SECONDS
    while not all(map(_is_healthy, servers)):
        if members.has_ended() or time.monotonic() > deadline:
            raise LabError(f"the lab's etcd does not start: see {files.log(servers[0].part('etcd'))}")
        time.sleep(_LOOK_SECONDS)


def _is_healthy(server: ServerPlan) -> bool:
    host, port = server.etcd_health
    connection = http.client.HTTPConnection(host, port, timeout=_HEALTH_SECONDS)
    try:
        connection.request("GET", "/health")
        return b"true" in connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
