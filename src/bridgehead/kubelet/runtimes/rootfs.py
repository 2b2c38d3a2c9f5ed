"""A container's root file system: planned from what is there, built by the container's first process for itself.

An image from the store is one overlay over its root file system. Without one the container sees the host's system
directories, each below an overlay of its own: a user namespace may not put an overlay over a directory with mounts
that it inherited (the kernel answers EINVAL), and the host's `/` always has some. Everything written goes to a tmpfs
that belongs to the container's mount namespace, so that nothing is left to clean up.

What a pod can change while this runs, its volumes above all, is never reached by a name: sources below a volume and
mount points inside one are resolved on descriptors, beneath the volume or inside the container's root (openat2(2)).

The host's other directories (home directories above all) are not shown; they are fresh and empty.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from bridgehead.kubelet.runtimes import descriptor_paths
from bridgehead.kubelet.runtimes.runtime import Mount, Security
from bridgehead.network import syscalls

SHOWN: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "opt", "nix", "gnu")
FRESH: Final = {  # directory -> mode
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
# Made in the upper layer, so that they are ours to write to even where the host's root is not mapped.
_WRITABLE: Final = ("usr/share", "usr/local", "usr/local/bin", "usr/local/share")
# What containerd hides of /proc and /sys, and what it makes read-only (containerd, pkg/oci: defaultUnixNamespaces).
_MASKED: Final = (
    "proc/acpi",
    "proc/asound",
    "proc/interrupts",
    "proc/kcore",
    "proc/keys",
    "proc/latency_stats",
    "proc/sched_debug",
    "proc/scsi",
    "proc/timer_list",
    "proc/timer_stats",
    "sys/devices/virtual/powercap",
    "sys/firmware",
)
_READ_ONLY: Final = ("proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/sysrq-trigger")
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS: Final = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_LINK_LIMIT: Final = 40  # as the kernel's


class RootFailure(Exception):
    """The root file system could not be built; the message says which step failed."""


class RootPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`overlays`: directory in the container ("" for its root) -> what lies below it. `read_only`: host paths shown
    as they are. `links`: symbolic links. `hidden`: paths in an overlay that the container does not see. `whole` says
    that the image brings all of its root."""

    overlays: dict[str, str]
    read_only: tuple[str, ...] = ()
    links: dict[str, str] = {}
    hidden: tuple[str, ...] = ()
    whole: bool = False


class _Placed(NamedTuple):
    """A mount to be made: the descriptor of its source, and the path of its mount point without links (None for one
    that lies in another mount and is made there)."""

    mount: Mount
    source: int
    is_directory: bool
    place: str | None


def plan_image_root(rootfs: str) -> RootPlan:
    return RootPlan(overlays={"": rootfs}, whole=True)


def plan_host_root(entries: Mapping[str, str | None], mount_points: Collection[str]) -> RootPlan:
    """From the entries of the host's root (name -> target of a symbolic link, None for a directory) and its mounts."""
    overlays, read_only, links = {}, [], {}
    for name in SHOWN:
        if name not in entries:
            continue
        target = entries[name]
        if target is not None:
            links[name] = target
        elif any(point.startswith(f"/{name}/") for point in mount_points):
            read_only.append(f"/{name}")
        else:
            overlays[name] = f"/{name}"
    return RootPlan(overlays=overlays, read_only=tuple(read_only), links=links)


def observe_host_root(copies: str) -> RootPlan:
    """`plan_host_root` of this machine. Where things are mounted in `/etc`, as in most containers, it is copied to the
    directory `copies`, because a container's own files must go there."""
    entries: dict[str, str | None] = {}
    for name in SHOWN:
        path = f"/{name}"
        if os.path.islink(path):
            entries[name] = os.readlink(path)
        elif os.path.isdir(path):
            entries[name] = None
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        mount_points = [line.split(" ", 5)[4] for line in file]
    plan = plan_host_root(entries, mount_points)
    hidden = tuple(find_private("/etc"))
    if "/etc" not in plan.read_only:
        return msgspec.structs.replace(plan, hidden=hidden)
    copy_tree("/etc", f"{copies}/etc")
    return RootPlan(
        overlays={**plan.overlays, "etc": f"{copies}/etc"},
        read_only=tuple(path for path in plan.read_only if path != "/etc"),
        links=plan.links,
        hidden=hidden,
    )


