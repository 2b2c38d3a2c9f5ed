"""Runs a program with the limits that a container has: `python confined.py LIMIT... -- PROGRAM...`, as root.

sysctl=NAME      set a sysctl to 0 in a user namespace of its own
masks            mounts on parts of /proc and /sys, as engines of containers make them; /sys is read-only
capabilities     those that engines of containers leave to root, without SYS_ADMIN
no-setfcap       without CAP_SETFCAP
seccomp          the default filter of containers, for the capabilities that are left
chroot           a root directory that is no mount point
user=ID          an ordinary user
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from bridgehead.kubelet.runtimes.isolation import privileges, seccomp
from bridgehead.network import syscalls


def mask() -> None:
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    for path in ("/proc/bus", "/proc/sys"):
        syscalls.mount(path, path, flags=syscalls.MS_BIND | syscalls.MS_REC)
        syscalls.set_mount_attributes(path, syscalls.MOUNT_ATTR_RDONLY)
    for path in ("/proc/acpi", "/proc/scsi", "/sys/firmware"):
        if os.path.isdir(path):
            syscalls.mount("tmpfs", path, "tmpfs", syscalls.MS_RDONLY)
    syscalls.set_mount_attributes("/sys", syscalls.MOUNT_ATTR_RDONLY, recursive=False)


def set_sysctl(name: str) -> None:
    group = os.getegid()
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text("0 0 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    Path(f"/proc/sys/{name.replace('.', '/')}").write_text("0")


def enter_chroot() -> None:
    """A directory below a mount that shows the whole machine, so that its root is no mount point."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    above = tempfile.mkdtemp()
    syscalls.mount("tmpfs", above, "tmpfs")
    root = f"{above}/root"
    os.mkdir(root)
    for entry in os.scandir("/"):
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), f"{root}/{entry.name}")
        elif entry.is_dir():
            os.mkdir(f"{root}/{entry.name}")
            syscalls.mount(entry.path, f"{root}/{entry.name}", flags=syscalls.MS_BIND | syscalls.MS_REC)
    directory = os.getcwd()
    os.chroot(root)
    os.chdir(directory)


def main(limits: list[str], argv: list[str]) -> None:
    own = privileges.parse_available(Path("/proc/self/status").read_text())
    kept = own & privileges.DEFAULT_CAPABILITIES if "capabilities" in limits else own
    if "no-setfcap" in limits:
        kept -= {"SETFCAP"}
    filters = seccomp.default_filter(kept) if "seccomp" in limits else b""
    user = 0
    for limit in limits:
        name, _, value = limit.partition("=")
        match name:
            case "sysctl":
                set_sysctl(value)
            case "masks":
                mask()
            case "chroot":
                enter_chroot()
            case "user":
                user = int(value)
            case "capabilities" | "no-setfcap" | "seccomp":
                pass
            case _:
                raise ValueError(limit)
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        if filters:
            syscalls.set_no_new_privileges()
            seccomp.install(filters)
    else:
        numbers = privileges.numbers_of(kept)
        if filters:
            seccomp.install(filters)
        syscalls.drop_bounding_capabilities(numbers)
        syscalls.set_capabilities(numbers)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    end = sys.argv.index("--")
    main(sys.argv[1:end], sys.argv[end + 1 :])
