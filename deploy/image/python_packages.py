"""Python packages as files: what Bridgehead needs of the virtual environment in which this runs.

These are the versions of constraints.txt, and the files that the tests have run with.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Files that are no part of a running program, and those that pip writes about an installation.
_LEFT_OUT = re.compile(
    r"(^|/)(tests?|__pycache__)/|\.(pyc|pyi|pyx|pxd|pxi|c|cc|h|hash)$|\.dist-info/(RECORD|INSTALLER|REQUESTED|direct_url\.json)$"
)


class PythonPackageMissing(Exception):
    """A package is not installed. The text is one line."""


def distributions(name: str, left_out: Collection[str]) -> list[metadata.Distribution]:
    """List the packages that a package needs, sorted by name, without itself.

    `left_out` are normalized names: these, and what only they need, are not looked at. Raises PythonPackageMissing.
    """
    found: dict[str, metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        distribution = _installed(waiting.pop())
        for required in _requirements(distribution):
            if required not in found and required not in left_out:
                found[required] = _installed(required)
                waiting.append(required)
    return [found[name] for name in sorted(found)]


def files_of(distribution: metadata.Distribution) -> Iterator[tuple[str, bytes]]:
    """The files of a package: path below site-packages, and content. Commands and compiled files are left out."""
    for path in distribution.files or ():
        name = path.as_posix()
        if not name.startswith("..") and not _LEFT_OUT.search(name):
            yield name, path.read_binary()


def commands_of(name: str) -> Iterator[tuple[str, bytes]]:
    """The commands of a package that are programs: name, and content. Raises PythonPackageMissing."""
    for path in _installed(name).files or ():
        if path.parent.name == "bin" and not (content := path.read_binary()).startswith(b"#!"):
            yield path.name, content


def _installed(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise PythonPackageMissing(f"the Python package {name} is not installed: run `make rebuild`") from None


def _requirements(distribution: metadata.Distribution) -> Iterator[str]:
    for line in distribution.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)
