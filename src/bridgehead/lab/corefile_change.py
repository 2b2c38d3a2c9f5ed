"""The change of a lab's Corefile when `up` is called with the other one of `--outside` and `--no-outside`.

The ConfigMap `coredns` is the user's (docs/decisions/0053-objects-that-a-lab-ships.md), so its Corefile is replaced
only while it is exactly what a lab gets.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from bridgehead.client import ApiClient
from bridgehead.client.errors import NotFound
from bridgehead.objects.kinds import CONFIG_MAPS

log = logging.getLogger(__name__)

_FILE: Final = "Corefile"


async def change_corefile(
    client: ApiClient, shipped: dict[str, Any], other: dict[str, Any], *, is_outside: bool
) -> None:
    """Replace the Corefile of the ConfigMap `other` by that of `shipped`; a user's own stays. Raises ClientError."""
    meta = shipped["metadata"]
    try:
        present = (await client.get(CONFIG_MAPS, meta["name"], meta["namespace"])).data.get(_FILE)
    except NotFound:
        return
    if present == other["data"][_FILE]:
        await client.patch(CONFIG_MAPS, meta["name"], meta["namespace"], {"data": shipped["data"]})
    elif present != shipped["data"][_FILE] and is_outside:
        log.warning(
            "ConfigMap %s/%s stays as it is, because it was edited; names outside of the cluster need `forward . %s`",
            meta["namespace"],
            meta["name"],
            _server_of(shipped["data"][_FILE]),
        )


def _server_of(corefile: str) -> str:
    return corefile.rpartition("forward . ")[2].split()[0]
