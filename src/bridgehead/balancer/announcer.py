"""Interface between the speaker's reconciler and its ways to announce addresses (`layer2/`, `bgp/`, `vrrp/`).

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from bridgehead.objects.meta import ObjectKey

from .ranges import IpAddress
from .view import ClusterView, Publication


@dataclass(frozen=True, slots=True)
class Held:
    """One address that this node announces, for `bridgehead balancer status`. `since`: epoch seconds.

    `detail`: interfaces or peers; empty: the address is this node's, but it has no interface to announce it on. `why`:
    the reason why this node announces it, or why not.
    """

    address: IpAddress
    service: ObjectKey
    protocol: str
    since: float
    detail: tuple[str, ...] = ()
    why: str = ""


class EventReport(NamedTuple):
    """An Event to record about a Service, or about an Eip if `about` is a name."""

    about: ObjectKey | str
    type: str
    reason: str
    message: str


class UpdateResult(NamedTuple):
    """Result of an update: Services of which this node announces something else than before, and Events to record."""

    services: Collection[ObjectKey] = ()
    events: Sequence[EventReport] = ()


class Observer(Protocol):
    """The part of the reconciler that announcers call, from the event loop, after events of the network.

    They never call it while the reconciler updates them: `update` returns what changed.
    """

    def on_held_changed(self, services: Iterable[ObjectKey]) -> None:
        """Look at `held` again, because what this node announces of these Services changed."""

    def on_links_changed(self, names: Collection[str]) -> None:
        """Take the names of the interfaces that addresses are announced on."""

    def record(self, event: EventReport) -> None:
        """Record an Event."""


class Follower(Protocol):
    """A part of the speaker that follows the state of the cluster.

    The reconciler calls `update` from the event loop, with what changed; it must not block.
    """

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> UpdateResult:
        """Do what `publications` ask of this node under `view`, and return what changed.

        `changed`: the Services that changed or went since the last call. Only the `view` of all others may have
        changed, which the follower compares with the last one.
        """

    async def run(self) -> None:
        """Run until cancelled. At the end all that this follower made is gone."""


@runtime_checkable
class Announcer(Follower, Protocol):
    """One way to announce."""

    protocol: str  # "layer2", "bgp", "vrrp"

    def held(self, services: Collection[ObjectKey]) -> Collection[Held]:
        """Return what this node announces of these Services now."""


@runtime_checkable
class HandsOver(Protocol):
    """An announcer that goes on for a moment with addresses that move to another node as planned."""

    @property
    def is_handing_over(self) -> bool:
        """Whether an address still waits for its new holder."""


@runtime_checkable
class Starts(Protocol):
    """An announcer that needs a moment before its peers have what it announces."""

    @property
    def awaited(self) -> list[str]:
        """Return the peers that no other speaker should end before, by name."""
