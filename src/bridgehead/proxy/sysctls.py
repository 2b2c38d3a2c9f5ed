"""The sysctls that kube-proxy sets: sizes and timeouts of connection tracking, and routing to 127.0.0.1.

`plan_sysctls` decides, `apply_sysctls` writes; `process.py` calls both once. Some sysctls cannot be written outside
the initial network namespace, which is logged at debug level. The ipvs mode writes those that it requires by
`write_sysctl`.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from .address_texts import Family
from .config import ProxyConfig

log = logging.getLogger(__name__)

_PROC = Path("/proc/sys")
_HASH_SIZE = "/sys/module/nf_conntrack/parameters/hashsize"
_CONNTRACK = "net/netfilter/nf_conntrack_"


def kernel_families(root: Path = _PROC) -> tuple[Family, ...]:
    """Return the kernel's address families: IPv6 may be missing, or disabled at boot."""
    return (4, 6) if (root / "net/ipv6").is_dir() else (4,)


class Sysctl(NamedTuple):
    """A setting. `path` is relative to /proc/sys, or absolute. `raises_only`: a higher value is kept."""

    path: str
    value: int
    raises_only: bool = False


def plan_sysctls(config: ProxyConfig, processors: int) -> list[Sysctl]:
    """Return the sysctls of the configuration for a node with so many processors, in kube-proxy's order."""
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
    """Write the sysctls that differ. Returns how many were written. `refused`: log level for those that cannot be."""
    written = 0
    for sysctl in wanted:
        try:
            before = write_sysctl(sysctl, root)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            log.log(refused, "%s stays as it is: %s", sysctl.path, reason)
            continue
        if before is not None:
            log.info("set %s to %d, was %d", sysctl.path, sysctl.value, before)
            written += 1
    return written


def write_sysctl(sysctl: Sysctl, root: Path = _PROC) -> int | None:
    """Write a sysctl if it differs. Returns its earlier value; None: nothing was written.

    Raises OSError, and ValueError if the present value is not a number.
    """
    path = root / sysctl.path
    present = int(path.read_text())
    if present == sysctl.value or (sysctl.raises_only and present > sysctl.value):
        return None
    path.write_text(f"{sysctl.value}\n")
    return present
