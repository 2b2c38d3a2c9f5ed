"""Manifests, indexes and configurations of images: OCI image specification 1.1, Docker image manifest version 2,
schema 2.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from bridgehead import architecture

from .errors import BadImage
from .untrusted_json import InvalidJson, decode

OCI_INDEX: Final = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
OCI_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
DOCKER_INDEX: Final = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_CONFIG: Final = "application/vnd.docker.container.image.v1+json"
INDEXES: Final = (OCI_INDEX, DOCKER_INDEX)
MANIFESTS: Final = (OCI_MANIFEST, DOCKER_MANIFEST)
_CONFIGS: Final = (OCI_CONFIG, DOCKER_CONFIG)
_LAYERS: Final = (
    "application/vnd.oci.image.layer.",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
)
MAX_DOCUMENT: Final = 4 << 20  # bytes; the least that registries must accept for a manifest, and containerd's bound
MAX_LAYERS: Final = 125  # Docker's bound; more names would not fit into the options of one overlay, either
MAX_VOLUMES: Final = 1000  # of one image: each container has a directory for each of them
MAX_INDEXES: Final = 4  # one within another
_SHOWN_NAMES, _SHOWN_NAME = 20, 50  # platforms in an error, and characters of each
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
# Variant of an architecture that names none (OCI image index: platform variants).
_DEFAULT_VARIANTS: Final = {"arm64": "v8", "arm": "v7"}


class Platform(msgspec.Struct, frozen=True, kw_only=True):
    architecture: str = ""
    os: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.os, self.architecture, self.variant)))


class Descriptor(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A reference to content: its digest, its size in bytes and its media type."""

    digest: str
    size: int
    media_type: str = ""
    platform: Platform | None = None
    annotations: dict[str, str] = {}


class Index(msgspec.Struct, frozen=True, rename="camel"):
    manifests: tuple[Descriptor, ...] = ()
    schema_version: int = 2
    media_type: str = OCI_INDEX


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    config: Descriptor
    layers: tuple[Descriptor, ...] = ()
    schema_version: int = 2
    media_type: str = OCI_MANIFEST


class RootFs(msgspec.Struct, frozen=True, omit_defaults=True):
    diff_ids: tuple[str, ...] | None = ()
    type: str = "layers"


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a configuration that `docker inspect` prints as `Config`. As in Go, null is the same as nothing."""

    entrypoint: tuple[str, ...] | None = msgspec.field(name="Entrypoint", default=None)
    command: tuple[str, ...] | None = msgspec.field(name="Cmd", default=None)
    env: tuple[str, ...] | None = msgspec.field(name="Env", default=None)
    working_dir: str | None = msgspec.field(name="WorkingDir", default=None)
    user: str | None = msgspec.field(name="User", default=None)
    stop_signal: str | None = msgspec.field(name="StopSignal", default=None)
    volumes: dict[str, msgspec.Raw] | None = msgspec.field(name="Volumes", default=None)  # path -> nothing of use


class ImageConfig(Platform, frozen=True, kw_only=True):
    """An image's configuration object, reduced to what running it needs."""

    config: RunConfig | None = None
    rootfs: RootFs = RootFs()


class _AnyDocument(msgspec.Struct, rename="camel"):
    schema_version: int = 0
    media_type: str = ""
    manifests: msgspec.Raw = msgspec.Raw()
    config: msgspec.Raw = msgspec.Raw()


def this_platform() -> Platform:
    """Return the platform of this machine."""
    return Platform(os="linux", architecture=architecture())


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def check_digest(digest: str) -> str:
    """Return `digest` if it is one that can be verified. Raises `BadImage`: it becomes the name of a file."""
    if not _DIGEST.fullmatch(digest):
        raise BadImage(f"unsupported digest {digest[:100]!r}")
    return digest


def verify(content: bytes, digest: str) -> None:
    """Raises `BadImage` when `content` does not have this digest."""
    algorithm = check_digest(digest).partition(":")[0]
    found = f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"
    if found != digest:
        raise BadImage(f"the content has the digest {found}, not {digest}")


def parse_document(content: bytes, media_type: str = "") -> Index | Manifest:
    """Parse an index or a manifest. `media_type` is the answer's, which the document's own outweighs.

    Raises `BadImage`.
    """
    try:
        outline = decode(content, _AnyDocument)
        kind = outline.media_type or media_type
        if outline.schema_version != 2:
            raise BadImage(f"an image manifest of schema version {outline.schema_version} is not supported")
        if kind in INDEXES or (kind not in MANIFESTS and outline.manifests):
            index = decode(content, Index)
            for each in index.manifests:
                check_digest(each.digest)
            return index
        if not outline.config:
            raise BadImage(f"not an image manifest: {kind or 'no media type'}")
        manifest = decode(content, Manifest)
    except InvalidJson as error:
        raise BadImage(f"not a manifest: {error}") from error
    _check_manifest(manifest)
    return manifest


