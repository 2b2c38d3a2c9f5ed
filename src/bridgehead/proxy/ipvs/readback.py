"""What the kernel has, and what of it is this mode's. Pure; `apply.py` reads it, `render.py` compares it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from bridgehead.network.ipset import SetType
from bridgehead.network.ipvs import Destination, Load, Scheduling, Server
from bridgehead.proxy.addresses import Family
from bridgehead.proxy.iptables.readback import Table

from . import sets
from .ports import Element


@dataclass
class KernelState:
    """What was read of the kernel; `tables` of the iptables variant in use."""

    servers: dict[Server, tuple[Scheduling, dict[Destination, Load]]] = field(default_factory=dict)
    sets: dict[str, tuple[SetType, set[str]]] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    tables: Mapping[Family, Mapping[str, Table]] = field(default_factory=dict)


class Ownership:
    """Which virtual servers are this mode's, by what else is in the kernel; others may have some of their own.

    Sets are filled before, and emptied after, so this holds at any point of an unfinished change. `known` are those of
    which this process knows, should somebody else have emptied the sets.
    """

    def __init__(self, kernel: KernelState, known: Container[Server] = ()) -> None:
        self._known = known
        self._addresses = set(kernel.bound)
        self._places: set[tuple[str, str, int]] = set()
        self._ports: set[tuple[Family, str, int]] = set()
        self._marks = {(_family_of(name), mark) for (name, _), mark in known_marks(kernel).items()}
        ours = set(sets.all_names())
        for name, (kind, elements) in kernel.sets.items():
            if name not in ours:
                continue
            for element in elements:
                parts = element.partition(" ")[0].split(",")
                if len(parts) > 1:
                    protocol, _, number = parts[1].partition(":")
                    self._places.add((parts[0], protocol, int(number)))
                elif kind.kind == "hash:ip":
                    self._addresses.add(parts[0])
                else:
                    self._ports.add((_family_of(name), "udp" if name.endswith("UDP") else "tcp", int(parts[0])))

    def __call__(self, server: Server) -> bool:
        if server in self._known:
            return True
        if server.mark:
            return (server.family, server.mark) in self._marks
        return (
            server.address in self._addresses
            or (server.address, server.protocol, server.port) in self._places
            or (server.family, server.protocol, server.port) in self._ports
        )


def _family_of(name: str) -> Family:
    return 6 if name.startswith("KUBE-6-") else 4


def known_marks(kernel: KernelState) -> dict[Element, int]:
    """The marks in the kernel's sets by (set, place)."""
    found = {}
    for name in (sets.in_family(sets.INSIDE, 4), sets.in_family(sets.INSIDE, 6)):
        for element in kernel.sets[name][1] if name in kernel.sets else ():
            place, _, mark = element.partition(" skbmark ")
            if mark:
                found[name, place] = int(mark.partition("/")[0], 16)
    return found
