"""Which Service ports have a mark of their own, and which mark. Pure; `render.py` asks.

A mark tells clients inside the cluster from others where that makes a difference (`ports.needs_mark`); the virtual
servers of those inside are found by it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from bridgehead.network.ipvs import Server
from bridgehead.proxy.addresses import Family
from bridgehead.proxy.iptables.ports import PortKey
from bridgehead.proxy.mode import Settings

from .chains import MARK_MASK


class Marks:
    """Each port has one mark at most, and each mark one port of a family."""

    def __init__(self, settings: Settings) -> None:
        # The bit that asks for masquerading cannot be part of a number.
        self._usable = range(1, MARK_MASK) if not settings.masquerade_mark & MARK_MASK else range(0)
        self._marks: dict[PortKey, int] = {}
        self._taken: dict[Family, set[int]] = {4: set(), 6: set()}

    def __contains__(self, port: PortKey) -> bool:
        return port in self._marks

    def get(self, port: PortKey) -> int | None:
        return self._marks.get(port)

    def restart(self, ports: Container[PortKey], others: Iterable[Server]) -> None:
        """These ports keep what they have, and no port gets the mark of one of the virtual servers of others."""
        self._marks = {port: mark for port, mark in self._marks.items() if port in ports}
        self._taken = {4: set(), 6: set()}
        for port, mark in self._marks.items():
            self._taken[port.family].add(mark)
        for server in others:
            self._taken[server.family].add(server.mark)

    def take(self, port: PortKey, mark: int) -> bool:
        """Let the port have this mark, and say whether it was free."""
        if mark in self._taken[port.family]:
            return False
        self._marks[port] = mark
        self._taken[port.family].add(mark)
        return True

    def allot(self, port: PortKey) -> None:
        """Give the port one that is free, unless it has one. When all are in use it is served as kube-proxy would."""
        if port not in self._marks:
            taken = self._taken[port.family]
            mark = next((number for number in self._usable if number not in taken), None)
            if mark is not None:
                self.take(port, mark)

    def give_back(self, port: PortKey) -> None:
        self._taken[port.family].discard(self._marks.pop(port, 0))
