"""Addresses at which this server can be reached, by which it finds its own Service. `engine.py` calls it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from bridgehead.dns.config import Address
from bridgehead.dns.messages.records import canonical_address

_IPV4, _IPV6 = Path("/proc/net/fib_trie"), Path("/proc/net/if_inet6")
_MOST = 8  # a node can have the address of every Service (kube-ipvs0)


def own_addresses(listen: Iterable[Address], ipv4: Path = _IPV4, ipv6: Path = _IPV6) -> tuple[str, ...]:
    """Return the addresses that are listened on, or the machine's for the empty host, without loopback addresses."""
    hosts = dict.fromkeys(host for host, _ in listen)
    found = [host for host in hosts if host]
    if "" in hosts or "0.0.0.0" in hosts or "::" in hosts:
        found += [*_local_ipv4(ipv4), *_local_ipv6(ipv6)]
    known = (canonical_address(text) for text in found)  # a host name is none
    addresses = (ipaddress.ip_address(text) for text in dict.fromkeys(known) if text is not None)
    usable = (one for one in addresses if not (one.is_loopback or one.is_unspecified or one.is_link_local))
    return tuple(str(one) for one in islice(usable, _MOST))


def _local_ipv4(path: Path) -> Iterable[str]:
    """Yield local addresses from the kernel's routing table."""
    address = ""
    for line in _lines(path):
        if "|-- " in line:
            address = line.partition("|-- ")[2].strip()
        elif "/32 host LOCAL" in line:
            yield address


def _local_ipv6(path: Path) -> Iterable[str]:
    """Yield addresses of interfaces, which the kernel writes as 32 digits."""
    for line in _lines(path):
        yield ":".join(re.findall("....", line.split()[0]))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:  # a kernel without this family
        return []
