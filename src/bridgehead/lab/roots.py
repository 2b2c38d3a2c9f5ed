"""Root file systems of a lab and of its nodes. Called by the lab's first process.

    the lab      system directories (read-only), a copy of /etc without files that only root can read, the state
                 directory, Python; everything else is new and in memory. The API server and the controllers run here.
    each node    the same system directories and /etc; everything else is the node's own, below the state directory, and
                 stays from one run to the next. It has its own directory, its own credentials and the images of the
                 lab's state. The node's kubelet and runtime run here, so a hostPath is a path of this root.

All sources are first bound to a staging directory, before the process enters the lab's user namespace. The machine's
root has access to all of them only there; and read-only mounts that are copied to the mount namespace of a less
privileged user namespace are locked: root of the lab, which privileged pods are, cannot make them writable again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bridgehead.kubelet.runtimes.isolation import cgroups, descriptor_paths, host_files, rootfs, tree_copy
from bridgehead.network import syscalls

from . import kernel_views
from .plan import LabFiles, NodePlan

_STAGE: Final = "/run/stage"
_STAGED_CGROUP: Final = "/run/cgroup"
_NEW: Final = "/run/root"
_WHOLE: Final = "/run/whole"
_CGROUP: Final = "/sys/fs/cgroup"
_KERNEL_FILE_SYSTEMS: Final = {"proc": kernel_views.mount_proc, "sys": kernel_views.mount_sysfs}  # by mount point
_DEVICES: Final = (*rootfs.DEVICES, "net/tun", "fuse")


def shown_paths(files: LabFiles) -> list[str]:
    """Return the paths of the machine that the lab's root shows, outer directories first: system directories, the lab's
    state (keys, images and their content read-only) and this program."""
    return [*_system_directories(), *map(str, (files.root, files.pki, files.images, files.content)), *_own_paths()]


def _system_directories() -> list[str]:
    """Return the system directories without /etc, which is copied, and without links (`_link_system`)."""
    paths = (f"/{name}" for name in rootfs.SHOWN if name != "etc")
    return [path for path in paths if os.path.isdir(path) and not os.path.islink(path)]


def _own_paths() -> list[str]:
    """Return the paths of this program that are not in a system directory."""
    return [path for path in host_files.own_paths() if not _is_system(path)]


def stage(shown: Sequence[str], files: LabFiles, user_namespace: int | None, cgroup: cgroups.Prepared | None) -> None:
    """Bind the paths of `shown` below the staging directory, read-only except for the lab's state.

    Changes the mounts of the calling process, which must not have entered the lab's user namespace yet.

    Images belong to the machine's root. Their mount maps owners by `user_namespace` where the kernel and the file
    system support that; otherwise root's files have the overflow id (nobody) in the lab.
    """
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", "/run", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    os.mkdir(_STAGE)
    os.mkdir(_NEW)
    if user_namespace is not None:  # of root, whose own /proc and /sys may be hidden in parts, as in a container
        os.mkdir(_WHOLE)
        kernel_views.show_whole(_WHOLE)
    if cgroup:
        cgroup.show(_STAGED_CGROUP)
    for number, path in enumerate(shown):
        target = f"{_STAGE}/{number}"
        _make_mount_point(path, target)
        mount = syscalls.clone_mount(path)
        try:
            if path == str(files.images) and user_namespace is not None:
                with contextlib.suppress(OSError):
                    syscalls.set_mount_attributes(mount, 0, user_namespace=user_namespace)
            read_only = 0 if path == str(files.root) else syscalls.MOUNT_ATTR_RDONLY
            syscalls.set_mount_attributes(mount, syscalls.MOUNT_ATTR_NODEV | read_only)
            _attach(mount, target)
        finally:
            os.close(mount)


def enter_lab_root(shown: Sequence[str]) -> None:
    """Build the lab's root from the staged paths and enter it. Runs in the lab's namespaces."""
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", _NEW, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    copying = _start_copying_etc(f"{_NEW}/etc")
    _make_fresh_directories(_NEW)
    _link_system(_NEW)
    for number, path in enumerate(shown):
        _bind(f"{_STAGE}/{number}", _NEW + path)
    _make_devices(f"{_NEW}/dev")
    for name, mount in _KERNEL_FILE_SYSTEMS.items():
        mount(f"{_NEW}/{name}")
    if os.path.isdir(_STAGED_CGROUP):
        _bind(_STAGED_CGROUP, _NEW + _CGROUP)
    os.mkdir(f"{_NEW}/run/bridgehead")
    copying.wait()  # fails for files that only the machine's root can read, which is intended
    if not os.listdir(f"{_NEW}/etc"):  # some versions of cp lack these options
        host_files.copy_tree("/etc", f"{_NEW}/etc")
    for private in list(host_files.find_private(f"{_NEW}/etc")):
        shutil.rmtree(private) if os.path.isdir(private) and not os.path.islink(private) else os.unlink(private)
    _change_root(_NEW)


def enter_node_root(files: LabFiles, node: NodePlan, resolver: str = "") -> None:
    """Build a node's root in a new mount namespace and enter it. Runs in the node's network namespace, for its /sys.

    `resolver` is the content of the node's resolv.conf for pods; "" for no such file.

    Pods of earlier runs can have put anything into the node's files. Mount points are therefore created inside that
    root without following links, and files in their place are renamed.
    """
    syscalls.unshare(syscalls.CLONE_NEWNS)
    files.node_root(node).mkdir(exist_ok=True)
    new = "/mnt"
    syscalls.mount(str(files.node_root(node)), new, flags=syscalls.MS_BIND)
    root = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    _make_fresh_directories(new)
    _link_system(new)
    with _mount_point(root, "run", is_directory=True) as run:
        syscalls.mount("tmpfs", run, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    for path in (
        "/dev",
        *_system_directories(),
        *_own_paths(),
        str(files.node(node)),
        str(files.images),
        str(files.content),
    ):
        _bind_inside(root, path)
    for file in (files.pki / "ca.crt", *sorted(files.pki.glob(f"{node.name}.*"))):
        _bind_inside(root, str(file))
    with _mount_point(root, "etc", is_directory=True) as etc:
        _overlay_etc(etc)
    for name, mount in _KERNEL_FILE_SYSTEMS.items():
        with _mount_point(root, name, is_directory=True) as target:
            mount(target)
    if os.listdir(_CGROUP):
        _bind_inside(root, _CGROUP)
    os.close(root)
    _change_root(new)
    make_runtime_root(node, resolver)
    os.makedirs("/run/lock", mode=0o1777)


def make_runtime_root(node: NodePlan, resolver: str) -> None:
    """Create the directory of the node's runtime, and its resolv.conf for pods if there is one."""
    os.makedirs(node.runtime_root, exist_ok=True)
    if resolver:
        Path(node.resolv_conf).write_text(resolver, "ascii")


