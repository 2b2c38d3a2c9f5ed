"""The kernel settings that kube-proxy makes: sizes and timeouts of connection tracking, and routing to 127.0.0.1.

`plan_sysctls` is pure; `apply_sysctls` writes what differs and may be written. `cli/proxy.py` calls both, once. In a
network namespace other than the first some of them cannot be written, which is told only to who asks for details. The
ipvs mode, which cannot do without its own, writes each by `write_sysctl`. `kernel_families` tells what there is at all.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from .addresses import Family
from .config import ProxyConfig

log = logging.getLogger(__name__)

_PROC = Path("/proc/sys")
_HASH_SIZE = "/sys/module/nf_conntrack/parameters/hashsize"
_CONNTRACK = "net/netfilter/nf_conntrack_"


def kernel_families(root: Path = _PROC) -> tuple[Family, ...]:
    """Those that the kernel has: IPv6 may be left out of it, or switched off as it boots."""
    return (4, 6) if (root / "net/ipv6").is_dir() else (4,)


class Sysctl(NamedTuple):
    """`path` is below /proc/sys, or absolute. `raises_only`: a higher value is left alone."""

    path: str
    value: int
    raises_only: bool = False


def plan_sysctls(config: ProxyConfig, processors: int) -> list[Sysctl]:
    """What the configuration asks for on a node with so many processors, in kube-proxy's order."""
    options = config.conntrack
    found = []
    if options.max_per_core:
        entries = max(options.max_per_core * processors, options.min)
        found.append(Sysctl(f"{_CONNTRACK}max", entries, raises_only=True))
        found.append(Sysctl(_HASH_SIZE, entries // 4, raises_only=True))
    for name, seconds in (
        ("tcp_timeout_established", options.tcp_established_timeout),
        ("tcp_timeout_close_wait", options.tcp_close_wait_timeout),
        ("tcp_be_liberal", int(options.tcp_be_liberal)),
        ("udp_timeout", options.udp_timeout),
        ("udp_timeout_stream", options.udp_stream_timeout),
    ):
        if seconds:
            found.append(Sysctl(f"{_CONNTRACK}{name}", seconds))
    if config.localhost_node_ports:
        found.append(Sysctl("net/ipv4/conf/all/route_localnet", 1))
    return found


def apply_sysctls(wanted: list[Sysctl], root: Path = _PROC, *, refused: int = logging.DEBUG) -> int:
    """Write those that differ; how many were written. `refused`: the log level for what cannot be."""
    written = 0
    for sysctl in wanted:
        try:
            before = write_sysctl(sysctl, root)
        except (OSError, ValueError) as error:
            log.log(refused, "%s stays as it is: %s", sysctl.path, error)
            continue
        if before is not None:
            log.info("set %s to %d, was %d", sysctl.path, sysctl.value, before)
            written += 1
    return written


def write_sysctl(sysctl: Sysctl, root: Path = _PROC) -> int | None:
    """Write it if it differs; what it was before, or None when nothing had to be written.

    Raises OSError, and ValueError for one that is no number.
    """
    path = root / sysctl.path
    present = int(path.read_text())
    if present == sysctl.value or (sysctl.raises_only and present > sysctl.value):
        return None
    path.write_text(f"{sysctl.value}\n")
    return present
