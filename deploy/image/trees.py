"""The files of a layer, and an archive of them that depends on nothing else.

An archive has its entries in the order of their paths, with root as the owner and TIMESTAMP as the time of each.
"""

from __future__ import annotations

import io
import posixpath
import stat
import tarfile
from dataclasses import dataclass, field
from typing import IO

# Images of the same files have the same digest, whenever they are made. 1980 is the first year of zip archives.
TIMESTAMP = 315_532_800


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a directory or a link (`link` is its target; a hard link's is a path from the root)."""

    kind: bytes  # tarfile's type
    mode: int
    content: bytes = b""
    link: str = ""


@dataclass
class Tree:
    """Entries by their paths, which are relative to the root: `usr/bin/env`."""

    entries: dict[str, Entry] = field(default_factory=dict)

    def add_file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self.entries[path] = Entry(tarfile.REGTYPE, mode, content)

    def add_directory(self, path: str, mode: int = 0o755) -> None:
        self.entries[path] = Entry(tarfile.DIRTYPE, mode)

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self.entries[path] = Entry(tarfile.SYMTYPE, 0o777, link=target)

    def write(self, target: IO[bytes]) -> None:
        """Write the archive. Directories that no entry names have the mode 0755."""
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path, entry in sorted({**self._missing_directories(), **self.entries}.items()):
                member = tarfile.TarInfo(path)
                member.type, member.mode, member.linkname = entry.kind, entry.mode, entry.link
                member.mtime, member.size = TIMESTAMP, len(entry.content)
                archive.addfile(member, io.BytesIO(entry.content))

    def archive(self) -> bytes:
        """The archive."""
        file = io.BytesIO()
        self.write(file)
        return file.getvalue()

    def _missing_directories(self) -> dict[str, Entry]:
        parents = {
            "/".join(parts[:depth])
            for parts in (path.split("/") for path in self.entries)
            for depth in range(1, len(parts))
        }
        return {path: Entry(tarfile.DIRTYPE, 0o755) for path in parents}


def entry_of(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Entry | None:
    """The entry of an archive's member; None for a device. Bits of other users' rights (setuid, setgid) are dropped."""
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    file = archive.extractfile(member) if member.isreg() else None
    mode = member.mode & ~(stat.S_ISUID | stat.S_ISGID)
    link = posixpath.normpath(member.linkname) if member.islnk() else member.linkname
    return Entry(member.type, mode, file.read() if file else b"", link)
