"""A `proxy_world` that compares what `bridgehead trace` expects of connections with what becomes of them.

`TraceWorld.compare` makes many Services at once, by chance but reproducibly, programs them as one change, and connects
to each from somewhere.
"""

from __future__ import annotations

import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import proxy_world
from .proxy_world import CLIENT4, CLIENT6, LOOK_SECONDS, LOOKS, NODE4, NODE6, PODS, PORT, World, pod_ip

ZONE = "zone-a"
_AT_ONCE = 48  # connections; some wait for a timeout
_ORIGINS = ("pod1", "pod2", "pod3", "node", "client")
_RANGES = {
    4: ("10.0.0.0/24", "10.244.1.0/24", "10.244.1.1/32", "192.0.2.0/24", "10.0.0.201/32"),
    6: ("fd00:a::/64", "fd00:244:1::/64", "fd00:244:1::1/128", "2001:db8::/32", "fd00:a::201/128"),
}


class TraceWorld(World):
    """The test's side."""

    serve = f"{__name__}:serve"

    def compare(self, seed: int, count: int) -> dict[str, Any]:
        """Return the number of connections by expected fate, and a text for each that went another way."""
        return self.ask("compare", seed=seed, count=count)

    def follow(self, where: str, address: str, port: int, *, udp: bool = False) -> dict[str, Any]:
        """Make a connection as a trace does, and follow it at the node: its outcome, journey and tracked flow."""
        return self.ask("follow", where=where, address=address, port=port, udp=udp)

    def abandon_trace(self) -> dict[str, list[str]]:
        """Kill a process that traces with SIGKILL; return the node's tables before, meanwhile and after."""
        return self.ask("abandon_trace")


def serve(forbidden: str, mode: str) -> None:
    proxy_world.serve(forbidden, mode, _Proxy)


class _Proxy(proxy_world._Proxy):
    def __init__(self, namespaces: dict[str, int], mode: str) -> None:
        import msgspec

        super().__init__(namespaces, mode)
        self._facts = msgspec.structs.replace(self._facts, zone=ZONE)

    def compare(self, seed: int, count: int) -> dict[str, Any]:
        self.sync()
        # Each has its own generator, so that a failure can be repeated alone.
        cases = [make_case(random.Random(f"{seed} {number}"), number) for number in range(count)]
        self.change([(case["service"], case["slices"]) for case in cases], [])
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = list(pool.map(self._connect_case, cases))
        fates: dict[str, int] = {}
        differences = []
        for case, answer in zip(cases, answers, strict=True):
            fate, possible = self._expected(case)
            fates[fate] = fates.get(fate, 0) + 1
            if answer not in possible:
                differences.append(f"expected {fate} {sorted(possible)}, but was {answer!r}: {case}")
        return {"fates": fates, "differences": differences}

    def follow(self, where: str, address: str, port: int, udp: bool) -> dict[str, Any]:
        import msgspec

        from bridgehead.insight.trace.observed_path import journey
        from bridgehead.insight.trace.probing import Probe, make_connection, make_datagram, marker_of
        from bridgehead.insight.trace.rule_texts import parse_listing
        from bridgehead.network.flow_lookup import FlowTuple, find_flow
        from bridgehead.network.flow_trace import Flow, FlowTrace

        protocol = "udp" if udp else "tcp"
        probe = Probe(
            protocol=protocol,
            address=address,
            port=port,
            source_port=61234,
            segment_bytes=0 if udp else 777,
            datagram=make_datagram(port, b"31415926") if udp else b"",
            seconds=LOOKS * LOOK_SECONDS,
        )
        offset, marker = marker_of(probe)
        by_ports = Flow(name="1", protocol=protocol, address=address, port=port, source_port=probe.source_port)
        by_mark = Flow(name="2", protocol=protocol, address=address, offset=offset, marker=marker)
        found: dict[str, Any] = {}
        # Not at once: a trace receives the events of all traces in its namespace.
        for name, flow in (("ports", by_ports), ("mark", by_mark)):
            with FlowTrace(flow) as trace:
                with proxy_world._inside(self._namespaces, where):
                    sock_result = make_connection(probe)
                events = trace.collect(10, lambda: True)
            listing = self.run(["nft", "-a", "list", "ruleset"])
            saved = {"ip": self.run(["iptables-nft-save"]), "ip6": self.run(["ip6tables-nft-save"])}
            found[name] = journey("node1", events, parse_listing(listing, saved), probe.source_port)
            found["outcome"] = sock_result.outcome
            if name == "ports":
                found["tracked"] = find_flow(FlowTuple(protocol, sock_result.source, (address, port)))
        decoded: dict[str, Any] = msgspec.to_builtins(found)
        return decoded

    def abandon_trace(self) -> dict[str, list[str]]:
        from bridgehead.network.flow_trace import Flow, FlowTrace

        tables = lambda: self.run(["nft", "list", "tables"]).splitlines()  # noqa: E731 - three times
        found = {"before": tables()}
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            with FlowTrace(Flow(name="killed", protocol="tcp", address="10.96.0.1", port=80, source_port=61235)):
                os.write(writing, b"!")
                while True:
                    signal.pause()
        os.read(reading, 1)
        found["meanwhile"] = tables()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found["after"] = tables()
        return found

    def _connect_case(self, case: dict[str, Any]) -> str:
        where, address, port, is_udp = case["connection"]
        return self._connect(where, address, port, is_udp, "")

    def _expected(self, case: dict[str, Any]) -> tuple[str, set[str]]:
        from bridgehead.insight.trace.expected_path import Client, Fate, expect
        from bridgehead.proxy.frontends import FrontendKey

        where, address, port, is_udp = case["connection"]
        family = 6 if ":" in address else 4
        own = {"node": (NODE4, NODE6), "client": (CLIENT4, CLIENT6)}.get(where)
        source = own[family == 6] if own else pod_ip(where, family)
        key = FrontendKey(address, "udp" if is_udp else "tcp", port)
        client = Client(source, is_node=where == "node")
        found = expect(key, client, self._table, self._facts, self._settings, mode=self._mode_name)
        if found.fate is Fate.REJECTED:
            return "rejected", {"refused", "not permitted"}
        if found.fate is not Fate.TRANSLATED:
            # A datagram that is dropped on its way out of its own host is reported to its sender.
            return str(found.fate), {"timeout", *(("not permitted",) if is_udp and client.is_node else ())}
        pods = {pod_ip(pod, family): pod for pod in PODS}
        return "translated", {f"{pods[one.backend.address]} from {one.client}" for one in found.choices}


