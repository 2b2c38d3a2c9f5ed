"""Runs the pods of manifest files in a directory, and keeps a mirror pod of each in the API.

The kubelet owns one, if it has such a directory. A file that is written, changed or removed starts, replaces or stops
its pod within a moment (inotify); the directory is read every 20 s, too. A mirror pod shows its pod's status. A mirror
pod that is deleted is created again, and the pod runs on. `static_manifest` and `mirror_pods` decide.
Source: Kubernetes "Create static Pods", kubelet's `config/file_linux.go`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, ClientError, Conflict, NotFound
from bridgehead.network import syscalls
from bridgehead.network.uapi.inotify import IN_CLOSE_WRITE, IN_DELETE, IN_MOVED_FROM, IN_MOVED_TO
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import NODES, PODS
from bridgehead.objects.meta import ObjectKey

from .mirror_pods import mirrored_uid, new_mirror
from .static_manifest import StaticPod, parse_static_pod, plan_changes

log = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 20.0  # kubelet's fileCheckFrequency
_RETRY_SECONDS: Final = 2.0  # after a mirror pod could not be written
_LARGEST_MANIFEST: Final = 10 << 20  # bytes
_EVENTS: Final = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE


class StaticPods:
    """`start(pod)` and `stop(uid)` make and end the workers; `on_ended` has to be called when a worker has ended.

    Without a `directory` there are no static pods, and mirror pods of earlier ones are deleted.
    """

    def __init__(
        self,
        directory: Path | None,
        client: ApiClient,
        node_name: str,
        start: Callable[[Pod], None],
        stop: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._client = client
        self._node_name = node_name
        self._start = start
        self._stop = stop
        self._wanted: dict[str, StaticPod] = {}  # by uid
        self._running: dict[str, ObjectKey] = {}  # uid -> name, until the worker has ended
        self._mirrors: dict[ObjectKey, Pod] = {}
        self._changed = asyncio.Event()
        self._clashing: set[ObjectKey] = set()  # names that another pod of the API has, so that it is logged once
        self._failures: dict[str, str] = {}  # file -> what is wrong with it, so that it is logged once

    async def scan(self) -> None:
        """Read the directory, stop and start pods. Called before the kubelet looks for orphans, and by `run`."""
        self._wanted = {static.uid: static for static in await asyncio.to_thread(self._read)}
        stop, start = plan_changes(self._wanted, self._running)
        for uid in stop:
            self._stop(uid)
        for static in start:
            self._running[static.uid] = static.key
            self._start(static.pod)

    async def run(self) -> None:
        """Follow the directory and the mirror pods until cancelled."""
        loop = asyncio.get_running_loop()
        with self._watching(loop):
            while True:
                self._changed.clear()
                await self.scan()
                is_complete = await self._sync_mirrors()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PERIOD_SECONDS if is_complete else _RETRY_SECONDS):
                        await self._changed.wait()

    def on_ended(self, uid: str) -> None:
        """The worker of a static pod has ended."""
        if self._running.pop(uid, None) is not None:
            self._changed.set()

    def on_mirror_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A mirror pod of this node was created, changed or deleted."""
        if new is not None:
            self._mirrors[new.key] = new
        elif old is not None:
            self._mirrors.pop(old.key, None)
        if new is None or new.is_terminating or mirrored_uid(new) not in self._wanted:
            self._changed.set()

    # --- Mirror pods ------------------------------------------------------------------------------------

    async def _sync_mirrors(self) -> bool:
        """Create the missing mirror pods, and delete those that mirror nothing; return whether all is done."""
        is_complete = True
        for mirror in list(self._mirrors.values()):
            if mirror.is_terminating or mirrored_uid(mirror) not in {*self._wanted, *self._running}:
                is_complete &= await self._attempt(mirror.key, self._delete(mirror))
        self._clashing.intersection_update(static.key for static in self._wanted.values())
        for static in self._wanted.values():
            if static.uid in self._running and static.key not in self._mirrors:
                is_complete &= await self._attempt(static.key, self._create(static))
        return is_complete

    async def _attempt(self, key: ObjectKey, write: Awaitable[None]) -> bool:
        try:
            await write
        except AlreadyExists as error:
            # Maybe the informer has yet to show a mirror pod of an earlier run; otherwise the name has another pod.
            if key not in self._clashing:
                log.warning("Failed creating a mirror pod for %s, which runs without one: %s", key, error)
            self._clashing.add(key)
            return False
        except (NotFound, Conflict):
            return False  # the informer will show another state
        except ClientError as error:
            log.warning("mirror pod %s: %s", key, error)
            return False
        self._clashing.discard(key)
        return True

    async def _create(self, static: StaticPod) -> None:
        node = await self._client.get(NODES, self._node_name)
        created = await self._client.create(PODS, new_mirror(static, node.metadata.uid))
        self._mirrors.setdefault(created.key, created)

    async def _delete(self, mirror: Pod) -> None:
        meta = mirror.metadata
        await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=0)

    # --- Files ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _watching(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        if self._directory is None:
            yield
            return
        try:
            queue = syscalls.watch_inode(str(self._directory), _EVENTS)
        except OSError as error:
            log.warning("%s is read only every %.0f s: %s", self._directory, _PERIOD_SECONDS, error)
            yield
            return

        def read() -> None:
            with contextlib.suppress(BlockingIOError):
                while os.read(queue, 4096):
                    pass
            self._changed.set()

        loop.add_reader(queue, read)
        try:
            yield
        finally:
            loop.remove_reader(queue)
            os.close(queue)

    def _read(self) -> list[StaticPod]:
        """Return the pods of all files. A file with an error is logged, and the pod that it had is stopped."""
        found: list[StaticPod] = []
        failures: dict[str, str] = {}
        for path in _manifests(self._directory) if self._directory is not None else ():
            try:
                found.append(parse_static_pod(load_manifest(path), path.name, self._node_name))
            except (OSError, ValueError) as error:
                failures[path.name] = str(error)
                if self._failures.get(path.name) != failures[path.name]:
                    log.error("static pod %s: %s", path, error)
        self._failures = failures
        return found


def _manifests(directory: Path) -> list[Path]:
    """The files in the directory, without hidden ones, which editors make."""
    try:
        return sorted(path for path in directory.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def load_manifest(path: Path) -> object:
    """Decode a manifest in YAML or JSON. Links are followed. Raises OSError, ValueError."""
    from bridgehead import yaml_loader  # only a node with static pods needs it

    # A FIFO must not block the kubelet.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        content = file.read(_LARGEST_MANIFEST + 1)
    if len(content) > _LARGEST_MANIFEST:
        raise ValueError(f"it is larger than {_LARGEST_MANIFEST >> 20} MiB")
    try:
        return msgspec.json.decode(msgspec.json.encode(yaml_loader.load_object(content)))
    except yaml_loader.UnusableYaml as error:
        raise ValueError(f"it is no YAML of an object: {error}") from error
