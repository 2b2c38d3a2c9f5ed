"""The input of a trace, and what its parts add to the report."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.insight.findings import printable
from bridgehead.insight.network_namespaces import NetworkNamespace, NetworkNamespaces, NotEntered

from .origins import Source
from .report import Report, Step
from .target import Origin, Target

# Kinds of objects that decide the way of a connection.
_KINDS = ("services", "endpointslices", "pods", "nodes", "leases", "configmaps", "servicecidrs")
_LONGEST_VERDICT = 600


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """`namespace`: that of names without one, and of the default origin."""

    target: Target
    text: str  # of the target, as the user wrote it
    origin: Origin | None = None
    namespace: str = "default"
    protocol: str = "tcp"


@dataclass(kw_only=True)
class Context:
    """`unseen`: parts that could not be looked at, as keys. `pods`: `namespace/name` by address."""

    state: ClusterState
    namespaces: NetworkNamespaces
    request: Request
    source: Source
    unseen: dict[str, None] = field(default_factory=dict)
    pods: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        kinds = {one.what: one for one in self.state.unseen if one.what in _KINDS}
        self.unseen.update((str(one), None) for one in kinds.values())
        self.pods.update((address, str(pod.key)) for address, pod in self.state.pods_by_address.items())

    async def node(self, name: str) -> NetworkNamespace | None:
        """Return a node's namespace; None if it cannot be entered."""
        try:
            return await self.namespaces.node(name)
        except NotEntered as error:
            self.unseen[f"node {name}: {error}"] = None
            return None

    def report(self, verdict: str, *, works: bool | None) -> Report:
        return Report(
            verdict=printable(verdict, _LONGEST_VERDICT),
            works=works,
            origin=str(self.source.origin),
            target=self.request.text,
            protocol=self.request.protocol,
            differences=tuple(self.differences),
            steps=tuple(self.steps),
            unseen=tuple(self.unseen),
        )
