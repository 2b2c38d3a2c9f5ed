"""What every proxy mode is to the agent, and what it is told. The modes are in directories of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, runtime_checkable

from bridgehead.network.ruleset_events import Touched

from .addresses import Family, of_family
from .changes import Frontends, FrontendTable, Update
from .frontends import Frontend, Problem


@dataclass(frozen=True)
class Settings:
    """What the fixed part of the ruleset depends on. Ranges are canonical CIDRs of either family.

    `cluster_cidrs`: where pods live. `service_cidrs`: where cluster IPs are given out, () when that is not known.
    `node_port_cidrs`: the addresses of this node that answer on node ports; None: all of them but loopback, unless
    `localhost_node_ports`. `pod_interface`: with it, pods are told by where their packets come in, not by
    `cluster_cidrs`; if it ends with `*`, by all interfaces that begin so. `masquerade_mark`: of the packets that get an
    address of this node. `own_pod_cidrs`: where this node's own pods live, () when that is not known. `node_name`: so
    that not all nodes begin with the same backend where backends have turns.
    """

    families: tuple[Family, ...] = (4,)
    cluster_cidrs: tuple[str, ...] = ()
    service_cidrs: tuple[str, ...] = ()
    node_port_cidrs: tuple[str, ...] | None = None
    localhost_node_ports: bool = False
    pod_interface: str = ""
    masquerade_mark: int = 0x4000  # kube-proxy's default, which CNIs know to leave alone
    own_pod_cidrs: tuple[str, ...] = ()
    node_name: str = ""

    def insider_cidrs(self, family: Family) -> tuple[str, ...]:
        """Whose connections `Frontend.inside` is for, besides the node's: those of its own pods.

        A pod of another node must not be sent on to a third: the answer would not come back this way, and is not
        translated then (kubernetes #74383). kube-proxy takes the whole cluster's; so it is here when nobody knows
        which are the node's own.
        """
        everybodys, own = of_family(self.cluster_cidrs, family), of_family(self.own_pod_cidrs, family)
        return own if own and everybodys else everybodys


class Repair(NamedTuple):
    """What was found wrong and put right. `structure`: tables, chains or rules; `elements`: how many."""

    structure: bool
    elements: int

    @property
    def is_nothing(self) -> bool:
        return not self.structure and not self.elements


NOTHING: Final = Repair(structure=False, elements=0)


class Watched(NamedTuple):
    """Which objects of nf_tables are a mode's rules: tables by name, and in them the chains that begin so (() is all).

    A mode whose every rule is there is told by the kernel when somebody else changes one.
    """

    tables: frozenset[str]
    chains: tuple[str, ...] = ()

    def concerns(self, table: str, chain: str) -> bool:
        """Whether a change of that chain, or of something else in the table (chain ""), is one of our rules'."""
        return table in self.tables and (not self.chains or chain.startswith(self.chains))


class Mode(Protocol):
    """A way to make the kernel do what Frontends say; every method may raise TransactionFailed."""

    name: str

    @property
    def watched(self) -> Watched | None:
        """None: the kernel tells nothing of others' changes; `verify` has to be called all the time."""

    @property
    def settings(self) -> Settings: ...

    def configure(self, settings: Settings) -> None:
        """Use other settings from the next `sync` on."""

    def unsupported(self, frontend: Frontend) -> Problem | None:
        """What a Frontend asks for and does not get."""

    async def apply(self, updates: Sequence[Update]) -> int:
        """Bring the kernel from before the updates to after. Returns the elements touched.

        After a failure only `sync` may follow.
        """

    async def sync(self, table: FrontendTable) -> int:
        """Make the kernel hold the table's Frontends and nothing else of ours. Returns the elements touched."""

    async def verify(self, table: FrontendTable, *, thoroughly: bool) -> Repair | None:
        """Put right what somebody else changed. None: nothing was wrong."""

    async def let_through(self, address: str, port: int) -> bool:
        """Let TCP connections to this address pass by the rules that an earlier proxy left, until the next `sync`.

        False: there are none, they do so already, or the address is a cluster IP, to which they are the only way.
        """

    async def remove(self) -> bool:
        """Take everything of this mode out of the kernel. False: there was nothing."""

    def render(self, table: FrontendTable) -> str:
        """The whole ruleset as text, as for an empty kernel."""


@runtime_checkable
class Listening(Protocol):
    """A mode to whose own sockets the kernel leads connections."""

    def listening(self) -> Collection[tuple[str, int]]:
        """Where, by address and port."""


@runtime_checkable
class Counting(Protocol):
    """A mode with as many rules as there are Services and backends, so that people want to know how many."""

    def rule_counts(self) -> Mapping[str, int]:
        """By table."""


@runtime_checkable
class Rehearsing(Protocol):
    """A mode that can ask the kernel without changing anything."""

    async def rehearse(self, table: FrontendTable) -> None:
        """Raise what a `sync` of this table alone would raise if there were no rules yet."""


# The transactions of which all is known that they touched of a mode's rules, by the generation that each made.
Heard = Mapping[int, Sequence[Touched]]


@runtime_checkable
class Mending(Protocol):
    """A mode that can put right what it is told of, at a cost that does not depend on how many rules there are."""

    async def mend(self, table: Frontends, heard: Heard) -> Repair | None:
        """Put right what others' transactions changed. None: there were some that were not heard; `verify` has to look.

        Returns NOTHING if nothing was wrong. Raises TransactionFailed.
        """
