"""Strict ARP: the kernel answers only for addresses of the interface that a request arrives on.

In mode ipvs, kube-proxy gives every load-balancer address to the interface kube-ipvs0 of every node, so every node's
kernel would answer for it. Kubernetes' users set `strictARP: true` against that; the speaker sees to it in any case.
Source: ip-sysctl.rst (arp_ignore, arp_announce), MetalLB's installation guide.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from bridgehead.network.links import write_sysctl

log = logging.getLogger(__name__)

IPVS_LINK: Final = "kube-ipvs0"
_WANTED: Final = {"net/ipv4/conf/all/arp_ignore": 1, "net/ipv4/conf/all/arp_announce": 2}


def ensure_strict_arp() -> None:
    """Raise the two sysctls to what kube-proxy's strictARP sets; higher values stay. A failure is logged."""
    for name, value in _WANTED.items():
        try:
            if int(Path("/proc/sys", name).read_text(encoding="ascii")) < value:
                write_sysctl(name, value)
                log.info("set %s to %d: otherwise every node answers for the addresses on %s", name, value, IPVS_LINK)
        except (OSError, ValueError) as error:
            log.warning(
                "cannot set %s to %d (%s): with kube-proxy in mode ipvs every node answers for every address",
                name,
                value,
                error,
            )
