"""Strict ARP: the kernel answers only for addresses of the interface that a request arrives on.

In mode ipvs, kube-proxy gives every load-balancer address to the interface kube-ipvs0 of every node, so every node's
kernel would answer for it. Kubernetes' users set `strictARP: true` against that; the speaker sees to it in any case.
Source: ip-sysctl.rst (arp_ignore, arp_announce), MetalLB's installation guide.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

IPVS_LINK: Final = "kube-ipvs0"
_WANTED: Final = {"arp_ignore": 1, "arp_announce": 2}
_DIRECTORY: Final = Path("/proc/sys/net/ipv4/conf/all")
_MOUNTED: Final = Path("/host") / _DIRECTORY.relative_to("/")  # in a pod that is not privileged


def ensure_strict_arp() -> None:
    """Raise the two sysctls to what kube-proxy's strictARP sets; higher values stay. A failure is logged."""
    directory = _MOUNTED if _MOUNTED.is_dir() else _DIRECTORY
    for name, value in _WANTED.items():
        try:
            if int((directory / name).read_text(encoding="ascii")) < value:
                (directory / name).write_text(str(value), encoding="ascii")
                log.info("set %s to %d: otherwise every node answers for the addresses on %s", name, value, IPVS_LINK)
        except (OSError, ValueError) as error:
            log.warning(
                "cannot set %s to %d (%s): with kube-proxy in mode ipvs every node answers for every address",
                name,
                value,
                error,
            )
