"""The Frontends that are expected on a node, as the readers of rules look them up; and the lines that they found.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bridgehead.insight.findings import printable
from bridgehead.objects.addresses import join_host_port
from bridgehead.proxy.address_texts import AddressPort
from bridgehead.proxy.frontends import Frontend, FrontendKey

from .entries import Entry, IpvsObjects, KernelFrontend, Mechanism, RulesMode

LONGEST = 2000  # characters of a line


class Known:
    """Expected Frontends. Without any (None), no line is unexplained."""

    def __init__(self, frontends: Iterable[Frontend] | None, cluster_ips: Iterable[str] = ()) -> None:
        self._is_given = frontends is not None
        self.frontends = {frontend.key: frontend for frontend in frontends or ()}
        self.addresses: dict[str, str] = {}  # with the Service of each, `namespace/name:`
        for frontend in self.frontends.values():
            if not frontend.key.is_node_port:
                self.addresses.setdefault(frontend.key.address, service_part(frontend.owner))
        for address in cluster_ips:
            self.addresses.setdefault(address, "")
        self._owners = {frontend.owner for frontend in self.frontends.values()}

    def owner(self, key: FrontendKey) -> str:
        """Return the Service port that should have this destination; "" if none should."""
        frontend = self.frontends.get(key)
        return frontend.owner if frontend is not None else ""

    def explains(self, key: FrontendKey | None = None, *, owner: str = "", address: str = "") -> bool:
        """Return whether a line of this destination, of this Service port or of this address is expected."""
        if not self._is_given:
            return True
        return key in self.frontends or owner in self._owners or address in self.addresses


def service_part(owner: str) -> str:
    """Return `namespace/name:` of `namespace/name:port`, for lines that all ports of a Service need."""
    return f"{owner.rpartition(':')[0]}:"


@dataclass
class Found:
    """The lines that the readers of rules collect, and what these serve."""

    entries: list[Entry] = field(default_factory=list)
    unexplained: list[Entry] = field(default_factory=list)
    frontends: dict[RulesMode, dict[FrontendKey, KernelFrontend]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    ipvs: IpvsObjects | None = None

    def add(
        self,
        mode: RulesMode,
        mechanism: Mechanism,
        container: str,
        text: str,
        meaning: str,
        *,
        frontend: FrontendKey | None = None,
        service: str = "",
        backend: AddressPort | None = None,
        counter: tuple[int, int] | None = None,
        explained: bool = True,
    ) -> None:
        packets, size = counter or (None, None)
        entry = Entry(
            mechanism=mechanism,
            container=printable(container, LONGEST),
            text=printable(text, LONGEST),
            meaning=printable(meaning, LONGEST),
            mode=mode,
            frontend=frontend,
            service=printable(service, LONGEST),
            backend=join_host_port(*backend) if backend is not None else "",
            packets=packets,
            bytes=size,
        )
        self.entries.append(entry)
        if not explained:
            self.unexplained.append(entry)


def destination_text(key: FrontendKey) -> str:
    """Return the text for a destination: `10.96.0.10:80/tcp`, `node port 30080/tcp`."""
    return f"node port {key.port}/{key.protocol}" if key.is_node_port else str(key)


UNKNOWN = "No service proxy writes such a rule: another program did."
