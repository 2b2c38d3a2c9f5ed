"""Pulls of images: from a registry to the content store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from . import manifests
from .errors import BadImage, Denied, ImageError, StoreFailed
from .manifests import Descriptor, Index, Manifest
from .references import Reference
from .registry.docker_config import Credential, fingerprint
from .registry.hosts_toml import Endpoint, endpoints_for
from .registry.repository import Repository
from .registry.transport import Transport
from .store import garbage_collection, implied_directories
from .store.content import ContentStore
from .store.image_record import ImageRecord
from .store.unpacking import add_layer

_LAYERS_AT_ONCE: Final = 3  # as containerd
_UNPACKS_AT_ONCE: Final = 2
_LOCK_SECONDS: Final = 0.05  # between two attempts to lock the store

OnProgress = Callable[["Progress"], None]


class Progress(msgspec.Struct):
    """The state of a pull, in bytes of its layers; `total` is 0 until the manifest is known."""

    done: int = 0
    total: int = 0


class BlobSharing(Protocol):
    """Blobs that the user's labs share; its calls block."""

    def fetch(self, descriptor: Descriptor) -> bool: ...

    def add(self, descriptors: Iterable[Descriptor]) -> None: ...


class Puller:
    """Pulls images to `store`.

    `hosts` are the configured endpoints (see `endpoints_for`); pulls use what it is set to then.
    `shared` has layers that the user's other labs have downloaded.
    """

    def __init__(
        self,
        store: ContentStore,
        transport: Transport,
        hosts: Mapping[str, Sequence[Endpoint]] | None = None,
        shared: BlobSharing | None = None,
    ) -> None:
        self._store = store
        self._transport = transport
        self.hosts = hosts or {}
        self._shared = shared
        self._sharing: set[asyncio.Task[None]] = set()
        self._layers: dict[str, asyncio.Lock] = {}  # by diff_id: two images can have one layer
        self._unpacking = asyncio.Semaphore(_UNPACKS_AT_ONCE)

    def check_reachable(self, reference: Reference) -> None:
        """Raises `Unreachable` for an image that cannot be pulled at present, without sending anything."""
        self._repository(reference, None).check_reachable()

    async def finish(self) -> None:
        """Wait until the layers that were downloaded are shared."""
        await asyncio.gather(*self._sharing)

    async def pull(
        self,
        reference: Reference,
        credentials: Sequence[Credential] = (),
        on_progress: OnProgress = lambda _: None,
        *,
        pod_credentials: Sequence[Credential] = (),
    ) -> ImageRecord:
        """Pull an image, with the first of the credentials that are accepted, else without. Raises `ImageError`.

        With one of `pod_credentials`, which come first, the image is only for pods that have one, too.
        """
        denied = Denied("no credentials were accepted")
        for credential in (*pod_credentials, *credentials, None):
            restricted_to = (
                (fingerprint(credential),) if credential is not None and credential in pod_credentials else ()
            )
            try:
                repository = self._repository(reference, credential)
                return await self._pull(repository, reference, restricted_to, on_progress)
            except Denied as error:
                denied = error
            except StoreFailed as error:
                with contextlib.suppress(StoreFailed):  # layers that came before the disk was full fill it
                    await asyncio.to_thread(garbage_collection.collect, self._store)
                raise _with_reference(error, reference) from error
            except ImageError as error:
                raise _with_reference(error, reference) from error
        raise _with_reference(denied, reference) from denied

    def _repository(self, reference: Reference, credential: Credential | None) -> Repository:
        return Repository(self._transport, reference, endpoints_for(reference.registry, self.hosts), credential)

    async def _pull(
        self, repository: Repository, reference: Reference, restricted_to: tuple[str, ...], on_progress: OnProgress
    ) -> ImageRecord:
        async with _writing(self._store):
            top, content = await repository.resolve()
            descriptor, document = top, manifests.parse_document(content, top.media_type)
            fetched = [content]
            while isinstance(document, Index):
                if len(fetched) > manifests.MAX_INDEXES:
                    raise BadImage(f"the image has more than {manifests.MAX_INDEXES} indexes within each other")
                descriptor = manifests.choose_manifest(document, manifests.this_platform())
                fetched.append(await repository.fetch_document(descriptor))
                document = manifests.parse_document(fetched[-1], descriptor.media_type)
            self._check_room(document)
            self._store.add_blob(fetched[0])
            self._store.add_blob(fetched[-1])
            progress = Progress(0, manifests.total_size(document.layers))
            on_progress(progress)
            await asyncio.to_thread(self._store.discard_damaged, document.config)
            await self._fetch_blob(repository, document.config, lambda _: None)
            config = manifests.parse_config(self._store.read_blob(document.config.digest), len(document.layers))
            manifests.check_platform(config, manifests.this_platform())
            diff_ids = config.rootfs.diff_ids or ()
            downloaded = await self._fetch_layers(repository, document.layers, diff_ids, progress, on_progress)
            implied = await asyncio.to_thread(implied_directories.add_attributes, self._store, diff_ids)
            record = ImageRecord(
                name=reference.key,
                digest=top.digest,
                manifest=descriptor.digest,
                config=document.config.digest,
                layers=tuple(diff_ids),
                size=manifests.total_size((document.config, *document.layers)),
                restricted_to=restricted_to,
                implied=implied,
            )
            self._store.add_pulled(record)
        self._share(downloaded)
        return record

    def _share(self, layers: Collection[Descriptor]) -> None:
        if self._shared is not None and layers:
            task = asyncio.create_task(asyncio.to_thread(self._shared.add, layers))
            self._sharing.add(task)  # the event loop keeps no reference
            task.add_done_callback(self._sharing.discard)

    def _check_room(self, manifest: Manifest) -> None:
        """Raises `StoreFailed` when the download alone would fill the disk."""
        missing = {each.digest: each for each in manifest.layers if not self._store.has_blob(each)}
        self._store.check_room(manifests.total_size(tuple(missing.values())))

    async def _fetch_layers(
        self,
        repository: Repository,
        layers: Sequence[Descriptor],
        diff_ids: Sequence[str],
        progress: Progress,
        on_progress: OnProgress,
    ) -> list[Descriptor]:
        """Returns the layers that were downloaded, and are in no other lab's store perhaps."""
        downloaded = []
        slots = asyncio.Semaphore(_LAYERS_AT_ONCE)

        def count(size: int) -> None:
            progress.done += size
            on_progress(progress)

        async def fetch(layer: Descriptor, diff_id: str) -> None:
            async with slots, self._layers.setdefault(diff_id, asyncio.Lock()):
                if await self._fetch_layer(repository, layer, diff_id, count):
                    downloaded.append(layer)

        try:
            async with asyncio.TaskGroup() as tasks:
                for layer, diff_id in zip(layers, diff_ids, strict=True):
                    tasks.create_task(fetch(layer, diff_id))
        except ExceptionGroup as group:  # Python 3.11.0 to 3.11.3 wrap what `except*` raises into another group
            raise _first(group) from group
        finally:
            for diff_id in diff_ids:
                lock = self._layers.get(diff_id)
                if lock is not None and not lock.locked():
                    del self._layers[diff_id]
        return downloaded

    async def _fetch_layer(
        self, repository: Repository, layer: Descriptor, diff_id: str, count: Callable[[int], None]
    ) -> bool:
        """Download a layer if it is missing, and unpack it; returns whether it was downloaded."""
        if await self._find_shared(layer, count):
            try:
                await self._unpack(layer, diff_id)
            except BadImage:
                # After a crash of the machine, a blob of an earlier pull can have the right size and wrong content.
                if not await asyncio.to_thread(self._store.discard_damaged, layer):
                    raise
                count(-layer.size)
            else:
                return False
        await self._fetch_blob(repository, layer, count)
        await self._unpack(layer, diff_id)
        return True

    async def _find_shared(self, layer: Descriptor, count: Callable[[int], None]) -> bool:
        """Return whether the store has a layer, or has it now from the user's other labs."""
        is_there = self._store.has_blob(layer) or (
            self._shared is not None and await asyncio.to_thread(self._shared.fetch, layer)
        )
        if is_there:
            count(layer.size)
        return is_there

    async def _fetch_blob(self, repository: Repository, descriptor: Descriptor, count: Callable[[int], None]) -> None:
        if self._store.has_blob(descriptor):
            count(descriptor.size)
            return
        with self._store.open_partial(descriptor.digest) as partial:
            await asyncio.to_thread(partial.resume)
            if partial.size > descriptor.size:
                partial.restart()
            counted = 0

            def count_new(_: int = 0) -> None:
                nonlocal counted
                count(partial.size - counted)  # negative when the download began anew
                counted = partial.size

            count_new()
            is_resumed = partial.size > 0
            await repository.download(descriptor, partial, count_new)
            try:
                partial.commit(descriptor, self._store.blob_path(descriptor.digest))
            except BadImage:
                if not is_resumed:
                    raise
                # An earlier attempt may have got other content; the file is empty now.
                await repository.download(descriptor, partial, count_new)
                partial.commit(descriptor, self._store.blob_path(descriptor.digest))

    async def _unpack(self, layer: Descriptor, diff_id: str) -> None:
        async with self._unpacking:
            await asyncio.to_thread(add_layer, self._store, layer.digest, diff_id)


@contextlib.asynccontextmanager
async def _writing(store: ContentStore) -> AsyncIterator[None]:
    """Hold the store's lock, and wait for it without blocking the event loop: a collection can take a while."""
    with contextlib.ExitStack() as held:
        while True:
            try:
                held.enter_context(store.writing(waits=False))
                break
            except BlockingIOError:
                await asyncio.sleep(_LOCK_SECONDS)
        yield


def _first(group: ExceptionGroup[Exception]) -> Exception:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, ExceptionGroup) else found


def _with_reference(error: ImageError, reference: Reference) -> ImageError:
    """Return the error with containerd's beginning of the message."""
    kind = type(error)
    return kind(f'failed to pull and unpack image "{reference}": {error}')
