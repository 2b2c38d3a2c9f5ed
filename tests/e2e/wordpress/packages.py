"""Debian packages as layers of images: chosen and downloaded by apt, unpacked without running anything of them."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tarfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import IO

from tests.image_files import Entry, add_entry

_SECONDS = 300
# Packages that no image needs: they are replaced, or only there for maintainer scripts.
_NOT_NEEDED = (
    "apache2", "ca-certificates", "debconf", "default-mysql-client", "dpkg", "init-system-helpers",
    "perl", "php-gd", "tar", "ucf",
)  # fmt: skip
_LEFT_OUT = tuple(f"./usr/share/{name}/" for name in ("bug", "doc", "doc-base", "info", "lintian", "locale", "man"))


class Packages:
    """The packages of this machine's Debian release. `directory` keeps what was downloaded."""

    def __init__(self, directory: Path) -> None:
        self._archives = directory / "archives"
        for name in ("archives", "lists", "nothing"):
            (directory / name / "partial").mkdir(parents=True, exist_ok=True)
        # apt believes that these are installed, in a version that suits everybody.
        (directory / "status").write_text(
            "".join(
                f"Package: {name}\nStatus: install ok installed\nVersion: 999:1\nArchitecture: {_architecture()}\n"
                "Multi-Arch: allowed\nMaintainer: none\nDescription: not needed\n\n"
                for name in _NOT_NEEDED
            )
        )
        self._options = [
            f"Dir::State::status={directory}/status",
            f"Dir::Cache={directory}",
            # Many images of containers switch these off, and then each call parses all lists.
            "Dir::Cache::pkgcache=pkgcache.bin",
            "Dir::Cache::srcpkgcache=srcpkgcache.bin",
            "APT::Install-Recommends=0",
            "APT::Sandbox::User=root",
            "Debug::NoLocking=1",
        ]
        self._own_lists = f"Dir::State::lists={directory}/lists"

    def download(self, *selections: Collection[str]) -> list[list[Path]]:
        """Download several selections of packages with all that they depend on; returns the files of each."""
        self._apt("install", "--download-only", *{name for names in selections for name in names})
        return [self._list(names) for names in selections]

    def recommended(self, name: str, prefix: str) -> list[str]:
        """The packages that a package recommends and whose names begin with `prefix`: these differ between releases."""
        shown = self._run("apt-cache", "show", name)
        lines = [line for line in shown.splitlines() if line.startswith("Recommends:")]
        return sorted({found for line in lines for found in re.findall(rf"{prefix}[a-z0-9-]+", line)})

    def _list(self, names: Collection[str]) -> list[Path]:
        # apt prints what is still to be downloaded: everything, where there is nothing.
        listed = self._apt("install", "--print-uris", "-o", "Dir::Cache::archives=nothing", *names)
        return [self._archives / line.split()[1] for line in listed.splitlines() if line.startswith("'")]

    def _apt(self, *arguments: str) -> str:
        return self._run("apt-get", "-qq", "-y", *arguments)

    def _run(self, *command: str) -> str:
        try:
            return self._execute(*command)
        except subprocess.CalledProcessError:  # this machine's lists are missing or old
            if self._own_lists in self._options:
                raise
            self._options.append(self._own_lists)
            self._execute("apt-get", "-qq", "update")
            return self._execute(*command)

    def _execute(self, program: str, *arguments: str) -> str:
        options = [word for option in self._options for word in ("-o", option)]
        argv = [program, *options, *arguments]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=_SECONDS).stdout


def write_layer(target: Path, packages: Iterable[Path], entries: Iterable[tuple[str, Entry]] = ()) -> None:
    """Write the files of packages, and then `entries`, to a tar archive."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as layer:
        directories: set[str] = set()
        for package in packages:
            argv = ["dpkg-deb", "--fsys-tarfile", str(package)]
            with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                _copy(process.stdout, layer, directories)
            assert process.returncode == 0, package
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
    with contextlib.suppress(OSError):
        source.read()  # padding, so that dpkg-deb is not broken off


def _architecture() -> str:
    argv = ["dpkg", "--print-architecture"]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=_SECONDS).stdout.strip()
