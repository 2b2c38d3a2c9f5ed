"""The edge to the kernel: nf_tables as the nftables mode has it, the listeners' addresses, the limit of sockets."""

from __future__ import annotations

import contextlib
import errno
import logging
import resource
from collections.abc import Collection, Iterable

from bridgehead.network.conntrack import Conntrack
from bridgehead.network.own_addresses import add_own_address, is_local, remove_own_address
from bridgehead.proxy import nftables
from bridgehead.proxy.addresses import Family
from bridgehead.proxy.errors import Refused

from .redirects import LISTENING

log = logging.getLogger(__name__)

# Switched off by sysctl or on the kernel's command line.
_WITHOUT_IPV6 = (errno.EACCES, errno.EOPNOTSUPP, errno.EAFNOSUPPORT)


class Kernel(nftables.Kernel):
    """What this mode needs of this network namespace. Raises ModeUnavailable when it lacks nf_tables."""

    def add_addresses(self, families: Iterable[Family]) -> int:
        """Give the node the addresses on which is listened. Returns how many were added. Raises Refused."""
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
                    log.debug("this node has no IPv6; its Services are refused there: %s", error)
                    continue
                raise Refused(f"an address to listen on: {error.strerror}") from error
        return added

    def remove_addresses(self) -> bool:
        """Take them away. False: there were none. Raises Refused."""
        try:
            removed = [remove_own_address(address) for address in LISTENING.values()]
        except OSError as error:
            raise Refused(f"an address to listen on: {error.strerror}") from error
        return any(removed)

    def forget_flows(self, family: Family, ports: Collection[int]) -> None:
        """Let no UDP client be led to these listeners any more, as its flow would be for as long as it sends.

        What fails is told: such a client is refused until it has been silent for a while. May block.
        """
        port = next(iter(ports)) if len(ports) == 1 else 0
        try:
            with Conntrack() as flows:
                flows.remove(
                    family,
                    "udp",
                    answerer=(LISTENING[family], port),
                    is_stale=lambda flow: flow.answerer[1] in ports,
                )
        except OSError as error:
            log.warning("UDP flows to listeners that are closed stay until they time out: %s", error)


def raise_limit() -> int:
    """Let this process have as many sockets as it may. Returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 20