@contextlib.contextmanager
def _mount_point(root: int, path: str, *, is_directory: bool) -> Iterator[str]:
    """Yield a path that leads to `path` inside the root that the descriptor is open on, whatever that root contains."""
    make = descriptor_paths.make_directory_in_root if is_directory else descriptor_paths.make_file_in_root
    try:
        target = make(root, path, links=False)
        if stat.S_ISDIR(os.fstat(target).st_mode) != is_directory:
            os.close(target)
            raise NotADirectoryError(errno.ENOTDIR, path)
    except OSError:
        top = path.strip("/").split("/", 1)[0]
        os.rename(top, f"{top}.replaced-{secrets.token_hex(4)}", src_dir_fd=root, dst_dir_fd=root)
        target = make(root, path, links=False)
    try:
        yield f"/proc/self/fd/{target}"
    finally:
        os.close(target)


def _bind_inside(root: int, path: str) -> None:
    """Bind `path` to the same path inside that root."""
    with _mount_point(root, path, is_directory=os.path.isdir(path)) as target:
        mount = syscalls.clone_mount(path)
        try:
            _attach(mount, target)
        finally:
            os.close(mount)


def _make_fresh_directories(root: str) -> None:
    for name, mode in rootfs.FRESH.items():
        path = f"{root}/{name}"
        with contextlib.suppress(OSError):  # the directory exists, or a pod's file is in its place
            os.mkdir(path)
            os.chmod(path, mode)
    for name, target in rootfs.FRESH_LINKS.items():
        if not os.path.lexists(f"{root}/{name}"):
            os.symlink(target, f"{root}/{name}")


