"""The values that a shell completes while they change: labs, nodes, parts, Services."""

from __future__ import annotations

import asyncio
import os
import re
from enum import StrEnum
from pathlib import Path

from bridgehead.lab import state_directories
from bridgehead.lab.errors import LabError
from bridgehead.lab.plan import LabFiles, plan_nodes

from .lab_options import DEFAULT_NAME

# A completion that takes longer is worse than none (seconds).
_API_SECONDS = 2
# Services that a shell offers at most.
_MAX_SERVICES = 500
_SAFE = re.compile(r"[A-Za-z0-9._/][-A-Za-z0-9._/]*")


class LiveValues(StrEnum):
    LABS = "labs"
    NODES = "nodes"
    PARTS = "parts"
    SERVICES = "services"


def list_values(kind: LiveValues, name: str | None, namespace: str, state_dir: Path | None) -> list[str]:
    """Return the values of the lab that the options choose; none if they cannot be read: a completion has no errors.

    Shells expand the values that they offer. A value in which they would find a command, such as a name that a server
    has invented, is therefore left out.
    """
    return [value for value in _list_untrusted(kind, name, namespace, state_dir) if _SAFE.fullmatch(value)]


def _list_untrusted(kind: LiveValues, name: str | None, namespace: str, state_dir: Path | None) -> list[str]:
    try:
        if kind is LiveValues.LABS:
            return list(state_directories.list_labs())
        files = state_directories.find_files(name or DEFAULT_NAME, state_dir)
        if kind is LiveValues.NODES:
            config = state_directories.read_config(files)
            return [node.name for node in plan_nodes(config)] if config else []
        if kind is LiveValues.PARTS:
            return sorted(path.stem for path in files.log("init").parent.glob("*.log"))
        return asyncio.run(_services(_kubeconfig(files, name or state_dir), namespace))
    except (LabError, OSError):
        return []


def _kubeconfig(files: LabFiles, chosen: object) -> Path:
    """Find the kubeconfig as `kubeconfigs.find_kubeconfig` does: $KUBECONFIG, unless a lab is chosen."""
    given = os.environ.get("KUBECONFIG")
    return files.kubeconfig if chosen or not given else Path(given)


async def _services(kubeconfig: Path, namespace: str) -> list[str]:
    from bridgehead.client import ApiClient, load_kubeconfig
    from bridgehead.client.errors import ApiError, ClientError
    from bridgehead.objects.kinds import SERVICES

    try:
        async with ApiClient(load_kubeconfig(kubeconfig)) as client, asyncio.timeout(_API_SECONDS):
            services = (await client.list(SERVICES, namespace, limit=_MAX_SERVICES)).items
    except (TimeoutError, ApiError, ClientError):
        return []
    return [f"service/{service.metadata.name}" for service in services]
