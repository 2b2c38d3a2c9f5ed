"""Claims of other machines on addresses that this node holds: which are reported, and which are answered.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ..ranges import IpAddress

DEFEND_SECONDS: Final = 1.0  # between two announcements against the claims on one address
_SETTLED_SECONDS: Final = 2.0  # after a change of holders, in which the former one may still be answering
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
    reported: dict[bytes, float] = field(default_factory=dict)


class Claims:
    """The claims on the addresses held. The caller's clock, in seconds."""

    def __init__(self) -> None:
        self._addresses: dict[IpAddress, _Address] = {}

    def hold(self, address: IpAddress, now: float) -> None:
        """Count claims on an address, once other nodes have had time to give it up."""
        known = self._addresses.setdefault(address, _Address(now))
        known.settled = now + _SETTLED_SECONDS

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
        last = known.reported.get(mac, float("-inf"))
        is_reported = now - last >= _REPORT_SECONDS and (mac in known.reported or len(known.reported) < _MACS)
        if is_reported:
            known.reported[mac] = now
        return Verdict(is_reported, is_defended)
