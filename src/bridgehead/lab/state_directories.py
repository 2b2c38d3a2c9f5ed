"""State directories of labs, and which labs run.

A lab runs exactly as long as its first process holds the lock of its state directory. A lab that was killed therefore
counts as stopped without any cleanup.
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

from bridgehead.images.store.content import ContentStore
from bridgehead.kubelet.nofollow import remove_tree
from bridgehead.kubelet.runtimes.isolation import cgroups
from bridgehead.suggestions import did_you_mean

from . import user_namespace
from .errors import AlreadyRunning, LabError, NotRunning
from .gateway import gateway_lock
from .lock_files import is_locked
from .plan import LabConfig, LabFiles, PartStatus, RunningLab

DEFAULT_NAME = "bridgehead"
# Commands that check for a running lab hold its lock for an instant; a lock held for longer is a lab's (seconds).
_READERS_BOUND = 0.1
# Maximum time that a lab needs to end after its directory was deleted (seconds).
_ORPHAN_BOUND = 15.0
_FIRST_PROCESS = b"bridgehead-lab\n"  # the name that `launch` sets
# Time in which the process that pulls images ends after the lab (seconds).
_PULLER_BOUND = 5.0
# The files of a lab in its state directory, beside the lock. Other files are never deleted.
_OWN = (
    *(
        "content",
        "gateway.lock",
        "images",
        "kubeconfig*",
        "lab.json",
        "logs",
        "nodes",
        "pki",
        "registries",
        "roots",
        "run",
    ),
    *("running.json", "store"),
)


def state_home() -> Path:
    """Return the default parent of state directories: $XDG_STATE_HOME/bridgehead, else ~/.local/state/bridgehead.

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
    """Return the files of a lab, which need not exist. Raises `LabError` when the name is invalid.

    The path contains no links: it equals the kernel's names of open files, and it can be removed without following any.
    """
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?", name):
        raise LabError(f"a lab's name has lower case letters, digits and '-', at most 32: not {name!r}")
    return LabFiles(Path(os.path.realpath(state_dir or state_home() / name)))


def find_shared_blobs(files: LabFiles) -> Path | None:
    """Return the cache of blobs that the user's labs in the default directory share, None for a lab elsewhere."""
    return files.root.parent / ".blobs" if _is_in_default_directory(files) else None


def check_directory(files: LabFiles) -> None:
    """Raise `LabError` when the directory contains other files than a lab's, which `down --delete` must not remove.

    `--state-dir ''`, the current directory, therefore does not turn a project's directory into a lab.
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
    """Take the lab's lock and return the descriptor that holds it. Raises `AlreadyRunning`."""
    deadline = time.monotonic() + _READERS_BOUND
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
                raise AlreadyRunning(f"the {_describe(files)} is already running") from None
            time.sleep(0.01)
            continue
        if _is_file(fd, files.lock):
            _forget_last_run(files)
            # The lab's first process, which may have another id, watches this file; the directory is closed to others.
            os.fchmod(fd, 0o644)
            return fd
        os.close(fd)  # `remove` was faster: this lock belongs to a deleted directory


def _forget_last_run(files: LabFiles) -> None:
    """Remove the record of a lab that was killed, whose PID may be reused, and its cgroup if that is empty."""
    with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
        last = msgspec.json.decode(files.running.read_bytes(), type=RunningLab)
        if last.cgroup:
            cgroups.remove_unused_delegation(last.cgroup)
    files.running.unlink(missing_ok=True)


def is_running(files: LabFiles) -> bool:
    """Return whether a lab holds the lock. Raises `LabError`."""
    try:
        return is_locked(files.lock)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LabError(f"cannot read {files.lock}: {error.strerror}") from error


def _is_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def read_config(files: LabFiles) -> LabConfig | None:
    """Return the configuration of the last `up`, None for a new lab. Raises `LabError` when the file is invalid."""
    try:
        return msgspec.json.decode(files.config.read_bytes(), type=LabConfig)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise LabError(f"{files.config} is not a lab's configuration ({error}); remove it or {files.root}") from error
    except OSError as error:
        raise LabError(f"cannot read {files.config}: {error.strerror}") from error


def find_name(files: LabFiles, otherwise: str) -> str:
    """Return the name of the lab of these files, which can differ from the name on the command line."""
    try:
        config = read_config(files)
    except LabError:
        return otherwise
    return config.name if config else otherwise


def read_running(files: LabFiles) -> RunningLab:
    """Return the record of a running lab. Raises `NotRunning`, and `LabError` where its PIDs mean other processes."""
    if is_running(files):
        try:
            lab = msgspec.json.decode(files.running.read_bytes(), type=RunningLab)
        except (FileNotFoundError, msgspec.MsgspecError):
            raise NotRunning(f"the {_describe(files)} is only starting; try again in a moment") from None
        if lab.pid_namespace not in (0, pid_namespace()):
            raise LabError(
                f"the {_describe(files)} cannot be managed from here, inside a lab or a container: use another terminal"
            )
        return lab
    if find_orphan(files) is not None:
        raise NotRunning(f"the state directory {files.root} was deleted, and the lab that ran in it is ending")
    if files.config.exists():
        raise NotRunning(f"the {_describe(files)} is stopped; {_advise_up(files)} starts it")
    raise no_such_lab(files)


def pid_namespace() -> int:
    """Return the inode of the PID namespace of this process."""
    return os.stat("/proc/self/ns/pid").st_ino


