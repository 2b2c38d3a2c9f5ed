"""The file systems that a lab and its nodes see instead of the machine's. Called by the lab's first process.

    the lab      system directories (read-only), a copy of /etc without what only root may read, the state directory,
                 Python; all else is fresh and in memory. The API server and the controllers run here.
    each node    the same system directories and /etc; all else is the node's own, below the state directory, and stays
                 from one run to the next. Of the lab's state it has its own directory, its own credentials and the
                 images. The node's kubelet and runtime run here, so a hostPath is one of this root.

What is shown is bound to a staging directory first, before the process enters the lab's user namespace: there the
machine's root may still go where only it may, and what is read-only when it is copied to the mount namespace of a less
privileged user namespace is locked: root of the lab, which privileged pods are, cannot make it writable again.
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

from bridgehead.kubelet.runtimes import cgroups, descriptor_paths, rootfs
from bridgehead.network import syscalls

from .plan import LabFiles, NodePlan

_STAGE: Final = "/run/stage"
_STAGED_CGROUP: Final = "/run/cgroup"
_NEW: Final = "/run/root"
_CGROUP: Final = "/sys/fs/cgroup"
_HARDENED: Final = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
_KERNEL_FILE_SYSTEMS: Final = {"proc": "proc", "sysfs": "sys"}  # by type: where
_DEVICES: Final = (*rootfs.DEVICES, "net/tun", "fuse")


def shown_paths(files: LabFiles) -> list[str]:
    """What the lab's root shows of the machine, outer directories first: system directories, the lab's state (of which
    keys and images are only to be read) and this program."""
    return [*_system_directories(), *map(str, (files.root, files.pki, files.images)), *_own_paths()]


def _system_directories() -> list[str]:
    """Without /etc, which is copied, and those that are links (`_link_system`)."""
    paths = (f"/{name}" for name in rootfs.SHOWN if name != "etc")
    return [path for path in paths if os.path.isdir(path) and not os.path.islink(path)]


def _own_paths() -> list[str]:
    """Where this program is, as far as it is not in a system directory."""
    return [path for path in rootfs.own_paths() if not _is_system(path)]


def stage(shown: Sequence[str], files: LabFiles, user_namespace: int | None, cgroup: cgroups.Prepared | None) -> None:
    """Bind what `shown` names below a directory that everybody may enter, read-only but for the lab's state.

    Changes the calling process's mounts, and has to come before it enters the lab's user namespace.

    The machine's root unpacks images, so they show their owners as `user_namespace` maps them,
    where the kernel and the file system can do that; otherwise root's files are nobody's in the lab.
    """
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", "/run", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    os.mkdir(_STAGE)
    os.mkdir(_NEW)
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
            if path != str(files.root):
                syscalls.set_mount_attributes(mount, syscalls.MOUNT_ATTR_RDONLY)
            _attach(mount, target)
        finally:
            os.close(mount)


def enter_lab_root(shown: Sequence[str]) -> None:
    """Build the lab's root from what `stage` prepared and make it the calling process's. In the lab's namespaces."""
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", _NEW, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    copying = _start_copying_etc(f"{_NEW}/etc")
    _make_fresh_directories(_NEW)
    _link_system(_NEW)
    for number, path in enumerate(shown):
        _bind(f"{_STAGE}/{number}", _NEW + path)
    _make_devices(f"{_NEW}/dev")
    for kind, name in _KERNEL_FILE_SYSTEMS.items():
        syscalls.mount(kind, f"{_NEW}/{name}", kind, _HARDENED)
    if os.path.isdir(_STAGED_CGROUP):
        _bind(_STAGED_CGROUP, _NEW + _CGROUP)
    os.mkdir(f"{_NEW}/run/bridgehead")
    copying.wait()  # what only the machine's root may read it cannot copy, and says so
    if not os.listdir(f"{_NEW}/etc"):  # not every cp has these options
        rootfs.copy_tree("/etc", f"{_NEW}/etc")
    for private in list(rootfs.find_private(f"{_NEW}/etc")):
        shutil.rmtree(private) if os.path.isdir(private) and not os.path.islink(private) else os.unlink(private)
    _change_root(_NEW)


def enter_node_root(files: LabFiles, node: NodePlan) -> None:
    """Build the root of a node in a mount namespace of its own. In the node's network namespace, for its /sys.

    Pods of earlier runs may have put anything into the node's files, so mount points are made inside that root,
    whatever links are in it, and what stands where one has to be is moved aside.
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
    for path in ("/dev", *_system_directories(), *_own_paths(), str(files.node(node)), str(files.images)):
        _bind_inside(root, path)
    for file in (files.pki / "ca.crt", *sorted(files.pki.glob(f"{node.name}.*"))):
        _bind_inside(root, str(file))
    with _mount_point(root, "etc", is_directory=True) as etc:
        _overlay_etc(etc)
    for kind, name in _KERNEL_FILE_SYSTEMS.items():
        with _mount_point(root, name, is_directory=True) as target:
            syscalls.mount(kind, target, kind, _HARDENED)
    if os.listdir(_CGROUP):
        _bind_inside(root, _CGROUP)
    os.close(root)
    _change_root(new)
    os.makedirs(node.runtime_root)
    os.makedirs("/run/lock", mode=0o1777)


@contextlib.contextmanager
def _mount_point(root: int, path: str, *, is_directory: bool) -> Iterator[str]:
    """A mount point inside the root that the descriptor is open on, by a name that leads there whatever is in it."""
    make = descriptor_paths.make_directory_inside if is_directory else descriptor_paths.make_file_inside
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
    """Show `path` at the same place inside that root."""
    with _mount_point(root, path, is_directory=os.path.isdir(path)) as target:
        mount = syscalls.clone_mount(path)
        try:
            _attach(mount, target)
        finally:
            os.close(mount)


def _make_fresh_directories(root: str) -> None:
    for name, mode in rootfs.FRESH.items():
        path = f"{root}/{name}"
        with contextlib.suppress(OSError):  # it is there, or what a pod put there is in the way
            os.mkdir(path)
            os.chmod(path, mode)
    for name, target in rootfs.FRESH_LINKS.items():
        if not os.path.lexists(f"{root}/{name}"):
            os.symlink(target, f"{root}/{name}")


def _link_system(root: str) -> None:
    """System directories that are links on this machine, such as /bin."""
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
    """The lab's /etc, below a layer of the node's own that is in memory."""
    layers = "/tmp"  # the lab's own, covered for this moment
    syscalls.mount("tmpfs", layers, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    for name in ("upper", "work"):
        os.mkdir(f"{layers}/{name}")
    data = f"lowerdir=/etc,upperdir={layers}/upper,workdir={layers}/work"
    syscalls.mount("overlay", target, "overlay", syscalls.MS_NOSUID | syscalls.MS_NODEV, data)
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
    """Make the directories of the state, and give what the lab writes to `owner` (user, group), root of the lab.

    What the commands outside write, and act on as the machine's root, the lab can only read: so the state directory
    itself stays ours, and the lab's group may pass through it.
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
    """Let the lab's parts read their keys and certificates, and nobody else."""
    if owner is None:
        return
    for pattern in files.read_inside:
        for path in files.pki.glob(pattern):
            os.chown(path, -1, owner[1])
            path.chmod(0o640)