def find_private(top: str) -> Iterator[str]:
    """What below a directory not everybody may read: no pod's business, also where we are root."""
    for directory, names, files in os.walk(top):
        for name in [*names, *files]:
            path = f"{directory}/{name}"
            with contextlib.suppress(FileNotFoundError):
                if not os.stat(path, follow_symlinks=False).st_mode & stat.S_IROTH:
                    yield path
                    if name in names:
                        names.remove(name)


def copy_tree(source: str, target: str) -> None:
    """Copy directories, files and links; what may not be read is left out. An earlier copy is replaced."""
    shutil.rmtree(target, ignore_errors=True)
    for directory, names, files in os.walk(source):
        place = target + directory[len(source) :]
        os.makedirs(place)
        os.chmod(place, stat.S_IMODE(os.stat(directory).st_mode) | 0o700)
        for name in [*files, *(name for name in names if os.path.islink(f"{directory}/{name}"))]:
            path = f"{directory}/{name}"
            with contextlib.suppress(OSError):
                if os.path.islink(path) or stat.S_ISREG(os.stat(path).st_mode):
                    shutil.copy(path, f"{place}/{name}", follow_symlinks=False)


def is_shown(plan: RootPlan, path: str) -> bool:
    """Whether the host's `path` is visible in a container with that root."""
    top = path.strip("/").split("/", 1)[0]
    return top in plan.overlays or f"/{top}" in plan.read_only or top in plan.links


def resolve_in_root(path: str, readlink: Callable[[str], str | None]) -> str:
    """`path` without symbolic links, taking absolute ones from the container's root; never leads out of it.

    `readlink` answers the target of a path (absolute, without links in its directories), None if it is no link.
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
        if followed > _LINK_LIMIT:
            raise RootFailure(f'failed to resolve "{path}": too many levels of symbolic links')
        if target.startswith("/"):
            done.clear()
        pending += [step for step in reversed(target.split("/")) if step]
    return "/" + "/".join(done)


def order_mounts(mounts: Collection[Mount]) -> list[Mount]:
    """Outer targets first, else as given: a mount below another's target must come after it."""
    return sorted(mounts, key=lambda mount: posixpath.normpath(mount.target).count("/") if mount.target != "/" else 0)


