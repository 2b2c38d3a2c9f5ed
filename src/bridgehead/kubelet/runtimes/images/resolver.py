"""Resolution of image names to images that this node can run.

Searched in this order: the local image store, Bridgehead's own parts, the declared stand-ins. All other images are
unavailable; nothing is pulled. The store is a directory: the image `NAME` has its root file system in
`DIR/NAME/rootfs/` and optionally its configuration in `DIR/NAME/image.json`, as in an OCI image (Entrypoint, Cmd, Env,
WorkingDir, User). NAME is the name as in a Pod, with or without registry and tag.
"""

from __future__ import annotations

import os

import msgspec

from bridgehead.images.references import Reference, parse_reference
from bridgehead.kubelet.runtimes.runtime import Image, ImageUnavailable
from bridgehead.kubelet.runtimes.standins.standin import StandIn
from bridgehead.kubelet.runtimes.standins.table import STAND_INS

# Parts under the names of Kubernetes' images: last component of the path -> subcommand.
PARTS = {"kube-proxy": "proxy"}
_OWN_PREFIX = "bridgehead/"
_OWN_PARTS = ("proxy", "dns", "balancer", "speaker", "controllers", "apiserver")


class ResolvedImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image with its root file system (None: the host's), stand-in or part, and the tag of its name."""

    image: Image
    rootfs: str | None = None
    stand_in: StandIn | None = None
    part: str = ""
    tag: str = ""


class _Config(msgspec.Struct, frozen=True):
    entrypoint: tuple[str, ...] | None = msgspec.field(name="Entrypoint", default=None)
    command: tuple[str, ...] | None = msgspec.field(name="Cmd", default=None)
    env: tuple[str, ...] | None = msgspec.field(name="Env", default=None)
    working_dir: str = msgspec.field(name="WorkingDir", default="")
    user: str = msgspec.field(name="User", default="")


class _ConfigFile(_Config, frozen=True):
    """The configuration itself, or an OCI image's config object, which has it under `config`."""

    config: _Config | None = None


def resolve_image(name: str, image_dir: str) -> ResolvedImage:
    """Raises `ImageUnavailable`."""
    reference = parse_reference(name)
    if reference is None:
        raise ImageUnavailable(f'couldn\'t parse image name "{name}": invalid reference format')
    image = find_in_store(name, reference, image_dir) or find_part(name, reference) or find_stand_in(name, reference)
    if image is None:
        raise ImageUnavailable(describe_absence(reference, image_dir))
    return image


def store_names(name: str, reference: Reference) -> list[str]:
    """The directory names that an image may have in the store, the most specific one first."""
    familiar = reference.path.removeprefix("library/") if reference.registry == "docker.io" else ""
    names = [name]
    for repository in (f"{reference.registry}/{reference.path}", familiar):
        if repository and reference.tag:
            names.append(f"{repository}:{reference.tag}")
        if repository and reference.tag in ("latest", ""):
            names.append(repository)
    return list(dict.fromkeys(names))


def find_in_store(name: str, reference: Reference, image_dir: str) -> ResolvedImage | None:
    for candidate in store_names(name, reference):
        directory = os.path.join(image_dir, candidate)
        rootfs = os.path.join(directory, "rootfs")
        if os.path.isdir(rootfs):
            config = _read_config(os.path.join(directory, "image.json"))
            return ResolvedImage(
                image=Image(
                    name=name,
                    id=f"bridgehead-store://{candidate}",
                    source="store",
                    entrypoint=config.entrypoint or (),
                    command=config.command or (),
                    env=dict(entry.partition("=")[::2] for entry in config.env or ()),
                    working_dir=config.working_dir or "/",
                    user=config.user,
                ),
                rootfs=rootfs,
                tag=reference.tag,
            )
    return None


def _read_config(path: str) -> _Config:
    try:
        with open(path, "rb") as file:
            config = msgspec.json.decode(file.read(), type=_ConfigFile)
    except FileNotFoundError:
        return _Config()
    except (OSError, msgspec.DecodeError) as error:
        raise ImageUnavailable(f"cannot read the image's configuration {path}: {error}") from error
    return config.config or config


def find_part(name: str, reference: Reference) -> ResolvedImage | None:
    last = reference.path.rpartition("/")[2]
    part = PARTS.get(last, "")
    if not part and f"{reference.path}".startswith(_OWN_PREFIX) and last in _OWN_PARTS:
        part = last
    if not part:
        return None
    return ResolvedImage(
        image=Image(
            name=name,
            id=f"bridgehead-part://{part}",
            source="part",
            entrypoint=("bridgehead", part),
        ),
        part=part,
        tag=reference.tag,
    )


def find_stand_in(name: str, reference: Reference) -> ResolvedImage | None:
    for stand_in in STAND_INS:
        if any(reference.has_path(path) for path in stand_in.paths) and stand_in.tags.fullmatch(reference.tag):
            return ResolvedImage(
                image=Image(
                    name=name,
                    id=f"bridgehead-stand-in://{stand_in.name}:{reference.tag or 'latest'}",
                    source="stand-in",
                    entrypoint=stand_in.entrypoint,
                    command=stand_in.command,
                    env=dict(stand_in.env),
                    working_dir=stand_in.working_dir,
                    description=stand_in.description,
                ),
                stand_in=stand_in,
                tag=reference.tag,
            )
    return None


def describe_absence(reference: Reference, image_dir: str) -> str:
    names = ", ".join(stand_in.name for stand_in in STAND_INS)
    return (
        f"{reference} not found: this node pulls nothing; unpack the image's root file system to "
        f"{os.path.join(image_dir, f'{reference.registry}/{reference.path}:{reference.tag}', 'rootfs')}, "
        f"or use an image that has a stand-in ({names})"
    )
