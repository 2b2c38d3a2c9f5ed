"""Clusters, and the kernels of their nodes as the project's modes would fill them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import strategies as st

from bridgehead.insight.expectations import Expectations, expect_node
from bridgehead.insight.facts.cluster_state import ClusterState, by_key
from bridgehead.insight.facts.network_state import Destination, Interface, Listening, NetworkState, VirtualServer
from bridgehead.objects.core import ConfigMap, Node, Pod, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.progress import ModeInUse, Progress, Versions
from bridgehead.proxy.config import IpvsOptions
from bridgehead.proxy.iptables.render import Renderer as IptablesRenderer
from bridgehead.proxy.ipvs.readback import KernelState
from bridgehead.proxy.ipvs.render import Renderer as IpvsRenderer
from bridgehead.proxy.nftables.render import Renderer as NftablesRenderer
from bridgehead.proxy.nftables.render import TableSpec
from bridgehead.proxy.userspace.redirects import LISTENING, TABLE, guards, redirect, sides
from tests.unit.proxy.iptables.fake_iptables import FakeIptables
from tests.unit.proxy.nftables.fake_nft import FakeKernel

SERVICE_LABEL = "kubernetes.io/service-name"
MODES = ("nftables", "iptables", "ipvs", "userspace")
CONFIG = """
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clusterCIDR: 10.244.0.0/16,fd00:244::/32
mode: MODE
"""


def service(name: str, namespace: str = "default", **spec: Any) -> Service:
    status = {"loadBalancer": {"ingress": [{"ip": ip} for ip in spec.pop("balancer_ips", ())]}}
    ips = spec.get("clusterIPs", ())
    spec = {"clusterIP": ips[0] if ips else "None", "ports": [{"port": 80}], **spec}
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": status}, Service
    )


def slice_(
    name: str, *endpoints: dict[str, Any], family: int = 4, port_name: str = "", protocol: str = "TCP"
) -> EndpointSlice:
    port = {"name": port_name, "port": 8080, "protocol": protocol}
    document = {
        "metadata": {"name": f"{name}-{family}", "namespace": "default", "labels": {SERVICE_LABEL: name}},
        "addressType": f"IPv{family}",
        "ports": [port],
        "endpoints": list(endpoints),
    }
    return msgspec.convert(document, EndpointSlice)


def endpoint(address: str, node: str = "node1", **conditions: bool) -> dict[str, Any]:
    return {"addresses": [address], "nodeName": node, "conditions": {"ready": True, **conditions}}


def node(number: int, families: Iterable[int] = (4,)) -> Node:
    addresses = {4: f"10.0.0.20{number}", 6: f"fd00:10::20{number}"}
    cidrs = {4: f"10.244.{number}.0/24", 6: f"fd00:244:{number}::/48"}
    document = {
        "metadata": {"name": f"node{number}"},
        "spec": {"podCIDRs": [cidrs[family] for family in families]},
        "status": {"addresses": [{"type": "InternalIP", "address": addresses[family]} for family in families]},
    }
    return msgspec.convert(document, Node)


def cluster(
    services: Iterable[Service],
    slices: Iterable[EndpointSlice] = (),
    *,
    mode: str = "nftables",
    pods: Iterable[Pod] = (),
    families: Iterable[int] = (4,),
    is_bridgehead: bool = True,
    **state: Any,
) -> ClusterState:
    config = {"metadata": {"name": "kube-proxy", "namespace": "kube-system"}}
    config["data"] = {"config.conf": CONFIG.replace("MODE", mode)}
    progress = Progress("node1", Versions(), 0.0, 1e9, (), ModeInUse(mode, mode))
    state = {"service_cidrs": ("10.96.0.0/12", "fd00:96::/112"), **state}
    return ClusterState(
        now=0.0,
        services=by_key(services),
        slices=tuple(slices),
        pods=by_key(pods),
        nodes={f"node{number}": node(number, families) for number in (1, 2)},
        config_maps=by_key([msgspec.convert(config, ConfigMap)]),
        progress={"node1": progress} if is_bridgehead else {},
        **state,
    )


# --- Kernels -------------------------------------------------------------------------------------------------


def kernel_of(expected: Expectations) -> NetworkState:
    """Return the state of a kernel that the node's proxy has filled."""
    match expected.mode:
        case "nftables":
            return NetworkState(nftables=nft_listing(expected.table, expected, TableSpec()))
        case "iptables":
            return NetworkState(iptables=_saved(IptablesRenderer(expected.settings).full(*_everything(expected), {})))
        case "ipvs":
            return _ipvs(expected)
        case _:
            return _userspace(expected)


