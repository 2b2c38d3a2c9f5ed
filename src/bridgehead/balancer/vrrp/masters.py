"""Masters of addresses' groups as all speakers expect them, and the masters before these.

keepalived elects the masters. Speakers give it the priorities by which its election comes to this result, a few
advertisements later.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from bridgehead.balancer.ranges import IpAddress


class Expected(NamedTuple):
    """The node that should be the master, and the one that would be without this node. "": no node can."""

    master: str
    without_this: str


def expected(order: Sequence[str], members: Collection[str], leaving: Collection[str], this_node: str) -> Expected:
    """Return the master of a group. `order`: its nodes by rank, the first one first."""
    alive = [node for node in order if node in members]
    ranked = [node for node in alive if node not in leaving] + [node for node in alive if node in leaving]
    others = [node for node in ranked if node != this_node]
    return Expected(next(iter(ranked), ""), next(iter(others), ""))


class _Turn(NamedTuple):
    master: str
    previous: str


class Masters:
    """The masters of all addresses, and those before them."""

    def __init__(self) -> None:
        self._turns: dict[IpAddress, _Turn] = {}

    def master(self, address: IpAddress) -> str:
        """Return the node that should be the master of the address's group; "" if there is none."""
        turn = self._turns.get(address)
        return turn.master if turn is not None else ""

    def previous(self, address: IpAddress) -> str:
        """Return the node that was the master before; "" if there is none.

        For an address that was not there at the last update, also since this speaker has just begun, it is the node
        that would be the master without this one.
        """
        turn = self._turns.get(address)
        return turn.previous if turn is not None else ""

    def of(self, node: str) -> set[IpAddress]:
        """Return the addresses whose master a node should be."""
        return {address for address, turn in self._turns.items() if turn.master == node}

    def update(self, found: Mapping[IpAddress, Expected]) -> set[IpAddress]:
        """Take what is expected of all addresses now. Return those whose master is another node than before."""
        old = self._turns
        self._turns = {address: _next_turn(old.get(address), one) for address, one in found.items()}
        return {address for address, turn in self._turns.items() if turn is not old.get(address)}


def _next_turn(turn: _Turn | None, found: Expected) -> _Turn:
    if turn is None or not turn.master:
        return _Turn(*found)
    # While no node can be the master, the last one goes on forwarding.
    return turn if found.master in ("", turn.master) else _Turn(found.master, turn.master)
