"""The layout of root file systems: directories, devices, and the composition of a container's root.

Pure: no I/O, no clock, no randomness. An image is one overlay over its layers, or its root file system. Without one the
container sees the host's system directories, each below an overlay of its own: a user namespace may not put an overlay
over a directory with mounts that it inherited (the kernel returns EINVAL), and the host's `/` always has some. The
host's other directories (home directories above all) are not shown; they are new and empty.

If the kernel refuses overlays, an image is a copy of its layers. The host's system directories are too large for that:
the container sees their entries read-only, in directories of its own where containers usually add files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from bridgehead.kubelet.runtimes.runtime import Mount

# Directories of the host that containers without an image of their own see.
SHOWN: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "opt", "nix", "gnu")
# Directories that are made empty: path -> mode.
FRESH: Final = {
    "dev": 0o755,
    "proc": 0o555,
    "sys": 0o555,
    "tmp": 0o1777,
    "run": 0o755,
    "run/lock": 0o1777,
    "root": 0o700,
    "home": 0o755,
    "media": 0o755,
    "mnt": 0o755,
    "srv": 0o755,
    "var": 0o755,
    "var/cache": 0o755,
    "var/lib": 0o755,
    "var/log": 0o755,
    "var/spool": 0o755,
    "var/tmp": 0o1777,
}
FRESH_LINKS: Final = {"var/run": "/run", "var/lock": "/run/lock"}
# Directories of the host in which a container may make files even where nothing can be laid over the host's.
OPENED: Final = ("usr", "usr/lib", "usr/local", "usr/local/bin", "usr/local/sbin", "usr/local/share", "usr/share")
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS: Final = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_MAX_LINKS: Final = 40  # the kernel's MAXSYMLINKS


class RootFailure(Exception):
    """The root file system could not be built; the message names the failed step."""


class MissingInImage(RootFailure):
    """The image of a volume lacks what is to be mounted."""


class RootPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The composition of a root file system.

    `overlays`: directory in the container ("" for its root) -> lower directories of its overlay, the highest first.
    `copied`: directory in the container -> directories that are copied to it, the lowest first.
    `read_only`: paths of the host that are bound read-only. `links`: symbolic links, name -> target.
    `hidden`: paths in an overlay that the container does not see. `whole`: the image has all directories of the root.
    """

    overlays: dict[str, tuple[str, ...]] = {}
    copied: dict[str, tuple[str, ...]] = {}
    read_only: tuple[str, ...] = ()
    links: dict[str, str] = {}
    hidden: tuple[str, ...] = ()
    whole: bool = False


def plan_image_root(layers: tuple[str, ...], *, is_copied: bool = False) -> RootPlan:
    """The plan for an image with a root file system of its own. `layers` are directories, the lowest first."""
    if is_copied:
        return RootPlan(copied={"": layers}, whole=True)
    return RootPlan(overlays={"": layers[::-1]}, whole=True)


def plan_host_root(entries: Mapping[str, str | None], mount_points: Collection[str]) -> RootPlan:
    """The plan for an image without one: the host's system directories.

    `entries` are those of the host's root: name -> target of a symbolic link, None for a directory.
    """
    overlays: dict[str, tuple[str, ...]] = {}
    read_only, links = [], {}
    for name in SHOWN:
        if name not in entries:
            continue
        target = entries[name]
        if target is not None:
            links[name] = target
        elif any(point.startswith(f"/{name}/") for point in mount_points):
            read_only.append(f"/{name}")
        else:
            overlays[name] = (f"/{name}",)
    return RootPlan(overlays=overlays, read_only=tuple(read_only), links=links)


def plan_bound_host_root(entries: Mapping[str, Mapping[str, str | None]], etc: str) -> RootPlan:
    """The plan for an image without a root file system where overlays are refused. `etc` is a copy of the host's /etc.

    `entries` are those of the host's root, "", and of the directories `OPENED` that the host has: name -> target of a
    symbolic link, None for anything else.
    """
    read_only, links = [], {}
    for directory, found in entries.items():
        for name, target in found.items():
            path = f"{directory}/{name}".lstrip("/")
            if not directory and (name == "etc" or name not in SHOWN):
                continue
            if target is not None:
                links[path] = target
            elif path not in entries:
                read_only.append(f"/{path}")
    return RootPlan(copied={"etc": (etc,)}, read_only=tuple(read_only), links=links)


def plan_image_volumes(paths: Collection[str], mounts: Collection[Mount], directory: str) -> list[Mount]:
    """The mounts for the volumes that an image declares at `paths`: directories below `directory`, to be filled with
    what the image has there. A mount of the Pod at the same path replaces one. Source: containerd's `volumeMounts`."""
    taken = {_clean(mount.target) for mount in mounts}
    wanted = dict.fromkeys(_clean(path) for path in paths if path)
    return [
        Mount(source=f"{directory}/{number}", target=target, follows_links=False)
        for number, target in enumerate(sorted(wanted))
        if target not in taken and target != "/"
    ]


def _clean(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


def is_shown(plan: RootPlan, path: str) -> bool:
    """Whether the host's `path` is visible in a container with that root."""
    parts = path.strip("/").split("/")
    if parts[0] in plan.overlays or parts[0] in plan.copied:
        return True
    outer = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    if any(f"/{each}" in plan.read_only or each in plan.links for each in outer):
        return True
    return any(each.startswith(f"/{outer[-1]}/") for each in plan.read_only)  # the whole content of the directory is


def resolve_in_root(path: str, readlink: Callable[[str], str | None]) -> str:
    """Resolve the symbolic links in `path` as after chroot(2) to the container's root. Raises `RootFailure`.

    `readlink` returns the target of a path (absolute, without links in its directories), None if it is no link.
    """
    pending = [part for part in path.split("/") if part]
    pending.reverse()
    done: list[str] = []
    followed = 0
    while pending:
        part = pending.pop()
        if part == ".":
            continue
        if part == "..":
            if done:
                done.pop()
            continue
        target = readlink("/" + "/".join([*done, part]))
        if target is None:
            done.append(part)
            continue
        followed += 1
        if followed > _MAX_LINKS:
            raise RootFailure(f'failed to resolve "{path}": too many levels of symbolic links')
        if target.startswith("/"):
            done.clear()
        pending += [step for step in reversed(target.split("/")) if step]
    return "/" + "/".join(done)


def order_mounts(mounts: Collection[Mount]) -> list[Mount]:
    """Sort by depth of the target, stable: a mount below another mount's target must come after it."""
    return sorted(mounts, key=lambda mount: posixpath.normpath(mount.target).count("/") if mount.target != "/" else 0)
