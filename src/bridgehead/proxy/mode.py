"""The interface of a proxy mode, and the settings that it is given. Each mode is a package of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, runtime_checkable

from bridgehead.network.ruleset_events import RulesetChange

from .address_texts import Family, of_family
from .frontend_table import Frontends, FrontendTable, Update
from .frontends import Frontend, Problem


@dataclass(frozen=True)
class Settings:
    """The input of the fixed part of a ruleset. Ranges are canonical CIDRs of either family.

    `cluster_cidrs`: the ranges of all pods. `service_cidrs`: the ranges of cluster IPs; () if unknown.
    `node_port_cidrs`: the addresses of this node that answer on node ports; None: all of them but loopback, unless
    `localhost_node_ports`. `pod_interface`: if set, pods are recognized by the interface on which their packets arrive,
    not by `cluster_cidrs`; a trailing `*` matches all interfaces with that prefix. `masquerade_mark`: the mark of
    packets that get an address of this node as their source. `own_pod_cidrs`: the ranges of this node's pods; () if
    unknown.
    """

    families: tuple[Family, ...] = (4,)
    cluster_cidrs: tuple[str, ...] = ()
    service_cidrs: tuple[str, ...] = ()
    node_port_cidrs: tuple[str, ...] | None = None
    localhost_node_ports: bool = False
    pod_interface: str = ""
    masquerade_mark: int = 0x4000  # kube-proxy's default, which CNIs know to leave alone
    own_pod_cidrs: tuple[str, ...] = ()

    def internal_cidrs(self, family: Family) -> tuple[str, ...]:
        """Return the sources, besides the node itself, that use `Frontend.cluster_backends`: this node's pods.

        A pod of another node must not be sent to a third node: the answer would not come back through this node, and
        would not be translated (kubernetes #74383). kube-proxy takes the pods of the whole cluster, as does Bridgehead
        if this node's own ranges are unknown.
        """
        cluster, own = of_family(self.cluster_cidrs, family), of_family(self.own_pod_cidrs, family)
        return own if own and cluster else cluster


class Repair(NamedTuple):
    """The result of a repair. `structure`: tables, chains or rules were repaired; `elements`: how many were."""

    structure: bool
    elements: int

    @property
    def is_nothing(self) -> bool:
        return not self.structure and not self.elements


NO_REPAIR: Final = Repair(structure=False, elements=0)


class Watched(NamedTuple):
    """The objects of nf_tables that are a mode's rules: tables by name, and the prefixes of their chains (() is all).

    If all rules of a mode are in nf_tables, the kernel reports when another program changes one.
    """

    tables: frozenset[str]
    chains: tuple[str, ...] = ()

    def concerns(self, table: str, chain: str) -> bool:
        """Return whether a change of that chain, or of another object in the table (chain ""), changes our rules."""
        return table in self.tables and (not self.chains or chain.startswith(self.chains))


class Mode(Protocol):
    """A proxy mode: programs Frontends into the kernel. Every method may raise TransactionFailed."""

    name: str

    @property
    def watched(self) -> Watched | None:
        """The rules whose changes the kernel reports; None: it reports none, so `verify` must run regularly."""

    @property
    def settings(self) -> Settings: ...

    @property
    def families(self) -> tuple[Family, ...]:
        """The address families that the mode can program on this node; exact after the probe of `open_mode`."""

    def configure(self, settings: Settings) -> None:
        """Use other settings from the next `sync` on."""

    def unsupported(self, frontend: Frontend) -> Problem | None:
        """Return the problem if this mode does not support a property of the Frontend."""

    async def apply(self, updates: Sequence[Update]) -> int:
        """Bring the kernel from the state before the updates to the state after them. Returns the changed elements.

        After a failure only `sync` may follow.
        """

    async def sync(self, table: FrontendTable) -> int:
        """Make the kernel hold the table's Frontends and no other rules of ours. Returns the changed elements."""

    async def verify(self, table: FrontendTable, *, thoroughly: bool) -> Repair | None:
        """Repair what another program changed. None: nothing was wrong."""

    async def let_through(self, address: str, port: int) -> bool:
        """Exempt TCP connections to this address from the rules that an earlier proxy left, until the next `sync`.

        False: there are no rules, the address is exempt already, or it is a cluster IP, which needs the rules.
        """

    async def remove(self) -> bool:
        """Remove all rules of this mode from the kernel. False: there were none."""

    def render(self, table: FrontendTable) -> str:
        """Return the whole ruleset as text, as for an empty kernel."""


@runtime_checkable
class Listening(Protocol):
    """A mode that serves connections on sockets of its own."""

    def listening(self) -> Collection[tuple[str, int]]:
        """Return the addresses and ports of its sockets."""


@runtime_checkable
class Counting(Protocol):
    """A mode whose number of rules grows with Services and backends, and is a metric."""

    def rule_counts(self, family: Family) -> Mapping[str, int]:
        """Return the number of rules of each of the family's tables."""


@runtime_checkable
class Validating(Protocol):
    """A mode that can have rules validated without changing the kernel."""

    async def validate(self, table: FrontendTable) -> None:
        """Raise what a `sync` of this table would raise in a kernel without rules."""


@runtime_checkable
class SharingNames(Protocol):
    """A mode whose rules have kube-proxy's names, so that kube-proxy takes them over."""

    async def remove_leftovers(self, mode: str, *, is_last: bool = False) -> bool:
        """Remove what kube-proxy, which serves in that mode, does not use. False: there was nothing.

        Raises TransactionFailed. `is_last`: kube-proxy will not write more than it has.
        """


# The transactions that were observed completely, by ruleset generation: the objects of a mode's rules that each
# changed.
ObservedCommits = Mapping[int, Sequence[RulesetChange]]


@runtime_checkable
class Repairing(Protocol):
    """A mode that can repair observed changes at a cost that does not depend on the number of rules."""

    async def repair(self, table: Frontends, observed: ObservedCommits) -> Repair | None:
        """Repair what other programs' transactions changed. None: some were not observed, and `verify` is needed.

        Returns NO_REPAIR if nothing was wrong. Raises TransactionFailed.
        """
