"""BFD sessions beside BGP sessions: requested from the failure detector, which reports whether a path works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from bridgehead.balancer.compiled_configuration import BfdProfile, Peer
from bridgehead.balancer.detection.bfd.messages import (
    ENGINE_NAME,
    Change,
    Neighbor,
    SessionSettings,
    read_change,
    request_sessions,
)
from bridgehead.balancer.detection.bfd.packets import Diagnostic, State
from bridgehead.balancer.detection.bfd.session import Timing
from bridgehead.balancer.ranges import IpAddress
from bridgehead.network.host_paths import find_path

# "lost": the path worked until now; "failed": the session cannot work on this node.
PathEvent = Literal["up", "lost", "failed"]


class BfdDetector(Protocol):
    """The part of the failure detector's interface that BFD needs (`detection.detector.Detector`)."""

    def send(self, message: dict[str, Any]) -> None: ...

    def on_message(self, name: str, handler: Callable[[dict[str, Any]], None]) -> None: ...


class BfdSessions:
    """The BFD sessions of this node's peers. `on_event` gets a peer's name, what happened to its path, and why."""

    def __init__(self, detector: BfdDetector, on_event: Callable[[str, PathEvent, str], None]) -> None:
        self._detector = detector
        self._on_event = on_event
        self._wanted: dict[Neighbor, tuple[str, SessionSettings]] = {}  # the peer's name, the parameters
        self._states: dict[Neighbor, State] = {}
        detector.on_message(ENGINE_NAME, self._on_message)

    def begin(self, peer: Peer, profile: BfdProfile, local: IpAddress, is_internal: bool) -> None:
        """Have a session with a peer; one that is there already changes its parameters. Raises OSError.

        As in FRR, the session is over several hops for external peers with multi-hop, and for internal peers that are
        not on a link of this node.
        """
        path = find_path(str(peer.address))
        is_elsewhere = path is not None and not path.is_on_link
        is_multi_hop = peer.ebgp_multi_hop or (is_internal and is_elsewhere)
        neighbor = Neighbor(str(peer.address), str(local), is_multi_hop)
        wanted = (peer.name, session_settings(profile))
        if self._wanted.get(neighbor) != wanted:
            self._wanted = {key: value for key, value in self._wanted.items() if value[0] != peer.name}
            self._wanted[neighbor] = wanted
            self._request()

    def end(self, name: str) -> None:
        """End the session with a peer if there is one."""
        kept = {key: value for key, value in self._wanted.items() if value[0] != name}
        if kept != self._wanted:
            self._wanted = kept
            self._request()

    def end_all(self) -> None:
        if self._wanted:
            self._wanted = {}
            self._request()

    def state(self, name: str) -> str:
        """Return the state of the session with a peer, "up" for example; "" without one."""
        for neighbor, (owner, _) in self._wanted.items():
            if owner == name:
                return self._states.get(neighbor, State.DOWN).name.lower()
        return ""

    def _request(self) -> None:
        self._states = {neighbor: state for neighbor, state in self._states.items() if neighbor in self._wanted}
        self._detector.send(request_sessions({neighbor: value for neighbor, (_, value) in self._wanted.items()}))

    def _on_message(self, message: dict[str, Any]) -> None:
        change = read_change(message)
        name, _ = self._wanted.get(change.neighbor, ("", None))
        if not name:  # a report of a session that has just been ended
            return
        before = self._states.get(change.neighbor, State.DOWN)
        self._states[change.neighbor] = change.state
        if change.error:
            self._on_event(name, "failed", change.error)
        elif change.state == State.UP:
            self._on_event(name, "up", "")
        elif is_path_lost(change, before):
            diagnostic = Diagnostic(change.diagnostic).name.lower().replace("_", " ")
            self._on_event(name, "lost", f"BFD session with {change.neighbor.remote} is down: {diagnostic}")


def is_path_lost(change: Change, before: State) -> bool:
    """Whether a change ends the BGP session.

    It does not if the peer's operator ended the BFD session (RFC 5882, section 3.2).
    """
    return before == State.UP and change.state != State.UP and not change.is_ended_by_remote


def session_settings(profile: BfdProfile) -> SessionSettings:
    """Return the parameters of a profile, whose intervals are milliseconds."""
    timing = Timing(
        profile.transmit_interval / 1000,
        profile.receive_interval / 1000,
        profile.detect_multiplier,
        profile.passive_mode,
    )
    return SessionSettings(timing, profile.minimum_ttl)
