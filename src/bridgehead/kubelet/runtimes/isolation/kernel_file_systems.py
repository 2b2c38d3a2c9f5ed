"""The kernel's file systems in a container's root: /proc, /sys and /dev, with what is masked in them.

Called by `root_builder` when the root is mounted. Source: containerd's pkg/oci (`defaultMounts`,
`defaultUnixNamespaces`), runc's devices.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

from bridgehead.kubelet.runtimes.runtime import Security
from bridgehead.network import syscalls

from .mounting import describe, mount
from .rootfs import DEVICE_LINKS, DEVICES, RootFailure

# Paths that containerd hides, and paths that it makes read-only.
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
_HARDENED: Final = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC


def mount_kernel_file_systems(root: str, devices: str, security: Security) -> None:
    """Mount them in the directory `root`, which has mount points. `devices` is an empty directory on a tmpfs for /dev.

    Raises `RootFailure`.
    """
    try:
        syscalls.mount("proc", f"{root}/proc", "proc", _HARDENED)
    except OSError as error:
        raise RootFailure(
            f"failed to mount proc: {describe(error)} (a part of /proc is hidden where this lab was started)"
        ) from error
    read_only = 0 if security.privileged else syscalls.MS_RDONLY
    try:
        syscalls.mount("sysfs", f"{root}/sys", "sysfs", _HARDENED | read_only)
    except OSError:  # not permitted in a user namespace in which part of /sys is hidden
        mount("/sys", f"{root}/sys", "", syscalls.MS_BIND | syscalls.MS_REC)
        attributes = syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NODEV | syscalls.MOUNT_ATTR_NOEXEC
        syscalls.set_mount_attributes(f"{root}/sys", syscalls.MOUNT_ATTR_RDONLY | attributes)
    _mount_devices(root, devices)
    if not (security.privileged or security.unmasked_proc):
        _mask(root)


def _mask(root: str) -> None:
    for path in _MASKED:
        target = f"{root}/{path}"
        if os.path.isdir(target):
            mount("tmpfs", target, "tmpfs", syscalls.MS_RDONLY | syscalls.MS_NOSUID | syscalls.MS_NODEV)
        elif os.path.exists(target):
            mount("/dev/null", target, "", syscalls.MS_BIND)
    for path in _READ_ONLY:
        target = f"{root}/{path}"
        if os.path.exists(target):
            mount(target, target, "", syscalls.MS_BIND | syscalls.MS_REC)
            syscalls.set_mount_attributes(target, syscalls.MOUNT_ATTR_RDONLY)


def _mount_devices(root: str, devices: str) -> None:
    for name in DEVICES:
        os.close(os.open(f"{devices}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
    for name, target in DEVICE_LINKS.items():
        os.symlink(target, f"{devices}/{name}")
    for name in ("mqueue", "pts", "shm"):
        os.mkdir(f"{devices}/{name}")
    os.chmod(f"{devices}/shm", 0o1777)
    mount(devices, f"{root}/dev", "", syscalls.MS_BIND)
    attributes = syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NOEXEC
    syscalls.set_mount_attributes(f"{root}/dev", attributes, recursive=False)
    for name in DEVICES:
        mount(f"/dev/{name}", f"{root}/dev/{name}", "", syscalls.MS_BIND)
    flags = syscalls.MS_NOSUID | syscalls.MS_NOEXEC
    mount("devpts", f"{root}/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=0620")
    with contextlib.suppress(OSError):  # the kernel has none, or the pod's IPC namespace is not the lab's
        syscalls.mount("mqueue", f"{root}/dev/mqueue", "mqueue", _HARDENED)