def no_such_lab(files: LabFiles) -> NotRunning:
    """Return the error for a lab without state, which lists the labs in the default directory."""
    if not _is_in_default_directory(files):
        return NotRunning(f"there is no lab in {files.root}; {_advise_up(files)} starts one")
    known = list_labs()
    existing = f"the labs are: {', '.join(known)}" if known else "there are none yet"
    advice = did_you_mean(files.root.name, known) or f"; {_advise_up(files)} starts it"
    return NotRunning(f"there is no {_describe(files)}; {existing}{advice}")


def _is_in_default_directory(files: LabFiles) -> bool:
    try:
        return files.root.parent == Path(os.path.realpath(state_home()))
    except LabError:  # a user without a home
        return False


def _describe(files: LabFiles) -> str:
    return f'lab "{files.root.name}"' if _is_in_default_directory(files) else f"lab in {files.root}"


def _advise_up(files: LabFiles) -> str:
    if not _is_in_default_directory(files):
        return "`bridgehead up` with the same options"
    return "`bridgehead up`" if files.root.name == DEFAULT_NAME else f"`bridgehead up --name {files.root.name}`"


def read_parts(files: LabFiles) -> list[PartStatus]:
    try:
        return msgspec.json.decode(files.parts.read_bytes(), type=list[PartStatus])
    except (FileNotFoundError, msgspec.MsgspecError):
        return []


def list_labs() -> dict[str, LabFiles]:
    """Return the labs with state in the default directory, by name. A lab that failed at the start has no state."""
    home = state_home()
    try:
        paths = sorted(home.iterdir())
        return {path.name: files for path in paths if (files := LabFiles(path)).config.exists()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise LabError(f"cannot read {home}: {error.strerror}") from error


def list_running() -> dict[str, LabFiles]:
    """Return those of `list_labs` that run."""
    return {name: files for name, files in list_labs().items() if is_running(files)}


def stop(files: LabFiles, *, bound: float = 15.0) -> None:
    """Stop a running lab with SIGTERM, after `bound` seconds with SIGKILL. Raises `NotRunning`, `LabError`.

    Remains of a lab that was killed are removed.
    """
    orphan = None if is_running(files) else find_orphan(files)
    if orphan is not None:
        _end(orphan, files, lambda: find_orphan(files) == orphan, bound)
        return
    if not is_running(files) and files.running.exists():
        with contextlib.suppress(LabError):
            os.close(lock(files))
    running = read_running(files)
    _end(running.init_pid, files, lambda: is_running(files), bound)
    gateway_lock.wait_ended(files)
    if running.cgroup:
        with contextlib.suppress(OSError, ValueError):  # the next `up` tries again, and may already use it
            cgroups.remove_unused_delegation(running.cgroup)
    if running.config.ephemeral:
        remove(files)


def _end(init_pid: int, files: LabFiles, runs: Callable[[], bool], bound: float) -> None:
    try:
        os.kill(init_pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it has ended meanwhile
    except PermissionError:
        raise LabError(f"the {_describe(files)} was started by another user; stop it as that user") from None
    deadline = time.monotonic() + bound
    killed = False
    while runs():
        if time.monotonic() > deadline:
            if killed:
                raise LabError(f"process {init_pid} of the lab does not end; see {files.log('init')}")
            # The kernel then kills all other processes of the PID namespace.
            with contextlib.suppress(ProcessLookupError):
                os.kill(init_pid, signal.SIGKILL)
            killed, deadline = True, deadline + bound
        time.sleep(0.02)


def find_orphan(files: LabFiles, proc: Path = Path("/proc")) -> int | None:
    """Return the PID of a lab's first process that was started in this directory before it was deleted, or None.

    Its first process has the lock file open, and ends by itself (`supervisor`).
    """
    deleted = f"{files.lock} (deleted)"
    for pid in filter(str.isdigit, os.listdir(proc)):
        process = proc / pid
        try:
            if (process / "comm").read_bytes() != _FIRST_PROCESS:
                continue
            if any(os.readlink(process / "fd" / fd) == deleted for fd in os.listdir(process / "fd")):
                return int(pid)
        except OSError:  # the process has ended, or belongs to another user
            continue
    return None


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
    """Delete all state of a stopped lab, if it has any. Raises `AlreadyRunning`, `LabError`."""
    if not files.root.exists():
        return
    try:
        held = lock(files)
    except AlreadyRunning as error:
        raise AlreadyRunning(f"the {_describe(files)} is used by another `up` or `down`") from error
    try:
        empty(files)
        files.lock.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # other files are in it
            files.root.rmdir()
    finally:
        os.close(held)


def remove_unused(files: LabFiles) -> None:
    """Remove the state directory of a lab that was refused before it began, if only the lock is in it.

    The caller holds the lock.
    """
    with contextlib.suppress(OSError):
        if os.listdir(files.root) == [files.lock.name]:
            files.lock.unlink()
            files.root.rmdir()


def empty(files: LabFiles) -> None:
    """Delete the state but not the lock, nor files that are not a lab's. Raises `LabError` if it is not a lab's
    directory."""
    if not files.config.exists():
        raise LabError(f"{files.root} is not a lab's state directory; not removing anything")
    ContentStore(files.content).wait_unused(_PULLER_BOUND)
    for path in files.root.iterdir():
        if not _is_own(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
            if path.exists() and not user_namespace.is_full_root():
                # Files of users that exist only in the lab, as subordinate ids of this user.
                user_namespace.run_as_root(partial(remove_tree, path))
        else:
            path.unlink(missing_ok=True)


def keep_previous_logs(files: LabFiles) -> None:
    """Start new logs; those of the previous run get the suffix `.old`."""
    for log in files.log("init").parent.glob("*.log"):
        log.rename(log.with_suffix(".log.old"))