def _check_manifest(manifest: Manifest) -> None:
    if manifest.config.media_type not in _CONFIGS:
        raise BadImage(f"not an image of containers, but {manifest.config.media_type or 'of no media type'}")
    check_layers(len(manifest.layers))
    if manifest.config.size > MAX_DOCUMENT:
        raise BadImage(f"the image's configuration has {manifest.config.size} bytes, more than {MAX_DOCUMENT}")
    for each in (manifest.config, *manifest.layers):
        check_digest(each.digest)
        if each.size < 0:
            raise BadImage(f"{each.digest} has a negative size")
    for layer in manifest.layers:
        if not layer.media_type.startswith(_LAYERS):
            raise BadImage(f"the layer {layer.digest} is of an unsupported type: {layer.media_type}")
        if "+encrypted" in layer.media_type:
            raise BadImage(f"the layer {layer.digest} is encrypted")


def check_layers(count: int) -> None:
    """Raises `BadImage` when an image has more layers than a container can have."""
    if count > MAX_LAYERS:
        raise BadImage(f"the image has {count} layers, more than {MAX_LAYERS}")


def parse_config(content: bytes, layers: int) -> ImageConfig:
    """Parse a configuration of an image with this number of layers. Raises `BadImage`."""
    check_layers(layers)  # archives of `docker save` have no manifest
    try:
        config = decode(content, ImageConfig)
    except InvalidJson as error:
        raise BadImage(f"not an image configuration: {error}") from error
    diff_ids = config.rootfs.diff_ids or ()
    for diff_id in diff_ids:
        check_digest(diff_id)
    volumes = len(config.config.volumes or ()) if config.config is not None else 0
    if volumes > MAX_VOLUMES:
        raise BadImage(f"the image has {volumes} volumes, more than {MAX_VOLUMES}")
    if len(diff_ids) != layers:
        raise BadImage(f"the configuration has {len(diff_ids)} diff_ids, the manifest {layers} layers")
    return config


def choose_manifest(index: Index, wanted: Platform) -> Descriptor:
    """Return the manifest for a platform, or the index that can have it. Raises `BadImage` when there is none."""
    candidates = [each for each in index.manifests if each.platform is not None and _runs_on(each.platform, wanted)]
    if candidates:
        variant = _variant_of(wanted)
        return max(candidates, key=lambda each: _variant_of(each.platform or wanted) == variant)
    # An image without a platform may be for this one; its configuration decides (`check_platform`).
    without = next((each for each in index.manifests if each.platform is None), None)
    if without is not None:
        return without
    names = sorted({str(each.platform)[:_SHOWN_NAME] for each in index.manifests if each.platform is not None})
    shown = ", ".join(names[:_SHOWN_NAMES]) + (" ..." if len(names) > _SHOWN_NAMES else "")
    raise BadImage(f"no match for platform in manifest: {wanted} is not among {shown or 'no platforms'}")


def check_platform(config: ImageConfig, wanted: Platform) -> None:
    """Raises `BadImage` when the image is for another platform. An image without a platform runs everywhere."""
    if config.architecture and config.os and not _runs_on(config, wanted):
        raise BadImage(f"the image is for {config.os}/{config.architecture}, this machine is {wanted}")


def _runs_on(platform: Platform, wanted: Platform) -> bool:
    return (platform.os, platform.architecture) == (wanted.os, wanted.architecture)


def _variant_of(platform: Platform) -> str:
    return platform.variant or _DEFAULT_VARIANTS.get(platform.architecture, "")


def total_size(descriptors: Sequence[Descriptor]) -> int:
    """Return the bytes of all descriptors together."""
    return sum(each.size for each in descriptors)


class _RegistryError(msgspec.Struct):
    code: str = ""
    message: str = ""


class _RegistryErrors(msgspec.Struct):
    errors: list[_RegistryError] = []


def describe_errors(content: bytes) -> str:
    """Return the errors in a registry's answer on one line, as containerd prints them; "" if it has none."""
    try:
        errors = decode(content, _RegistryErrors).errors
    except InvalidJson:
        return ""
    return ", ".join(" ".join(f"{each.code.lower()}: {each.message}".split())[:500] for each in errors[:5])
