"""Conflicts: other machines claim addresses that this node holds. Decides which are reported, and which are answered.

A claim is answered at once and reported when it is repeated: nodes that find each other again after a split of the
network claim each other's addresses for a moment.

Pure: no I/O, no clock, no randomness. Source: RFC 5227 (2.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bridgehead.balancer.ranges import IpAddress

DEFEND_SECONDS: Final = 1.0  # between two announcements against the claims on one address
_SETTLED_SECONDS: Final = 2.0  # after a change of holders, in which the former one may still be answering
_REPEATED_SECONDS: Final = 1.0  # after the first claim of a machine, a further one is reported
PROBE_SECONDS: Final = (
    _REPEATED_SECONDS + 0.1
)  # after a claim, in which the machine is asked whether it has the address
_REPORT_SECONDS: Final = 3600.0  # between two reports of the same claim
_MACS: Final = 4  # of one address that are remembered: a flood with random ones costs no memory


class Verdict(NamedTuple):
    """Reaction to a claim: an Event is raised, the address is announced again."""

    is_reported: bool
    is_defended: bool


@dataclass
class _Address:
    settled: float  # when claims begin to count
    defended: float = float("-inf")
    claimed: dict[bytes, float] = field(default_factory=dict)  # when a machine claimed the address first, by its MAC
    reported: dict[bytes, float] = field(default_factory=dict)


class Conflicts:
    """The conflicts about the addresses held. The caller's clock, in seconds."""

    def __init__(self) -> None:
        self._addresses: dict[IpAddress, _Address] = {}

    def hold(self, address: IpAddress, now: float) -> None:
        """Count claims on an address, once other nodes have had time to give it up."""
        known = self._addresses.setdefault(address, _Address(now))
        known.settled = now + _SETTLED_SECONDS
        known.claimed.clear()
        known.reported = {mac: at for mac, at in known.reported.items() if now - at < _REPORT_SECONDS}

    def release(self, address: IpAddress) -> None:
        self._addresses.pop(address, None)

    def judge(self, address: IpAddress, mac: bytes, now: float) -> Verdict:
        """Judge a packet by which the machine `mac` claims the address."""
        known = self._addresses.get(address)
        if known is None or now < known.settled:
            return Verdict(is_reported=False, is_defended=False)
        is_defended = now - known.defended >= DEFEND_SECONDS
        if is_defended:
            known.defended = now
        if mac not in known.claimed and len(known.claimed) >= _MACS:
            return Verdict(is_reported=False, is_defended=is_defended)
        is_repeated = now - known.claimed.setdefault(mac, now) >= _REPEATED_SECONDS
        is_reported = is_repeated and now - known.reported.get(mac, float("-inf")) >= _REPORT_SECONDS
        if is_reported:
            known.reported[mac] = now
        return Verdict(is_reported, is_defended)
