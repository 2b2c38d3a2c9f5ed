"""Pulls from registries to a content store: Debian's docker-registry, and one that fails in every way."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import ssl
import stat
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from bridgehead import architecture
from bridgehead.images.errors import BadImage, Denied, NotFound, PullFailed, Unreachable
from bridgehead.images.pulling import Puller
from bridgehead.images.references import Reference, parse_reference
from bridgehead.images.registry.docker_config import Credential
from bridgehead.images.registry.hosts_toml import Endpoint
from bridgehead.images.registry.transport import Transport
from bridgehead.images.store import garbage_collection
from bridgehead.images.store.content import ContentStore
from bridgehead.images.store.image_record import ImageRecord
from tests.image_files import Blob, image_of, index_of, layer_of, push, push_manifest
from tests.integration import registries
from tests.integration.certificates import Authority, server_certificate
from tests.integration.registries import BASIC, PASSWORD, USER, FaultyRegistry

READER = Credential(username=USER, password=PASSWORD)
NOISE = random.Random(7).randbytes(300_000)  # which gzip cannot make smaller
BIG = layer_of([("big", NOISE)])
SMALL = layer_of([("etc/motd", "hello\n"), ("bin/tool", "#!/bin/sh\n")])
IMAGE = image_of(SMALL, BIG, Cmd=["/bin/tool"])


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    root = tmp_path / "content"
    root.mkdir()
    return ContentStore(root)


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    async with Transport(is_offline=True) as transport:
        yield transport


@pytest.fixture
async def faulty() -> AsyncIterator[FaultyRegistry]:
    registry = FaultyRegistry()
    registry.add("1", IMAGE)
    async with registry.serving():
        yield registry


def reference_of(name: str) -> Reference:
    reference = parse_reference(name)
    assert reference is not None
    return reference


async def pull(store: ContentStore, transport: Transport, name: str, *credentials: Credential) -> ImageRecord:
    return await Puller(store, transport).pull(reference_of(name), credentials)


def is_clean(store: ContentStore) -> bool:
    """Whether no half-unpacked layer is left. Blobs that a later pull goes on with may be."""
    return not list((store.root / "ingest").glob("layer-*"))


@pytest.mark.needs("docker-registry")
async def test_an_image_for_two_platforms_comes_from_docker_registry(
    store: ContentStore, transport: Transport, tmp_path: Path
) -> None:
    other = image_of(layer_of([("other", "")]), arch="s390x")
    entries = ("bin/", {"type": tarfile.DIRTYPE, "mode": 0o711}), ("z", "zstandard")
    zstd = image_of(layer_of(entries, "zstd"), SMALL, layer_of([("plain", "")], "none"))
    index = index_of({"s390x": other, architecture(): zstd})
    with registries.docker_registry(tmp_path, has_password=True) as address:
        for image in (other, zstd):
            push(f"http://{address}", "team/app", f"part-{image.manifest.digest[7:15]}", image, BASIC)
        push_manifest(f"http://{address}", "team/app", "1", index, BASIC)
        with pytest.raises(Denied, match="authorization: authorization failed: no basic auth credentials"):
            await pull(store, transport, f"{address}/team/app:1")
        record = await pull(store, transport, f"{address}/team/app:1", Credential(username="x", password="y"), READER)
        by_digest = await pull(store, transport, f"{address}/team/app@{index.digest}", READER)
        with pytest.raises(NotFound, match=f'resolve reference "{address}/team/app:2".*: not found'):
            await pull(store, transport, f"{address}/team/app:2", READER)
    assert record.digest == index.digest
    assert record.id == by_digest.id == f"{address}/team/app@{index.digest}"
    assert store.find(f"{address}/team/app:1") == record
    contents = [sorted(os.listdir(store.layer_path(layer))) for layer in record.layers]
    assert contents == [["bin", "z"], ["bin", "etc"], ["plain"]]
    # The second layer has no entry for bin/.
    assert stat.S_IMODE((store.layer_path(record.root_layers[-1]) / "bin").stat().st_mode) == 0o711
    assert is_clean(store)


async def test_a_broken_download_goes_on_where_it_ended(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    faulty.faults = [registries.times(4, registries.break_off)]
    record = await pull(store, transport, f"{faulty.address}/app:1")
    assert (store.layer_path(record.layers[1]) / "big").read_bytes() == NOISE
    assert any("Range" in headers for _, headers in faulty.headers)


async def test_the_progress_of_a_download_that_begins_anew_ends_at_the_total(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    async def serve_whole(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        """Serve as a registry that does not know ranges."""
        if not registries.is_blob(request):
            return None
        return web.Response(body=registry.blobs[request.path.rpartition("/")[2]].content)

    faulty.faults = [registries.times(4, registries.break_off), serve_whole]
    shown: list[tuple[int, int]] = []
    name = reference_of(f"{faulty.address}/app:1")
    await Puller(store, transport).pull(name, (), lambda progress: shown.append((progress.done, progress.total)))
    total = shown[-1][1]
    assert shown[0] == (0, total)
    assert max(shown) == shown[-1] == (total, total)


async def test_a_registry_that_is_too_busy_is_asked_again(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    faulty.faults = [
        registries.times(2, registries.status(429, lambda _: True, Retry_After="0")),
        registries.times(2, registries.status(503)),
    ]
    await pull(store, transport, f"{faulty.address}/app:1")
    faulty.faults = [registries.status(429, lambda _: True, Retry_After="3600")]
    with pytest.raises(PullFailed, match="429 Too Many Requests: toomanyrequests: slow down"):
        await pull(store, transport, f"{faulty.address}/app:1")


@pytest.mark.parametrize("fault", [registries.falsify, registries.truncate], ids=["falsified", "truncated"])
async def test_other_content_than_promised_is_refused_and_leaves_nothing(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry, fault: registries.Fault
) -> None:
    faulty.faults = [fault]
    with pytest.raises((BadImage, PullFailed), match=r"unexpected content|has \d+ bytes, not"):
        await pull(store, transport, f"{faulty.address}/app:1")
    assert store.find(f"{faulty.address}/app:1") is None
    assert store.records() == []
    faulty.faults.clear()
    await pull(store, transport, f"{faulty.address}/app:1")
    assert is_clean(store)


async def test_a_layer_that_is_not_what_the_configuration_promises_is_refused(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    lying = Blob(SMALL.content, SMALL.media_type, BIG.diff_id)
    faulty.add("2", image_of(lying))
    with pytest.raises(BadImage, match="when it is unpacked"):
        await pull(store, transport, f"{faulty.address}/app:2")
    assert is_clean(store)
    assert not store.layer_path(BIG.diff_id).exists()


async def test_blobs_that_a_crash_of_the_machine_damaged_are_downloaded_again(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    """Such a blob has the right size, and its layer was not unpacked yet: unpacked layers are on the disk."""
    for blob in (IMAGE.blobs[0], BIG):
        path = store.blob_path(blob.digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(len(blob.content)))
    seen: list[tuple[int, int]] = []
    puller = Puller(store, transport)
    record = await puller.pull(
        reference_of(f"{faulty.address}/app:1"), (), lambda progress: seen.append((progress.done, progress.total))
    )
    assert (store.layer_path(record.layers[1]) / "big").read_bytes() == NOISE
    assert store.blob_path(BIG.digest).read_bytes() == BIG.content
    assert seen[-1][0] == seen[-1][1]


async def test_a_pull_waits_for_a_collection_and_stops_nothing_else(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    with store.locked(fcntl.LOCK_EX):
        task = asyncio.create_task(pull(store, transport, f"{faulty.address}/app:1"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not faulty.requests
        assert not task.done()
    assert len((await task).layers) == 2


async def test_credentials_go_to_the_token_server_and_not_to_another_host(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    elsewhere = FaultyRegistry(blobs=faulty.blobs)

    async def authenticate(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        if request.path == "/token":
            if request.headers.get("Authorization") != BASIC or "repository:app:pull" not in request.query["scope"]:
                return web.Response(status=401)
            return await registries.in_two_pieces(request, b'{"token": "abc"}')
        if request.headers.get("Authorization") != "Bearer abc":
            challenge = f'Bearer realm="http://{registry.address}/token",service="test",scope="repository:app:pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        if registries.is_blob(request):
            return web.Response(status=307, headers={"Location": f"http://{elsewhere.address}{request.path}"})
        return None

    faulty.faults = [authenticate]
    async with elsewhere.serving():
        with pytest.raises(Denied, match=r"failed to fetch anonymous token.*401 Unauthorized"):
            await pull(store, transport, f"{faulty.address}/app:1")
        await pull(store, transport, f"{faulty.address}/app:1", READER)
        assert elsewhere.headers
        assert not any("Authorization" in headers for _, headers in elsewhere.headers)
        # One token for all layers.
        assert faulty.requests["GET /token"] <= 3


async def test_a_server_that_blobs_are_redirected_to_gets_no_credentials_if_it_asks_for_them(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    elsewhere = FaultyRegistry()

    async def redirect(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        if request.headers.get("Authorization") != BASIC:
            return web.Response(status=401, headers={"WWW-Authenticate": "Basic"})
        if registries.is_blob(request):
            return web.Response(status=307, headers={"Location": f"http://{elsewhere.address}{request.path}"})
        return None

    async def ask(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        if request.path == "/token":
            return web.json_response({"token": "abc"})
        return web.Response(status=401, headers={"WWW-Authenticate": f'Bearer realm="http://{registry.address}/token"'})

    faulty.faults, elsewhere.faults = [redirect], [ask]
    async with elsewhere.serving():
        with pytest.raises(Denied):
            await pull(store, transport, f"{faulty.address}/app:1", READER)
    assert elsewhere.headers
    assert not any("Authorization" in headers for _, headers in elsewhere.headers)
    assert "GET /token" not in elsewhere.requests


async def test_a_refresh_token_goes_to_no_other_host(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    elsewhere = FaultyRegistry()

    async def redirect_token(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        if request.path == "/token":
            return web.Response(status=307, headers={"Location": f"http://{elsewhere.address}/token?signature=secret"})
        return web.Response(status=401, headers={"WWW-Authenticate": f'Bearer realm="http://{registry.address}/token"'})

    faulty.faults = [redirect_token]
    async with elsewhere.serving():
        with pytest.raises(PullFailed, match="redirected to another server") as failure:
            await pull(store, transport, f"{faulty.address}/app:1", Credential(identity_token="refresh"))
    assert "secret" not in str(failure.value)
    assert faulty.requests["POST /token"] == 1
    assert not elsewhere.headers


@pytest.mark.parametrize(
    "fault",
    [
        registries.status(307, Location="http://["),
        registries.status(307, Location="http://host:port/"),
        registries.status(401, lambda _: True, WWW_Authenticate='Bearer realm="http://["'),
        registries.status(401, lambda _: True, WWW_Authenticate='Bearer realm="http://host:99999/"'),
        registries.status(401, lambda _: True, WWW_Authenticate='Bearer realm="/token"'),
    ],
)
async def test_addresses_that_are_none_are_a_failure_of_the_registry(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry, fault: registries.Fault
) -> None:
    faulty.faults = [fault]
    with pytest.raises((PullFailed, Unreachable)):
        await pull(store, transport, f"{faulty.address}/app:1")


async def test_the_signature_of_a_redirect_is_in_no_message(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    stopped = FaultyRegistry()
    async with stopped.serving():
        location = f"http://{stopped.address}/blob?signature=secret"

    async def redirect_blob(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        if not registries.is_blob(request):
            return None
        return web.Response(status=307, headers={"Location": location})

    faulty.faults = [redirect_blob]
    with pytest.raises(Unreachable, match=r"/blob.*connection refused") as failure:
        await pull(store, transport, f"{faulty.address}/app:1")
    assert "secret" not in str(failure.value)


async def test_offline_nothing_leaves_the_machine(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    puller = Puller(store, transport)
    with pytest.raises(Unreachable, match="the lab is offline"):
        puller.check_reachable(reference_of("nginx"))
    with pytest.raises(Unreachable, match="the lab is offline"):
        await puller.pull(reference_of("nginx"))

    async def redirect(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        return web.Response(status=307, headers={"Location": f"http://192.0.2.1{request.path}"})

    faulty.faults = [redirect]
    with pytest.raises(Unreachable, match="the lab is offline"):
        await puller.pull(reference_of(f"{faulty.address}/app:1"))


async def test_a_mirror_comes_first_and_the_server_is_asked_for_what_it_lacks(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    mirror = FaultyRegistry()
    mirror.add("1", image_of(SMALL, Cmd=["mirrored"]))
    namespaces, tags = [], []

    async def remember(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        namespaces.append(request.query.get("ns"))
        tags.append(request.headers.getall("X-Tag"))
        return None

    mirror.faults = [remember]
    async with mirror.serving():
        headers = (("x-tag", "1"), ("x-tag", "2"))
        endpoints = [Endpoint(url=f"http://{each.address}/v2", headers=headers) for each in (mirror, faulty)]
        puller = Puller(store, transport, {"registry.example": endpoints})
        record = await puller.pull(reference_of("registry.example/app:1"))
        assert len(record.layers) == 1
        assert set(namespaces) == {"registry.example"}
        assert all(each == ["1", "2"] for each in tags)
        faulty.add("2", IMAGE)
        record = await puller.pull(reference_of("registry.example/app:2"))
        assert len(record.layers) == 2
    # The mirror has gone; the server answers.
    with pytest.raises(NotFound, match=f"{mirror.address}: .*connection refused; registry.example/app:3: not found"):
        await puller.pull(reference_of("registry.example/app:3"))


async def test_a_registry_that_asks_for_a_client_certificate_gets_that_of_its_endpoint(
    store: ContentStore, transport: Transport, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    authority.issue("server", "registry")
    authority.issue("client", "me")
    ca, certificate, key = ((tmp_path / name).read_text() for name in ("ca.crt", "client.crt", "client.key"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(cadata=ca)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    registry = FaultyRegistry()
    registry.add("1", image_of(SMALL))
    async with registry.serving(context):
        with_it = Endpoint(url=f"https://{registry.address}/v2", ca=ca, clients=(f"{certificate}\n{key}",))
        record = await Puller(store, transport, {"a.example": [with_it]}).pull(reference_of("a.example/app:1"))
        assert len(record.layers) == 1
        without = Endpoint(url=f"https://{registry.address}/v2", ca=ca)
        with pytest.raises(PullFailed):
            await Puller(store, transport, {"b.example": [without]}).pull(reference_of("b.example/app:1"))
    damaged = Endpoint(url=f"https://{registry.address}/v2", clients=("no certificate",))
    with pytest.raises(PullFailed, match=r"the certificates for .* cannot be used"):
        await Puller(store, transport, {"c.example": [damaged]}).pull(reference_of("c.example/app:1"))


@pytest.mark.parametrize("tls", [server_certificate(), None], ids=["tls", "http"])
async def test_a_registry_on_loopback_needs_no_certificate_that_is_trusted(
    store: ContentStore, transport: Transport, tls: ssl.SSLContext | None
) -> None:
    async def ask_for_password(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        if request.headers.get("Authorization") == BASIC:
            return None
        return web.Response(status=401, headers={"WWW-Authenticate": "Basic"})

    registry = FaultyRegistry(faults=[ask_for_password])
    registry.add("1", image_of(SMALL))
    async with registry.serving(tls):
        name = f"{registry.address}/app:1"
        assert (await pull(store, transport, name, READER)).name == name
        named = Endpoint(url=f"https://{registry.address}/v2")  # as by a hosts.toml
        with pytest.raises(PullFailed, match="tls: "):
            await Puller(store, transport, {registry.address: [named]}).pull(reference_of(name), [READER])


async def test_a_registry_without_a_listener_is_unreachable(store: ContentStore, transport: Transport) -> None:
    registry = FaultyRegistry()
    async with registry.serving():
        address = registry.address
    with pytest.raises(Unreachable, match="connect: connection refused"):
        await pull(store, transport, f"{address}/app:1")
    with pytest.raises(Unreachable):  # at once: the failure is remembered
        Puller(store, transport).check_reachable(reference_of(f"{address}/app:1"))


async def test_layers_and_blobs_that_no_image_needs_are_collected(
    store: ContentStore, transport: Transport, faulty: FaultyRegistry
) -> None:
    faulty.add("2", image_of(SMALL))
    await pull(store, transport, f"{faulty.address}/app:1")
    second = await pull(store, transport, f"{faulty.address}/app:2")
    assert store.remove_record(f"{faulty.address}/app:1")
    with store.writing():
        assert garbage_collection.collect(store) is None
    removed = garbage_collection.collect(store)
    assert removed is not None
    assert removed.files
    assert [path.name for path in (store.root / "layers").iterdir()] == [store.layer_path(second.layers[0]).name]
    assert store.find(f"{faulty.address}/app:2") == second
    assert (store.layer_path(second.layers[0]) / "etc/motd").read_text() == "hello\n"
    assert stat.S_IMODE((store.layer_path(second.layers[0]) / "bin/tool").stat().st_mode) == 0o755
