"""The puller as a process: beside the lab, in the machine's network, with the lab's ids.

Called in a forked child of `bridgehead up`, which ends with the lab's first process.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

from bridgehead.images.errors import ImageError
from bridgehead.images.store.content import ContentStore

from .configuration import PullerConfig

log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 1.0


def run_puller(root: Path, config: PullerConfig, lab: int) -> None:
    """Serve until the lab ends: `lab` is a pidfd of its first process. `root` is the content store."""
    try:
        # No container runs yet.
        removed = ContentStore(root).collect()
        if removed:
            log.info("removed %d layers and blobs that no image needs", removed)
    except ImageError as error:
        log.warning("%s", error)
    asyncio.run(_serve_while_running(root, config, lab))


async def _serve_while_running(root: Path, config: PullerConfig, lab: int) -> None:
    # Immediately: nothing may be written any more to a state directory that `down --delete` removes.
    asyncio.get_running_loop().add_reader(lab, os._exit, 0)
    from .server import serve  # imports the HTTP client, which a lab that pulls nothing need not wait for

    while True:
        try:
            await serve(root, config)
        except OSError:
            log.exception("the puller cannot serve its socket")
        await asyncio.sleep(_AGAIN_SECONDS)
