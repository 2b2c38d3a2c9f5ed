"""Debian packages as layers of images: chosen and downloaded by apt, unpacked without running anything of them."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from deploy.image.debian import FileSystem, Packages

from tests.image_files import Entry, add_entry

# Packages that no image needs: they are replaced, or only there for maintainer scripts.
NOT_NEEDED = (
    "apache2", "ca-certificates", "debconf", "default-mysql-client", "dpkg", "init-system-helpers",
    "perl", "php-gd", "tar", "ucf",
)  # fmt: skip
_LEFT_OUT = tuple(f"./usr/share/{name}/" for name in ("bug", "doc", "doc-base", "info", "lintian", "locale", "man"))


def recommended(packages: Packages, name: str, prefix: str) -> list[str]:
    """The packages that a package recommends and whose names begin with `prefix`: these differ between releases."""
    return sorted(set(re.findall(rf"{prefix}[a-z0-9-]+", packages.recommended(name))))


def write_layer(target: Path, packages: Iterable[Path], entries: Iterable[tuple[str, Entry]] = ()) -> None:
    """Write the files of packages, and then `entries`, to a tar archive."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as layer:
        directories: set[str] = set()
        for package in packages:
            with FileSystem(package) as stream:
                _copy(stream, layer, directories)
        for path, what in entries:
            add_entry(layer, path, what)


def _copy(source: IO[bytes], layer: tarfile.TarFile, directories: set[str]) -> None:
    with tarfile.open(fileobj=source, mode="r|") as package:
        for member in package:
            if f"{member.name}/".startswith(_LEFT_OUT) or (member.isdir() and member.name in directories):
                continue
            if member.isdir():
                directories.add(member.name)
            layer.addfile(member, package.extractfile(member) if member.isreg() else None)
