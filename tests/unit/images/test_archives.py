"""Archives of images: those of `docker save` with compressed layers, and those that are unusable."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridgehead.images import archive_files, archives, manifests
from bridgehead.images.errors import BadImage
from bridgehead.images.store.content import ContentStore
from bridgehead.images.store.zstd_library import zstd
from tests.image_files import Blob, Entry, image_of, layer_of, tar_of

LINK = {"type": tarfile.SYMTYPE}
NAME = "org.opencontainers.image.ref.name"
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
        types = [layer["mediaType"].removeprefix(manifests.OCI_LAYER) for layer in json.load(manifest)["layers"]]
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


@pytest.mark.parametrize("content", [b"", b"{}", b"no archive" * 100, gzip.compress(b"no archive"), b"PK\3\4" * 500])
def test_what_is_no_archive_is_refused_with_one_line(tmp_path: Path, content: bytes) -> None:
    if content:
        with pytest.raises(BadImage, match=r"^not an archive of images: no tar file, compressed or not$"):
            archives.load(ContentStore(tmp_path), io.BytesIO(content))
    else:
        with pytest.raises(BadImage, match=r"^neither an archive of `docker save` nor an OCI archive: it has neither"):
            archives.load(ContentStore(tmp_path), io.BytesIO(content))


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
    layers = [layer_of([(str(number), "")], "none") for number in range(manifests.MAX_LAYERS + 1)]
    with pytest.raises(BadImage, match="the image has 126 layers, more than 125"):
        archives.load(ContentStore(tmp_path), docker_archive(*layers))
    assert files(tmp_path) == []


def oci_archive(annotations: dict[str, str]) -> io.BytesIO:
    image = image_of(layer_of([("a", "")]))
    top = {**image.manifest.descriptor, "annotations": annotations}
    index = {"schemaVersion": 2, "mediaType": manifests.OCI_INDEX, "manifests": [top]}
    blobs = {f"blobs/{blob.digest.replace(':', '/')}": blob.content for blob in (image.manifest, *image.blobs)}
    return io.BytesIO(tar_of([("index.json", json.dumps(index)), *blobs.items()]))


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


def docker_images(count: int, layers: int, names: int = 1) -> io.BytesIO:
    """An archive whose list has images of one configuration, with one layer that is listed many times."""
    layer = layer_of([("a", "")])
    image = {"Config": "config", "Layers": ["layer0"] * layers, "RepoTags": [f"app:{n}" for n in range(names)]}
    config = {**json.loads(image_of(layer).blobs[0].content), "rootfs": {"diff_ids": [layer.diff_id] * layers}}
    return docker_archive(layer, config=json.dumps(config), **{"manifest.json": json.dumps([image] * count)})


class Counted(ContentStore):
    """A store that counts the layers and blobs that are added."""

    added = 0

    def add_stream(self, file: Any) -> Any:
        self.added += 1
        return super().add_stream(file)


@pytest.mark.parametrize(
    ("count", "layers", "names", "reason"),
    [
        (1, 40_000, 1, "the image has 40000 layers, more than 125"),
        (1, 126, 1, "the image has 126 layers, more than 125"),
        (30_000, 1, 1, "the archive has 30000 images, more than 1000"),
        (1, 1, 100_000, "the archive has 100000 names of images, more than 1000"),
        (500, 1, 3, "the archive has 1500 names of images, more than 1000"),
    ],
)
def test_what_a_list_repeats_is_refused_before_any_work(
    tmp_path: Path, count: int, layers: int, names: int, reason: str
) -> None:
    store = Counted(tmp_path)
    with pytest.raises(BadImage, match=f"^{reason}$"):
        archives.load(store, docker_images(count, layers, names))
    assert (store.added, files(tmp_path)) == (0, [])


def test_a_layer_that_is_listed_several_times_is_added_once(tmp_path: Path) -> None:
    store = Counted(tmp_path)
    records = archives.load(store, docker_images(3, 125))
    assert (store.added, [len(record.layers) for record in records]) == (1, [125] * 3)


def oci_index(listed: list[dict[str, Any]], *blobs: Blob) -> io.BytesIO:
    index = {"schemaVersion": 2, "mediaType": manifests.OCI_INDEX, "manifests": listed}
    entries = {f"blobs/{blob.digest.replace(':', '/')}": blob.content for blob in blobs}
    return io.BytesIO(tar_of([("index.json", json.dumps(index)), *entries.items()]))


def test_the_blobs_of_an_oci_archive_are_added_once_each(tmp_path: Path) -> None:
    image = image_of(*[layer_of([("a", "")])] * 20)
    tops = [{**image.manifest.descriptor, "annotations": {NAME: f"app:{n}"}} for n in range(3)]
    store = Counted(tmp_path)
    archives.load(store, oci_index(tops, image.manifest, *image.blobs))
    assert store.added == 2
    with pytest.raises(BadImage, match=r"^the archive has 20000 images, more than 1000$"):
        archives.load(store, oci_index([image.manifest.descriptor] * 20_000, image.manifest, *image.blobs))


def test_the_entries_of_an_archive_and_their_names_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_files, "MAX_ENTRIES", 10)
    monkeypatch.setattr(archive_files, "MAX_NAMES", 2000)
    many = io.BytesIO(tar_of((f"file{number}", "") for number in range(11)))
    with pytest.raises(BadImage, match=r"^the archive has more than 10 entries$"):
        archives.load(ContentStore(tmp_path), many)
    long = io.BytesIO(tar_of((str(number) * 500, "") for number in range(5)))
    with pytest.raises(BadImage, match=r"^the names in the archive have more than 2000 bytes$"):
        archives.load(ContentStore(tmp_path), long)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (tarfile.XHDTYPE, "the archive has a header of 16777216 bytes, more than 1048576"),
        (tarfile.GNUTYPE_LONGNAME, "the archive has a header of 16777216 bytes, more than 1048576"),
        (tarfile.XGLTYPE, "neither an archive of `docker save` nor an OCI archive"),  # which has no meaning here
    ],
)
def test_the_headers_of_an_archive_are_bounded(tmp_path: Path, kind: bytes, reason: str) -> None:
    header = tarfile.TarInfo("header")
    header.type, header.size = kind, 1 << 24
    archive = tmp_path / "archive"
    with gzip.open(archive, "wb", 1) as out:
        out.write(header.tobuf())
        for _ in range(16):
            out.write(bytes(1 << 20))
    store = ContentStore(tmp_path / "store")
    store.root.mkdir()
    tracemalloc.start()
    try:
        with open(archive, "rb") as file, pytest.raises(BadImage, match=reason):
            archives.load(store, file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 << 20
    assert files(store.root) == []


def test_many_headers_of_long_names_in_a_row_are_one_name(tmp_path: Path) -> None:
    header = tarfile.TarInfo("header")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1
    content = (header.tobuf() + b"x".ljust(512, b"\0")) * 5000
    with pytest.raises(BadImage, match="neither an archive of `docker save` nor an OCI archive"):
        archives.load(ContentStore(tmp_path), io.BytesIO(content + bytes(1024)))


def test_a_compressed_archive_is_decompressed_once(tmp_path: Path) -> None:
    """Layers are read in another order than they have in the archive."""
    layers = [layer_of([(f"file{number}", random.Random(number).randbytes(5000))], "none") for number in range(20)]
    names = [f"layer{number}" for number in reversed(range(20))]
    manifest = json.dumps([{"Config": "config", "Layers": names, "RepoTags": ["app:1"]}])
    config = image_of(*reversed(layers)).blobs[0].content
    archive = docker_archive(*layers, config=config, **{"manifest.json": manifest})

    class Counting(io.BytesIO):
        count = 0

        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            self.count += len(data)
            return data

    compressed = Counting(gzip.compress(archive.getvalue()))
    [record] = archives.load(ContentStore(tmp_path), compressed)
    assert len(record.layers) == 20
    assert compressed.count < 1.5 * len(compressed.getvalue())


@pytest.mark.parametrize("compression", ["xz twice", "bzip2 twice", "zstd"])
def test_archives_of_several_streams_and_of_zstd_are_loaded(tmp_path: Path, compression: str) -> None:
    half = len(PLAIN) // 2
    compressed = {
        "xz twice": lambda: lzma.compress(PLAIN[:half], preset=9) + bytes(4) + lzma.compress(PLAIN[half:]),
        "bzip2 twice": lambda: bz2.compress(PLAIN[:half]) + bz2.compress(PLAIN[half:]),
        "zstd": lambda: zstd.compress(PLAIN),
    }[compression]()
    [record] = archives.load(ContentStore(tmp_path), io.BytesIO(compressed))
    assert len(record.layers) == 1


def test_a_sparse_file_in_an_archive_is_refused(tmp_path: Path) -> None:
    headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": "5", "GNU.sparse.numblocks": "1"}
    archive = docker_archive(layer_of([("a", "")]), layer0={"pax_headers": headers, "data": "x"})
    with pytest.raises(BadImage, match=r"^the archive has a sparse file; write it without --sparse$"):
        archives.load(ContentStore(tmp_path), archive)
