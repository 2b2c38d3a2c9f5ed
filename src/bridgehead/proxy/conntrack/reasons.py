"""Reasons why flows of a Frontend are stale, and the ports of Services that they are found by.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bridgehead.proxy.address_texts import AddressPort, Family, canonical_address, family_of
from bridgehead.proxy.frontends import Frontend, FrontendKey


class ServicePort(NamedTuple):
    """A port of a Service in one family; `owner` is as in Frontends."""

    owner: str
    protocol: str
    family: Family


def port_of(frontend: Frontend) -> ServicePort:
    """Return the port of a Service that a Frontend serves."""
    return ServicePort(frontend.owner, frontend.key.protocol, frontend.key.family)


def addressed(endpoints: frozenset[AddressPort], family: Family) -> frozenset[AddressPort]:
    """Return the endpoints with a valid address of the family: the kernel can list no others."""
    canonical = {endpoint: canonical_address(endpoint[0]) for endpoint in endpoints}
    return frozenset(endpoint for endpoint, text in canonical.items() if text is not None and family_of(text) == family)


def backends_of(frontend: Frontend) -> frozenset[AddressPort]:
    """Return the addresses and ports of all backends of a Frontend, of its cluster backends, too."""
    return frozenset(
        (backend.address, backend.port) for backend in (*frontend.backends, *(frontend.cluster_backends or ()))
    )


@dataclass(frozen=True)
class StaleReason:
    """The possible reasons why flows of one Frontend are stale.

    `gone`: they lead to one of these endpoints (None: to any that does not serve); of TCP and SCTP, only flows that
    are not established are stale. `departed`: they lead to one of these ended pods. `untranslated`: they were not
    translated.
    """

    key: FrontendKey
    gone: frozenset[AddressPort] | None = frozenset()
    departed: frozenset[AddressPort] = frozenset()
    untranslated: bool = False

    def __bool__(self) -> bool:
        return self.gone is None or bool(self.gone or self.departed) or self.untranslated

    def merged(self, other: StaleReason | None) -> StaleReason:
        """Return the reasons of both, which are of one Frontend."""
        if other is None:
            return self
        return StaleReason(
            self.key,
            None if self.gone is None or other.gone is None else self.gone | other.gone,
            self.departed | other.departed,
            self.untranslated or other.untranslated,
        )

    @property
    def is_of_attempts(self) -> bool:
        """Whether only flows without a reply can be stale. An ended SCTP association had replies."""
        return self.key.protocol == "tcp" and not self.departed

    @property
    def destination(self) -> AddressPort:
        """The destination address of its flows; "": any."""
        return "" if self.key.is_node_port else self.key.address, self.key.port
