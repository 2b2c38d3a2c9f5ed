"""Effects that each fault may have on each client, and whether a failed connection could have been served.

Pure: no I/O, no clock, no randomness.

A fault explains a failed connection when the table lets that client fail, the connection touched what the fault broke,
and their times overlap. Everything else is a failure of the product. docs/chaos.md shows the table; a test compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from .connections import ClientKind, Connection
from .faults import FaultKind, Occurrence


class Role(StrEnum):
    """Parts of a connection that a fault on a node breaks."""

    SOURCE = "source"  # the client is on the node
    ENTRY = "entry"  # the node's rules translate the Service's address
    BACKEND = "backend"  # a pod of the Service is on the node
    LINK = "link"  # packets go over the node's link to the others


class Healer(StrEnum):
    """Mechanisms that lead clients elsewhere or repair the damage of a fault."""

    CLUSTER = "cluster"  # the API server and the controllers
    POD = "pod"  # kubelet and runtime of the node where the fault was, and the node's link
    ENTRY = "entry"  # the proxy of the connection's entry, and that node's link


@dataclass(frozen=True)
class Effect:
    """The connections that may fail, until `settle` seconds after the fault's end.

    While something holds up one of `healers`, this goes on, and connections with a role of `hindered` may fail, too.
    """

    roles: frozenset[Role] = frozenset()
    hindered: frozenset[Role] = frozenset()
    settle: float = 0.0
    healers: frozenset[Healer] = frozenset()


@dataclass(frozen=True)
class Hindrance:
    """Work that a fault delays, until `recovery` seconds after its end."""

    healers: frozenset[Healer]
    recovery: float


_SERVICE = (ClientKind.CLUSTER_IP, ClientKind.NODE_PORT, ClientKind.ESTABLISHED)
_NEW = (ClientKind.CLUSTER_IP, ClientKind.NODE_PORT)
_ALL = tuple(ClientKind)
_NOTHING = Effect()
_ALL_HEALERS = frozenset(Healer)
_ENTRY_ONLY = frozenset({Healer.ENTRY})


def _effects(
    clients: Sequence[ClientKind],
    *roles: Role,
    settle: float,
    healers: frozenset[Healer] = frozenset(),
    hindered: Sequence[Role] = (),
) -> dict[ClientKind, Effect]:
    return {client: Effect(frozenset(roles), frozenset(hindered), settle, healers) for client in clients}


# A kind of fault that is not here may not be seen by any connection: pods and rules are the kernel's.
_EFFECTS: dict[FaultKind, dict[ClientKind, Effect]] = {
    # The node's containers end with their runtime: they have to be started anew, and to become ready.
    FaultKind.KILL_RUNTIME: _effects(_ALL, Role.SOURCE, Role.BACKEND, settle=8, healers=_ALL_HEALERS),
    # A stopped DNS is found by its readiness probe: 2 s between two, 5 s for an answer.
    FaultKind.STOP_DNS: _effects([ClientKind.DNS], Role.BACKEND, settle=8, healers=_ALL_HEALERS),
    FaultKind.KILL_DNS: _effects([ClientKind.DNS], Role.BACKEND, settle=5, healers=_ALL_HEALERS),
    FaultKind.KILL_BACKEND: _effects(_SERVICE, Role.BACKEND, settle=5, healers=_ALL_HEALERS),
    # New connections are led elsewhere before a pod ends; an established one has nowhere else to go.
    FaultKind.REPLACE_PODS: {
        **_effects(_NEW, settle=5, healers=_ALL_HEALERS, hindered=[Role.BACKEND]),
        **_effects([ClientKind.ESTABLISHED], Role.BACKEND, settle=5, healers=_ALL_HEALERS),
    },
    FaultKind.PARTITION: _effects(_ALL, Role.LINK, settle=3),
    FaultKind.PACKET_LOSS: _effects(_ALL, Role.LINK, settle=3),
    FaultKind.SLOW_LINK: _effects(_ALL, Role.LINK, settle=3),
    FaultKind.FLUSH_RULES: _effects(_ALL, Role.ENTRY, settle=3, healers=_ENTRY_ONLY),
}
# Connections go through the proxy's process in this mode.
_EFFECTS_OF_USERSPACE: dict[FaultKind, dict[ClientKind, Effect]] = {
    FaultKind.KILL_RUNTIME: _effects(_ALL, *(Role.SOURCE, Role.ENTRY, Role.BACKEND), settle=8, healers=_ALL_HEALERS),
    FaultKind.KILL_PROXY: _effects(_ALL, Role.ENTRY, settle=5, healers=_ALL_HEALERS),
    FaultKind.STOP_PROXY: _effects(_ALL, Role.ENTRY, settle=3),
    # The second proxy's listeners and connections end with it; then the first one repairs the rules.
    FaultKind.SECOND_PROXY: _effects(_ALL, Role.ENTRY, settle=3),
}
# Kubernetes starts a container again at once when it ended for the first time; then it waits, twice as long each time,
# and forgets this after a time without a failure ("Pod Lifecycle"; seconds).
_BACK_OFF, _LONGEST_BACK_OFF, _FORGOTTEN_AFTER = 10.0, 300.0, 600.0

_NODE = frozenset({Healer.POD, Healer.ENTRY})
HINDRANCES: dict[FaultKind, Hindrance] = {
    FaultKind.KILL_API_SERVER: Hindrance(frozenset({Healer.CLUSTER}), 3),
    FaultKind.STOP_API_SERVER: Hindrance(frozenset({Healer.CLUSTER}), 3),
    FaultKind.KILL_CONTROLLERS: Hindrance(frozenset({Healer.CLUSTER}), 3),
    FaultKind.STOP_CONTROLLERS: Hindrance(frozenset({Healer.CLUSTER}), 1),
    FaultKind.KILL_KUBELET: Hindrance(frozenset({Healer.POD}), 3),
    FaultKind.STOP_KUBELET: Hindrance(frozenset({Healer.POD}), 1),
    FaultKind.KILL_RUNTIME: Hindrance(_NODE, 8),
    FaultKind.STOP_RUNTIME: Hindrance(frozenset({Healer.POD}), 1),
    FaultKind.KILL_PROXY: Hindrance(frozenset({Healer.ENTRY}), 5),
    FaultKind.STOP_PROXY: Hindrance(frozenset({Healer.ENTRY}), 1),
    FaultKind.PARTITION: Hindrance(_NODE, 5),
    FaultKind.PACKET_LOSS: Hindrance(_NODE, 5),
    FaultKind.SLOW_LINK: Hindrance(_NODE, 5),
    FaultKind.FULL_DISK: Hindrance(frozenset({Healer.CLUSTER}), 3),
}


def effect_of(kind: FaultKind, client: ClientKind, mode: str) -> Effect:
    """The cell of the table."""
    if mode == "userspace" and kind in _EFFECTS_OF_USERSPACE:
        return _EFFECTS_OF_USERSPACE[kind].get(client, _NOTHING)
    return _EFFECTS.get(kind, {}).get(client, _NOTHING)


@dataclass(frozen=True)
class _Window:
    """When which connections may fail by a fault; until `end_of_sole` those to Services with pods on its node alone."""

    fault: Occurrence
    end: float
    end_of_sole: float
    roles: frozenset[Role]


class Oracle:
    """Knows what each client of a run may see. `occurrences` are all faults of the run.

    `slack` is how many times as long as in the table everything may take, on a slow or busy machine.
    """

    def __init__(self, occurrences: Sequence[Occurrence], mode: str, slack: float = 1.0) -> None:
        self._faults = sorted(occurrences, key=lambda fault: fault.start)
        self._mode, self._slack = mode, slack
        self._windows: dict[tuple[ClientKind, str], list[_Window]] = {}

    def explain(self, connection: Connection) -> Occurrence | None:
        """The last fault that may have broken the connection; None when it could have been served."""
        if connection.is_misled:
            return None
        windows = self._windows_of(connection.kind, connection.entry)
        return next((window.fault for window in windows if _covers(window, connection)), None)

    def _windows_of(self, client: ClientKind, entry: str) -> list[_Window]:
        """Return the windows of all faults, the last first."""
        if (client, entry) not in self._windows:
            effects = [(fault, effect_of(fault.kind, client, self._mode)) for fault in reversed(self._faults)]
            windows = [self._window(fault, effect, entry) for fault, effect in effects if effect != _NOTHING]
            self._windows[client, entry] = windows
        return self._windows[client, entry]

    def _window(self, fault: Occurrence, effect: Effect, entry: str) -> _Window:
        """Hindrances one after the other prolong each other."""
        settle = self._slack * effect.settle
        end, roles = fault.end + settle, effect.roles
        for other in self._faults:
            hindrance = HINDRANCES.get(other.kind)
            if other is fault or hindrance is None or not _holds_up(other, hindrance, fault, effect, entry):
                continue
            until = other.end + self._slack * hindrance.recovery
            if other.start <= end and until >= fault.start:
                end, roles = max(end, until + settle), effect.roles | effect.hindered
        return _Window(fault, end, end + self._back_off(fault), roles)

    def _back_off(self, fault: Occurrence) -> float:
        """Return the seconds for which the containers wait that this fault ended, as others on the node had before."""
        if fault.kind != FaultKind.KILL_RUNTIME:
            return 0.0
        seconds, last = 0.0, fault.start
        for other in reversed(self._faults):
            if other.kind != fault.kind or other.node != fault.node or other.start >= last:
                continue
            if last - other.start > _FORGOTTEN_AFTER:
                break
            seconds, last = min(_LONGEST_BACK_OFF, max(_BACK_OFF, 2 * seconds)), other.start
        return seconds


def _holds_up(other: Occurrence, hindrance: Hindrance, fault: Occurrence, effect: Effect, entry: str) -> bool:
    """Whether the other fault holds up what makes this one good, for connections by this entry."""
    healers = hindrance.healers & effect.healers
    return (
        Healer.CLUSTER in healers
        or (Healer.POD in healers and (other.node == fault.node or not fault.node))
        or (Healer.ENTRY in healers and other.node == entry)
    )


def _covers(window: _Window, connection: Connection) -> bool:
    fault = window.fault
    is_sole = bool(fault.node) and connection.nodes == {fault.node}
    if connection.end < fault.start or connection.start > (window.end_of_sole if is_sole else window.end):
        return False
    if fault.service and fault.service != connection.service:
        return False
    return any(_touches(role, fault.node, connection) for role in window.roles)


def _touches(role: Role, node: str, connection: Connection) -> bool:
    """Whether what the fault broke on `node` is part of the connection; "" is every node."""
    if not node:
        return True
    if role == Role.SOURCE:
        return connection.source == node
    if role == Role.ENTRY:
        return connection.entry == node
    if role == Role.BACKEND:
        return node in connection.nodes
    path = {connection.source, connection.entry} | connection.nodes
    return node in path and len(path) > 1
