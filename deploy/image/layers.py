"""The three layers of the image: Debian's files, Python packages, Bridgehead. Most updates change only the last."""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from .contents import Contents
from .debian import FileSystem, control_fields
from .python_packages import commands_of, distributions, files_of
from .trees import Tree, entry_of

# Debian's packages still have files in these, which are links in an installed system.
_MERGED = ("bin", "lib", "lib64", "sbin")
_IPTABLES = [f"{family}tables{suffix}" for family in ("ip", "ip6") for suffix in ("", "-save", "-restore")]
_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"

_COMMAND: Final = b"""#!/usr/bin/python3
import sys

from bridgehead.cli import main

sys.exit(main())
"""


class LayerFailed(Exception):
    """A layer cannot be made. The text is one line."""


def base_layer(packages: Iterable[Path], contents: Contents) -> Tree:
    """Debian's files. Raises PackagesMissing."""
    tree, left_out = Tree(), re.compile(contents.left_out)
    status = []
    for package in sorted(packages):
        with FileSystem(package) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                path, entry = _merged(posixpath.normpath(member.name)), entry_of(archive, member)
                if entry is not None and path != "." and not left_out.match(path):
                    if entry.kind == tarfile.LNKTYPE:
                        entry = replace(entry, link=_merged(entry.link))
                    tree.entries.setdefault(path, entry)
        status.append(control_fields(package).replace("\n", "\nStatus: install ok installed\n", 1))
    for name in _MERGED:
        tree.add_directory(f"usr/{name}")
        tree.add_link(name, f"usr/{name}")
    # Programs that look for known vulnerabilities read it.
    tree.add_file("var/lib/dpkg/status", "\n".join(status).encode())
    _configure(tree)
    _compile(tree, f"usr/lib/{python_of(tree)}")
    return tree


def packages_layer(python: str, contents: Contents) -> Tree:
    """The Python packages that Bridgehead needs, and the commands of others. `python` is `python3.11`.

    Raises PythonPackageMissing.
    """
    tree = Tree()
    directory = _site_packages(python)
    for distribution in distributions("bridgehead", contents.packages):
        for path, content in files_of(distribution):
            tree.add_file(f"{directory}/{path}", content)
    for name in contents.programs:
        for path, content in commands_of(name):
            tree.add_file(f"usr/local/bin/{path}", content, 0o755)
    _strip(tree)
    _compile(tree, directory)
    return tree


def program_layer(source: Path, python: str, contents: Contents) -> Tree:
    """Bridgehead itself. `source` is the directory of its package."""
    tree = Tree()
    directory = _site_packages(python)
    left_out = tuple(f"{part}/" for part in contents.parts)
    for path in source.rglob("*"):
        name = path.relative_to(source).as_posix()
        if path.is_file() and path.suffix not in (".md", ".pyc") and not name.startswith(left_out):
            tree.add_file(f"{directory}/bridgehead/{name}", path.read_bytes())
    _compile(tree, directory)
    tree.add_file("usr/local/bin/bridgehead", _COMMAND, 0o755)
    return tree


def python_of(base: Tree) -> str:
    """The name of the Python in a base layer: `python3.11`."""
    return base.entries["usr/bin/python3"].link


def _site_packages(python: str) -> str:
    return f"usr/local/lib/{python}/dist-packages"


def _merged(path: str) -> str:
    return f"usr/{path}" if path.split("/", 1)[0] in _MERGED else path


def _configure(tree: Tree) -> None:
    """Add what the maintainer scripts of the packages would have made."""
    for name in ("passwd", "group"):
        tree.add_file(f"etc/{name}", tree.entries[f"usr/share/base-passwd/{name}.master"].content)
    certificates = sorted(path for path in tree.entries if path.startswith("usr/share/ca-certificates/mozilla/"))
    tree.add_file(_CERTIFICATES, b"".join(tree.entries[path].content for path in certificates if path.endswith(".crt")))
    tree.add_link("usr/lib/ssl/cert.pem", f"/{_CERTIFICATES}")
    tree.add_link("usr/bin/sh", "dash")
    for name in _IPTABLES:
        tree.add_link(f"usr/sbin/{name}", f"{name.replace('tables', 'tables-nft', 1)}")
    for path, mode in (
        ("tmp", 0o1777),
        ("var/tmp", 0o1777),
        ("run", 0o755),
        ("proc", 0o755),
        ("sys", 0o755),
        ("dev", 0o755),
    ):
        tree.add_directory(path, mode)


def _strip(tree: Tree) -> None:
    """Remove the symbols of extension modules, which are two thirds of them. Raises LayerFailed."""
    extensions = sorted(path for path in tree.entries if path.endswith(".so"))
    with tempfile.TemporaryDirectory() as root:
        files = {path: Path(root, str(number)) for number, path in enumerate(extensions)}
        for path, file in files.items():
            file.write_bytes(tree.entries[path].content)
        try:
            subprocess.run(["strip", "--strip-unneeded", *files.values()], check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise LayerFailed(
                "strip is missing; install it first (Debian, as root: apt-get install binutils)"
            ) from None
        except subprocess.CalledProcessError as error:
            raise LayerFailed(" ".join(error.stderr.split())) from None
        for path, file in files.items():
            tree.entries[path] = replace(tree.entries[path], content=file.read_bytes())


def _compile(tree: Tree, directory: str) -> None:
    """Add the compiled files of the modules below a directory.

    Their validity does not depend on times, and a process of its own compiles them, in the order of their names: what
    is written of a constant depends on the other references to it that the process has.
    """
    with tempfile.TemporaryDirectory() as root:
        for path, entry in tree.entries.items():
            if path.startswith(f"{directory}/") and path.endswith(".py") and entry.kind == tarfile.REGTYPE:
                file = Path(root, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(entry.content)
        options = ("-q", "-f", "--invalidation-mode", "unchecked-hash", "-s", root, "-p", "/")
        # A file of a package that is no valid module is not compiled, and so the exit code is ignored.
        subprocess.run(
            [sys.executable, "-S", "-m", "compileall", *options, str(Path(root, directory))],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        for compiled in Path(root).rglob("*.pyc"):
            tree.add_file(compiled.relative_to(root).as_posix(), compiled.read_bytes())
