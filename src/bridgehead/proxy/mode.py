"""What every proxy mode is to the agent, and what it is told. The modes are in directories of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from .changes import FrontendTable, Update
from .frontends import Family, Frontend, Problem


@dataclass(frozen=True)
class Settings:
    """What the fixed part of the ruleset depends on. Ranges are canonical CIDRs of either family.

    `cluster_cidrs`: where pods live. `service_cidrs`: where cluster IPs are given out, () when that is not known.
    `node_port_cidrs`: the addresses of this node that answer on node ports; None: all of them but loopback.
    """

    families: tuple[Family, ...] = (4,)
    cluster_cidrs: tuple[str, ...] = ()
    service_cidrs: tuple[str, ...] = ()
    node_port_cidrs: tuple[str, ...] | None = None


class Repair(NamedTuple):
    """What `verify` found wrong and put right. `structure`: tables, chains or rules; `elements`: how many."""

    structure: bool
    elements: int


class Mode(Protocol):
    """A way to make the kernel do what Frontends say; every method may raise TransactionFailed."""

    name: str

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

    async def remove(self) -> bool:
        """Take everything of this mode out of the kernel. False: there was nothing."""

    def render(self, table: FrontendTable) -> str:
        """The whole ruleset as text, as for an empty kernel."""