def make_case(chance: random.Random, number: int) -> dict[str, Any]:
    """Return a Service, its slices, and a connection: origin, address, port, whether it is UDP."""
    family = chance.choice((4, 4, 6))
    high, low = 1 + (number >> 8), number & 0xFF
    cluster_ip, balancer_ip, external_ip = (
        (f"10.96.{high}.{low}", f"203.0.{high}.{low}", f"198.51.{high}.{low}")
        if family == 4
        else tuple(f"{prefix}::{0x1000 + number:x}" for prefix in ("fd00:96", "2001:db8:1", "2001:db8:2"))
    )
    is_udp = chance.random() < 0.25
    protocol = "UDP" if is_udp else "TCP"
    kind = chance.choice(("ClusterIP", "ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"))
    spec: dict[str, Any] = {
        "type": kind,
        "clusterIP": cluster_ip,
        "clusterIPs": [cluster_ip],
        "ports": [{"name": "http", "port": 80, "protocol": protocol}],
        "internalTrafficPolicy": chance.choice(("Cluster", "Cluster", "Local")),
    }
    status: dict[str, Any] = {}
    targets = [(cluster_ip, 80), (cluster_ip, 80)]
    if chance.random() < 0.2:
        spec["externalIPs"] = [external_ip]
        targets.append((external_ip, 80))
    if kind != "ClusterIP":
        spec["ports"][0]["nodePort"] = 30000 + number
        targets += [(NODE4 if family == 4 else NODE6, 30000 + number)] * 2
    if kind != "ClusterIP" or "externalIPs" in spec:
        spec["externalTrafficPolicy"] = chance.choice(("Cluster", "Local"))
    if kind == "LoadBalancer":
        status = {"loadBalancer": {"ingress": [{"ip": balancer_ip}]}}
        targets += [(balancer_ip, 80)] * 3
        if chance.random() < 0.5:
            spec["loadBalancerSourceRanges"] = chance.sample(_RANGES[family], chance.randrange(1, 4))
    if chance.random() < 0.25:
        spec["sessionAffinity"] = "ClientIP"
    if chance.random() < 0.05:
        targets = [(cluster_ip, 81)]
    name = f"case-{number}"
    service = {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status}
    address, port = chance.choice(targets)
    return {
        "service": service,
        "slices": [_slice(chance, name, family, protocol)],
        "connection": [chance.choice(_ORIGINS), address, port, is_udp],
    }


def _slice(chance: random.Random, service: str, family: int, protocol: str) -> dict[str, Any]:
    has_hints = chance.random() < 0.4
    endpoints = []
    for pod in chance.sample(PODS, chance.choice((0, 1, 1, 2, 3, 3))):
        state = chance.choice(("ready",) * 4 + ("unready", "draining", "ending"))
        endpoint: dict[str, Any] = {
            "addresses": [pod_ip(pod, family)],
            "conditions": {
                "ready": state == "ready",
                "serving": state in ("ready", "draining"),
                "terminating": state in ("draining", "ending"),
            },
            "nodeName": chance.choice(("node1", "node1", "node2")),
        }
        if has_hints and chance.random() < 0.9:
            zones = chance.choice(([ZONE], [ZONE], ["zone-b"], [ZONE, "zone-b"]))
            endpoint["hints"] = {"forZones": [{"name": zone} for zone in zones]}
            if chance.random() < 0.3:
                endpoint["hints"]["forNodes"] = [{"name": chance.choice(("node1", "node2"))}]
        endpoints.append(endpoint)
    return {
        "metadata": {
            "name": f"{service}-1",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": f"IPv{family}",
        "ports": [{"name": "http" if chance.random() < 0.95 else "other", "protocol": protocol, "port": PORT}],
        "endpoints": endpoints,
    }
