"""Clocks of the API servers of one store, compared by the Leases in kube-system by which they show their identity.

A server renews its Lease with the time of its own clock. The others see this within moments by their watch. With a
clock that is wrong, a server sets wrong creationTimestamps and times of Events, issues tokens that others refuse as not
yet valid or expired, refuses valid certificates and tokens, and deletes or keeps what has a lifetime.
"""

from __future__ import annotations

import logging

import msgspec

from bridgehead.objects.times import parse_time
from bridgehead.storage import Change, Overflow, Record, TooOld

from .registry.registry import Registry
from .server_identity import HOSTNAME_LABEL, IDENTITY, IDENTITY_LABEL, NAMESPACE, PATH

log = logging.getLogger(__name__)

# More than a watch, or an election in etcd, takes.
MOST_SECONDS = 10.0


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    renew_time: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_decode = msgspec.json.Decoder(_Lease).decode


def seconds_ahead(lease: bytes, now: float) -> float | None:
    """Return by how much a Lease was renewed after `now` (seconds since the epoch); None without a valid renewTime."""
    try:
        renewed = _decode(lease).spec.renew_time
        return None if renewed is None else parse_time(renewed) - now
    except (msgspec.DecodeError, ValueError):
        return None


class ClockSkew:
    """Warnings about servers whose clocks differ from this one's. `address` is this server's, for the log."""

    def __init__(self, registry: Registry, address: str) -> None:
        self._registry = registry
        self._address = address
        self._suspected: set[str] = set()
        self._warned: set[str] = set()

    async def run(self) -> None:
        """Compare clocks at each renewal, until cancelled."""
        leases = self._registry.find(*PATH)
        if leases is None:
            return
        store = self._registry.store
        while True:
            watch = store.watch(leases.id, NAMESPACE, since=store.revision)
            try:
                async for changes in watch:
                    for change in changes:
                        self._see(change)
                return
            except (Overflow, TooOld):
                continue
            finally:
                watch.close()

    def _see(self, change: Change) -> None:
        if change.type == "DELETED":
            self._forget(change.record.key.name)
        else:
            self.compare(change.record, self._registry.clock())

    def compare(self, record: Record, now: float) -> None:
        """Look at a Lease at the moment of its renewal.

        One late renewal may have been on its way for long, so two in a row count.
        """
        if record.facts.labels.get(IDENTITY_LABEL) != IDENTITY:
            return
        name, ahead = record.key.name, seconds_ahead(record.value, now)
        if ahead is None:
            return
        if abs(ahead) <= MOST_SECONDS:
            self._forget(name)
        elif name not in self._suspected:
            self._suspected.add(name)
        elif name not in self._warned:
            self._warned.add(name)
            host = record.facts.labels.get(HOSTNAME_LABEL, "an unknown host")
            direction = "ahead of" if ahead > 0 else "behind"
            log.warning(
                "the clock of the API server %s on %s is %.0f s %s the clock of this one, %s: correct the wrong one,"
                " for example by NTP",
                name,
                host,
                abs(ahead),
                direction,
                self._address,
            )

    def _forget(self, name: str) -> None:
        self._suspected.discard(name)
        self._warned.discard(name)