def _everything(expected: Expectations) -> tuple[Any, Any]:
    return expected.table, expected.table.cluster_ips()


def nft_listing(frontends: Iterable[Any], expected: Expectations, spec: TableSpec) -> bytes:
    """Return the listing of a kernel with these Frontends, in the form of `nft --json list ruleset`."""
    kernel = FakeKernel()
    frontends = list(frontends)
    transaction = NftablesRenderer(expected.settings, spec).full(frontends, expected.table.cluster_ips(), {})
    kernel.apply(transaction.text())
    owners = {tuple(map(str, frontend.key)): frontend.owner for frontend in frontends}
    items: list[dict[str, Any]] = [{"metainfo": {}}]
    for family, table in kernel.tables.items():
        head = {"family": family, "table": spec.name}
        items.append({"table": {"family": family, "name": spec.name}})
        for name, elements in table.elements.items():
            listed = [_element(name, key, value, owners) for key, value in elements.items()]
            items.append({"map": {**head, "name": name, "elem": listed}})
        for name, rules in kernel.rules[family].items():
            items.append({"chain": {**head, "name": name}})
            items += ({"rule": {**head, "chain": name, "expr": _statements(rule)}} for rule in rules)
    return json.dumps({"nftables": items}).encode()


def _element(name: str, key: str, value: str, owners: dict[tuple[str, ...], str]) -> Any:
    whole: Any = {"concat": key.split(" . ")} if " . " in key else key
    if name == "services" and '"' not in owners[tuple(key.split(" . "))]:
        whole = {"elem": {"val": whole, "comment": owners[tuple(key.split(" . "))]}}
    if not value:
        return whole
    if value.startswith("goto "):
        return [whole, {"goto": {"target": value.removeprefix("goto ")}}]
    return [whole, {"drop": None} if value == "drop" else {"concat": value.split(" . ")} if " . " in value else value]


def _statements(rule: str) -> list[Any]:
    for verb in ("goto", "jump"):
        before, found, target = rule.rpartition(f"{verb} ")
        if found:
            return [*([before.strip()] if before else []), {verb: {"target": target}}]
    return [rule]


def _saved(transaction: Any) -> dict[int, bytes]:
    """Return what iptables-save prints after this transaction, by family."""
    found = {}
    for family, text in transaction.texts().items():
        kernel = FakeIptables()
        kernel.restore(text)
        lines = []
        for name, table in kernel.tables.items():
            lines += [f"*{name}", *(f":{chain} - [0:0]" for chain in table.chains)]
            lines += [f"-A {chain} {rule}" for chain, rules in table.chains.items() for rule in rules]
            lines.append("COMMIT")
        found[family] = "\n".join(lines).encode()
    return found


