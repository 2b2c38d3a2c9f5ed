"""Garbage collection of images: the kubelet watches the disk and asks the puller, which the content store belongs to.

Source: the kubelet's `StartGarbageCollection` and `image_gc_manager`. All nodes of a lab share one store; the layers
that any of them uses are locked (`images.store.layer_locks`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Final, Protocol

from bridgehead.images.disk_usage import format_size
from bridgehead.images.errors import ImageError
from bridgehead.images.references import parse_reference
from bridgehead.images.service.client import PullerClient
from bridgehead.images.service.messages import Collected
from bridgehead.kubelet.runtimes.runtime import ContainerInfo, Runtime, RuntimeFailure

from .settings import NodeSettings

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 300.0


class RecordEvent(Protocol):
    def __call__(self, reason: str, message: str, type: str = "Normal") -> None: ...


class ImageCollector:
    """`await run()` until cancelled. `record` records an Event about the node."""

    def __init__(self, settings: NodeSettings, runtime: Runtime, puller: PullerClient, record: RecordEvent) -> None:
        self._settings = settings
        self._runtime = runtime
        self._puller = puller
        self._record = record
        self._last_used: dict[str, float] = {}  # images by name -> seconds since the epoch
        self._has_failed = False

    async def run(self) -> None:
        """Collect periodically; return at once when the high threshold is 100 %, which turns it off."""
        while self._settings.image_gc_high_threshold < 100:
            await self.collect()
            await asyncio.sleep(PERIOD_SECONDS)

    async def collect(self) -> None:
        """Note which images are used, and have unused ones removed if the disk is too full."""
        try:
            now = time.time()
            self._last_used |= dict.fromkeys(_used_images(await self._runtime.list_containers()), now)
            high, low = self._settings.image_gc_high_threshold, self._settings.image_gc_low_threshold
            usage = self._puller.disk_usage()
            if not usage.bytes_to_free(high, low):
                self._has_failed = False
                return
            log.info("%d %% of the disk of the images is used; removing unused images", usage.percent)
            collected = await self._puller.collect(high, low, self._settings.image_minimum_gc_age, self._last_used)
            failure = describe_shortage(collected)
            if failure:
                self._record("FreeDiskSpaceFailed", failure, "Warning")
        except (ImageError, RuntimeFailure, OSError) as error:
            failure = str(error)
        if failure:
            log.warning("images are not collected: %s", failure)
            if self._has_failed:  # as in Kubernetes, the first failure is only logged
                self._record("ImageGCFailed", failure, "Warning")
        self._has_failed = bool(failure)


def describe_shortage(collected: Collected) -> str:
    """Return the message for a collection that freed too little, "" for one that freed enough."""
    if collected.freed >= collected.wanted:
        return ""
    return (
        f"Insufficient free disk space on the node's image filesystem ({collected.percent}% of"
        f" {format_size(collected.capacity)} used). Failed to free sufficient space by deleting unused images (freed"
        f" {collected.freed} bytes). Investigate disk usage, as it could be used by active images, logs, volumes, or"
        " other data."
    )


def _used_images(containers: Iterable[ContainerInfo]) -> set[str]:
    names = {container.image.name for container in containers if container.image.source == "registry"}
    return {reference.key for name in names if (reference := parse_reference(name)) is not None}
