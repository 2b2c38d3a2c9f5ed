"""The connection of a trace to a known destination: expected, made, followed and reported."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from bridgehead.insight.expectations import Expectations, expect_node, service_of
from bridgehead.insight.facts.network_reading import read_network
from bridgehead.insight.facts.network_state import NetworkState, Section
from bridgehead.insight.network_namespaces import NetworkNamespace, NotEntered
from bridgehead.insight.rulesets.comparison import compare
from bridgehead.insight.rulesets.entries import Entry, NodeRules
from bridgehead.insight.rulesets.reading import read_rules
from bridgehead.network.flow_lookup import FlowTuple, TrackedFlow, find_flow
from bridgehead.network.flow_trace import Flow
from bridgehead.network.ipvs_connections import find_connection
from bridgehead.objects.addresses import join_host_port
from bridgehead.proxy.frontends import FrontendKey

from . import steps, verdict
from .capture import CALL_SECONDS, Followed, connect, connect_by_programs, only_programs, rule_texts
from .context import Context
from .destination import Destination
from .expected_path import Client, Expectation, Fate, expect
from .node_capture import FlowEvents
from .observed_path import Journey, journey
from .policy import explain
from .probing import Probe, ProbeResult, make_datagram, marker_of
from .report import Report, Seen
from .routes import RouteFound, read_onward_routes, read_route
from .rule_texts import RuleTexts
from .target import OriginKind
from .verdict import Observation, StepName

_MOST_WATCHED = 8  # nodes at which the connection is followed
_MOST_PODS = 5  # in which is looked whether they listen
_PORTS = (61001, 65535)  # after those that Linux gives to clients by default
_SEGMENT_BYTES = (600, 1100)  # maximum segment sizes that no link has, and that every network carries
_USERSPACE_LINGER_SECONDS = 0.15  # in which the userspace proxy reports that it reached no backend
_FAMILIES = {4: "ip", 6: "ip6"}
_SECTIONS = {
    "nftables": (Section.NFTABLES,),
    "iptables": (Section.IPTABLES, Section.IPTABLES_LEGACY),
    "ipvs": (
        Section.IPTABLES,
        Section.IPTABLES_LEGACY,
        Section.IP_SETS,
        Section.VIRTUAL_SERVERS,
        Section.INTERFACES,
    ),
    "userspace": (Section.NFTABLES, Section.LISTENERS),
}


class Connection:
    """The connection to a known destination."""

    def __init__(self, context: Context, origin: NetworkNamespace | None, destination: Destination) -> None:
        self._context = context
        self._state = context.state
        self._source = context.source
        self._origin = origin
        self._to = destination
        self._protocol = context.request.protocol
        self._unread: list[str] = []

    async def report(self) -> Report:
        route, why_no_route = await read_route(self._origin, self._to.address)
        node = self._entry_node()
        expectations = expect_node(self._state, node)
        expectation = self._expect(expectations, route)
        watched = self._nodes_to_watch(node, expectation)
        (followed, port), network = await asyncio.gather(
            self._connect(node, watched, expectations.mode), self._read_node(node, expectations.mode)
        )
        probe, observed = followed.result, followed.observed
        if self._source.origin.kind is OriginKind.OUTSIDE:
            node, expectations, expectation, network = await self._correct_entry(
                node, expectations, expectation, network, observed, route
            )
        tracked, journeys = await asyncio.gather(
            self._tracked(node, probe, expectations.mode), self._journeys(observed, network, port, node)
        )
        rules, why_no_rules = self._rules(expectations, network)
        differences = self._rule_differences(expectations, expectation, rules)
        entries = rules.of(expectation.frontend.key) if rules is not None and expectation.frontend is not None else ()
        mode = expectations.mode
        if not self._knows_mode and rules is not None and rules.mode is not None:
            mode = str(rules.mode)
        seen = Observation(
            destination=(self._to.address, self._to.port),
            protocol=self._protocol,
            node=node,
            expectation=expectation,
            mode=mode,
            probe=probe,
            tracked=tracked,
            journeys=journeys,
            watched=tuple(observed),
            pods=self._context.pods,
            rule_differences=differences,
        )
        listens, routes = await asyncio.gather(self._listens(seen), self._routes(seen, node, route))
        seen = replace(seen, listens=listens)
        return self._report(seen, expectations, entries, why_no_rules, followed, routes, why_no_route)

    def _report(
        self,
        seen: Observation,
        expectations: Expectations,
        entries: Sequence[Entry],
        why_no_rules: str,
        followed: Followed,
        routes: Sequence[tuple[str, str, RouteFound | None]],
        why_no_route: Sequence[str],
    ) -> Report:
        expectation = seen.expectation
        frontend = expectation.frontend
        death = verdict.find_death(seen)
        does_work = verdict.works(seen)
        found = self._context.steps
        found.append(steps.service_step(seen.destination, self._protocol, frontend, self._to.note, expectation.because))
        if frontend is not None:
            key = service_of(frontend.owner)
            service = self._state.services.get(key)
            reasons = explain(service, self._state.slices_of(key), frontend, expectation, expectations.facts)
            found.append(steps.policy_step(reasons, expectation))
        if frontend is not None or (death is not None and death.step == StepName.RULES):
            found.append(steps.rules_step(seen.node, seen.mode, entries, seen.rule_differences, why_no_rules, death))
        backends = steps.possible_backends(expectation, seen.pods)
        found.append(steps.backends_step(backends, expectation, seen.mode == "userspace"))
        if backends or seen.backend is not None or (death is not None and death.step == StepName.ROUTE):
            found.append(steps.route_step(routes, why_no_route, death))
        if backends or seen.backend is not None:
            found.append(steps.pod_step(seen, death))
        interfaces = {name: one.interfaces for name, one in followed.observed.items()}
        found.append(steps.connection_step(seen, followed.why_not, interfaces, self._unread, does_work))
        self._context.differences += verdict.differences(seen)
        probe = seen.probe
        return msgspec.structs.replace(
            self._context.report(verdict.verdict(seen), works=does_work),
            destination=join_host_port(*seen.destination),
            backends=backends,
            seen=None if probe is None else _seen(seen, probe),
        )

    # --- The expectation ----------------------------------------------------------------------------------------

    def _entry_node(self) -> str:
        if self._source.node:
            return self._source.node
        node = self._state.nodes_by_address.get(self._to.address)
        if node is not None:
            return node.metadata.name
        return min((name for name, one in self._state.nodes.items() if one.is_ready), default="")

    def _expect(self, expectations: Expectations, route: RouteFound | None) -> Expectation:
        family = 6 if ":" in self._to.address else 4
        source = self._source.addresses.get(family, "")
        if route is not None and (self._source.is_node or not source):
            source = route.source
        key = FrontendKey(self._to.address, self._protocol, self._to.port)
        unspecified = "::" if family == 6 else "0.0.0.0"
        node = self._state.nodes.get(expectations.node)
        found = expect(
            key,
            Client(source or unspecified, is_node=self._source.is_node),
            expectations.table,
            expectations.facts,
            expectations.settings,
            mode=expectations.mode,
            local_addresses=[one.address for one in node.status.addresses] if node is not None else (),
        )
        unread = expectations.unread
        if found.frontend is None or (owner := service_of(found.frontend.owner)) not in unread:
            return found
        because = f"the EndpointSlices of Service {owner} could not be read"
        return Expectation(fate=Fate.UNKNOWN, because=because, frontend=found.frontend)

    def _nodes_to_watch(self, node: str, expectation: Expectation) -> list[str]:
        names = [node] if node else []
        names += [one.backend.node for one in expectation.choices if one.backend.node]
        if self._source.origin.kind is OriginKind.OUTSIDE:
            names += sorted(self._state.nodes)
        pod = self._state.pods_by_address.get(self._to.address)
        if pod is not None:
            names.append(pod.spec.node_name)
        has_seen = self._state.has_seen("nodes")
        return [name for name in dict.fromkeys(names) if name in self._state.nodes or not has_seen][:_MOST_WATCHED]

    async def _correct_entry(
        self,
        node: str,
        expectations: Expectations,
        expectation: Expectation,
        network: NetworkState | None,
        observed: dict[str, FlowEvents],
        route: RouteFound | None,
    ) -> tuple[str, Expectations, Expectation, NetworkState | None]:
        """Return the node that got the connection from outside, if it was another one than was assumed."""
        real = next((name for name, one in observed.items() if _has_packet_to(one, self._to)), node)
        if real == node:
            return node, expectations, expectation, network
        expectations = expect_node(self._state, real)
        return real, expectations, self._expect(expectations, route), await self._read_node(real, expectations.mode)

    # --- Reads --------------------------------------------------------------------------------------------------

    async def _routes(
        self, seen: Observation, node: str, route: RouteFound | None
    ) -> list[tuple[str, str, RouteFound | None]]:
        found: list[tuple[str, str, RouteFound | None]] = []
        if self._origin is not None and (route is not None or not await only_programs(self._origin)):
            found.append((self._origin.name, self._to.address, route))
        backends = [seen.backend[0]] if seen.backend is not None else []
        backends = backends or [one.backend.address for one in seen.expectation.choices[:_MOST_PODS]]
        namespace = await self._context.node(node) if node and backends else None
        return found + await read_onward_routes(node, namespace, backends)

    async def _read_node(self, node: str, mode: str) -> NetworkState | None:
        namespace = await self._context.node(node) if node else None
        if namespace is None:
            return None
        sections = _SECTIONS.get(mode, ()) if self._knows_mode else ()
        sections = sections or (Section.NFTABLES, Section.IPTABLES, Section.IPTABLES_LEGACY, Section.LISTENERS)
        return await read_network(namespace, sections, seconds=CALL_SECONDS)

    @property
    def _knows_mode(self) -> bool:
        """Whether the proxies' mode was read: from what they publish, or from their configuration."""
        return self._state.has_seen("leases") or self._state.has_seen("configmaps")

    def _rules(self, expectations: Expectations, network: NetworkState | None) -> tuple[NodeRules | None, str]:
        """Return the node's rules, and why they are not known."""
        if network is None:
            return None, "the node could not be entered"
        if network.unseen:
            return None, "; ".join(f"{section}: {why}" for section, why in network.unseen.items())
        return read_rules(network, expectations.table, expectations.table.cluster_ips()), ""

    def _rule_differences(
        self, expectations: Expectations, expectation: Expectation, rules: NodeRules | None
    ) -> tuple[str, ...]:
        """Return the differences between the rules and the expected ones that concern the connection."""
        if rules is None or expectation.frontend is None or not self._knows_mode:
            return ()
        key, service = expectation.frontend.key, str(service_of(expectation.frontend.owner))
        return tuple(
            f"{expectations.node}: {one.text}"
            for one in compare(expectations, rules)
            if one.frontend == key or (one.frontend is None and one.service.rpartition(":")[0] in ("", service))
        )

    async def _listens(self, seen: Observation) -> dict[str, bool]:
        candidates = [seen.backend] if seen.backend is not None else []
        candidates = candidates or [(one.backend.address, one.backend.port) for one in seen.expectation.choices]
        if not candidates and seen.expectation.fate is Fate.UNTRANSLATED:
            candidates = [seen.destination]
        found = await asyncio.gather(*(self._listens_at(one) for one in candidates[:_MOST_PODS]))
        return {join_host_port(*one): is_so for one, is_so in zip(candidates, found, strict=False) if is_so is not None}

    async def _listens_at(self, address: tuple[str, int]) -> bool | None:
        """Return whether a process of the pod or node with this address listens on the port; None: not known."""
        try:
            namespace = await self._namespace_of(address[0])
            if namespace is None:
                return None
            state = await read_network(namespace, (Section.LISTENERS,), seconds=CALL_SECONDS)
        except NotEntered as error:
            self._context.unseen[f"the listeners at {address[0]}: {error}"] = None
            return None
        if state.unseen:
            self._context.unseen[f"{namespace.name}: {'; '.join(state.unseen.values())}"] = None
            return None
        everywhere = ("0.0.0.0", "::") if ":" not in address[0] else ("::",)
        return any(
            one.protocol == self._protocol and one.port == address[1] and one.address in (address[0], *everywhere)
            for one in state.listeners
        )

    async def _namespace_of(self, address: str) -> NetworkNamespace | None:
        pod = self._state.pods_by_address.get(address)
        if pod is not None:
            return await self._context.namespaces.pod(pod.key)
        node = self._state.nodes_by_address.get(address)
        return await self._context.namespaces.node(node.metadata.name) if node is not None else None

    async def _tracked(self, node: str, probe: ProbeResult | None, mode: str) -> TrackedFlow | None:
        if probe is None or not probe.source[0] or not node:
            return None
        namespace = await self._context.node(node)
        if namespace is None:
            return None
        wanted = FlowTuple(self._protocol, probe.source, (self._to.address, self._to.port))
        try:
            found = await namespace.call(find_flow, wanted, seconds=CALL_SECONDS)
            if mode == "ipvs" and (found is None or found.reply_source == wanted.destination):
                # The sysctl net.ipv4.vs.conntrack may be off.
                found = await namespace.call(find_connection, wanted, seconds=CALL_SECONDS) or found
            return found
        except NotEntered as error:
            self._unread.append(f"connection tracking of {node}: {error}")
            return None

    # --- The connection -----------------------------------------------------------------------------------------

    async def _connect(self, node: str, watched: Sequence[str], mode: str) -> tuple[Followed, int]:
        """Make the connection; return also the client's port."""
        port = random.randint(*_PORTS)
        probe = Probe(
            protocol=self._protocol,
            address=self._to.address,
            port=self._to.port,
            source_port=port,
            segment_bytes=random.randint(*_SEGMENT_BYTES) if self._protocol == "tcp" else 0,
            datagram=make_datagram(self._to.port, secrets.token_bytes(8)) if self._protocol == "udp" else b"",
            linger_seconds=_USERSPACE_LINGER_SECONDS if mode == "userspace" else 0.0,
        )
        if self._origin is None:
            return Followed(None, "the origin could not be entered"), port
        if await only_programs(self._origin):
            return await connect_by_programs(self._origin, probe), port
        flows = {}
        namespaces = await asyncio.gather(*(self._context.node(one) for one in watched))
        for name, namespace in zip(watched, namespaces, strict=True):
            flow = self._flow(probe, is_first=name == node and self._source.origin.kind is not OriginKind.OUTSIDE)
            if namespace is not None and flow is not None:
                flows[name] = namespace, flow
        found = await connect(self._origin, probe, flows)
        self._unread += found.problems
        return found, port

    def _flow(self, probe: Probe, *, is_first: bool) -> Flow | None:
        """Return the packets to follow; at nodes after the first one, those that the probe marks. None: no mark."""
        base = Flow(name=str(probe.source_port), protocol=probe.protocol, address=probe.address)
        if is_first:
            return msgspec.structs.replace(base, port=probe.port, source_port=probe.source_port)
        offset, marker = marker_of(probe)
        return msgspec.structs.replace(base, offset=offset, marker=marker) if marker else None

    async def _journeys(
        self, observed: dict[str, FlowEvents], network: NetworkState | None, port: int, node: str
    ) -> tuple[Journey, ...]:
        found = await asyncio.gather(
            *(self._journey(name, one, network if name == node else None, port) for name, one in observed.items())
        )
        return tuple(one for one in found if one.packets)

    async def _journey(self, name: str, observed: FlowEvents, network: NetworkState | None, port: int) -> Journey:
        namespace = await self._context.node(name)
        texts: RuleTexts = {}
        if namespace is not None:
            saved = network.iptables if network is not None else {}
            printed = {_FAMILIES[family]: text.decode(errors="replace") for family, text in saved.items()}
            texts, problem = await rule_texts(namespace, observed, printed)
            if problem:
                self._unread.append(problem)
        return journey(name, observed.events, texts, port)


def _has_packet_to(observed: FlowEvents, to: Destination) -> bool:
    headers = (event.header for event in observed.events if event.header is not None)
    return any(one.destination == to.address and one.destination_port == to.port for one in headers)


def _seen(seen: Observation, probe: ProbeResult) -> Seen:
    backend = seen.backend
    return Seen(
        outcome=probe.outcome,
        source=join_host_port(*probe.source) if probe.source[0] else "",
        milliseconds=probe.milliseconds,
        backend=join_host_port(*backend) if backend is not None else "",
        pod=seen.pods.get(backend[0], "") if backend is not None else "",
        client=seen.client,
    )
