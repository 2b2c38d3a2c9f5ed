"""Pulls of images that cannot be had: registries that do not answer or trickle, disks that are too small, manifests
that lead nowhere. The store has no half-unpacked layer afterwards."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from bridgehead import architecture
from bridgehead.images import manifests
from bridgehead.images.errors import BadImage, PullFailed, StoreFailed
from bridgehead.images.pulling import Puller
from bridgehead.images.references import parse_reference
from bridgehead.images.registry import retries, transport
from bridgehead.images.registry.transport import Transport
from bridgehead.images.store.content import ContentStore
from bridgehead.images.store.image_record import ImageRecord
from tests.image_files import Blob, BuiltImage, image_of, layer_of

from . import registries
from .namespaced import in_namespace, sh
from .registries import FaultyRegistry

IMAGE = image_of(layer_of([("etc/motd", "hello\n")]))


@pytest.fixture
async def faulty() -> AsyncIterator[FaultyRegistry]:
    registry = FaultyRegistry()
    registry.add("1", IMAGE)
    async with registry.serving():
        yield registry


async def pull(root: Path, registry: FaultyRegistry, tag: str = "1") -> ImageRecord:
    reference = parse_reference(f"{registry.address}/app:{tag}")
    assert reference is not None
    async with Transport(is_offline=True) as connections:
        return await Puller(ContentStore(root), connections).pull(reference)


async def test_a_registry_that_never_answers(
    tmp_path: Path, faulty: FaultyRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = asyncio.Event()

    async def wait(request: web.Request, registry: FaultyRegistry) -> None:
        await is_over.wait()

    monkeypatch.setattr(transport, "_SILENCE_SECONDS", 0.1)
    faulty.faults = [wait]
    with pytest.raises(PullFailed, match="i/o timeout"):
        await pull(tmp_path, faulty)
    monkeypatch.setattr(transport, "_SILENCE_SECONDS", 60.0)
    monkeypatch.setattr(transport, "_ANSWER_SECONDS", 0.1)
    with pytest.raises(PullFailed, match="i/o timeout"):
        await pull(tmp_path, faulty)
    assert faulty.requests["GET /v2/app/manifests/1"] == 4
    is_over.set()


@pytest.mark.parametrize("kind", ["manifests", "blobs"])
async def test_a_registry_that_trickles(
    tmp_path: Path, faulty: FaultyRegistry, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def trickle(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        if f"/{kind}/" not in request.path:
            return None
        whole = registry.serve(request)
        response = web.StreamResponse(status=whole.status, headers=whole.headers)
        await response.prepare(request)
        for byte in bytes(whole.body):  # type: ignore[attr-defined]
            await response.write(bytes([byte]))
            await asyncio.sleep(0.02)
        return response

    monkeypatch.setattr(retries, "PACE_SECONDS", 0.1)
    faulty.faults = [trickle]
    with pytest.raises(PullFailed, match=r"the download is too slow: \d+ bytes in"):
        await pull(tmp_path, faulty)


async def _break_off(request: web.Request, response: web.StreamResponse, data: bytes) -> web.StreamResponse:
    """Send the beginning of an answer, and end the connection."""
    await response.prepare(request)
    await response.write(data)
    await asyncio.sleep(0.01)  # the client takes it before the connection is reset
    assert request.transport is not None
    request.transport.abort()
    return response


async def test_a_download_that_breaks_off_after_each_byte_ends(
    tmp_path: Path, faulty: FaultyRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def break_after_a_byte(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        if not registries.is_blob(request):
            return None
        whole = registry.serve(request)
        body = bytes(whole.body)  # type: ignore[attr-defined]
        response = web.StreamResponse(status=whole.status, headers={**whole.headers, "Content-Length": str(len(body))})
        return await _break_off(request, response, body[:1])

    monkeypatch.setattr(retries, "PACE_SECONDS", 0.5)
    faulty.faults = [break_after_a_byte]
    with pytest.raises(PullFailed, match=r"the download is too slow: \d+ bytes in"):
        await pull(tmp_path, faulty)


async def test_a_download_that_breaks_off_a_little_later_each_time_ends(
    tmp_path: Path, faulty: FaultyRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt brings more than the one before, but from the first byte."""
    sizes = itertools.count(1)

    async def begin_anew(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        if not registries.is_blob(request):
            return None
        body = registry.blobs[request.path.rpartition("/")[2]].content
        response = web.StreamResponse(headers={"Content-Length": str(len(body))})
        return await _break_off(request, response, body[: next(sizes)])

    monkeypatch.setattr(retries, "_INITIAL_SECONDS", 0.001)
    faulty.faults = [begin_anew]
    with pytest.raises(PullFailed, match="the server does not go on where it ended"):
        await pull(tmp_path, faulty)


def nested_in(document: Blob, depth: int, **platform: str) -> list[Blob]:
    """Indexes around a manifest, the outermost last."""
    found: list[Blob] = []
    for _ in range(depth):
        entry = {**document.descriptor, **({"platform": platform} if platform else {})}
        index = {"schemaVersion": 2, "mediaType": manifests.OCI_INDEX, "manifests": [entry]}
        document = Blob(json.dumps(index).encode(), manifests.OCI_INDEX)
        found.append(document)
    return found


async def test_indexes_within_each_other(tmp_path: Path, faulty: FaultyRegistry) -> None:
    for index in (indexes := nested_in(IMAGE.manifest, 5)):
        faulty.manifests[index.digest] = index
    faulty.manifests["deep"] = indexes[3]
    assert (await pull(tmp_path, faulty, "deep")).manifest == IMAGE.manifest.digest
    faulty.manifests["deeper"] = indexes[4]
    with pytest.raises(BadImage, match="more than 4 indexes within each other"):
        await pull(tmp_path, faulty, "deeper")


async def test_images_of_other_platforms_and_without_a_manifest(tmp_path: Path, faulty: FaultyRegistry) -> None:
    other = "arm64" if architecture() != "arm64" else "amd64"
    faulty.add("other", image_of(layer_of([("f", "")]), arch=other))
    with pytest.raises(BadImage, match=f"the image is for linux/{other}, this machine is linux/"):
        await pull(tmp_path, faulty, "other")
    [index] = nested_in(IMAGE.manifest, 1, architecture=other, os="linux")
    faulty.manifests["index"] = index
    with pytest.raises(BadImage, match=f"is not among linux/{other}"):
        await pull(tmp_path, faulty, "index")
    empty = {"schemaVersion": 2, "mediaType": manifests.OCI_INDEX, "manifests": []}
    faulty.manifests["empty"] = Blob(json.dumps(empty).encode(), manifests.OCI_INDEX)
    with pytest.raises(BadImage, match="is not among no platforms"):
        await pull(tmp_path, faulty, "empty")
    faulty.manifests["artifact"] = Blob(b'{"schemaVersion": 2}', "application/json")
    with pytest.raises(BadImage, match="not an image manifest"):
        await pull(tmp_path, faulty, "artifact")
    assert ContentStore(tmp_path).records() == []


def of_declared_size(image: BuiltImage, size: int) -> BuiltImage:
    """The image with a manifest that declares this size of its layer."""
    manifest = json.loads(image.manifest.content)
    manifest["layers"][0]["size"] = size
    return image._replace(manifest=image.manifest._replace(content=json.dumps(manifest).encode()))


@in_namespace
async def test_a_disk_that_is_too_small() -> None:
    """An image of 20 GB is refused before a byte of it is downloaded; one that unpacks to too much leaves nothing."""
    sh("mount -t tmpfs -o size=340m none /run")
    registry = FaultyRegistry()
    registry.add("large", of_declared_size(IMAGE, 20_000_000_000))
    registry.add("bomb", image_of(layer_of([("f", "")]), layer_of([("zeros", bytes(80_000_000))])))
    registry.add("1", IMAGE)
    store = ContentStore(Path("/run"))
    async with registry.serving():
        with pytest.raises(
            StoreFailed, match="no space left on device: 20000 MB are to be downloaded, and the disk has"
        ):
            await pull(store.root, registry, "large")
        assert not any("/blobs/" in request for request in registry.requests)
        with pytest.raises(StoreFailed, match="cannot unpack the layer: no space left on device"):
            await pull(store.root, registry, "bomb")
        left = [path for name in ("ingest", "layers", "blobs/sha256") for path in (store.root / name).glob("*")]
        assert left == []
        await pull(store.root, registry)
