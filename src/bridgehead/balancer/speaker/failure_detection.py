"""Failure detection for the reconciler: settings of the detector, retries of its port, and the members that it reports.

Peers are the cluster's Nodes with their first InternalIP. The key of heartbeats is in a Secret that all speakers read;
without it no node is a member, and no address is announced.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from bridgehead.balancer.detection.detector import Detector
from bridgehead.balancer.detection.heartbeats import NAME as ENGINE
from bridgehead.balancer.heartbeat_key import KEY, SECRET_NAME
from bridgehead.objects.core import Node, Secret

from .speakers_secret import SpeakersSecret

log = logging.getLogger(__name__)

_KEY_BYTES: Final = 16  # at least
_PATIENCE_SECONDS: Final = 10.0
_BIND_SECONDS: Final = 0.2  # between attempts of the detector to use its port, which an ending speaker may still have
_REMEMBERED: Final = 100


@dataclass(frozen=True)
class MemberChange:
    """A node that became alive or dead. `at`: epoch seconds. `silence`: seconds since the last evidence of it."""

    node: str
    is_alive: bool
    reason: str
    silence: float
    at: float


@dataclass(frozen=True)
class Members:
    """The members, this node included if the others receive it. `is_known`: the detector has come to a conclusion.

    `is_isolated` and `is_alone`: see `Conclusion` in detection/membership.py.
    """

    alive: frozenset[str] = frozenset()
    leaving: frozenset[str] = frozenset()
    is_isolated: bool = False
    is_alone: bool = False
    is_known: bool = False


class MemberWatch:
    """Configures the detector, and calls `on_change` with each conclusion of it and the changes that led to it."""

    def __init__(
        self,
        secret: SpeakersSecret,
        detector: Detector,
        node_name: str,
        port: int,
        on_change: Callable[[Members, list[MemberChange]], None],
    ) -> None:
        self._detector = detector
        self._this = node_name
        self._on_change = on_change
        self._secret = secret
        self._peers: dict[str, str] = {}
        self._reported = Members()
        self._is_active = False
        self.has_key = False
        self.error = ""  # why the detector exchanges no heartbeats
        self._is_retrying = False
        self.deaths = 0  # how often this node concluded that another one is dead
        self.history: deque[MemberChange] = deque(maxlen=_REMEMBERED)
        detector.on_message(ENGINE, self._on_message)
        detector.on_silence(self._on_silence)
        self._send(this=node_name, port=port)

    @property
    def members(self) -> Members:
        """The present members. While the detector does not run, this node is none: others may have its addresses."""
        if not self._detector.is_silent:
            return self._reported
        return replace(self._reported, alive=self._reported.alive - {self._this})

    async def run(self) -> None:
        with self._secret.following(self._secret_changed):
            await asyncio.sleep(_PATIENCE_SECONDS)
            if not self.has_key:
                log.warning(
                    "no address is announced before there is a Secret %s; the controller creates it", SECRET_NAME
                )
            await asyncio.Event().wait()

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Set the Nodes of the cluster."""
        peers = {
            node.metadata.name: node.internal_ips[0]
            for node in nodes
            if node.internal_ips and node.metadata.name != self._this
        }
        if peers != self._peers:
            self._peers = peers
            self._send(peers=peers)

    def set_links(self, names: Iterable[str]) -> None:
        """Set the interfaces of which one at least must transmit, so that this node can announce."""
        self._send(links=sorted(names))

    def set_ready(self) -> None:
        """Let the others expect that this node announces what it holds."""
        self._send(ready=True)

    def set_active(self) -> None:
        """Let all nodes notice each other's failures within the time of takeovers: there is an address to announce."""
        if not self._is_active:
            self._is_active = True
            self._send(active=True)

    def leave(self) -> None:
        """Let the others take this node's addresses over, as planned."""
        self._send(leaving=True)

    def _send(self, **content: Any) -> None:
        self._detector.send({"to": ENGINE, **content})

    def _secret_changed(self, secret: Secret) -> None:
        try:
            key = base64.b64decode(secret.data.get(KEY, ""), validate=True)
        except binascii.Error:
            key = b""
        if len(key) < _KEY_BYTES:
            log.error("Secret %s: its %s is no base64 of %d bytes or more", secret.key, KEY, _KEY_BYTES)
            return
        self.has_key = True
        self._send(key=key.hex(), peers=self._peers)

    def _on_message(self, message: dict[str, Any]) -> None:
        if "error" in message:
            self._on_error(message["error"])
            return
        now = time.time()
        changes = [
            MemberChange(node, is_alive, reason, silence, now) for node, is_alive, reason, silence in message["changes"]
        ]
        self.history.extend(changes)
        self.deaths += sum(not change.is_alive for change in changes)
        for change in changes:
            log.info("node %s is %s: %s", change.node, "alive" if change.is_alive else "dead", change.reason)
        if message["isolated"] and not self._reported.is_isolated:
            log.warning("no other speaker is received: this node keeps its addresses, and announces no others")
        self._reported = Members(
            frozenset(message["members"]),
            frozenset(message["leaving"]),
            message["isolated"],
            message["alone"],
            is_known=True,
        )
        self._on_change(self.members, changes)

    def _on_error(self, error: str) -> None:
        if error != self.error:
            self.error = error
            if error:
                log.error("failure detector: %s; this node announces nothing until it can", error)
            else:
                log.info("failure detector: its port is free now")
        if error and not self._is_retrying:
            self._is_retrying = True
            asyncio.get_running_loop().call_later(_BIND_SECONDS, self._retry)

    def _retry(self) -> None:
        """Let the detector try its port again."""
        self._is_retrying = False
        self._send(peers=self._peers)

    def _on_silence(self, is_silent: bool) -> None:
        if is_silent:
            log.warning("the failure detector does not run: this node gives up its addresses until it does")
        self._on_change(self.members, [])
