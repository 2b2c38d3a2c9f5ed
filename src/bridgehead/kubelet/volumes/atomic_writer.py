"""Atomic update of a volume's files: a reader sees all old files or all new ones.

Called by `volume_manager`. The layout is that of Kubernetes' `AtomicWriter`: the files are in a directory with a
unique name, `..data` is a symbolic link to it, and the names that users see are links through `..data`. An update
replaces that one link. Containers see these volumes read-only, so they can't plant links here.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bridgehead.kubelet.nofollow import remove_tree

from .chown import set_owner
from .projected_volumes import File

_DATA = "..data"
_ROOT_MODE = 0o777  # as kubelets'; containers see the volume read-only
_DIRECTORY_MODE = 0o755
_SETGID = 0o2000  # new files in a directory belong to its group, too


def write_files(directory: Path, files: Mapping[str, File], group: int | None = None, user: int | None = None) -> bool:
    """Make `directory` show exactly `files`; return whether anything changed. Raises OSError, and ValueError for an
    owner that the user namespace does not map.

    `group` (fsGroup) and `user` own the directories, as of `volume_owner`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    _set_attributes(directory, _ROOT_MODE, user, group)
    link = directory / _DATA
    old = directory / os.readlink(link) if link.is_symlink() else None
    if old is not None and _read_files(old) == {path: _with_owner(file) for path, file in files.items()}:
        return False
    new = Path(tempfile.mkdtemp(prefix=time.strftime("..%Y_%m_%d_%H_%M_%S.", time.gmtime()), dir=directory))
    for path, file in files.items():
        target = new / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        set_owner(target, file.user, file.group)
        target.chmod(file.mode)
    for made in (new, *(path for path in new.rglob("*") if path.is_dir())):
        _set_attributes(made, _DIRECTORY_MODE, user, group)
    temporary = directory / "..data_tmp"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(new.name)
    temporary.rename(link)
    _link_names(directory, {path.split("/", 1)[0] for path in files})
    if old is not None:
        remove_tree(old)
    return True


def _read_files(directory: Path) -> dict[str, File]:
    files = {}
    for path in directory.rglob("*"):
        if path.is_file():
            status = path.stat()
            mode = status.st_mode & 0o7777
            files[str(path.relative_to(directory))] = File(path.read_bytes(), mode, status.st_uid, status.st_gid)
    return files


def _with_owner(file: File) -> File:
    user = os.geteuid() if file.user is None else file.user
    return file._replace(user=user, group=os.getegid() if file.group is None else file.group)


def _set_attributes(directory: Path, mode: int, user: int | None, group: int | None) -> None:
    set_owner(directory, user, user if group is None else group)
    if group is not None:
        mode |= _SETGID
    directory.chmod(mode)


def _link_names(directory: Path, names: set[str]) -> None:
    for entry in directory.iterdir():
        if entry.is_symlink() and entry.name not in names and not entry.name.startswith(".."):
            entry.unlink()
    for name in names:
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(f"{_DATA}/{name}")
