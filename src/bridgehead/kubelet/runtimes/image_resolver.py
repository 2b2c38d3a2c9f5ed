"""Resolution of image names to images that this node can run.

Searched in this order: the local image store, Bridgehead's own parts, the content store of pulled images, the declared
stand-ins. All other images are unavailable; the kubelet has them pulled.

The local store is a directory: the image `NAME` has its root file system in `DIR/NAME/rootfs/` and optionally its
configuration in `DIR/NAME/image.json`, as in an OCI image (Entrypoint, Cmd, Env, WorkingDir, User, StopSignal,
Volumes). NAME is the name as in a Pod, with or without registry and tag.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from bridgehead.images.errors import ImageError
from bridgehead.images.manifests import RunConfig
from bridgehead.images.references import Reference, parse_reference
from bridgehead.images.store.content import ContentStore
from bridgehead.standins import table
from bridgehead.standins.standin import StandIn

from .runtime import Image, ImageUnavailable

# Parts under the names of Kubernetes' images: last component of the path -> subcommand.
PARTS = {"kube-proxy": "proxy"}
_OWN_PREFIX = "bridgehead/"
_OWN_PARTS = ("proxy", "dns", "balancer", "speaker", "controllers", "apiserver")


class ResolvedImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image with the layers of its root file system (directories, the lowest first; None: the host's), stand-in or
    part, and the tag of its name."""

    image: Image
    layers: tuple[str, ...] | None = None
    stand_in: StandIn | None = None
    part: str = ""
    tag: str = ""

    @property
    def shared_layers(self) -> tuple[str, ...]:
        """The layers that are in the content store, which removes unused ones."""
        return (self.layers or ()) if self.image.source == "registry" else ()


class _ConfigFile(RunConfig, frozen=True):
    """The configuration itself, or an OCI image's config object, which has it under `config`."""

    config: RunConfig | None = None


class ImageDirectories(NamedTuple):
    """The local image store and the content store, "" for none."""

    local: str
    content: str = ""


def resolve_image(name: str, directories: ImageDirectories) -> ResolvedImage:
    """Raises `ImageUnavailable`."""
    reference = parse_reference(name)
    if reference is None:
        raise ImageUnavailable(f'couldn\'t parse image name "{name}": invalid reference format')
    image = (
        find_in_store(name, reference, directories.local)
        or find_part(name, reference)
        or find_in_content(name, reference, directories.content)
        or find_in_stand_ins(name, reference)
    )
    if image is None:
        raise ImageUnavailable(describe_absence(reference, directories.local))
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
                image=_image_of(name, f"bridgehead-store://{candidate}", "store", config),
                layers=(rootfs,),
                tag=reference.tag,
            )
    return None


def find_in_content(name: str, reference: Reference, content_dir: str) -> ResolvedImage | None:
    """Raises `ImageUnavailable` when the image's files are damaged."""
    if not content_dir:
        return None
    store = ContentStore(Path(content_dir))
    record = store.find(reference.key)
    if record is None:
        return None
    try:
        config = store.read_config(record).config or RunConfig()
    except ImageError as error:
        raise ImageUnavailable(str(error)) from error
    # Builders make a layer several times where a step changes nothing. An overlay may have a directory only once, and
    # the topmost one hides what the others show.
    layers = dict.fromkeys(reversed(record.root_layers))
    return ResolvedImage(
        image=_image_of(name, record.id, "registry", config),
        layers=tuple(str(store.layer_path(layer)) for layer in reversed(layers)),
        tag=reference.tag,
    )


def _image_of(name: str, id: str, source: str, config: RunConfig) -> Image:
    return Image(
        name=name,
        id=id,
        source=source,
        entrypoint=config.entrypoint or (),
        command=config.command or (),
        env=dict(entry.partition("=")[::2] for entry in config.env or ()),
        working_dir=config.working_dir or "/",
        user=config.user or "",
        stop_signal=config.stop_signal or "",
        volumes=tuple(config.volumes or ()),
    )


def _read_config(path: str) -> RunConfig:
    try:
        with open(path, "rb") as file:
            config = msgspec.json.decode(file.read(), type=_ConfigFile)
    except FileNotFoundError:
        return RunConfig()
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


def find_in_stand_ins(name: str, reference: Reference) -> ResolvedImage | None:
    stand_in = table.find_stand_in(reference)
    if stand_in is None:
        return None
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


def describe_absence(reference: Reference, image_dir: str) -> str:
    """Return what a user can do for an image that was not found. `image_dir` is the local image store."""
    directory = f"{reference.repository}:{reference.tag}" if reference.tag else reference.repository
    return (
        f"{reference} not found on this node: load it with `bridgehead image load`, unpack its root file system to "
        f"{os.path.join(image_dir, directory, 'rootfs')}, "
        f"or use an image that has a stand-in ({', '.join(table.image_names())})"
    )
