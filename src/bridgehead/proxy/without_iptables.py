"""Remove KUBE-* chains on a node that has no iptables commands, by nft. `mode_choice.py` calls it.

kube-proxy's image has iptables of its own, so a node may have its chains and lack the package. Their rules are in
nf_tables, unless they are of the legacy variant.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

from . import nftables
from .iptables import chains as of_iptables
from .ipvs import chains as of_ipvs


async def remove_chains() -> bool:
    """Remove the chains of the modes iptables and ipvs, and the rules that jump to them. False: there were none.

    Raises ModeUnavailable without nft, and TransactionFailed.
    """
    removed = False
    with contextlib.closing(nftables.Kernel()) as kernel:
        for family in ("ip", "ip6"):
            for table in of_iptables.TABLES:
                listing = await kernel.list_with_handles(family, table)
                text = removal(listing, is_ours) if listing is not None else ""
                if text:
                    await kernel.apply(text)
                    removed = True
    return removed


def is_ours(table: str, chain: str) -> bool:
    """Return whether a chain belongs to the proxy, in one of the two modes; the kubelet has some of its own."""
    return of_iptables.is_ours(table, chain) or of_ipvs.is_named_ours(table, chain)


def removal(listing: bytes, is_ours: Callable[[str, str], bool]) -> str:
    """Return nft text that removes these chains from a table that nft listed as JSON with handles; "" if it has none.

    Pure, like `is_ours`.
    """
    objects: list[dict[str, Any]] = json.loads(listing)["nftables"]
    chains = [found["chain"] for found in objects if "chain" in found]
    ours = {chain["name"] for chain in chains if is_ours(chain["table"], chain["name"])}
    lines = []
    for rule in (found["rule"] for found in objects if "rule" in found):
        targets = {
            statement[verb]["target"] for statement in rule["expr"] for verb in ("jump", "goto") if verb in statement
        }
        if rule["chain"] not in ours and targets & ours:
            where = f"{rule['family']} {rule['table']} {rule['chain']}"
            lines.append(f"delete rule {where} handle {rule['handle']}")
    for verb in ("flush", "delete"):
        lines += (f"{verb} chain {c['family']} {c['table']} {c['name']}" for c in chains if c["name"] in ours)
    return "".join(f"{line}\n" for line in lines)
