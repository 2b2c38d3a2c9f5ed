"""Images in files: archives of `docker save`, OCI archives, and archives of a root file system."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO, BinaryIO, Final, cast

import msgspec

from . import manifests
from .archive_files import ArchiveFiles, open_archive
from .errors import BadImage, NotFound, StoreFailed
from .manifests import Descriptor, Index, Manifest
from .references import Reference, parse_reference
from .store import compression, garbage_collection, implied_directories
from .store.content import ContentStore
from .store.image_record import ImageRecord
from .store.unpacking import add_layer
from .untrusted_json import InvalidJson, decode

LAYOUT: Final = "oci-layout"
_INDEX: Final = "index.json"
_DOCKER: Final = "manifest.json"
_NAME: Final = "io.containerd.image.name"
_MAX_IMAGES: Final = 1000  # in an archive, and their names
_REFERENCE: Final = "org.opencontainers.image.ref.name"


class _DockerImage(msgspec.Struct, rename="pascal"):
    config: str
    layers: list[str] = []
    repo_tags: list[str] | None = None


def load(store: ContentStore, file: BinaryIO, name: str = "") -> list[ImageRecord]:
    """Add the images in an archive to the store. `name` outweighs the name that the only one has there. Raises
    `ImageError`."""
    try:
        with _adding_to(store), open_archive(store, file) as source:
            if source.has(_DOCKER):
                return _load_docker(store, source, name)
            if source.has(_INDEX):
                return _load_oci(store, source, name)
    except OSError as error:
        raise BadImage(f"cannot read the archive: {error.strerror or error}") from error
    raise BadImage(f"neither an archive of `docker save` nor an OCI archive: it has neither {_DOCKER} nor {_INDEX}")


def load_root(store: ContentStore, file: BinaryIO, name: str) -> ImageRecord:
    """Add the root file system in an archive to the store, as an image of one layer. Raises `ImageError`."""
    platform = manifests.this_platform()
    with _adding_to(store):
        layer = _add_layer_blob(store, file)
        config = {
            "architecture": platform.architecture,
            "os": platform.os,
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
            # Builders expect an entry for each layer of the image that they add to.
            "history": [{"created_by": "bridgehead image load"}],
        }
        [record] = _add(store, [name], store.add_blob(json.dumps(config).encode()), [layer], "")
    return record


@contextlib.contextmanager
def _adding_to(store: ContentStore) -> Iterator[None]:
    """Hold the store's lock. After a failure, what came before it is removed: it is of no image."""
    try:
        with store.writing():
            yield
    except BaseException:
        with contextlib.suppress(StoreFailed):
            garbage_collection.collect(store)
        raise


def _add_layer_blob(store: ContentStore, file: BinaryIO) -> Descriptor:
    """Add a layer of whatever compression: archives of `docker save` have plain and compressed ones."""
    added = store.add_stream(file)
    with open(store.blob_path(added.digest), "rb") as blob:
        return msgspec.structs.replace(added, media_type=compression.media_type(blob))


def _load_docker(store: ContentStore, source: ArchiveFiles, name: str) -> list[ImageRecord]:
    try:
        images = decode(_read(source, _DOCKER), list[_DockerImage])
    except InvalidJson as error:
        raise BadImage(f"{_DOCKER} is invalid: {error}") from error
    _check_tag(name, len(images))
    _check_count("images", len(images))
    _check_count("names of images", sum(len(image.repo_tags or ()) for image in images))
    for image in images:
        manifests.check_layers(len(image.layers))
    records = []
    added: dict[str, Descriptor] = {}  # an image may have one layer several times, and images have layers in common
    for image in images:
        config = store.add_blob(_read(source, image.config))
        for layer in image.layers:
            if layer not in added:
                with source.open(layer) as file:
                    added[layer] = _add_layer_blob(store, file)
        names = [name] if name else image.repo_tags or []
        records += _add(store, names, config, [added[layer] for layer in image.layers], "")
    return records


def _load_oci(store: ContentStore, source: ArchiveFiles, name: str) -> list[ImageRecord]:
    index = manifests.parse_document(_read(source, _INDEX), manifests.OCI_INDEX)
    if not isinstance(index, Index):
        raise BadImage(f"{_INDEX} is not an index")
    _check_tag(name, len(index.manifests))
    _check_count("images", len(index.manifests))
    records = []
    added: dict[str, Descriptor] = {}
    for top in index.manifests:
        document = _load_document(store, source, top)
        for _ in range(manifests.MAX_INDEXES):
            if isinstance(document, Index):
                document = _load_document(store, source, manifests.choose_manifest(document, manifests.this_platform()))
        if isinstance(document, Index):
            raise BadImage(f"the image has more than {manifests.MAX_INDEXES} indexes within each other")
        for each in (document.config, *document.layers):
            found = added.get(each.digest)
            if found is None:
                with source.open(_blob_name(each.digest)) as file:
                    found = added[each.digest] = store.add_stream(file)
            if (found.digest, found.size) != (each.digest, each.size):
                raise BadImage(f"unexpected content: {found.digest} of {found.size} bytes, not {each.digest}")
        records += _add(store, [name or _annotated_name(top)], document.config.digest, document.layers, top.digest)
    return records


