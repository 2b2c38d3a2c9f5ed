"""Archives of images: those of `docker save` with compressed layers, and those that are unusable."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridgehead.images import archives, documents
from bridgehead.images.errors import BadImage
from bridgehead.images.store.content import ContentStore
from tests.image_files import Blob, Entry, image_of, layer_of, tar_of

LINK = {"type": tarfile.SYMTYPE}
HARD = {"type": tarfile.LNKTYPE}


def docker_archive(*layers: Blob, **others: Entry) -> io.BytesIO:
    """An archive of `docker save`; `others` are entries that replace those of the same names."""
    config = image_of(*layers).blobs[0].content
    names = [f"layer{number}" for number in range(len(layers))]
    manifest = [{"Config": "config", "Layers": names, "RepoTags": ["registry.example/app:1"]}]
    entries: dict[str, Any] = {"manifest.json": json.dumps(manifest), "config": config}
    entries |= dict(zip(names, (layer.content for layer in layers), strict=True)) | others
    return io.BytesIO(tar_of(entries.items()))


def files(root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.name != "lock"]


def test_layers_keep_their_compression(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    layers = [layer_of([(form, "")], form) for form in ("none", "gzip", "zstd")]
    [record] = archives.load(store, docker_archive(*layers))
    saved = io.BytesIO()
    archives.save(store, [record.name], saved)
    with tarfile.open(fileobj=io.BytesIO(saved.getvalue())) as archive:
        manifest = archive.extractfile(f"blobs/{record.manifest.replace(':', '/')}")
        assert manifest is not None
        types = [layer["mediaType"].removeprefix(documents.OCI_LAYER) for layer in json.load(manifest)["layers"]]
    assert types == ["", "+gzip", "+zstd"]


PLAIN = docker_archive(layer_of([("a", random.Random(1).randbytes(8000))], "none")).getvalue()
COMPRESSED = gzip.compress(PLAIN)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_archives_are_loaded(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    [record] = archives.load(ContentStore(tmp_path), io.BytesIO(compress(PLAIN)))
    assert len(record.layers) == 1


@pytest.mark.parametrize(
    "file",
    [
        docker_archive(layer_of([("a", "")]), layer0={**LINK, "linkname": "layer0"}),
        docker_archive(layer_of([("a", "")]), layer0={**HARD, "linkname": "layer0"}),
        docker_archive(layer_of([("a", "")]), layer0={**LINK, "linkname": "../../etc/passwd"}),
        docker_archive(layer_of([("a", "")]), config={**LINK, "linkname": "/etc/passwd"}),
        docker_archive(layer_of([("a", "")]), layer_of([("b", "")]), layer1="no layer"),
        docker_archive(layer_of([("a", "")]), config="{}"),
        io.BytesIO(b"no archive"),
        io.BytesIO(COMPRESSED[:4000] + bytes(100) + COMPRESSED[4100:]),
        io.BytesIO(COMPRESSED[:4000]),
        io.BytesIO(lzma.compress(PLAIN)[:4000] + bytes(9000)),
        io.BytesIO(tar_of([("other", "")])),
    ],
)
def test_unusable_archives_leave_nothing(tmp_path: Path, file: io.BytesIO) -> None:
    with pytest.raises(BadImage) as failure:
        archives.load(ContentStore(tmp_path), file)
    assert "\n" not in str(failure.value)
    assert files(tmp_path) == []


def test_one_name_is_for_one_image(tmp_path: Path) -> None:
    """An archive of two images with one name would leave only the second."""
    layer = layer_of([("a", "")])
    image = {"Config": "config", "Layers": ["layer0"], "RepoTags": ["app:1"]}
    two = docker_archive(layer, **{"manifest.json": json.dumps([image, {**image, "RepoTags": ["app:2"]}])})
    store = ContentStore(tmp_path)
    with pytest.raises(BadImage, match="2 images, and --tag names one"):
        archives.load(store, two, "other:1")
    assert files(tmp_path) == []
    two.seek(0)
    names = [record.name for record in archives.load(store, two)]
    assert names == ["docker.io/library/app:1", "docker.io/library/app:2"]
    [record] = archives.load(store, docker_archive(layer), "other:1")
    assert record.name == "docker.io/library/other:1"
    saved = io.BytesIO()
    archives.save(store, ["other:1", "docker.io/library/other:1", "other:1"], saved)
    with tarfile.open(fileobj=io.BytesIO(saved.getvalue())) as archive:
        index = archive.extractfile("index.json")
        assert index is not None
        [top] = json.load(index)["manifests"]
    assert top["annotations"] == {
        "io.containerd.image.name": "docker.io/library/other:1",
        "org.opencontainers.image.ref.name": "1",
    }


def test_an_archive_with_more_layers_than_an_overlay_takes_is_refused(tmp_path: Path) -> None:
    layers = [layer_of([(str(number), "")], "none") for number in range(documents.MAX_LAYERS + 1)]
    with pytest.raises(BadImage, match="the image has 126 layers, more than 125"):
        archives.load(ContentStore(tmp_path), docker_archive(*layers))
    assert files(tmp_path) == []


def oci_archive(annotations: dict[str, str]) -> io.BytesIO:
    image = image_of(layer_of([("a", "")]))
    top = {**image.manifest.descriptor, "annotations": annotations}
    index = {"schemaVersion": 2, "mediaType": documents.OCI_INDEX, "manifests": [top]}
    blobs = {f"blobs/{blob.digest.replace(':', '/')}": blob.content for blob in (image.manifest, *image.blobs)}
    return io.BytesIO(tar_of({"index.json": json.dumps(index), **blobs}.items()))


@pytest.mark.parametrize(
    ("annotations", "name", "reason"),
    [
        ({"org.opencontainers.image.ref.name": "example.com/app:2"}, "example.com/app:2", ""),
        (
            {"io.containerd.image.name": "docker.io/library/app:3", "org.opencontainers.image.ref.name": "3"},
            "docker.io/library/app:3",
            "",
        ),
        ({"org.opencontainers.image.ref.name": "3.20"}, "", "the image has only the tag '3.20'; give it a name with"),
        ({}, "", "the image has no name; give it a name with --tag"),
    ],
)
def test_a_tag_alone_is_no_name(tmp_path: Path, annotations: dict[str, str], name: str, reason: str) -> None:
    store = ContentStore(tmp_path)
    if reason:
        with pytest.raises(BadImage, match=reason):
            archives.load(store, oci_archive(annotations))
        assert files(tmp_path) == []
    else:
        assert [record.name for record in archives.load(store, oci_archive(annotations))] == [name]
    [record] = archives.load(store, oci_archive(annotations), "other:1")
    assert record.name == "docker.io/library/other:1"
