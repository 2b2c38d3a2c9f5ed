"""Where labs keep their state, and which of them run.

A lab runs exactly as long as its first process holds the lock of its state directory, so a lab that was killed
is seen as stopped without anything having to be cleaned up.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import msgspec

from bridgehead.kubelet.links import remove_tree
from bridgehead.kubelet.runtimes import cgroups

from . import user_namespace
from .errors import AlreadyRunning, LabError, NotRunning
from .orphans import find_orphan
from .plan import LabConfig, LabFiles, RunningLab
from .supervisor import PartStatus

DEFAULT_NAME = "bridgehead"
# Who looks whether a lab runs holds its lock for an instant; one that is held for this long is a lab's (seconds).
_LOOKERS_BOUND = 0.1
# A lab whose directory was deleted takes this long to end, at most (seconds).
_ORPHAN_BOUND = 15.0
# What a lab makes in its state directory, beside the lock. Nothing else in there is ever deleted.
_OWN = ("images", "kubeconfig*", "lab.json", "logs", "nodes", "pki", "run", "running.json", "store")


def state_home() -> Path:
    """Where labs live by default: $XDG_STATE_HOME/bridgehead, else ~/.local/state/bridgehead.

    Raises `LabError` for a user without a home directory.
    """
    base = os.environ.get("XDG_STATE_HOME")
    if base:
        return Path(base) / "bridgehead"
    try:
        return Path.home() / ".local" / "state" / "bridgehead"
    except RuntimeError:
        raise LabError("you have no home directory: choose where the lab keeps its state with --state-dir") from None


def find_files(name: str, state_dir: Path | None) -> LabFiles:
    """The files of a lab that may or may not exist. Raises `LabError` when the name cannot be one."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?", name):
        raise LabError(f"a lab's name has lower case letters, digits and '-', at most 32: not {name!r}")
    return LabFiles((state_dir or state_home() / name).absolute())


def check_place(files: LabFiles) -> None:
    """Raises `LabError` when a lab would share its directory with something else, which `down --delete` must not meet.

    So `--state-dir ''`, which is the current directory, makes nobody's project a lab.
    """
    try:
        if files.config.exists() or not files.root.is_dir():
            return
        names = (path.name for path in sorted(files.root.iterdir()))
        foreign = next((name for name in names if name != files.lock.name and not _is_own(name)), None)
    except OSError as error:
        raise LabError(f"cannot read {files.root}: {error.strerror}; choose another with --state-dir") from error
    if foreign is not None:
        raise LabError(
            f"{files.root} has something else in it ({foreign}): name a directory that is empty or new with --state-dir"
        )


def _is_own(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in _OWN)