def _ipvs(expected: Expectations) -> NetworkState:
    renderer = IpvsRenderer(expected.settings, IpvsOptions())
    transaction = renderer.full(*_everything(expected), KernelState(), expected.facts.addresses)
    destinations: dict[Any, list[Destination]] = {}
    for server, (address, port) in transaction.destinations:
        destinations.setdefault(server, []).append(Destination(address=address, port=port, weight=1, forwarding="Masq"))
    servers = tuple(
        VirtualServer(
            protocol=server.protocol, address=server.address, port=server.port, mark=server.mark, family=server.family,
            scheduler=scheduling.scheduler, persistent_seconds=scheduling.persistent or None,
            destinations=tuple(destinations.get(server, ())),
        )
        for server, scheduling in transaction.servers.items()
    )  # fmt: skip
    sets = [f"add {name} {element}" for name, elements in transaction.added.items() for element in sorted(elements)]
    own = tuple(f"{address}/{64 if ':' in address else 24}" for address in expected.facts.addresses)
    bound = tuple(f"{address}/{128 if ':' in address else 32}" for address in transaction.bound)
    return NetworkState(
        iptables=_saved(transaction.rules),
        virtual_servers=servers,
        ip_sets="\n".join(sets).encode(),
        interfaces=(
            Interface(name="eth0", index=2, mtu=1500, is_up=True, addresses=own),
            Interface(name="kube-ipvs0", index=3, mtu=1500, is_up=False, addresses=bound, kind="dummy"),
        ),
    )


def _userspace(expected: Expectations) -> NetworkState:
    wanted = [side for frontend in expected.table for side in sides(frontend)]
    ports = {side: 40000 + number for number, side in enumerate(wanted)}
    redirected = [redirect(frontend, ports) for frontend in expected.table]
    listeners = tuple(
        Listening(protocol=side.key.protocol, address=LISTENING[side.key.family], port=port, program="bridgehead")
        for side, port in ports.items()
    )
    return NetworkState(nftables=nft_listing(redirected, expected, TableSpec(TABLE, guards())), listeners=listeners)


# --- Generated clusters --------------------------------------------------------------------------------------

_PREFIX = {4: "10.244.{}.", 6: "fd00:244:{}::"}


@st.composite
def clusters(draw: st.DrawFn, mode: str) -> ClusterState:
    """Plausible clusters of at most four Services on two nodes, in one or two families."""
    families = draw(st.sampled_from(((4,), (4, 6), (6,))))
    services, slices = [], []
    for number in range(draw(st.integers(0, 4))):
        name = f"web-{number}"
        type_ = draw(st.sampled_from(("ClusterIP", "NodePort", "LoadBalancer")))
        protocol = draw(st.sampled_from(("TCP", "TCP", "UDP", "SCTP")))
        ips = {4: f"10.96.0.{10 + number}", 6: f"fd00:96::{10 + number}"}
        port: dict[str, Any] = {"name": draw(st.sampled_from(("", "http"))), "port": 80, "protocol": protocol}
        if type_ != "ClusterIP":
            port["nodePort"] = 30000 + number
        balancer = {4: "203.0.113.7", 6: "2001:db8::7"} if draw(st.booleans()) else {}
        services.append(
            service(
                name,
                type=type_,
                clusterIPs=[ips[family] for family in families],
                ports=[port],
                internalTrafficPolicy=draw(st.sampled_from(("Cluster", "Local"))),
                externalTrafficPolicy=draw(st.sampled_from(("Cluster", "Local"))),
                sessionAffinity=draw(st.sampled_from(("None", "ClientIP"))),
                externalIPs=draw(st.sampled_from(([], ["198.51.100.1"], ["10.0.0.201"]))),
                loadBalancerSourceRanges=draw(st.sampled_from(([], ["192.0.2.0/24"], ["10.0.0.0/8", "fd00::/8"]))),
                balancer_ips=list(balancer.values()),
            )
        )
        for family in families:
            found = [
                endpoint(
                    f"{_PREFIX[family].format(where)}{number * 10 + index + 1}",
                    f"node{where}",
                    ready=draw(st.sampled_from((True, True, True, False))),
                )
                for index, where in enumerate(draw(st.lists(st.integers(1, 2), max_size=5)))
            ]
            slices.append(slice_(name, *found, family=family, port_name=port["name"], protocol=protocol))
    return cluster(services, slices, mode=mode, families=families)


def expect(state: ClusterState) -> Expectations:
    return expect_node(state, "node1")
