"""Statuses of OpenELB's BgpPeers and of its BgpConf: this node's sessions, as `kubectl get -o yaml` shows them.

Each speaker writes the entry of its own node. Source: OpenELB v0.6, whose fields are GoBGP's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from bridgehead.balancer.bgp.announcer import PeerState
from bridgehead.balancer.configuration.eips import CONFIGURATION_NAME
from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError, NotFound
from bridgehead.objects.kinds import Kind
from bridgehead.objects.openelb import BGP_CONFS, BGP_PEERS
from bridgehead.objects.times import format_time

log = logging.getLogger(__name__)

_QUIET_SECONDS: Final = 0.2  # changes that follow each other sooner are written together
_RETRY_SECONDS: Final = 5.0
_SESSION_STATES: Final = {"waiting": "IDLE", "connecting": "ACTIVE", "established": "ESTABLISHED"}
_INTERNAL, _EXTERNAL = 0, 1  # GoBGP's PeerType


class OpenElbStatuses:
    """Writes what changed since the last write. `is_openelb`: whether the peer of this name is an OpenELB object."""

    def __init__(
        self,
        client: ApiClient,
        node_name: str,
        peer_states: Callable[[], Iterable[PeerState]],
        is_openelb: Callable[[str], bool],
    ) -> None:
        self._client = client
        self._node_name = node_name
        self._peer_states = peer_states
        self._is_openelb = is_openelb
        self._wake = asyncio.Event()
        self._written: dict[tuple[str, str], dict[str, Any] | None] = {}  # by plural and name

    def changed(self) -> None:
        """Look at the sessions again."""
        self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(_QUIET_SECONDS)
            self._wake.clear()
            try:
                await self._write_all()
            except ClientError as error:
                log.warning("cannot write the statuses of BgpPeers, trying again: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._wake.set()

    async def _write_all(self) -> None:
        states = [state for state in self._peer_states() if self._is_openelb(state.name)]
        for state in states:
            await self._write(BGP_PEERS, state.name, "nodesPeerStatus", peer_status(state))
        present = {state.name for state in states}
        for plural, name in list(self._written):
            if plural == BGP_PEERS.plural and name not in present:  # this node is not selected any more
                await self._write(BGP_PEERS, name, "nodesPeerStatus", None)
        configured = next((state.settings for state in states if state.settings is not None), None)
        if configured is not None:
            entry = {"as": configured.my_asn, "routerId": configured.router_id}
            await self._write(BGP_CONFS, CONFIGURATION_NAME, "nodesConfStatus", entry)

    async def _write(self, kind: Kind[Any], name: str, field: str, entry: dict[str, Any] | None) -> None:
        """Write this node's entry; None removes it. An object that is gone is success."""
        key = kind.plural, name
        if self._written.get(key) == entry:
            return
        patch = {"status": {field: {self._node_name: entry}}}
        try:
            await self._client.patch(kind, name, "", patch, subresource="status")
        except NotFound:
            entry = None
        if entry is None:
            self._written.pop(key, None)
        else:
            self._written[key] = entry


def peer_status(state: PeerState) -> dict[str, Any]:
    """Return the entry of a session in the status of its BgpPeer."""
    peer: dict[str, Any] = {
        "neighborAddress": str(state.address),
        "sessionState": _SESSION_STATES.get(state.status, "UNKNOWN"),
    }
    timers: dict[str, str] = {}
    settings = state.settings
    if settings is not None:
        peer |= {
            "localAs": settings.my_asn,
            "peerAs": settings.peer_asn,
            "peerType": _INTERNAL if settings.peer_asn == settings.my_asn else _EXTERNAL,
            "routerId": settings.router_id,
        }
        timers |= {"holdTime": str(settings.hold_time), "keepaliveInterval": str(settings.hold_time // 3)}
    timers["uptime" if state.status == "established" else "downtime"] = format_time(state.since)
    return {"peerState": peer, "timersState": timers}
