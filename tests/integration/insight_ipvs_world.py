"""A node in mode ipvs as `bridgehead trace`, `rules`, `flows` and `doctor` look at it, in the guest.

The worker has the objects of a cluster, and no API. Its proxy programs what insight expects of these objects.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, TypeVar, cast
from unittest import mock

from bridgehead.insight.facts.network_local_reading import collect
from bridgehead.insight.forked_namespace import ForkedNamespace
from bridgehead.insight.network_namespaces import SECONDS, NotEntered
from bridgehead.network import syscalls
from bridgehead.objects.meta import ObjectKey

from . import ipvs_world, proxy_world, trace_world
from .proxy_world import NODE4, NODE6, PODS, pod_ip
from .trace_world import TraceWorld

Argument = TypeVar("Argument")
Result = TypeVar("Result")
CONFIG = """
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clusterCIDR: 10.244.0.0/16,fd00:244::/32
mode: ipvs
"""


class InsightWorld(TraceWorld):
    """The test's side."""

    serve = f"{__name__}:serve"

    def program(
        self, services: list[dict[str, Any]], slices: list[dict[str, Any]], *, sets_sysctls: bool = True
    ) -> None:
        """Program these Services alone, as insight expects them."""
        self.ask("program", services=services, slices=slices, sets_sysctls=sets_sysctls)

    def rules(self, *sections: str) -> dict[str, Any]:
        """Read the node, or these sections of it and the others as they were before.

        Return `problems`, `unexplained`, `differences` (kind, Service, text) and `entries` (mechanism, Service,
        meaning, text).
        """
        return self.ask("rules", sections=sections)

    def doctor(self, *sections: str) -> list[list[str]]:
        """Read these sections again, and return what doctor finds in the node's kernel: cause, subject, text."""
        return self.ask("doctor", sections=sections)

    def service_flows(self) -> list[dict[str, Any]]:
        """Return the connections by Service port, as `bridgehead flows -o json` has them."""
        return self.ask("service_flows")

    def trace(self, where: str, address: str, port: int, protocol: str = "tcp") -> dict[str, Any]:
        """Trace a connection from `client`, `node` or a pod; return the report."""
        return self.ask("trace", where=where, address=address, port=port, protocol=protocol)


