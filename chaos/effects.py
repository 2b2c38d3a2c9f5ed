"""What each fault may do to each client, and whether a failed connection could have been served (pure).

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
    """What of a connection a fault on a node breaks."""

    SOURCE = "source"  # the client is on the node
    ENTRY = "entry"  # the node's rules translate the Service's address
    BACKEND = "backend"  # a pod of the Service is on the node
    LINK = "link"  # packets go over the node's link to the others


@dataclass(frozen=True)
class Effect:
    """Which connections may fail, until `settle` seconds after the fault's end.

    `hindered` are those that may fail when something holds up the parts that would have led clients elsewhere in time.
    """

    roles: frozenset[Role] = frozenset()
    hindered: frozenset[Role] = frozenset()
    settle: float = 0.0


_SERVICE = (ClientKind.CLUSTER_IP, ClientKind.NODE_PORT, ClientKind.ESTABLISHED)
_NEW = (ClientKind.CLUSTER_IP, ClientKind.NODE_PORT)
_ALL = tuple(ClientKind)
_NOTHING = Effect()


def _effects(
    clients: Sequence[ClientKind], *roles: Role, hindered: Sequence[Role] = (), settle: float = 0.0
) -> dict[ClientKind, Effect]:
    return {client: Effect(frozenset(roles), frozenset(hindered), settle) for client in clients}


# A kind of fault that is not here may not be seen by any connection: pods and rules are the kernel's.
_EFFECTS: dict[FaultKind, dict[ClientKind, Effect]] = {
    # The node's containers end with their runtime: they have to be started anew, and to become ready.
    FaultKind.KILL_RUNTIME: _effects(_ALL, Role.SOURCE, Role.BACKEND, settle=8),
    # A stopped DNS is found by its readiness probe: 2 s between two, 5 s for an answer.
    FaultKind.STOP_DNS: _effects([ClientKind.DNS], Role.BACKEND, settle=10),
    FaultKind.KILL_DNS: _effects([ClientKind.DNS], Role.BACKEND, settle=5),
    FaultKind.KILL_BACKEND: _effects(_SERVICE, Role.BACKEND, settle=5),
    # New connections are led elsewhere before a pod ends; an established one has nowhere else to go.
    FaultKind.REPLACE_PODS: {
        **_effects(_NEW, hindered=[Role.BACKEND], settle=5),
        **_effects([ClientKind.ESTABLISHED], Role.BACKEND, settle=5),
    },
    FaultKind.PARTITION: _effects(_ALL, Role.LINK, settle=3),
    FaultKind.PACKET_LOSS: _effects(_ALL, Role.LINK, settle=3),
    FaultKind.SLOW_LINK: _effects(_ALL, Role.LINK, settle=3),
    FaultKind.FLUSH_RULES: _effects(_ALL, Role.ENTRY, settle=3),
}
# In this mode connections go through the proxy's process.
_EFFECTS_OF_USERSPACE: dict[FaultKind, dict[ClientKind, Effect]] = {
    FaultKind.KILL_RUNTIME: _effects(_ALL, Role.SOURCE, Role.ENTRY, Role.BACKEND, settle=8),
    FaultKind.KILL_PROXY: _effects(_ALL, Role.ENTRY, settle=5),
    FaultKind.STOP_PROXY: _effects(_ALL, Role.ENTRY, settle=3),
}
# These hold up the parts that lead clients elsewhere: the API, controllers, kubelets, proxies and the way between them.
_HINDRANCES = frozenset(
    {
        FaultKind.KILL_API_SERVER,
        FaultKind.STOP_API_SERVER,
        FaultKind.KILL_CONTROLLERS,
        FaultKind.STOP_CONTROLLERS,
        FaultKind.KILL_KUBELET,
        FaultKind.STOP_KUBELET,
        FaultKind.KILL_RUNTIME,
        FaultKind.STOP_RUNTIME,
        FaultKind.KILL_PROXY,
        FaultKind.STOP_PROXY,
        FaultKind.PARTITION,
        FaultKind.PACKET_LOSS,
        FaultKind.SLOW_LINK,
        FaultKind.FULL_DISK,
    }
)
# For so long after its end a hindrance still holds up what follows: retries with back-off, probes (seconds).
_HINDRANCE_SETTLE = 5.0


def effect_of(kind: FaultKind, client: ClientKind, mode: str) -> Effect:
    """The cell of the table."""
    if mode == "userspace" and kind in _EFFECTS_OF_USERSPACE:
        return _EFFECTS_OF_USERSPACE[kind].get(client, _NOTHING)
    return _EFFECTS.get(kind, {}).get(client, _NOTHING)


@dataclass(frozen=True)
class _Window:
    """When which connections may fail by a fault."""

    fault: Occurrence
    end: float
    roles: frozenset[Role]


class Oracle:
    """Knows what each client of a run may see. `occurrences` are all faults of the run.

    `slack` is how many times as long as in the table everything may take, on a slow or busy machine.
    """

    def __init__(self, occurrences: Sequence[Occurrence], mode: str, slack: float = 1.0) -> None:
        by_time = sorted(occurrences, key=lambda fault: fault.start)
        self._windows: dict[ClientKind, list[_Window]] = {
            client: [_window(fault, effect_of(fault.kind, client, mode), by_time, slack) for fault in by_time]
            for client in ClientKind
        }

    def explain(self, connection: Connection) -> Occurrence | None:
        """The last fault that may have broken the connection; None when it could have been served."""
        if connection.is_misled:
            return None
        windows = reversed(self._windows[connection.kind])
        return next((window.fault for window in windows if _covers(window, connection)), None)


def _window(fault: Occurrence, effect: Effect, occurrences: Sequence[Occurrence], slack: float) -> _Window:
    """`occurrences` are ordered by their start. Hindrances one after the other prolong each other."""
    settle = slack * effect.settle
    end, roles = fault.end + settle, effect.roles
    for other in occurrences:
        if other is fault or other.kind not in _HINDRANCES:
            continue
        until = other.end + slack * _HINDRANCE_SETTLE
        if other.start <= end and until >= fault.start:
            end, roles = max(end, until + settle), effect.roles | effect.hindered
    return _Window(fault, end, roles)


def _covers(window: _Window, connection: Connection) -> bool:
    fault = window.fault
    if connection.end < fault.start or connection.start > window.end:
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
