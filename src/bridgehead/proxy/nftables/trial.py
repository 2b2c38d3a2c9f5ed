"""A transaction that asks the kernel for everything that a Service needs. `apply.py` applies it before the first sync.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, SourceNat
from bridgehead.proxy.mode import Settings

from .chains import family_keyword
from .render import Renderer, TableSpec

_TABLE = "bridgehead-probe"
# Addresses for documentation (RFC 5737, RFC 3849).
_ADDRESSES = {4: ("192.0.2.1", "192.0.2.2", "192.0.2.0/24"), 6: ("2001:db8::1", "2001:db8::2", "2001:db8::/64")}


def trial(family: Family) -> str:
    """Return nft text that adds a table with one Service in it, and deletes the table again."""
    address, backend, range_ = _ADDRESSES[family]
    settings = Settings((family,), cluster_cidrs=(range_,), service_cidrs=(range_,), node_port_cidrs=(range_,))
    served = Frontend(
        key=FrontendKey(address, "tcp", 80),
        owner="default/probe:",
        backends=(Backend(backend, 80),),
        source_nat=SourceNat.OUTSIDE,
    )
    empty = Frontend(key=FrontendKey(address, "tcp", 81), owner="default/probe:")
    transaction = Renderer(settings, TableSpec(_TABLE)).full((served, empty), (address,), {})
    return f"{transaction.text()}delete table {family_keyword(family)} {_TABLE}\n"
