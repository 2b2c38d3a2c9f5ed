"""Files of the host that labs, nodes and containers see: system directories, /etc, this interpreter and its modules."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterator

import msgspec

from .rootfs import (
    OPENED,
    SHOWN,
    RootPlan,
    plan_bound_host_root,
    plan_host_root,
)


def observe_host_root(copies: str, *, can_overlay: bool = True) -> RootPlan:
    """`plan_host_root` of this machine, or `plan_bound_host_root` where the kernel refuses overlays.

    If files are mounted in `/etc`, as in most containers, `/etc` is copied to the directory `copies`, because a
    container must be able to have files of its own there.
    """
    if not can_overlay:
        copy_tree("/etc", f"{copies}/etc")
        for path in list(find_private(f"{copies}/etc")):
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        opened = (name for name in OPENED if os.path.isdir(f"/{name}") and os.path.realpath(f"/{name}") == f"/{name}")
        return plan_bound_host_root({name: _list(f"/{name}") for name in ("", *opened)}, f"{copies}/etc")
    entries = {
        name: target
        for name, target in _list("/").items()
        if name in SHOWN and (target is not None or os.path.isdir(f"/{name}"))
    }
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        mount_points = [line.split(" ", 5)[4] for line in file]
    plan = plan_host_root(entries, mount_points)
    hidden = tuple(find_private("/etc"))
    if "/etc" not in plan.read_only:
        return msgspec.structs.replace(plan, hidden=hidden)
    copy_tree("/etc", f"{copies}/etc")
    return RootPlan(
        overlays={**plan.overlays, "etc": (f"{copies}/etc",)},
        read_only=tuple(path for path in plan.read_only if path != "/etc"),
        links=plan.links,
        hidden=hidden,
    )


def _list(directory: str) -> dict[str, str | None]:
    """Return the entries of a directory: name -> target of a symbolic link, None for anything else."""
    with os.scandir(directory) as found:
        return {entry.name: os.readlink(entry.path) if entry.is_symlink() else None for entry in found}


def find_private(top: str) -> Iterator[str]:
    """Paths below a directory that not every user may read, which pods do not see even where the runtime is root."""
    directories = [top]
    while directories:
        for path, mode in _modes(directories.pop()):
            if not mode & stat.S_IROTH:
                yield path
            elif stat.S_ISDIR(mode):
                directories.append(path)


def _modes(directory: str) -> list[tuple[str, int]]:
    """Return the paths in a directory with their modes; none if it cannot be read. Each runtime looks at all of /etc,
    and `os.walk` would look twice."""
    modes = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    modes.append((entry.path, entry.stat(follow_symlinks=False).st_mode))
                except FileNotFoundError:
                    continue
    except OSError:
        return []
    return modes


def copy_tree(source: str, target: str) -> None:
    """Copy directories, files and links. Files that can't be read are left out. An earlier copy is replaced."""
    shutil.rmtree(target, ignore_errors=True)
    for directory, names, files in os.walk(source):
        copy = target + directory[len(source) :]
        os.makedirs(copy)
        os.chmod(copy, stat.S_IMODE(os.stat(directory).st_mode) | 0o700)
        for name in [*files, *(name for name in names if os.path.islink(f"{directory}/{name}"))]:
            path = f"{directory}/{name}"
            with contextlib.suppress(OSError):
                if os.path.islink(path) or stat.S_ISREG(os.stat(path).st_mode):
                    shutil.copy(path, f"{copy}/{name}", follow_symlinks=False)


def own_paths() -> list[str]:
    """Paths of this interpreter and its modules, which a part of Bridgehead must see.

    Entries of `sys.path` count only if modules were loaded from them: another one, such as the script's directory or
    one in PYTHONPATH, may be a home directory.
    """
    return list(_own_paths())


@functools.cache
def _own_paths() -> tuple[str, ...]:
    # Forked children have the same interpreter, and roots in which these paths are visible: the cache is right for
    # them.
    loaded = {os.path.dirname(os.path.abspath(file)) for file in map(_file_of, list(sys.modules.values())) if file}
    sources = [entry for entry in sys.path if entry and _has_modules(os.path.abspath(entry), loaded)]
    paths = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sources, os.path.dirname(sys.executable)]
    there = [os.path.abspath(path) for path in paths if path and os.path.exists(path)]
    kept: list[str] = []
    # A path with symbolic links must be visible by both names.
    for path in sorted({*there, *map(os.path.realpath, there)}):
        if path != "/" and not any(path == outer or path.startswith(f"{outer}/") for outer in kept):
            kept.append(path)
    return tuple(kept)


def _file_of(module: object) -> str | None:
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else None


def _has_modules(entry: str, loaded: Collection[str]) -> bool:
    """Whether a loaded module or package is in that entry of `sys.path`."""
    return any(directory == entry or os.path.dirname(directory) == entry for directory in loaded)
