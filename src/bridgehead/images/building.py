"""Builds of images by buildah(1), with the images that a content store has as bases."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from .errors import BuildFailed
from .references import Reference, parse_reference

_FILES: Final = ("Containerfile", "Dockerfile")  # in buildah's order
_SEPARATORS: Final = re.compile(r"[\s=,\"']+")
# With none of them, buildah can run programs of an image only by chroot(2).
_OCI_RUNTIMES: Final = ("crun", "runc")
_LIMITS: Final = {"nofile": (resource.RLIMIT_NOFILE, 1 << 20), "nproc": (resource.RLIMIT_NPROC, 1 << 15)}


def find_buildah() -> str:
    """Return the path of buildah. Raises `BuildFailed` without it."""
    found = shutil.which("buildah")
    if found is None:
        raise BuildFailed("`image build` needs buildah, which is not installed (Debian: apt-get install buildah)")
    return found


def find_file(directory: Path, name: str) -> Path:
    """Return the Dockerfile of a build context. `name` is a path as the user gave it, "" for the usual names.

    Raises `BuildFailed`.
    """
    if not directory.is_dir():
        raise BuildFailed(f"{directory} is no directory")
    candidates = [Path(name), directory / name] if name else [directory / each for each in _FILES]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    wanted = f"no file {name}" if name else f"neither {' nor '.join(_FILES)}"
    raise BuildFailed(f"{directory} has {wanted}")


def named_images(file: str, arguments: Iterable[str]) -> list[Reference]:
    """Return every name in a Dockerfile and in build arguments that could be that of an image.

    buildah parses the file; here a name too many costs nothing, because only images that the store has are handed over.
    """
    found = {}
    for text in (file, *arguments):
        for token in _SEPARATORS.split(text):
            reference = parse_reference(token)
            if reference is not None:
                found[reference.key] = reference
    return list(found.values())


def build(directory: Path, file: Path, arguments: Sequence[str], bases: Path, archive: Path) -> None:
    """Build an image and write it as an OCI archive. `bases` is an archive of `image save`, empty for none.

    The images of `bases` go to the user's own storage of buildah, where the layers of earlier builds are, too. Raises
    `BuildFailed`; buildah's messages go to standard error.
    """
    buildah = find_buildah()
    if bases.stat().st_size:
        _run(buildah, "pull", "--quiet", f"docker-archive:{bases}")
    identity = archive.with_suffix(".id")
    options = [f"--build-arg={each}" for each in arguments]
    if not any(map(shutil.which, _OCI_RUNTIMES)):
        options.append("--isolation=chroot")
        # There, buildah from 1.39 on raises these limits, which only a process with all rights may do.
        options += [f"--ulimit={name}={_allowed(kind, most)}" for name, (kind, most) in _LIMITS.items()]
    # --layers: what an unchanged beginning of the file made is used again.
    _run(buildah, "bud", "--layers", "--pull=false", f"--iidfile={identity}", f"--file={file}", *options, directory)
    _run(buildah, "push", "--quiet", identity.read_text().strip(), f"oci-archive:{archive}")


def _allowed(kind: int, most: int) -> int:
    """Return a limit that this process may set: its own, at most `most`."""
    hard = resource.getrlimit(kind)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)


def _run(*argv: object) -> None:
    command = [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in argv]
    sys.stderr.flush()
    result = subprocess.run(command, stdout=sys.stderr, check=False)
    if result.returncode:
        raise BuildFailed(f"`buildah {command[1]}` ended with status {result.returncode}")
