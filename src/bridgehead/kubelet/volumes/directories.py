"""Directories and files of the node that are volumes: emptyDirs, hostPaths.

Called by `volume_manager` and `persistent`. Source: Kubernetes "Volumes".
"""

from __future__ import annotations

import stat
from pathlib import Path

from bridgehead.network import syscalls
from bridgehead.objects.core import EmptyDirVolume, HostPathVolume

from .chown import set_owner


def make_open_directory(directory: Path, group: int | None, user: int | None = None) -> None:
    """Make a world-writable directory, owned by `group` (fsGroup) and `user`, as of `volume_owner`.

    An existing directory keeps the content and modes that the pod has made. Raises OSError, and ValueError for a group
    that the user namespace does not map.
    """
    # Renamed when complete: a kubelet that is killed in between leaves no directory with a wrong owner or mode.
    if not directory.is_dir():
        new = directory.with_name(f".{directory.name}.new")
        new.mkdir(parents=True, exist_ok=True)
        set_owner(new, user, user if group is None else group)
        new.chmod(_open_mode(group))
        new.rename(directory)


def make_empty_dir(
    directory: Path, volume: EmptyDirVolume, group: int | None, memory_size: int, user: int | None = None
) -> None:
    """Make an open directory; with medium Memory a tmpfs of `memory_size` bytes. Raises OSError, ValueError."""
    make_open_directory(directory, group, user)
    if volume.medium == "Memory" and not directory.is_mount():
        options = [f"mode={0o1000 | _open_mode(group):o}", f"size={memory_size}"]  # sticky, as the kernel's default
        owners = (("uid", user), ("gid", user if group is None else group))
        options += [f"{name}={number}" for name, number in owners if number is not None]
        flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
        syscalls.mount("tmpfs", str(directory), "tmpfs", flags, ",".join(options))


def _open_mode(group: int | None) -> int:
    return 0o777 if group is None else 0o2777


def check_host_path(volume: HostPathVolume) -> Path:
    """Check the path against its type; create it for an ...OrCreate type. Raises ValueError, OSError."""
    path = Path(volume.path)
    match volume.type:
        case "":
            # A bind mount needs a source. Like container runtimes, create a missing directory.
            if not path.exists():
                path.mkdir(parents=True, mode=0o755)
            return path
        case "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True, mode=0o755)
        case "FileOrCreate":
            if not path.exists():
                try:
                    path.touch(mode=0o644)
                except OSError as error:  # Go's message
                    raise ValueError(f"open {path}: {(error.strerror or str(error)).lower()}") from error
    checks = {
        "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
        "Directory": (stat.S_ISDIR, "a directory"),
        "FileOrCreate": (stat.S_ISREG, "a file"),
        "File": (stat.S_ISREG, "a file"),
        "Socket": (stat.S_ISSOCK, "a socket file"),
        "CharDevice": (stat.S_ISCHR, "a character device"),
        "BlockDevice": (stat.S_ISBLK, "a block device"),
    }
    if volume.type not in checks:
        raise ValueError(f"hostPath type check failed: {volume.type} is an invalid volume type")
    check, what = checks[volume.type]
    if not path.exists() or not check(path.stat().st_mode):
        raise ValueError(f"hostPath type check failed: {path} is not {what}")
    return path
