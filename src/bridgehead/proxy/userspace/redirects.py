"""Frontends as the kernel has them in the userspace mode: the only backend of each is a listener.

Pure: no I/O, no clock, no randomness. Source ranges, rejecting and dropping, and the distinction of clients in the
cluster stay the kernel's, as in the nftables mode, whose renderer gets the Frontends that `redirect` returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, SourceNat, Verdict
from bridgehead.proxy.nftables.chains import MAJOR, Chain, family_keyword, frontend_text

# The listeners' addresses, which are local to the node and never chosen as a source.
LISTENING = {4: "169.254.98.104", 6: "fd62:7269:6467:6568::1"}
TABLE = "bridgehead-userspace"


class Side(NamedTuple):
    """The clients of one listener: all of a Frontend's, or, where it has `cluster_backends`, one kind of them."""

    key: FrontendKey
    for_cluster_clients: bool = False

    def __str__(self) -> str:
        return f"{self.key}, from the cluster" if self.for_cluster_clients else str(self.key)


def sides(frontend: Frontend) -> dict[Side, tuple[Backend, ...]]:
    """Return the listeners of a Frontend with the backends of each."""
    if not is_carried(frontend.key):
        return {}
    both = {
        Side(frontend.key): frontend.backends,
        Side(frontend.key, for_cluster_clients=True): frontend.cluster_backends or (),
    }
    return {side: backends for side, backends in both.items() if backends}


def is_carried(key: FrontendKey) -> bool:
    """Return False for SCTP: an association has many streams and addresses, which a relay of bytes would lose."""
    return key.protocol in ("tcp", "udp")


def redirect(frontend: Frontend, ports: Mapping[Side, int]) -> Frontend:
    """Return the Frontend with its listeners as backends; without backends if it has none."""
    key = frontend.key
    wanted = sides(frontend)
    listener, cluster_listener = (
        _listener(key.family, ports[side]) if side in wanted and side in ports else ()
        for side in (Side(key), Side(key, for_cluster_clients=True))
    )
    # Clients of a listener that could not be opened are rejected, whatever the Service's policy.
    lacks_listener = bool(frontend.backends) and not listener
    return Frontend(
        key=key,
        owner=frontend.owner,
        backends=listener,
        cluster_backends=None if frontend.cluster_backends is None else cluster_listener,
        when_empty=Verdict.REJECT if lacks_listener else frontend.when_empty,
        source_nat=SourceNat.NEVER,
        source_ranges=frontend.source_ranges,
        published_as=frontend.published_as,
        is_local=frontend.is_local,
    )


def inherited_ports(table: Iterable[Frontend], endpoints: Mapping[str, str]) -> tuple[dict[Side, int], frozenset[int]]:
    """Return the ports to which the kernel's rules lead: those of the table's sides, and all of them.

    `endpoints`: see `NftablesMode.read_endpoints`.
    """
    ports = {
        element: int(port)
        for element, backend in endpoints.items()
        for address, _, port in (backend.rpartition(" . "),)
        if address in LISTENING.values()
    }
    own = {
        side: ports[element]
        for frontend in table
        for side in sides(frontend)
        if (element := f"{frontend_text(side.key)} . {MAJOR[side.for_cluster_clients]}:1") in ports
    }
    return own, frozenset(ports.values())


def _listener(family: Family, port: int) -> tuple[Backend, ...]:
    # A backend without a node would be taken for a pod that may connect to itself.
    return (Backend(LISTENING[family], port, node="this"),)


def guards() -> tuple[Chain, ...]:
    """Return the chains that drop connections to listeners which did not pass a Frontend's rules."""
    return tuple(
        Chain(
            family,
            "guard-listeners",
            (f"{family_keyword(family)} daddr {address} ct status and dnat == 0 drop",),
            "type filter hook input priority 0; policy accept;",
        )
        for family, address in LISTENING.items()
    )
