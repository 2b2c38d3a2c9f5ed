"""Following of files while a process runs: keys, certificates and configurations that others replace.

Files are compared by their content, so a symbolic link that changes its target (as in a mounted Secret), a file that is
written in place and one that is renamed to its place are noticed alike.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

Reload = Callable[[], Awaitable[None]]


class FollowedFiles:
    """Files of at most some kilobytes, as they were when this object was made."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Read the files. Raises OSError for a missing one."""
        self._paths = paths
        self._seen = [path.read_bytes() for path in paths]

    async def reload_if_changed(self, reload: Reload) -> None:
        """Call `reload` if the files have changed since the last time.

        An OSError or ValueError of `reload` is logged: the earlier content stays in force until the next change, as
        that of a certificate whose key is written a moment later.
        """
        found = self._read()
        if found == self._seen:
            return
        self._seen, names = found, ", ".join(str(path) for path in self._paths)
        try:
            await reload()
            log.info("%s: the new content is in force", names)
        except (OSError, ValueError) as error:
            log.error("%s: the earlier content stays in force: %s", names, error)

    def _read(self) -> list[bytes]:
        """Return the contents; those of the last time while a file cannot be read, as while it is being replaced."""
        try:
            return [path.read_bytes() for path in self._paths]
        except OSError:
            return self._seen


async def follow(followed: Sequence[tuple[FollowedFiles, Reload]], *, poll_seconds: float = 1.0) -> None:
    """Reload files that change, until cancelled."""
    while True:
        await asyncio.sleep(poll_seconds)
        for files, reload in followed:
            await files.reload_if_changed(reload)