class _Proxy(trace_world._Proxy, ipvs_world._IpvsProxy):
    def __init__(self, namespaces: dict[str, int], mode: str) -> None:
        from bridgehead.insight.facts.network_state import NetworkState

        super().__init__(namespaces, mode)
        self._seen = NetworkState()
        self._entered: dict[str, _Namespace] = {}
        self._cluster = self._make_cluster([], [])

    def program(self, services: list[dict[str, Any]], slices: list[dict[str, Any]], sets_sysctls: bool) -> None:
        from bridgehead.proxy.ipvs import IpvsMode

        assert isinstance(self._mode, IpvsMode)
        self._entered.clear()
        self._cluster = self._make_cluster(services, slices)
        self._table = self._expected_of_cluster().table
        with contextlib.ExitStack() as kept:
            if not sets_sysctls:
                kept.enter_context(mock.patch.object(self._mode, "_set_sysctls"))
            self.sync()
        proxy_world._forget_connections()

    def _make_cluster(self, services: list[dict[str, Any]], slices: list[dict[str, Any]]) -> Any:
        import msgspec

        from bridgehead.insight.facts.cluster_state import ClusterState, by_key
        from bridgehead.objects.core import ConfigMap, Node, Pod, Service
        from bridgehead.objects.endpoint_slices import EndpointSlice
        from bridgehead.objects.progress import ModeInUse, Progress, Versions

        addresses = [{"type": "InternalIP", "address": address} for address in (NODE4, NODE6)]
        node = {
            "metadata": {"name": "node1", "labels": {"topology.kubernetes.io/zone": trace_world.ZONE}},
            "spec": {"podCIDRs": ["10.244.1.0/24", "fd00:244:1::/64"]},
            "status": {"addresses": addresses, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        pods = [
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"nodeName": "node1", "containers": [{"name": "web", "image": "web"}]},
                "status": {
                    "phase": "Running",
                    "podIP": pod_ip(name),
                    "podIPs": [{"ip": pod_ip(name)}, {"ip": pod_ip(name, 6)}],
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
            for name in PODS
        ]
        config = {"metadata": {"name": "kube-proxy", "namespace": "kube-system"}, "data": {"config.conf": CONFIG}}
        return ClusterState(
            now=0.0,
            services=by_key(msgspec.convert(services, list[Service])),
            slices=tuple(msgspec.convert(slices, list[EndpointSlice])),
            pods=by_key(msgspec.convert(pods, list[Pod])),
            nodes={"node1": msgspec.convert(node, Node)},
            config_maps=by_key([msgspec.convert(config, ConfigMap)]),
            progress={"node1": Progress("node1", Versions(), 0.0, 1e9, (), ModeInUse("ipvs", "ipvs"))},
            service_cidrs=("10.96.0.0/12", "fd00:96::/112"),
        )

    def _expected_of_cluster(self) -> Any:
        from bridgehead.insight.expectations import expect_node

        expected = expect_node(self._cluster, "node1")
        assert expected.settings == self._settings, "the mode was configured otherwise than the cluster asks for"
        return expected

    def rules(self, sections: list[str]) -> dict[str, Any]:
        import msgspec

        from bridgehead.insight.facts.network_local_reading import collect_state
        from bridgehead.insight.facts.network_state import RULES, Section
        from bridgehead.insight.rulesets.comparison import compare
        from bridgehead.insight.rulesets.reading import read_rules

        wanted = tuple(map(Section, sections)) or (*RULES, Section.INTERFACES)
        state = collect_state(wanted)
        assert not state.unseen, state.unseen
        if sections:
            fields = {each.replace(" ", "_").replace("-", "_").lower() for each in sections}
            state = msgspec.structs.replace(self._seen, **{field: getattr(state, field) for field in fields})
        self._seen = state
        expected = self._expected_of_cluster()
        rules = read_rules(state, expected.table, expected.table.cluster_ips())
        return {
            "problems": rules.problems,
            "unexplained": [entry.text for entry in rules.unexplained],
            "differences": [[str(one.kind), one.service, one.text] for one in compare(expected, rules)],
            "entries": [[str(one.mechanism), one.service, one.meaning, one.text] for one in rules.entries],
        }

    def doctor(self, sections: list[str]) -> list[list[str]]:
        from bridgehead.insight.doctor.diagnosis import diagnose
        from bridgehead.insight.doctor.subjects import Facts

        if sections:
            self.rules(sections)
        found = diagnose(Facts(cluster=self._cluster, networks={"node1": self._seen})).findings
        return [[one.cause, one.subject, one.text] for one in found]

    def service_flows(self) -> list[dict[str, Any]]:
        from bridgehead.insight.facts.network_local_reading import collect_state
        from bridgehead.insight.facts.network_state import Section
        from bridgehead.insight.flows import find_flows, service_as_json

        networks = {"node1": collect_state((Section.CONNECTIONS,))}
        assert not networks["node1"].unseen
        found = find_flows(self._cluster, networks, {"node1": self._expected_of_cluster()})
        return [service_as_json(one) for one in found]

    def trace(self, where: str, address: str, port: int, protocol: str) -> dict[str, Any]:
        import msgspec

        from bridgehead.insight.trace.connection import Connection
        from bridgehead.insight.trace.context import Context, Request
        from bridgehead.insight.trace.destination import Destination
        from bridgehead.insight.trace.origins import choose_source
        from bridgehead.insight.trace.target import parse_origin, parse_target

        text = {"client": "outside", "node": "node/node1"}.get(where, f"pod/{where}")
        origin = parse_origin(text)
        request = Request(target=parse_target(f"[{address}]:{port}" if ":" in address else f"{address}:{port}"),
                          text=f"{address}:{port}", origin=origin, protocol=protocol)  # fmt: skip
        source = choose_source(origin, "default", self._cluster)
        context = Context(state=self._cluster, namespaces=self, request=request, source=source)
        connection = Connection(context, self._namespace(where), Destination(address=address, port=port))
        # The guest may take longer than machines do.
        with mock.patch("bridgehead.insight.trace.connection.CALL_SECONDS", 60.0):
            report: dict[str, Any] = msgspec.to_builtins(self._do(connection.report()))
        return report

    # --- bridgehead.insight.network_namespaces.NetworkNamespaces -------------------------------------------------

    def _namespace(self, where: str) -> _Namespace:
        return self._entered.setdefault(where, _Namespace(self._namespaces, where))

    async def node(self, name: str) -> _Namespace:
        return self._namespace("node")

    async def pod(self, key: ObjectKey) -> _Namespace:
        return self._namespace(key.name)

    async def outside(self) -> _Namespace:
        return self._namespace("client")


class _Namespace(ForkedNamespace):
    """A namespace of the world. Sockets are made in it by a thread: the guest takes a third of a second to fork.

    /proc/net is that of the process, so that what reads it needs a process there. `read`: what was read by sections,
    since the last change.
    """

    def __init__(self, namespaces: dict[str, int], where: str) -> None:
        super().__init__(where, enter=self._enter, enter_as_program=self._enter)
        self._namespaces = namespaces
        self.read: dict[Any, Any] = {}

    async def call(
        self, function: Callable[[Argument], Result], argument: Argument, *, seconds: float = SECONDS
    ) -> Result:
        if getattr(function, "__name__", "") == collect.__name__:
            if argument not in self.read:
                is_here = self.name == "node"
                call = asyncio.to_thread(function, argument) if is_here else super().call(function, argument)
                self.read[argument] = await call
            return cast("Result", self.read[argument])
        try:
            return await asyncio.to_thread(self._call, function, argument)
        except OSError as error:
            raise NotEntered(str(error)) from None

    def _call(self, function: Callable[[Argument], Result], argument: Argument) -> Result:
        with proxy_world._inside(self._namespaces, self.name):
            return function(argument)

    def _enter(self) -> None:
        syscalls.setns(self._namespaces[self.name], syscalls.CLONE_NEWNET)


def serve(forbidden: str, mode: str) -> None:
    proxy_world.serve(forbidden, mode, _Proxy)
