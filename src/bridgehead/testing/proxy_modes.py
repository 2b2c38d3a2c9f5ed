"""The mode of a new lab's proxies: as a user changes it, by their configuration and a restart."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Final

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError
from bridgehead.client.rollout_restart import restart
from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabFiles
from bridgehead.objects import progress
from bridgehead.objects.kinds import CONFIG_MAPS, DAEMON_SETS, LEASES

from .cluster import Cluster

_NAMESPACE: Final = "kube-system"
_CONFIG_MAP = _DAEMON_SET = "kube-proxy"
_FILE: Final = "config.conf"
_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.05


class ModeNotUsed(Exception):
    """The proxies do not use the mode. The text has the reason."""


def configure(files: LabFiles, mode: str) -> None:
    """Change the mode, and wait until every node's proxy uses it. Raises `ModeNotUsed`, LabError."""
    config = state_directories.read_running(files).config
    try:
        with contextlib.closing(Cluster(files.kubeconfig, config.context)) as cluster:
            cluster.call(lambda client: _configure(client, mode, config.nodes), 2 * _SECONDS)
    except (ClientError, TimeoutError) as error:
        raise ModeNotUsed(f"the proxies do not use the mode {mode}: {error}") from None


async def _configure(client: ApiClient, mode: str, nodes: int) -> None:
    found = await client.get(CONFIG_MAPS, _CONFIG_MAP, _NAMESPACE)
    text = re.sub(r"(?m)^mode: .*$", f"mode: {mode}", found.data[_FILE])
    if text == found.data[_FILE]:
        return
    await client.patch(CONFIG_MAPS, _CONFIG_MAP, _NAMESPACE, {"data": {_FILE: text}})
    await restart(client, DAEMON_SETS, _DAEMON_SET, _NAMESPACE)
    async with asyncio.timeout(_SECONDS):
        while True:
            leases = await client.list(LEASES, progress.NAMESPACE, progress.SELECTOR)
            modes = [each.mode for lease in leases.items if (each := progress.read_progress(lease)) is not None]
            if problem := next((each.problem for each in modes if each.wanted == mode and each.problem), ""):
                raise ModeNotUsed(f"the proxies do not use the mode {mode}: {problem}")
            if [each.name for each in modes] == [mode] * nodes:
                return
            await asyncio.sleep(_PAUSE_SECONDS)