def _link_system(root: str) -> None:
    """Create the system directories that are links on this machine, such as /bin."""
    for name in rootfs.SHOWN:
        if os.path.islink(f"/{name}") and not os.path.lexists(f"{root}/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{root}/{name}")


def _is_system(path: str) -> bool:
    top = path.split("/", 2)[1]
    return top in rootfs.SHOWN and top != "etc"


def _start_copying_etc(target: str) -> subprocess.Popen[bytes]:
    os.mkdir(target)
    return subprocess.Popen(
        ["cp", "-a", "--no-preserve=ownership", "/etc/.", target],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _overlay_etc(target: str) -> None:
    """Mount the lab's /etc, below a layer of the node's own that is in memory; a copy where overlays are refused."""
    layers = "/tmp"  # the lab's own /tmp, covered for a moment
    syscalls.mount("tmpfs", layers, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    for name in ("upper", "work"):
        os.mkdir(f"{layers}/{name}")
    data = f"lowerdir=/etc,upperdir={layers}/upper,workdir={layers}/work"
    try:
        syscalls.mount("overlay", target, "overlay", syscalls.MS_NOSUID | syscalls.MS_NODEV, data)
    except OSError:
        tree_copy.copy_directory("/etc", f"{layers}/upper")
        syscalls.mount(f"{layers}/upper", target, flags=syscalls.MS_BIND)
    syscalls.umount(layers, syscalls.MNT_DETACH)


def _make_devices(directory: str) -> None:
    for name in _DEVICES:
        if os.path.exists(f"/dev/{name}"):
            _bind(f"/dev/{name}", f"{directory}/{name}")
    for name, target in rootfs.DEVICE_LINKS.items():
        os.symlink(target, f"{directory}/{name}")
    for name in ("pts", "shm"):
        os.mkdir(f"{directory}/{name}")
    os.chmod(f"{directory}/shm", 0o1777)
    syscalls.mount(
        "devpts", f"{directory}/pts", "devpts", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, "newinstance,ptmxmode=0666"
    )


def _make_mount_point(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        Path(target).touch()


def _bind(source: str, target: str) -> None:
    _make_mount_point(source, target)
    mount = syscalls.clone_mount(source)
    try:
        _attach(mount, target)
    finally:
        os.close(mount)


def _attach(mount: int, target: str) -> None:
    where = os.open(target, os.O_PATH | os.O_CLOEXEC)
    try:
        syscalls.attach_mount(mount, where)
    finally:
        os.close(where)


def _change_root(new: str) -> None:
    os.chdir(new)
    syscalls.pivot_root(".", ".")
    syscalls.umount(".", syscalls.MNT_DETACH)
    os.chdir("/")


def make_state_directories(files: LabFiles, owner: Sequence[int] | None) -> None:
    """Create the directories of the state; those that the lab writes to belong to `owner` (user, group), root of the
    lab.

    The lab can only read the files that the commands outside write, and use as the machine's root. The state directory
    therefore belongs to the caller, and the lab's group can only pass through it.
    """
    for directory in (files.root, files.pki, files.images, *files.written_inside):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if owner is None:
        return
    user, group = owner
    for directory in files.written_inside:
        os.chown(directory, user, group)
    for directory in (files.root, files.pki, files.images):
        os.chown(directory, -1, group)
        directory.chmod(0o750 if directory == files.pki else 0o710)


def give_credentials(files: LabFiles, owner: Sequence[int] | None) -> None:
    """Let only the lab's parts read their keys and certificates."""
    if owner is None:
        return
    for pattern in files.read_inside:
        for path in files.pki.glob(pattern):
            os.chown(path, -1, owner[1])
            path.chmod(0o640)
