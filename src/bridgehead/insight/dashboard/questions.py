"""Answers to what a page asks: a Service's path through a node's kernel, its DNS records, figures, rules and YAML.

Each question is a function of the parameters in the request's query. It returns a value that encodes to JSON, or
raises Unanswerable, NoManifest, ClientError or NotEntered. Everything in it is bounded and printable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from bridgehead.client import ApiClient
from bridgehead.insight.doctor.diagnosis import Diagnosis
from bridgehead.insight.doctor.reading import examine
from bridgehead.insight.doctor.subjects import Target
from bridgehead.insight.expectations import Expectations, expect_node
from bridgehead.insight.facts.cluster_reading import read_cluster
from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.insight.facts.network_reading import read_node
from bridgehead.insight.facts.network_state import RULES, NetworkState, Section
from bridgehead.insight.facts.system_object_names import DNS_SERVICE
from bridgehead.insight.findings import printable
from bridgehead.insight.live.cluster import LiveCluster
from bridgehead.insight.live.rows import NodeRow, ServiceRow
from bridgehead.insight.live.updates import Table
from bridgehead.insight.network_namespaces import NetworkNamespaces, NotEntered
from bridgehead.insight.rulesets.entries import NodeRules
from bridgehead.insight.rulesets.reading import read_rules
from bridgehead.insight.trace.context import Request
from bridgehead.insight.trace.destination import PortMissing
from bridgehead.insight.trace.dns_queries import Questions as DnsQuestions
from bridgehead.insight.trace.dns_queries import ask_names
from bridgehead.insight.trace.name_resolution import DnsAnswer
from bridgehead.insight.trace.origins import NoOrigin
from bridgehead.insight.trace.target import BadTarget, Origin, OriginKind, TargetKind, parse_target
from bridgehead.insight.trace.tracing import trace
from bridgehead.objects.meta import ObjectKey

from .connection_counts import count_connections, service_addresses
from .dns_records import records_of, with_answer
from .errors import Unanswerable
from .flow_watch import Count
from .history import History
from .manifests import read_manifest
from .service_paths import service_path
from .shared_readings import SharedReadings

CLUSTER_SECONDS = 0.5  # an answer may be as old: several questions of one page share a reading
KERNEL_SECONDS = 1.0
MOST_LINES = 5_000  # of a node's rules in one answer
MOST_FINDINGS = 20
MOST_EVIDENCE = 20
MOST_NODES = 50  # whose connections are counted
_LONGEST_LINE = 400

Parameters = Mapping[str, str]
Question = Callable[[Parameters], Awaitable[Any]]


class Questions:
    """Answers for one cluster. `snapshot` returns the rows of the live model."""

    def __init__(
        self,
        client: ApiClient,
        namespaces: NetworkNamespaces,
        live: LiveCluster,
        history: History,
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._live = live
        self._history = history
        self._clusters: SharedReadings[ClusterState] = SharedReadings(CLUSTER_SECONDS)
        self._kernels: SharedReadings[NetworkState] = SharedReadings(KERNEL_SECONDS)
        self._diagnoses: SharedReadings[Diagnosis] = SharedReadings(CLUSTER_SECONDS)
        self._rules: SharedReadings[tuple[Expectations, NodeRules, str]] = SharedReadings(KERNEL_SECONDS)

    @property
    def by_name(self) -> Mapping[str, Question]:
        """The questions by the name under which pages ask them."""
        return {
            "yaml": self.yaml,
            "series": self.series,
            "rules": self.rules,
            "path": self.path,
            "dns": self.dns,
            "findings": self.findings,
            "trace": self.trace,
        }

    async def yaml(self, asked: Parameters) -> Any:
        return {"yaml": await read_manifest(self._client, asked.get("kind", ""), asked.get("name", ""))}

    async def series(self, asked: Parameters) -> Any:
        """Return figures over time: latencies of a node's proxy, or of a Service, with the slowest node's latencies."""
        names: list[str] = []
        nodes = [asked["node"]] if asked.get("node") else [row.key for row in self._rows(Table.NODES)][:MOST_NODES]
        if not asked.get("node"):
            key = _service_key(asked)
            names = [f"connections {key}", f"errors {key}"]
        latencies = [f"{series} {node}" for series in ("sync", "programmed") for node in nodes]
        times, columns = self._history.read([*names, *latencies], time.time())
        found = {name.partition(" ")[0]: column for name, column in zip(names, columns, strict=False)}
        for series, first in (("sync", len(names)), ("programmed", len(names) + len(nodes))):
            rings = columns[first : first + len(nodes)]
            found[series] = [_largest([ring[at] for ring in rings]) for at in range(len(times))]
        return {"times": times, "series": found}

    async def rules(self, asked: Parameters) -> Any:
        """Return lines of a node's rules, all or those of a Service: [text, Service, container, meaning]."""
        expected, rules, unseen = await self._read_rules(self._node(asked), "")
        entries = rules.of_service(str(_service_key(asked))) if asked.get("service") else rules.entries
        return {
            "mode": printable(rules.mode or expected.mode, 63),
            "total": len(entries),
            "lines": [
                [
                    printable(entry.text.strip(), _LONGEST_LINE),
                    printable(entry.service, _LONGEST_LINE),
                    printable(entry.container, _LONGEST_LINE),
                    printable(entry.meaning, _LONGEST_LINE),
                ]
                for entry in entries[:MOST_LINES]
            ],
            "unseen": unseen,
            "problems": [printable(problem) for problem in rules.problems[:20]],
        }

    async def path(self, asked: Parameters) -> Any:
        """Return the path of a connection to a Service from a pod on a node."""
        key, node = _service_key(asked), self._node(asked)
        state = await self._read_cluster(key.namespace)
        service = state.services.get(key)
        if service is None:
            raise Unanswerable("there is no such Service")
        try:
            index = int(asked.get("port") or 0)
        except ValueError:
            index = 0
        expected, rules, unseen = await self._read_rules(node, key.namespace)
        return service_path(service, expected, state, rules if not unseen else None, unseen, index)

    async def dns(self, asked: Parameters) -> Any:
        """Return the names of a Service with their records, and the DNS's own answer for the first one.

        The question is asked from a node; `server` is "" where that is not possible.
        """
        key = _service_key(asked)
        state = await self._read_cluster(key.namespace)
        service = state.services.get(key)
        if service is None:
            raise Unanswerable("there is no such Service")
        [own, *others] = records_of(service, state)
        answer = await self._ask_dns(own.name, state)
        if answer is not None:
            own = with_answer(own, answer)
        return {"server": answer.server if answer is not None else "", "answers": [own, *others]}

    async def findings(self, asked: Parameters) -> Any:
        """Return what doctor finds about a Service, the first cause first."""
        key = _service_key(asked)
        found = await self._diagnoses.get(
            key, lambda: examine(self._client, self._namespaces, [Target(key)], key.namespace)
        )
        return {
            "findings": [
                {
                    "cause": printable(finding.cause, 63),
                    "subject": printable(finding.subject),
                    "text": printable(finding.text),
                    "fix": printable(finding.fix),
                    "evidence": [printable(line) for line in finding.evidence[:MOST_EVIDENCE]],
                    "severity": finding.severity,
                }
                for finding in found.findings[:MOST_FINDINGS]
            ],
            "unseen": [printable(str(each)) for each in found.unseen[:MOST_FINDINGS]],
        }

    async def trace(self, asked: Parameters) -> Any:
        """Make one connection from a node to an address of a Service, and return the report of `bridgehead trace`."""
        node = self._node(asked)
        destination, _, protocol = asked.get("port", "").partition("/")
        host, _, port = destination.rpartition(":")
        if host in ("0.0.0.0", "[::]"):
            host = next((row.ip for row in self._rows(Table.NODES) if row.key == node), "")
        try:
            target = parse_target(f"{host}:{port}")
        except BadTarget as error:
            raise Unanswerable(str(error)) from None
        known = service_addresses(self._rows(Table.SERVICES), self._rows(Table.NODES))
        if target.kind is not TargetKind.ADDRESS or (protocol, target.name, int(target.port or 0)) not in known:
            raise Unanswerable("this is no address of a Service")
        request = Request(target=target, text=destination, origin=Origin(OriginKind.NODE, node), protocol=protocol)
        try:
            return await trace(self._client, self._namespaces, request)
        except (NoOrigin, PortMissing) as error:
            raise Unanswerable(str(error)) from None

    async def count(self) -> Count:
        """Return the connections of all nodes by Service and backend."""
        nodes = [row for row in self._rows(Table.NODES) if isinstance(row, NodeRow)]
        services = [row for row in self._rows(Table.SERVICES) if isinstance(row, ServiceRow)]
        states = await asyncio.gather(*(self._read_connections(node.name) for node in nodes[:MOST_NODES]))
        unseen = [
            f"{node.name}: {state.unseen[Section.CONNECTIONS]}"
            for node, state in zip(nodes, states, strict=False)
            if Section.CONNECTIONS in state.unseen
        ]
        if len(nodes) > MOST_NODES:
            unseen.append(f"{len(nodes) - MOST_NODES} more nodes")
        connections = (each for state in states for each in state.connections)
        count = count_connections(connections, service_addresses(services, nodes))
        return msgspec.structs.replace(count, unseen=printable("; ".join(unseen)))

    # Readings

    def _rows(self, table: Table) -> tuple[Any, ...]:
        return tuple(self._live.snapshot((table,)).rows[table])

    def _node(self, asked: Parameters) -> str:
        node = asked.get("node", "")
        if node not in {row.key for row in self._rows(Table.NODES)}:
            raise Unanswerable("there is no such node")
        return node

    async def _read_cluster(self, namespace: str) -> ClusterState:
        return await self._clusters.get(namespace, lambda: read_cluster(self._client, namespace))

    async def _read_connections(self, node: str) -> NetworkState:
        return await read_node(self._namespaces, node, (Section.CONNECTIONS,), seconds=10)

    async def _ask_dns(self, name: str, state: ClusterState) -> DnsAnswer | None:
        """Ask the cluster's DNS for a name, from one of the nodes; None if no node can be entered."""
        service = state.services.get(DNS_SERVICE)
        server = service.spec.cluster_ip if service is not None else ""
        nodes = [row.key for row in self._rows(Table.NODES) if row.is_ready]
        if not nodes or server in ("", "None"):
            return None
        try:
            namespace = await self._namespaces.node(nodes[0])
            answers = await namespace.call(ask_names, DnsQuestions(server=server, names=(name,)), seconds=3)
        except NotEntered:
            return None
        return answers.answers[0] if answers.answers else None

    async def _read_kernel(self, node: str) -> NetworkState:
        return await read_node(self._namespaces, node, (*RULES, Section.LISTENERS, Section.ROUTES), seconds=15)

    async def _read_rules(self, node: str, namespace: str) -> tuple[Expectations, NodeRules, str]:
        """Return what a node should have, what its kernel has, and why that is unknown ("" if it is known)."""

        async def read() -> tuple[Expectations, NodeRules, str]:
            state, network = await asyncio.gather(
                self._read_cluster(namespace), self._kernels.get(node, lambda: self._read_kernel(node))
            )
            return await asyncio.to_thread(_explain, state, node, network)

        return await self._rules.get((node, namespace), read)


def _explain(state: ClusterState, node: str, network: NetworkState) -> tuple[Expectations, NodeRules, str]:
    expected = expect_node(state, node, network)
    rules = read_rules(network, expected.table, expected.table.cluster_ips())
    unseen = "; ".join(f"{section}: {why}" for section, why in network.unseen.items() if section in RULES)
    return expected, rules, printable(unseen)


def _service_key(asked: Parameters) -> ObjectKey:
    namespace, slash, name = asked.get("service", "").partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise Unanswerable("this is no name of a Service")
    return ObjectKey(namespace, name)


def _largest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
