"""Blobs that the user's labs share, for pulls of one lab. The user's process has the files (`blob_cache`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from bridgehead.images.errors import ImageError
from bridgehead.images.manifests import Descriptor
from bridgehead.images.store.content import ContentStore

from . import user_requests
from .user_client import UserClient

log = logging.getLogger(__name__)


class SharedBlobs:
    """All calls block. A blob that cannot be shared is downloaded, or stays the lab's own; the log has the reason."""

    def __init__(self, user: UserClient, store: ContentStore) -> None:
        self._user = user
        self._store = store

    def fetch(self, descriptor: Descriptor) -> bool:
        """Have a blob that another lab has linked into the store, and verify it; returns whether there is one."""
        try:
            name = self._ask(user_requests.LendBlob(descriptor.digest, descriptor.size))
            return bool(name) and self._store.adopt(name, descriptor)
        except (OSError, ImageError) as error:
            log.info("%s is not shared: %s", descriptor.digest, error)
            return False

    def add(self, descriptors: Iterable[Descriptor]) -> None:
        """Share blobs of the store; the store has links to the shared files then."""
        for descriptor in descriptors:
            try:
                with self._store.writing():
                    if name := self._ask(user_requests.AddBlob(descriptor.digest, descriptor.size)):
                        self._store.adopt(name, descriptor)
            except (OSError, ImageError) as error:
                log.info("%s is not shared: %s", descriptor.digest, error)

    def trim(self) -> int:
        """Remove the shared blobs that no lab's store has; return the freed bytes."""
        try:
            return int(self._ask(user_requests.TrimBlobs()) or "0")
        except (OSError, ValueError) as error:
            log.info("blobs are not removed: %s", error)
            return 0

    def _ask(self, request: user_requests.UserRequest) -> str:
        return self._user.ask(request).decode("ascii", "replace")
