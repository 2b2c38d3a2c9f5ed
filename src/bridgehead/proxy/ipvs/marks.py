"""The allocation of firewall marks to Service ports, for `render.py`. Pure: no I/O, no clock, no randomness.

A Service port has a mark if clients in the cluster have other backends than clients outside (`ports.needs_mark`). The
virtual server for clients in the cluster is that of the mark.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from bridgehead.network.ipvs import Server
from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.iptables.ports import PortKey
from bridgehead.proxy.mode import Settings

from .chains import MARK_MASK


class Marks:
    """The marks of Service ports. A mark belongs to one port of each IP family at most."""

    def __init__(self, settings: Settings) -> None:
        # The masquerade mark's bit cannot be part of a virtual server's mark.
        self._usable = range(1, MARK_MASK) if not settings.masquerade_mark & MARK_MASK else range(0)
        self._marks: dict[PortKey, int] = {}
        self._used: dict[Family, set[int]] = {4: set(), 6: set()}

    def __contains__(self, port: PortKey) -> bool:
        return port in self._marks

    def get(self, port: PortKey) -> int | None:
        return self._marks.get(port)

    def restart(self, ports: Container[PortKey], others: Iterable[Server]) -> None:
        """Keep the marks of these ports, and reserve those of other programs' virtual servers."""
        self._marks = {port: mark for port, mark in self._marks.items() if port in ports}
        self._used = {4: set(), 6: set()}
        for port, mark in self._marks.items():
            self._used[port.family].add(mark)
        for server in others:
            self._used[server.family].add(server.mark)

    def take(self, port: PortKey, mark: int) -> bool:
        """Allocate this mark to the port. Return False if it is not free."""
        if mark in self._used[port.family]:
            return False
        self._marks[port] = mark
        self._used[port.family].add(mark)
        return True

    def allocate(self, port: PortKey) -> None:
        """Allocate a free mark to the port, unless it has one. Without a free one it is served as by kube-proxy."""
        if port not in self._marks:
            used = self._used[port.family]
            mark = next((number for number in self._usable if number not in used), None)
            if mark is not None:
                self.take(port, mark)

    def release(self, port: PortKey) -> None:
        """Free the port's mark, if it has one."""
        self._used[port.family].discard(self._marks.pop(port, 0))
