"""The rules of one node: each line of the kernel with the Service that it is there for.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import msgspec

from bridgehead.insight.facts.network_state import VirtualServer
from bridgehead.proxy.address_texts import AddressPort
from bridgehead.proxy.frontends import FrontendKey


class Mechanism(enum.StrEnum):
    """The facility of the kernel to which a line belongs."""

    NFTABLES = "nftables"
    IPTABLES = "iptables"
    IPTABLES_LEGACY = "iptables-legacy"
    IPVS = "ipvs"
    IP_SET = "ip set"
    ADDRESS = "address"
    LISTENER = "listener"


class RulesMode(enum.StrEnum):
    """A service proxy's mode, by its rules in the kernel.

    This project and kube-proxy have the same chains in modes iptables and ipvs, and tables of their own for nftables.
    """

    NFTABLES = "nftables"
    IPTABLES = "iptables"
    IPVS = "ipvs"
    USERSPACE = "userspace"
    KUBE_PROXY_NFTABLES = "kube-proxy's nftables"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a node's rules.

    `container`: `table ip bridgehead, map services`, `table ip nat, chain KUBE-SVC-XYZ`, `virtual server`, `set NAME`,
    `interface kube-ipvs0`.
    `text`: the line as nft, iptables-save, ipvsadm, ipset, ip or ss print it. `meaning`: one sentence. `frontend`: the
    destination address whose connections pass the line; None if many do. `service`: `namespace/name:port`, and
    `namespace/pod/name:port` for a host port; "" if the line is there for all Services. `backend`: `address:port` if
    the line leads to one backend. `packets` and `bytes`: None if the line has no counter.
    """

    mechanism: Mechanism
    container: str
    text: str
    meaning: str
    mode: RulesMode
    frontend: FrontendKey | None = None
    service: str = ""
    backend: str = ""
    packets: int | None = None
    bytes: int | None = None


class KernelFrontend(msgspec.Struct, frozen=True, kw_only=True):
    """A destination address as the rules of one mode serve it.

    `backends`: of all clients; `cluster_backends`: of clients in the cluster, None if they have the same. `verdict`:
    the fate of new connections without a backend, `reject` or `drop`; "" if there are backends. In mode userspace,
    backends are listeners of the proxy: the kernel does not know where they lead. `chains`: those that connections
    pass, as `Entry.container` has them.
    """

    key: FrontendKey
    service: str
    backends: tuple[AddressPort, ...] = ()
    cluster_backends: tuple[AddressPort, ...] | None = None
    verdict: str = ""
    chains: tuple[str, ...] = ()


class IpvsObjects(NamedTuple):
    """The kernel's objects of mode ipvs. `elements`: set and element, as ipset prints them.

    `interfaces`: the addresses of each interface of the node, without prefix lengths; None: not read.
    """

    servers: tuple[VirtualServer, ...]
    elements: tuple[tuple[str, str], ...]
    interfaces: Mapping[str, tuple[str, ...]] | None


@dataclass(frozen=True, kw_only=True)
class NodeRules:
    """A node's rules for Services, in the order in which connections pass them.

    `frontends`: by mode, the destinations that its rules serve. `unexplained`: lines in chains of service proxies that
    belong to no Service that is expected there. `problems`: parts that could not be understood, a line each. `ipvs`:
    None unless there are rules of mode ipvs.
    """

    entries: tuple[Entry, ...] = ()
    frontends: Mapping[RulesMode, Mapping[FrontendKey, KernelFrontend]] = field(default_factory=dict)
    unexplained: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()
    ipvs: IpvsObjects | None = None

    @property
    def modes(self) -> tuple[RulesMode, ...]:
        """The modes whose rules are there: one of them, unless two proxies are at work or one left its rules."""
        return tuple(self.frontends)

    @property
    def mode(self) -> RulesMode | None:
        """The mode whose rules new connections meet first; None without rules."""
        return next(iter(self.frontends), None)

    def of(self, key: FrontendKey) -> tuple[Entry, ...]:
        """Return the lines that connections to a destination pass, without those that all connections pass.

        `key` of a node port has the address 0.0.0.0 or ::.
        """
        served = [found[key] for found in self.frontends.values() if key in found]
        chains = {chain for one in served for chain in one.chains}
        return tuple(e for e in self.entries if e.frontend == key or (e.frontend is None and e.container in chains))

    def of_service(self, service: str) -> tuple[Entry, ...]:
        """Return the lines that are there for a Service, `namespace/name`."""
        return tuple(self._by_service.get(service, ()))

    @cached_property
    def _by_service(self) -> Mapping[str, list[Entry]]:
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            if entry.service:
                found.setdefault(entry.service.rpartition(":")[0], []).append(entry)
        return found