def _annotated_name(top: Descriptor) -> str:
    """Return the name that an OCI archive gives to an image. Raises `BadImage`."""
    name = top.annotations.get(_NAME) or top.annotations.get(_REFERENCE, "")
    # Programs write the tag alone there (`skopeo copy ... oci-archive:FILE:TAG`), which is no name of an image.
    if not {"/", ":"} & set(name):
        what = f"only the tag {name!r}" if name else "no name"
        raise BadImage(f"the image has {what}; give it a name with --tag")
    return name


def _load_document(store: ContentStore, source: ArchiveFiles, descriptor: Descriptor) -> Index | Manifest:
    content = _read(source, _blob_name(descriptor.digest))
    manifests.verify(content, descriptor.digest)
    store.add_blob(content)
    return manifests.parse_document(content, descriptor.media_type)


def _add(
    store: ContentStore, names: Iterable[str], config: str, layers: Iterable[Descriptor], digest: str
) -> list[ImageRecord]:
    """Add an image whose blobs the store has, under each of its names."""
    layers = tuple(layers)
    references = [_parse_name(name) for name in names]
    if not references:
        raise BadImage("the image has no name; give it a name with --tag")
    content = store.read_blob(config)
    parsed = manifests.parse_config(content, len(layers))
    manifests.check_platform(parsed, manifests.this_platform())
    diff_ids = tuple(parsed.rootfs.diff_ids or ())
    for layer, diff_id in zip(layers, diff_ids, strict=True):
        add_layer(store, layer.digest, diff_id)
    implied = implied_directories.add_attributes(store, diff_ids)
    own = Descriptor(digest=config, size=len(content), media_type=manifests.OCI_CONFIG)
    manifest = store.add_blob(msgspec.json.encode(Manifest(config=own, layers=layers)))
    records = []
    for reference in references:
        record = ImageRecord(
            name=reference.key,
            digest=digest,
            manifest=manifest,
            config=config,
            layers=diff_ids,
            size=manifests.total_size((own, *layers)),
            is_pinned=True,
            implied=implied,
        )
        store.add_record(record)
        records.append(record)
    return records


def _check_tag(name: str, images: int) -> None:
    """Raises `BadImage` when several images would get one name."""
    if name and images > 1:
        raise BadImage(f"the archive has {images} images, and --tag names one; load it without --tag")


def _check_count(what: str, count: int) -> None:
    if count > _MAX_IMAGES:
        raise BadImage(f"the archive has {count} {what}, more than {_MAX_IMAGES}")


def _parse_name(name: str) -> Reference:
    reference = parse_reference(name)
    if reference is None:
        raise BadImage(f'couldn\'t parse image name "{name}": invalid reference format')
    return reference


def save(store: ContentStore, names: Iterable[str], file: BinaryIO) -> None:
    """Write images to an archive that is an OCI archive and one for `docker load`. Raises `ImageError`."""
    index, docker = [], []
    written: set[str] = set()
    try:
        with store.writing(), tarfile.open(fileobj=cast(IO[bytes], file), mode="w|") as archive:
            _put(archive, LAYOUT, b'{"imageLayoutVersion":"1.0.0"}')
            for reference in dict.fromkeys(map(_parse_name, names)):
                record = store.find(reference.key)
                if record is None:
                    raise NotFound(f"{reference}: not found")
                content = store.read_blob(record.manifest)
                manifest = manifests.parse_document(content)
                if not isinstance(manifest, Manifest):
                    raise BadImage(f"{record.manifest} is not a manifest")
                for digest in (record.manifest, record.config, *(layer.digest for layer in manifest.layers)):
                    if digest not in written:
                        written.add(digest)
                        archive.add(store.blob_path(digest), _blob_name(digest))
                index.append(
                    Descriptor(
                        digest=record.manifest,
                        size=len(content),
                        media_type=manifest.media_type,
                        annotations={_NAME: record.name, _REFERENCE: reference.target},
                    )
                )
                layers = [_blob_name(layer.digest) for layer in manifest.layers]
                docker.append(_DockerImage(_blob_name(record.config), layers, [record.name]))
            _put(archive, _INDEX, msgspec.json.encode(Index(tuple(index))))
            _put(archive, _DOCKER, msgspec.json.encode(docker))
    except OSError as error:
        raise StoreFailed(f"cannot write the archive: {error.strerror}") from error


def _put(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _read(source: ArchiveFiles, name: str) -> bytes:
    with source.open(name) as file:
        content = file.read(manifests.MAX_DOCUMENT + 1)
    if len(content) > manifests.MAX_DOCUMENT:
        raise BadImage(f"{name} has more than {manifests.MAX_DOCUMENT} bytes")
    return content


def _blob_name(digest: str) -> str:
    return f"blobs/{manifests.check_digest(digest).replace(':', '/')}"