def lock(files: LabFiles) -> int:
    """Take the lab's lock; the result is the descriptor that holds it. Raises `AlreadyRunning`."""
    deadline = time.monotonic() + _LOOKERS_BOUND
    while True:
        try:
            files.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(files.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise LabError(
                f"cannot write to {files.root}: {error.strerror}; choose another with --state-dir"
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            if time.monotonic() > deadline:
                raise AlreadyRunning(f"the lab of {files.root} is running already") from None
            time.sleep(0.01)
            continue
        if _is_file(fd, files.lock):
            _forget_last_run(files)
            # The lab's first process, which may have another id, watches it; nobody else gets through the directory.
            os.fchmod(fd, 0o644)
            return fd
        os.close(fd)  # `remove` was faster: this is the lock of a directory that is gone


def _forget_last_run(files: LabFiles) -> None:
    """Of a lab that was killed: its process's number may be another's now. Its cgroup, too, if nobody is in it."""
    with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
        last = msgspec.json.decode(files.running.read_bytes(), type=RunningLab)
        if last.cgroup:
            cgroups.remove_unused_delegation(last.cgroup)
    files.running.unlink(missing_ok=True)


def is_running(files: LabFiles) -> bool:
    """Whether somebody holds the lock. Those who only look share it, so that they never take each other for a lab."""
    try:
        fd = os.open(files.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LabError(f"cannot read {files.lock}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _is_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def read_config(files: LabFiles) -> LabConfig | None:
    """What the last `up` decided, None for a new lab. Raises `LabError` when the file makes no sense."""
    try:
        return msgspec.json.decode(files.config.read_bytes(), type=LabConfig)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise LabError(f"{files.config} is not a lab's configuration ({error}); remove it or {files.root}") from error
    except OSError as error:
        raise LabError(f"cannot read {files.config}: {error.strerror}") from error


def find_name(files: LabFiles, otherwise: str) -> str:
    """What the lab of these files is called, which need not be what its state directory was named with this time."""
    try:
        config = read_config(files)
    except LabError:
        return otherwise
    return config.name if config else otherwise


def read_running(files: LabFiles) -> RunningLab:
    """Raises `NotRunning`."""
    if is_running(files):
        try:
            return msgspec.json.decode(files.running.read_bytes(), type=RunningLab)
        except (FileNotFoundError, msgspec.MsgspecError):
            raise NotRunning(f"the lab of {files.root} is only starting; try again in a moment") from None
    if find_orphan(files) is not None:
        raise NotRunning(f"the state directory {files.root} was deleted, and the lab that ran in it is ending")
    raise NotRunning("no such lab is running; `bridgehead up` starts one, `bridgehead status` lists them")


def read_parts(files: LabFiles) -> list[PartStatus]:
    try:
        return msgspec.json.decode(files.parts.read_bytes(), type=list[PartStatus])
    except (FileNotFoundError, msgspec.MsgspecError):
        return []


def list_labs() -> dict[str, LabFiles]:
    """Labs with state in the default place, by name. One that failed before it began has left a lock and no state."""
    home = state_home()
    try:
        paths = sorted(home.iterdir())
        return {path.name: files for path in paths if (files := LabFiles(path)).config.exists()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise LabError(f"cannot read {home}: {error.strerror}") from error


def stop(files: LabFiles, *, bound: float = 15.0) -> None:
    """End a running lab: ask its first process, insist after `bound` seconds. Raises `NotRunning`, `LabError`.

    What is left of a lab that was killed is removed."""
    orphan = None if is_running(files) else find_orphan(files)
    if orphan is not None:
        _end(orphan, files, lambda: find_orphan(files) == orphan, bound)
        return
    if not is_running(files) and files.running.exists():
        with contextlib.suppress(LabError):
            os.close(lock(files))
    running = read_running(files)
    _end(running.init_pid, files, lambda: is_running(files), bound)
    if running.cgroup:
        with contextlib.suppress(OSError, ValueError):  # the next `up` tries again, and may have it already
            cgroups.remove_unused_delegation(running.cgroup)
    if running.config.ephemeral:
        remove(files)


def _end(init_pid: int, files: LabFiles, runs: Callable[[], bool], bound: float) -> None:
    try:
        os.kill(init_pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it ended between the two looks
    except PermissionError:
        raise LabError(f"the lab of {files.root} was started by another user; stop it as that user") from None
    deadline = time.monotonic() + bound
    killed = False
    while runs():
        if time.monotonic() > deadline:
            if killed:
                raise LabError(f"process {init_pid} of the lab does not end; see {files.log('init')}")
            # The kernel then ends everything else in the PID namespace.
            with contextlib.suppress(ProcessLookupError):
                os.kill(init_pid, signal.SIGKILL)
            killed, deadline = True, deadline + bound
        time.sleep(0.02)


def await_orphan(files: LabFiles, *, bound: float = _ORPHAN_BOUND) -> None:
    """Wait for the end of a lab that ran in this directory before it was deleted. Raises `AlreadyRunning`."""
    deadline = time.monotonic() + bound
    while (pid := find_orphan(files)) is not None:
        if time.monotonic() > deadline:
            raise AlreadyRunning(
                f"the lab that ran in {files.root} before the directory was deleted still does (process {pid});"
                " `bridgehead down` with the same options ends it"
            )
        time.sleep(0.05)


def remove(files: LabFiles) -> None:
    """Delete all state of a lab that does not run, if it has any. Raises `AlreadyRunning`, `LabError`."""
    if not files.root.exists():
        return
    held = lock(files)
    try:
        empty(files)
        files.lock.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody else has something there
            files.root.rmdir()
    finally:
        os.close(held)


def empty(files: LabFiles) -> None:
    """Delete the state but not the lock, nor what is not a lab's. Refuses a directory that is not one's."""
    if not files.config.exists():
        raise LabError(f"{files.root} is not a lab's state directory; not removing anything")
    for path in files.root.iterdir():
        if not _is_own(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
            if path.exists() and os.geteuid() != 0:
                # Of users that exist in the lab only, as ids that are granted to us.
                user_namespace.run_as_root(partial(remove_tree, path))
        else:
            path.unlink(missing_ok=True)


def keep_previous_logs(files: LabFiles) -> None:
    """Begin new logs; those of the run before get the ending `.old`."""
    for log in files.log("init").parent.glob("*.log"):
        log.rename(log.with_suffix(".log.old"))
