"""Write a volume's files so that a reader sees all of the old ones or all of the new ones.

Called by `volumes`. The layout is that of Kubernetes' `AtomicWriter`: the files are in a directory with a time in its
name, `..data` points to it, and what the user sees are links through `..data`; an update replaces that one link.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .payloads import File

_DATA = "..data"


def write_files(directory: Path, files: Mapping[str, File]) -> bool:
    """Make `directory` show exactly `files`; say whether anything had to change. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    link = directory / _DATA
    old = directory / os.readlink(link) if link.is_symlink() else None
    if old is not None and _read_files(old) == dict(files):
        return False
    new = Path(tempfile.mkdtemp(prefix="..", dir=directory))
    new.chmod(0o755)
    for path, file in files.items():
        target = new / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    temporary = directory / "..data_tmp"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(new.name)
    temporary.rename(link)
    _link_names(directory, {path.split("/", 1)[0] for path in files})
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return True


def _read_files(directory: Path) -> dict[str, File]:
    files = {}
    for path in directory.rglob("*"):
        if path.is_file():
            files[str(path.relative_to(directory))] = File(path.read_bytes(), path.stat().st_mode & 0o7777)
    return files


def _link_names(directory: Path, names: set[str]) -> None:
    for entry in directory.iterdir():
        if entry.is_symlink() and entry.name not in names and not entry.name.startswith(".."):
            entry.unlink()
    for name in names:
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(f"{_DATA}/{name}")
