"""One configuration at work: the zone, the sync that keeps it up to date, the responder and the resolver.

`process.py` makes an instance, and another when the configuration changes. The zone, which takes time to fill, passes
from one to the next where the change does not concern it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from bridgehead.client import ApiClient

from .answering import HostTable, Resolver, Responder, Rewriter, Templates
from .config import Address, DnsConfig, Server, ZoneSettings
from .messages.record_sets import canonical_address
from .serving import DnsMetrics
from .upstreams import Cache, Forwarder, plan_forwarders, plan_search
from .zone import Zone
from .zone_sync import ZoneSync

log = logging.getLogger(__name__)

_IPV4, _IPV6 = Path("/proc/net/fib_trie"), Path("/proc/net/if_inet6")
_MOST_OWN_ADDRESSES = 8  # a node can have the address of every Service (kube-ipvs0)


class Cluster:
    """A zone, and the sync that keeps it up to date while `run` runs."""

    def __init__(
        self,
        client: ApiClient,
        settings: ZoneSettings,
        metrics: DnsMetrics,
        *,
        own_addresses: tuple[str, ...] = (),
        follow_pods: bool,
    ) -> None:
        self.zone = Zone(settings, serial=int(time.time()))
        self.follow_pods = follow_pods
        self._sync = ZoneSync(client, self.zone, metrics, own_addresses=own_addresses, follow_pods=follow_pods)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        start = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sync.run())
            await self._sync.wait_synced()
            log.info("ready after %.2f s", time.monotonic() - start)

    async def wait_ready(self) -> None:
        """Wait until the zone is complete."""
        await self._sync.wait_synced()

    def namespace_of(self, address: str) -> str | None:
        """Return the namespace of the pod with this address; None for addresses of nodes and unknown ones."""
        return self._sync.namespace_of(address)


class Instance:
    """One configuration at work. Uses the `previous` cluster if the settings of its zone are equal.

    Raises ConfigInvalid.
    """

    def __init__(
        self, client: ApiClient, config: DnsConfig, metrics: DnsMetrics, previous: Cluster | None = None
    ) -> None:
        forwarders = plan_forwarders(config, self._is_self)
        settings = replace(config.zone, recursive=bool(forwarders))
        if previous is None or (previous.zone.settings, previous.follow_pods) != (settings, config.autopath):
            own = own_addresses(config.listen)
            previous = Cluster(client, settings, metrics, own_addresses=own, follow_pods=config.autopath)
        self.config = config
        self.cluster = previous
        self.responder: Responder = Responder(
            self.cluster.zone,
            size=config.udp_size,
            is_recursive=bool(forwarders),
            has_autopath=config.autopath,
            hosts=HostTable(config.hosts, ra=bool(forwarders)) if config.hosts else None,
            templates=Templates(config.templates, ra=bool(forwarders)) if config.templates else None,
            rewriter=Rewriter(config.rewrites) if config.rewrites else None,
            transfer_to=config.transfer_to,
            falls_through=config.falls_through,
            is_minimal=config.is_minimal,
            has_minimal_any=config.has_minimal_any,
        )
        self.cache: Cache = Cache(time.monotonic, config.cache, config.block_caches)
        self.forwarders = tuple(target for target in forwarders.values() if isinstance(target, Forwarder))
        self.resolver = Resolver(
            self.responder,
            forwarders,
            self.cache,
            namespace_of=self.cluster.namespace_of,
            search=plan_search(config) if config.autopath else (),
        )

    def _is_self(self, server: Server) -> bool:
        """Whether this is the cluster IP of the Service whose endpoint this server is."""
        return server.port == 53 and server.host in self.cluster.zone.server_addresses

    def close(self) -> None:
        """Stop: another instance answers from now on. Queries that wait for upstreams are still answered."""
        for forwarder in self.forwarders:
            forwarder.close()

    async def become_ready(self) -> None:
        """Wait until the zone is complete, and answer from it."""
        await self.cluster.wait_ready()
        self.responder.set_ready()


def own_addresses(listen: Iterable[Address], ipv4: Path = _IPV4, ipv6: Path = _IPV6) -> tuple[str, ...]:
    """Return the addresses at which clients reach this server, by which it finds its own Service.

    They are those that are listened on, or the machine's for the empty host, without loopback addresses.
    """
    hosts = dict.fromkeys(host for host, _ in listen)
    found = [host for host in hosts if host]
    if "" in hosts or "0.0.0.0" in hosts or "::" in hosts:
        found += [*_local_ipv4(ipv4), *_local_ipv6(ipv6)]
    known = (canonical_address(text) for text in found)  # a host name is none
    addresses = (ipaddress.ip_address(text) for text in dict.fromkeys(known) if text is not None)
    usable = (one for one in addresses if not (one.is_loopback or one.is_unspecified or one.is_link_local))
    return tuple(str(one) for one in islice(usable, _MOST_OWN_ADDRESSES))


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
