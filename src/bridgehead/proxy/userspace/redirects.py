"""Frontends as the kernel has to know them when this process carries the connections: each leads to a listener.

Pure. What a Frontend does besides choosing a backend (who may connect, refusing and dropping, telling the node's own
connections from others') is the kernel's as in the nftables mode, whose renderer gets what `redirect` makes. `mode.py`
calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bridgehead.proxy.addresses import Family
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, SourceNat, Verdict
from bridgehead.proxy.nftables.chains import Chain, word

# Where listeners are: addresses of this node that nobody else can reach or choose.
LISTENING = {4: "169.254.98.104", 6: "fd62:7269:6467:6568::1"}
TABLE = "bridgehead-userspace"


class Side(NamedTuple):
    """Who is answered by one listener: all of a Frontend's clients, or, where it has `inside`, one kind of them."""

    key: FrontendKey
    is_inside: bool = False

    def __str__(self) -> str:
        return f"{self.key}, from inside" if self.is_inside else str(self.key)


def sides(frontend: Frontend) -> dict[Side, tuple[Backend, ...]]:
    """The listeners a Frontend needs and the backends of each."""
    if not is_carried(frontend.key):
        return {}
    both = {Side(frontend.key): frontend.backends, Side(frontend.key, is_inside=True): frontend.inside or ()}
    return {side: backends for side, backends in both.items() if backends}


def is_carried(key: FrontendKey) -> bool:
    """SCTP is not: one association has many streams and addresses, which a relay of bytes would lose."""
    return key.protocol in ("tcp", "udp")


def redirect(frontend: Frontend, ports: Mapping[Side, int]) -> Frontend:
    """The Frontend whose one backend is a listener; without backends where there is none, or none is wanted."""
    key = frontend.key
    wanted = sides(frontend)
    here, inside = (
        _listener(key.family, ports[side]) if side in wanted and side in ports else ()
        for side in (Side(key), Side(key, is_inside=True))
    )
    # Whoever finds nobody because it was us who could not listen shall know at once.
    lacks_listener = bool(frontend.backends) and not here
    return Frontend(
        key=key,
        owner=frontend.owner,
        backends=here,
        inside=None if frontend.inside is None else inside,
        when_empty=Verdict.REJECT if lacks_listener else frontend.when_empty,
        source_nat=SourceNat.NEVER,
        source_ranges=frontend.source_ranges,
        published_as=frontend.published_as,
        is_local=frontend.is_local,
    )


def _listener(family: Family, port: int) -> tuple[Backend, ...]:
    # Of no node, it would be taken for a pod that might reach itself.
    return (Backend(LISTENING[family], port, node="this"),)


def guards() -> tuple[Chain, ...]:
    """What keeps everybody from the listeners who did not come by a Frontend, past its source ranges."""
    return tuple(
        Chain(
            family,
            "guard-listeners",
            (f"{word(family)} daddr {address} ct status and dnat == 0 drop",),
            "type filter hook input priority 0; policy accept;",
        )
        for family, address in LISTENING.items()
    )
