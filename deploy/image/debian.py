"""Debian packages as files: chosen and downloaded by apt, unpacked by dpkg-deb; no script of theirs is run."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import IO

_SECONDS = 600.0


class PackagesMissing(Exception):
    """Packages could not be chosen, downloaded or read. The text is one line."""


class Packages:
    """Packages of this machine's Debian release, or of another one.

    `directory` keeps what was downloaded. apt takes the packages `not_needed` for installed, in a version that suits
    all others. `sources` is a file for apt in place of the machine's own, which ends with `.list` or `.sources`.
    """

    def __init__(self, directory: Path, not_needed: Collection[str] = (), sources: Path | None = None) -> None:
        self._archives = directory / "archives"
        for name in ("archives", "lists", "nothing"):
            (directory / name / "partial").mkdir(parents=True, exist_ok=True)
        (directory / "status").write_text(
            "".join(
                f"Package: {name}\nStatus: install ok installed\nVersion: 999:1\nArchitecture: {architecture()}\n"
                "Multi-Arch: allowed\nMaintainer: none\nDescription: not needed\n\n"
                for name in not_needed
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
        if sources is not None:
            self._options += [f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=-", self._own_lists]
            self._execute("apt-get", "-qq", "update")

    def download(self, *selections: Collection[str]) -> list[list[Path]]:
        """Download several selections of packages with all that they depend on; returns the files of each.

        Raises PackagesMissing.
        """
        self._apt("install", "--download-only", *{name for names in selections for name in names})
        return [self._list(names) for names in selections]

    def recommended(self, name: str) -> str:
        """The packages that a package recommends, as its field `Recommends` lists them. Raises PackagesMissing."""
        shown = self._run("apt-cache", "show", name)
        return "\n".join(line for line in shown.splitlines() if line.startswith("Recommends:"))

    def _list(self, names: Collection[str]) -> list[Path]:
        # apt prints what is still to be downloaded: everything, where there is nothing.
        listed = self._apt("install", "--print-uris", "-o", "Dir::Cache::archives=nothing", *names)
        return [self._archives / line.split()[1] for line in listed.splitlines() if line.startswith("'")]

    def _apt(self, *arguments: str) -> str:
        return self._run("apt-get", "-qq", "-y", *arguments)

    def _run(self, *command: str) -> str:
        try:
            return self._execute(*command)
        except PackagesMissing:  # this machine's lists are missing or old
            if self._own_lists in self._options:
                raise
            self._options.append(self._own_lists)
            self._execute("apt-get", "-qq", "update")
            return self._execute(*command)

    def _execute(self, program: str, *arguments: str) -> str:
        options = [word for option in self._options for word in ("-o", option)]
        return _output(program, *options, *arguments)


def architecture() -> str:
    """Debian's name of this machine's architecture. Raises PackagesMissing."""
    return _output("dpkg", "--print-architecture").strip()


def control_fields(package: Path) -> str:
    """The control file of a package. Raises PackagesMissing."""
    return _output("dpkg-deb", "--field", str(package))


class FileSystem:
    """The files of a package as a tar archive, which is read from `stream` once. A context manager."""

    def __init__(self, package: Path) -> None:
        self._package = package

    def __enter__(self) -> IO[bytes]:
        argv = ["dpkg-deb", "--fsys-tarfile", str(self._package)]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        return self._process.stdout

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self._process.stdout.read()  # padding, so that dpkg-deb is not broken off
        self._process.stdout.close()
        if self._process.wait() and error is None:
            raise PackagesMissing(f"{self._package}: dpkg-deb cannot read it; remove the file")


def _output(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackagesMissing(f"{argv[0]}: {error}") from None
    if done.returncode:
        raise PackagesMissing(f"{argv[0]}: {' '.join(done.stderr.split()) or f'exit code {done.returncode}'}")
    return done.stdout