class RootBuilder:
    """Builds the root of the calling process, which has its mount namespace and its PID namespace already.

    `base` is an empty directory of the host that the build may cover. After `build` the process sees nothing else.
    """

    def __init__(self, plan: RootPlan, base: str) -> None:
        self._plan = plan
        self._base = base
        self._root = f"{base}/root"

    def build(
        self,
        *,
        files: Mapping[str, str],
        mounts: Collection[Mount],
        security: Security,
        working_dir: str,
        termination_log: str,
    ) -> int:
        """`files`: absolute path -> content. Returns a descriptor to read the termination log. Raises `RootFailure`."""
        self._mount("tmpfs", self._base, "tmpfs", syscalls.MS_NODEV, "mode=755")
        for directory in ("root", "upper", "work", "dev"):
            os.mkdir(f"{self._base}/{directory}")
        if not self._plan.whole:
            self._make_host_skeleton()
        for path in self._plan.hidden:
            self._hide(path)
        for path, content in files.items():
            self._write(path, content)
        for directory in ("proc", "sys", "dev"):
            self._make_directories(f"/{directory}")
        placed = self._place(mounts)
        self._mount_layers()
        self._mount_kernel_file_systems(security)
        root = os.open(self._root, os.O_PATH | os.O_CLOEXEC)
        try:
            self._bind(root, placed, with_devices=security.privileged)
            messages = self._mount_termination_log(root, termination_log)
            with contextlib.suppress(OSError):  # what is wrong with it shows when it is entered
                os.close(descriptor_paths.make_directory_inside(root, working_dir))
        finally:
            os.close(root)
        if security.read_only_root:
            self._make_read_only()
        return messages

    def enter(self) -> None:
        """Make what was built the root of this process's mount namespace, and the old one unreachable."""
        os.chdir(self._root)
        syscalls.pivot_root(".", ".")
        syscalls.umount(".", syscalls.MNT_DETACH)
        os.chdir("/")

    # Before the layers are mounted: what lies below and what will lie on top are looked at apart.

    def _make_host_skeleton(self) -> None:
        for name, mode in FRESH.items():
            os.mkdir(f"{self._root}/{name}")
            os.chmod(f"{self._root}/{name}", mode)
        for name, target in {**FRESH_LINKS, **self._plan.links}.items():
            os.symlink(target, f"{self._root}/{name}")
        for name in _WRITABLE:
            self._make_directories(f"/{name}")

    def _hide(self, path: str) -> None:
        """A whiteout, as overlayfs has it, on top of a file or directory."""
        above = self._above(path)
        if above.startswith(f"{self._base}/upper/"):
            self._make_directories(posixpath.dirname(path))
            os.mknod(above, stat.S_IFCHR, os.makedev(0, 0))

    def _below(self, path: str) -> str | None:
        """Where a path of the container is in what its overlay covers."""
        for name, lower in self._plan.overlays.items():
            if not name:
                return lower + path
            if path == f"/{name}" or path.startswith(f"/{name}/"):
                return lower + path[len(name) + 1 :]
        return None

    def _above(self, path: str) -> str:
        """Where to make a path of the container so that it is there once the layers are mounted."""
        for name in self._plan.overlays:
            if not name:
                return f"{self._base}/upper/root{path}"
            if path == f"/{name}" or path.startswith(f"/{name}/"):
                return f"{self._base}/upper/{name}{path[len(name) + 1 :]}"
        return self._root + path

    def _readlink(self, path: str) -> str | None:
        for place in (self._above(path), self._below(path)):
            if place is not None:
                try:
                    return os.readlink(place)
                except OSError:
                    continue
        return None

    def _make_directories(self, path: str) -> None:
        """A directory and those it lies in, with the modes of those it will cover."""
        done = ""
        for part in path.strip("/").split("/"):
            done += f"/{part}"
            above, below = self._above(done), self._below(done)
            if os.path.isdir(above):
                continue
            mode = 0o755
            if below is not None:
                try:
                    found = os.stat(below)
                except OSError:
                    pass
                else:
                    if not stat.S_ISDIR(found.st_mode):
                        raise RootFailure(f'failed to create directory "{path}": "{done}" is not a directory')
                    mode = stat.S_IMODE(found.st_mode)
            os.makedirs(above, exist_ok=True)
            os.chmod(above, mode)

    def _write(self, path: str, content: str) -> None:
        resolved = resolve_in_root(path, self._readlink)
        self._make_directories(posixpath.dirname(resolved))
        with open(self._above(resolved), "w", encoding="utf-8") as file:
            file.write(content)
        if content.startswith("#!"):
            os.chmod(self._above(resolved), 0o755)

    def _place(self, mounts: Collection[Mount]) -> list[_Placed]:
        """Open what is to be mounted and make the mount points."""
        placed: list[_Placed] = []
        covered: list[str] = ["/dev", "/proc", "/sys", *self._plan.read_only]
        for mount in order_mounts(mounts):
            source = self._open_source(mount)
            is_directory = stat.S_ISDIR(os.fstat(source).st_mode)
            target = resolve_in_root(mount.target, self._readlink)
            if f"{target}/".startswith(("/proc/", "/sys/fs/cgroup/")):
                raise RootFailure(f'failed to mount at "{mount.target}": it is inside "{posixpath.dirname(target)}"')
            if any(target.startswith(f"{outer}/") for outer in covered):
                placed.append(_Placed(mount, source, is_directory, None))
            else:
                self._make_place(mount.target, target, is_directory=is_directory)
                placed.append(_Placed(mount, source, is_directory, target))
            covered.append(target)
        return placed

    def _make_place(self, asked: str, target: str, *, is_directory: bool) -> None:
        try:
            if is_directory:
                self._make_directories(target)
            else:
                self._make_directories(posixpath.dirname(target))
                above = self._above(target)
                if not os.path.lexists(above):
                    os.close(os.open(above, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        except OSError as error:
            raise RootFailure(f'failed to create mount point "{asked}": {error.strerror}') from error

    # Mounting.

    def _mount_layers(self) -> None:
        if not self._plan.whole:
            self._mount(self._root, self._root, "", syscalls.MS_BIND, "")
        for name, lower in self._plan.overlays.items():
            label = name or "root"
            target = f"{self._root}/{name}" if name else self._root
            for directory in (f"{self._base}/upper/{label}", f"{self._base}/work/{label}", target):
                os.makedirs(directory, exist_ok=True)
            os.chmod(f"{self._base}/upper/{label}", stat.S_IMODE(os.stat(lower).st_mode))
            self._mount_overlay(lower, label, target)
        for path in self._plan.read_only:
            target = self._root + path
            os.makedirs(target, exist_ok=True)
            self._mount(path, target, "", syscalls.MS_BIND | syscalls.MS_REC, "")
            syscalls.set_mount_attributes(target, syscalls.MOUNT_ATTR_RDONLY)

    def _mount_overlay(self, lower: str, label: str, target: str) -> None:
        escaped = lower.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
        data = f"lowerdir={escaped},upperdir={self._base}/upper/{label},workdir={self._base}/work/{label}"
        try:
            syscalls.mount("overlay", target, "overlay", syscalls.MS_NODEV, data)
        except OSError as error:
            reason = "this kernel has no overlayfs" if error.errno == errno.ENODEV else _reason(error)
            raise RootFailure(
                f"failed to mount an overlay on {lower}: {reason} (needed: overlayfs, Linux 5.11 in a user namespace)"
            ) from error

    def _mount_kernel_file_systems(self, security: Security) -> None:
        hardened = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
        root = self._root
        try:
            syscalls.mount("proc", f"{root}/proc", "proc", hardened)
        except OSError as error:
            raise RootFailure(
                f"failed to mount proc: {_reason(error)} (a part of /proc is hidden where this lab was started)"
            ) from error
        read_only = 0 if security.privileged else syscalls.MS_RDONLY
        try:
            syscalls.mount("sysfs", f"{root}/sys", "sysfs", hardened | read_only)
        except OSError:  # refused in a user namespace in which part of /sys is hidden
            self._mount("/sys", f"{root}/sys", "", syscalls.MS_BIND | syscalls.MS_REC, "")
            syscalls.set_mount_attributes(f"{root}/sys", syscalls.MOUNT_ATTR_RDONLY)
        self._make_devices()
        if not (security.privileged or security.unmasked_proc):
            self._mask()

    def _mask(self) -> None:
        for path in _MASKED:
            target = f"{self._root}/{path}"
            if os.path.isdir(target):
                self._mount("tmpfs", target, "tmpfs", syscalls.MS_RDONLY | syscalls.MS_NOSUID | syscalls.MS_NODEV, "")
            elif os.path.exists(target):
                self._mount("/dev/null", target, "", syscalls.MS_BIND, "")
        for path in _READ_ONLY:
            target = f"{self._root}/{path}"
            if os.path.exists(target):
                self._mount(target, target, "", syscalls.MS_BIND | syscalls.MS_REC, "")
                syscalls.set_mount_attributes(target, syscalls.MOUNT_ATTR_RDONLY)

    def _make_read_only(self) -> None:
        """The root, but neither the volumes nor what the kernel has mounted in it."""
        for name in dict.fromkeys(["", *self._plan.overlays]):
            target = f"{self._root}/{name}" if name else self._root
            syscalls.set_mount_attributes(target, syscalls.MOUNT_ATTR_RDONLY, recursive=False)

    def _make_devices(self) -> None:
        dev = f"{self._base}/dev"
        for name in DEVICES:
            os.close(os.open(f"{dev}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
        for name, target in DEVICE_LINKS.items():
            os.symlink(target, f"{dev}/{name}")
        for name in ("pts", "shm"):
            os.mkdir(f"{dev}/{name}")
        os.chmod(f"{dev}/shm", 0o1777)
        self._mount(dev, f"{self._root}/dev", "", syscalls.MS_BIND, "")
        hardened = syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NOEXEC
        syscalls.set_mount_attributes(f"{self._root}/dev", hardened, recursive=False)
        for name in DEVICES:
            self._mount(f"/dev/{name}", f"{self._root}/dev/{name}", "", syscalls.MS_BIND, "")
        self._mount(
            "devpts",
            f"{self._root}/dev/pts",
            "devpts",
            syscalls.MS_NOSUID | syscalls.MS_NOEXEC,
            "newinstance,ptmxmode=0666,mode=0620",
        )

    def _bind(self, root: int, placed: Collection[_Placed], *, with_devices: bool) -> None:
        attributes = syscalls.MOUNT_ATTR_NOSUID | (0 if with_devices else syscalls.MOUNT_ATTR_NODEV)
        for each in placed:
            mount = each.mount
            target = self._open_target(root, each)
            try:
                tree = syscalls.clone_mount(each.source)
                read_only = syscalls.MOUNT_ATTR_RDONLY if mount.read_only else 0
                syscalls.set_mount_attributes(tree, attributes | read_only)
                syscalls.attach_mount(tree, target)
                os.close(tree)
            except OSError as error:
                raise RootFailure(f'failed to mount "{mount.source}" at "{mount.target}": {_reason(error)}') from error
            finally:
                os.close(target)
                os.close(each.source)

    @staticmethod
    def _open_source(mount: Mount) -> int:
        try:
            volume = os.open(mount.source, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise RootFailure(f'failed to mount "{mount.source}": {_reason(error)}') from error
        if not mount.sub_path:
            return volume
        try:
            return descriptor_paths.open_beneath(volume, mount.sub_path)
        except OSError as error:
            reason = str(error.strerror) if isinstance(error, descriptor_paths.LeadsOut) else _reason(error)
            raise RootFailure(f'failed to prepare subPath "{mount.sub_path}" of "{mount.target}": {reason}') from error
        finally:
            os.close(volume)

    @staticmethod
    def _open_target(root: int, placed: _Placed) -> int:
        target = placed.mount.target
        try:
            if placed.place is not None:
                return descriptor_paths.open_inside(root, placed.place)
            if placed.is_directory:
                return descriptor_paths.make_directory_inside(root, target)
            return descriptor_paths.make_file_inside(root, target)
        except OSError as error:
            raise RootFailure(f'failed to create mount point "{target}": {_reason(error)}') from error

    def _mount_termination_log(self, root: int, path: str) -> int:
        """Mount an empty file that any user may write; returns a descriptor to read it."""
        source = f"{self._base}/termination-log"
        messages = os.open(source, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.fchmod(messages, 0o666)
        try:
            target = descriptor_paths.make_file_inside(root, path)
            try:
                tree = syscalls.clone_mount(source)
                hardened = syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NODEV | syscalls.MOUNT_ATTR_NOEXEC
                syscalls.set_mount_attributes(tree, hardened)
                syscalls.attach_mount(tree, target)
                os.close(tree)
            finally:
                os.close(target)
        except OSError as error:
            raise RootFailure(f'failed to create mount point "{path}": {_reason(error)}') from error
        return messages

    @staticmethod
    def _mount(source: str, target: str, filesystem: str, flags: int, data: str) -> None:
        try:
            syscalls.mount(source, target, filesystem, flags, data)
        except OSError as error:
            raise RootFailure(f'failed to mount "{source}": {_reason(error)}') from error


def _reason(error: OSError) -> str:
    """The error's own words, without the call and its arguments."""
    return os.strerror(error.errno or 0)


def own_paths() -> list[str]:
    """Where this interpreter and its modules are: what one of Bridgehead's parts must see, wherever that is.

    Of `sys.path` only what modules come from: the script's directory, or one that somebody put into PYTHONPATH, may
    be anybody's home.
    """
    loaded = {os.path.dirname(os.path.abspath(file)) for file in map(_file_of, list(sys.modules.values())) if file}
    sources = [entry for entry in sys.path if entry and _has_modules(os.path.abspath(entry), loaded)]
    paths = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sources, os.path.dirname(sys.executable)]
    there = [os.path.abspath(path) for path in paths if path and os.path.exists(path)]
    kept: list[str] = []
    # What is reached through links must be there by both names.
    for path in sorted({*there, *map(os.path.realpath, there)}):
        if path != "/" and not any(path == outer or path.startswith(f"{outer}/") for outer in kept):
            kept.append(path)
    return kept


def _file_of(module: object) -> str | None:
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else None


def _has_modules(entry: str, loaded: Collection[str]) -> bool:
    """Whether a loaded module, or package, lies in that entry of `sys.path`."""
    return any(directory == entry or os.path.dirname(directory) == entry for directory in loaded)
