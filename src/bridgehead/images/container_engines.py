"""Images in the storage of Docker, Podman and Buildah, by the commands of these programs.

Sources: docker-image-inspect(1), docker-save(1), podman-save(1), buildah-inspect(1), buildah-push(1).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .errors import ImageError

_SECONDS: Final = 60.0  # for an answer; a copy of an image may take longer


class NoSuchImage(ImageError):
    """No engine has the image, or several have different ones."""


@dataclass(frozen=True)
class Engine:
    """A program with images. `inspect` prints the id of an image, `save` writes it to a file; both are arguments."""

    name: str
    inspect: Callable[[str], list[str]]
    save: Callable[[str, Path], list[str]]


ENGINES: Final = (
    Engine(
        "docker",
        lambda image: ["image", "inspect", "--format", "{{.Id}}", image],
        lambda image, file: ["save", "--output", str(file), image],
    ),
    Engine(
        "podman",
        lambda image: ["image", "inspect", "--format", "{{.Id}}", image],
        lambda image, file: ["save", "--quiet", "--format", "oci-archive", "--output", str(file), image],
    ),
    Engine(
        "buildah",
        lambda image: ["inspect", "--type", "image", "--format", "{{.FromImageID}}", image],
        lambda image, file: ["push", "--quiet", image, f"oci-archive:{file}"],
    ),
)


def find_engine(image: str, among: Iterable[Engine] = ENGINES) -> tuple[Engine, str]:
    """Return the engine that has an image of this name, or id, and the image's id. Raises `NoSuchImage`."""
    ids: dict[str, Engine] = {}
    reasons: list[str] = []
    for engine in among:
        if shutil.which(engine.name) is None:
            reasons.append(f"{engine.name} is not installed")
            continue
        try:
            done = subprocess.run(
                [engine.name, *engine.inspect(image)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            reasons.append(f"{engine.name} does not answer")
            continue
        identity = done.stdout.strip().removeprefix("sha256:")
        if done.returncode == 0 and identity:
            ids.setdefault(identity, engine)
        else:
            reasons.append(f"{engine.name}: {_last_line(done.stderr)}")
    if not ids:
        raise NoSuchImage(f"no image {image!r} ({'; '.join(reasons)})")
    if len(ids) > 1:
        names = " and ".join(engine.name for engine in ids.values())
        raise NoSuchImage(f"{names} have different images {image!r}; --from chooses one")
    [(identity, engine)] = ids.items()
    return engine, identity


def save(engine: Engine, image: str, file: Path) -> None:
    """Write an archive of an image. Raises `NoSuchImage` with the engine's message."""
    argv = [engine.name, *engine.save(image, file)]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise NoSuchImage(f"{engine.name}: {error.strerror}") from error
    if done.returncode:
        raise NoSuchImage(f"`{' '.join(argv[:2])}` of {image!r} failed: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"
