"""The userspace mode's access to the kernel: nf_tables, the listeners' addresses, UDP flows, the limit of sockets."""

from __future__ import annotations

import contextlib
import errno
import logging
import resource
from collections.abc import Collection, Iterable

from bridgehead.network.conntrack import Conntrack
from bridgehead.network.own_addresses import add_own_address, is_local, remove_own_address
from bridgehead.proxy import nftables
from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.errors import Refused

from .redirects import LISTENING

log = logging.getLogger(__name__)

# Errors where IPv6 is switched off by sysctl or on the kernel's command line.
_WITHOUT_IPV6 = (errno.EACCES, errno.EOPNOTSUPP, errno.EAFNOSUPPORT)


class Kernel(nftables.Kernel):
    """The nf_tables, addresses and flows of the current network namespace. Raises ModeUnavailable without nf_tables."""

    def add_addresses(self, families: Iterable[Family]) -> int:
        """Give the node the listeners' addresses. Returns how many were added. Raises Refused."""
        added = 0
        for family in families:
            address = LISTENING[family]
            if is_local(address):
                continue
            try:
                add_own_address(address)
                added += 1
            except OSError as error:
                if family == 6 and error.errno in _WITHOUT_IPV6:
                    log.debug("this node has no IPv6; IPv6 addresses of Services are not served: %s", error)
                    continue
                raise Refused(f"an address to listen on: {error.strerror}") from error
        return added

    def remove_addresses(self) -> bool:
        """Remove the listeners' addresses. False: there were none. Raises Refused."""
        try:
            removed = [remove_own_address(address) for address in LISTENING.values()]
        except OSError as error:
            raise Refused(f"an address to listen on: {error.strerror}") from error
        return any(removed)

    def forget_flows(self, family: Family, ports: Collection[int]) -> None:
        """Remove the UDP flows to closed listeners, which would lead their clients there as long as they send.

        A failure is logged: then these clients are rejected until their flows time out. May block.
        """
        port = next(iter(ports)) if len(ports) == 1 else 0
        try:
            with Conntrack() as flows:
                flows.remove(
                    family,
                    "udp",
                    reply_source=(LISTENING[family], port),
                    is_stale=lambda flow: flow.reply_source[1] in ports,
                )
        except OSError as error:
            log.warning("UDP flows to closed listeners stay until they time out: %s", error)


def raise_limit() -> int:
    """Raise this process' limit of open files to the hard limit, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 20
