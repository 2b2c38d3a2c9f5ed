"""The state of the kernel, and which part of it belongs to this mode. Pure: no I/O, no clock, no randomness.

`apply.py` reads the state, `render.py` compares it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from bridgehead.network.ipset import SetType
from bridgehead.network.ipvs import Destination, Load, Scheduling, Server
from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.iptables.readback import Table

from . import sets
from .ports import Element


@dataclass
class KernelState:
    """Virtual servers, IP sets, addresses of the dummy interface, and tables of the iptables variant in use."""

    servers: dict[Server, tuple[Scheduling, dict[Destination, Load]]] = field(default_factory=dict)
    sets: dict[str, tuple[SetType, set[str]]] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)  # how many elements a set may have
    bound: set[str] = field(default_factory=set)
    tables: Mapping[Family, Mapping[str, Table]] = field(default_factory=dict)


class Ownership:
    """A predicate: whether a virtual server belongs to this mode and not to another program.

    A virtual server is ours if its address is on the dummy interface, or if an element of our sets has its address and
    port, its node port or its mark. Sets are filled before, and emptied after virtual servers change, so this holds
    during any unfinished change. `known`: virtual servers that this process made, in case another program emptied the
    sets.
    """

    def __init__(self, kernel: KernelState, known: Container[Server] = ()) -> None:
        self._known = known
        self._addresses = set(kernel.bound)
        self._endpoints: set[tuple[str, str, int]] = set()
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
                    if number.isdigit():  # another program may have added ICMP, whose numbers are "8/0"
                        self._endpoints.add((parts[0], protocol, int(number)))
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
            or (server.address, server.protocol, server.port) in self._endpoints
            or (server.family, server.protocol, server.port) in self._ports
        )


def _family_of(name: str) -> Family:
    return 6 if name.startswith("KUBE-6-") else 4


def known_marks(kernel: KernelState) -> dict[Element, int]:
    """Return the marks in the kernel's sets by set and element, without the mark in its text."""
    found = {}
    for name in (sets.in_family(sets.CLUSTER_CLIENTS, 4), sets.in_family(sets.CLUSTER_CLIENTS, 6)):
        for element in kernel.sets[name][1] if name in kernel.sets else ():
            key, _, mark = element.partition(" skbmark ")
            if mark:
                found[name, key] = int(mark.partition("/")[0], 16)
    return found
