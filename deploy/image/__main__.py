"""Build a container image: python -m deploy.image [--everything] [--tag NAME] [--output FILE] [--check]

Prints the size of the files, that of the archive, and the digest, which is the same each time.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bridgehead import __version__, architecture

from .contents import EVERYTHING, PARTS, Contents
from .debian import Packages, PackagesMissing
from .layers import LayerFailed, base_layer, packages_layer, program_layer, python_of
from .oci import compress, write_archive
from .python_packages import PythonPackageMissing
from .trees import TIMESTAMP, Tree

_ROOT = Path(__file__).parents[2]


class ImageFailed(Exception):
    """The image cannot be made as it has to be. The text is one line."""


def main() -> None:
    options = _parse(sys.argv[1:])
    try:
        digest = _make(options, options.output)
        if options.check and digest != (again := _make(options, options.output)):
            raise ImageFailed(f"the image is not reproducible: built twice, its digests are {digest} and {again}")
    except (ImageFailed, LayerFailed, PackagesMissing, PythonPackageMissing) as error:
        sys.exit(f"bridgehead: {error}")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description="Build the container image.")
    parser.add_argument(
        "--everything", action="store_true", help="the image of a lab with all commands, not that of the parts"
    )
    parser.add_argument("--tag", help="the image's name; default: localhost/bridgehead[-lab]:VERSION")
    parser.add_argument("--output", type=Path, help="an OCI archive; default: dist/bridgehead[-lab]-image.tar")
    parser.add_argument("--downloads", type=Path, default=_ROOT / ".images", help="directory that keeps packages")
    parser.add_argument("--sources", type=Path, help="apt's file of package sources; default: this machine's")
    parser.add_argument("--check", action="store_true", help="build twice, and compare the digests")
    options = parser.parse_args(arguments)
    options.contents = EVERYTHING if options.everything else PARTS
    options.tag = options.tag or f"localhost/{options.contents.name}:{__version__}"
    options.output = options.output or _ROOT / "dist" / f"{options.contents.name}-image.tar"
    return options


def _make(options: argparse.Namespace, target: Path) -> str:
    started, contents = time.monotonic(), options.contents
    downloads = options.downloads.absolute()
    downloads.mkdir(parents=True, exist_ok=True)
    with open(downloads / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a build of another image takes other packages for installed
        [chosen] = Packages(downloads, contents.not_needed, options.sources).download(contents.selected)
    layers = _layers(chosen, contents)
    size = sum(len(entry.content) for tree in layers.values() for entry in tree.entries.values())
    if size > contents.limit:
        raise ImageFailed(f"the image has {size / 1e6:.1f} MB of files, more than {contents.limit / 1e6:.0f}")
    target.parent.mkdir(parents=True, exist_ok=True)
    compressed = compress([tree.archive() for tree in layers.values()])
    new = target.with_suffix(".new")
    with open(new, "wb") as file:
        digest = write_archive(file, options.tag, compressed, _document(list(layers), contents))
    new.replace(target)
    seconds = time.monotonic() - started
    sys.stdout.write(
        f"{options.tag}: {size / 1e6:.1f} MB of files, {target} has {target.stat().st_size / 1e6:.1f} MB\n"
        f"{digest} ({seconds:.0f} s)\n"
    )
    return digest


def _layers(packages: list[Path], contents: Contents) -> Mapping[str, Tree]:
    base = base_layer(packages, contents)
    python, own = python_of(base), f"python{sys.version_info.major}.{sys.version_info.minor}"
    if python != own:
        raise ImageFailed(
            f"Debian's packages have {python}, .venv has {own}: make it with /usr/bin/python3 of that release"
        )
    source = _ROOT / "src" / "bridgehead"
    return {
        "base": base,
        "packages": packages_layer(python, contents),
        "program": program_layer(source, python, contents),
    }


def _document(layers: list[str], contents: Contents) -> Mapping[str, Any]:
    """The image's configuration, without its layers."""
    created = _date(TIMESTAMP)
    return {
        "architecture": architecture(),
        "os": "linux",
        "created": created,
        "history": [{"created": created, "created_by": f"make images: {name}"} for name in layers],
        "config": {
            "Entrypoint": ["bridgehead"],
            **({"Cmd": contents.command} if contents.command else {}),
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LANG=C.UTF-8"],
            "Labels": _labels(contents),
            "StopSignal": "SIGTERM",
        },
    }


def _labels(contents: Contents) -> Mapping[str, str]:
    labels = {
        "org.opencontainers.image.title": contents.name,
        "org.opencontainers.image.description": contents.description,
        "org.opencontainers.image.version": __version__,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    if revision := _git("rev-parse", "HEAD"):
        labels["org.opencontainers.image.revision"] = revision
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct")
    if epoch.isdecimal():
        labels["org.opencontainers.image.created"] = _date(int(epoch))
    return labels


def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _git(*arguments: str) -> str:
    """The output of a git command; empty where there is no git, or no repository."""
    try:
        done = subprocess.run(["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    main()
