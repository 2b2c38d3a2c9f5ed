"""Kernels of nodes that one named change broke: `CASES`. Each is made from a cluster whose nodes work.

`cluster` adds the nodes' network namespaces to `generated_clusters.base`: rules as the proxy's mode would write them,
interfaces, routes and sysctls as a network plugin that routes.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

from bridgehead.insight.doctor.subjects import DnsAnswer, Facts, Resolver
from bridgehead.insight.expectations import expect_node
from bridgehead.insight.facts.network_state import (
    AddressPort,
    Connection,
    Interface,
    Listening,
    NetworkState,
    Route,
    Section,
    VirtualServer,
)
from bridgehead.objects.core import ServicePort
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import ModeInUse
from tests.unit.insight.rulesets.clusters import kernel_of

from .generated_clusters import World, base

NODE = "node2"
WEB_IP, WEB_NODE_PORT = "10.96.0.50", 30080
SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv6/conf/all/forwarding": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/all/route_localnet": "1",
    "net/ipv4/vs/expire_quiescent_template": "1",
    "net/bridge/bridge-nf-call-iptables": "1",
    "net/netfilter/nf_conntrack_count": "65",
    "net/netfilter/nf_conntrack_max": "262144",
}


class Kernels:
    """A cluster and the network namespaces of its nodes, to be changed."""

    def __init__(self, mode: str = "nftables") -> None:
        self.world = _world(mode)
        self.networks = copy.deepcopy(_networks(mode))
        self.more: dict[str, Any] = {}

    def facts(self) -> Facts:
        return dataclasses.replace(self.world.facts(), networks=self.networks, **self.more)

    # --- Changes ---------------------------------------------------------------------------------------------

    @property
    def node(self) -> NetworkState:
        return self.networks[NODE]

    def sysctl(self, name: str, value: int) -> None:
        self.node.sysctls[name] = str(value)

    def change_nft(self, change: Callable[[str, dict[str, Any]], bool]) -> None:
        """Keep the objects of the listing for which `change(kind, object)` is true."""
        listing = json.loads(self.node.nftables)
        kept = [each for each in listing["nftables"] if all(change(kind, found) for kind, found in each.items())]
        self.node.nftables = json.dumps({"nftables": kept}).encode()

    def add_nft(self, *objects: Mapping[str, Any]) -> None:
        listing = json.loads(self.node.nftables or b'{"nftables": []}')
        listing["nftables"] += objects
        self.node.nftables = json.dumps(listing).encode()

    def firewall(self, hook: str, *rules: list[Any], priority: int = 0, policy: str = "accept") -> None:
        head = {"family": "inet", "table": "firewall"}
        chain = {**head, "name": "chain", "type": "filter", "hook": hook, "prio": priority, "policy": policy}
        self.add_nft(
            {"table": {"family": "inet", "name": "firewall"}},
            {"chain": chain},
            *({"rule": {**head, "chain": "chain", "expr": rule}} for rule in rules),
        )

    def save(self, text: str, family: int = 4) -> None:
        self.node.iptables[family] = self.node.iptables.get(family, b"") + text.encode()

    def change_route(self, destination: str, **fields: Any) -> None:
        self.node.routes = tuple(
            msgspec.structs.replace(each, **fields) if each.destination == destination else each
            for each in self.node.routes
        )

    def drop_route(self, destination: str) -> None:
        self.node.routes = tuple(each for each in self.node.routes if each.destination != destination)

    def change_interface(self, which: str, **fields: Any) -> None:
        self.node.interfaces = tuple(
            msgspec.structs.replace(each, **fields) if each.name == which else each for each in self.node.interfaces
        )


def _world(mode: str) -> World:
    world = base()
    port = ServicePort(port=80, name="http", target_port="http", node_port=WEB_NODE_PORT)
    world.change_service("web", type="NodePort", ports=(port,))
    for name, progress in world.progress.items():
        world.progress[name] = progress._replace(mode=ModeInUse(mode, mode))
    return world


@cache
def _networks(mode: str) -> dict[str, NetworkState]:
    """Return the network namespaces of the nodes by name. Callers change copies: the rules take long to render."""
    world = _world(mode)
    facts = world.facts()
    return {name: _network(name, facts) for name in world.nodes}


def _network(name: str, facts: Facts) -> NetworkState:
    state = kernel_of(expect_node(facts.cluster, name))
    number = int(name[-1])
    interfaces = [
        Interface(name="lo", index=1, mtu=65536, is_up=True, addresses=("127.0.0.1/8", "::1/128")),
        Interface(name="eth0", index=2, mtu=1500, is_up=True, addresses=(f"10.0.0.20{number}/24",), kind="veth"),
    ]
    routes = [
        Route(destination="default", device="eth0", via="10.0.0.1"),
        Route(destination="10.0.0.0/24", device="eth0"),
        Route(destination="default", family=6, device="eth0", via="fd00:10::1"),
    ]
    for other in range(1, len(facts.cluster.nodes) + 1):
        if other != number:
            via = f"10.0.0.20{other}"
            routes.append(Route(destination=f"10.244.{other}.0/24", device="eth0", via=via))
            cidr = f"fd00:10:244:{other}::/64"
            routes.append(Route(destination=cidr, family=6, device="eth0", via=f"fd00:10::20{other}"))
    pods = [p for p in facts.cluster.pods.values() if p.spec.node_name == name and not p.spec.host_network]
    for index, pod in enumerate(pods, 3):
        device = f"veth{index}"
        interfaces.append(Interface(name=device, index=index, mtu=1500, is_up=True, kind="veth"))
        for ip in pod.status.pod_ips:
            family, length = (6, 128) if ":" in ip.ip else (4, 32)
            routes.append(Route(destination=f"{ip.ip}/{length}", family=family, device=device))
    if state.virtual_servers:
        services = [each for each in facts.cluster.services.values() if each.is_proxied]
        addresses = tuple(f"{ip}/32" for each in services for ip in each.spec.cluster_ips)
        interfaces.append(
            Interface(name="kube-ipvs0", index=99, mtu=1500, is_up=False, addresses=addresses, kind="dummy")
        )
    state.interfaces, state.routes, state.sysctls = tuple(interfaces), tuple(routes), dict(SYSCTLS)
    return state


class Case(NamedTuple):
    name: str
    cause: str
    subject: str
    mode: str
    change: Callable[[Kernels], None]

    def facts(self) -> Facts:
        kernels = Kernels(self.mode)
        self.change(kernels)
        return kernels.facts()


CASES: list[Case] = []
Change = Callable[[Kernels], None]


def broken(cause: str, subject: str = f"node/{NODE}", mode: str = "nftables") -> Callable[[Change], Change]:
    def register(change: Change) -> Change:
        CASES.append(Case(change.__name__, cause, subject, mode, change))
        return change

    return register


WEB = "service/default/web"
DNS = "service/kube-system/kube-dns"

# --- Rules ------------------------------------------------------------------------------------------------------


def _is_element(element: Any, start: list[Any]) -> bool:
    key = element[0] if isinstance(element, list) else element
    if "elem" in key:
        key = key["elem"]["val"]
    return [str(each) for each in key.get("concat", ())][: len(start)] == [str(each) for each in start]


def _without_elements(kernels: Kernels, container: str, *start: Any) -> None:
    def change(kind: str, found: dict[str, Any]) -> bool:
        if kind == "map" and found["name"] == container and found["family"] == "ip":
            found["elem"] = [each for each in found["elem"] if not _is_element(each, list(start))]
        return True

    kernels.change_nft(change)


@broken("RulesMissing", WEB)
def element_of_a_cluster_ip_was_deleted(kernels: Kernels) -> None:
    _without_elements(kernels, "services", WEB_IP)


@broken("RulesMissing", WEB)
def endpoints_were_deleted(kernels: Kernels) -> None:
    _without_elements(kernels, "endpoints", WEB_IP)


@broken("RulesForeign")
def element_of_no_service(kernels: Kernels) -> None:
    def change(kind: str, found: dict[str, Any]) -> bool:
        if kind == "map" and found["name"] == "services":
            key = {"elem": {"val": {"concat": ["10.96.7.7", "tcp", 80]}, "comment": "default/gone:"}}
            found["elem"].append([key, {"drop": None}])
        return True

    kernels.change_nft(change)


@broken("RulesAltered")
def rules_of_a_chain_were_deleted(kernels: Kernels) -> None:
    kernels.change_nft(lambda kind, found: kind != "rule" or found["chain"] != "nat-prerouting")


@broken("NodeWithoutRules")
def ruleset_was_flushed(kernels: Kernels) -> None:
    kernels.node.nftables = b'{"nftables": []}'


@broken("RulesMissing", WEB, mode="iptables")
def chain_of_a_service_was_emptied(kernels: Kernels) -> None:
    lines = kernels.node.iptables[4].split(b"\n")
    kernels.node.iptables[4] = b"\n".join(
        line for line in lines if not (line.startswith(b"-A KUBE-SEP") and b"default/web" in line)
    )


@broken("TwoProxies")
def rules_of_mode_iptables_for_all_services(kernels: Kernels) -> None:
    kernels.node.iptables = Kernels("iptables").node.iptables


@broken("RulesOfOtherMode")
def rules_of_mode_iptables_are_left_over(kernels: Kernels) -> None:
    kernels.save(
        "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-4N57TFCL4MD7ZTDA - [0:0]\n"
        "-A PREROUTING -j KUBE-SERVICES\n-A KUBE-SERVICES -d 10.96.0.99/32 -p tcp -m comment --comment "
        '"default/old: cluster IP" -m tcp --dport 80 -j KUBE-SVC-4N57TFCL4MD7ZTDA\nCOMMIT\n'
    )


@broken("IptablesVariantsMixed", mode="iptables")
def chains_in_both_variants(kernels: Kernels) -> None:
    kernels.node.iptables_legacy = dict(kernels.node.iptables)


@broken("KernelLacksMode", mode="ipvs")
def module_of_ipvs_is_missing(kernels: Kernels) -> None:
    kernels.node.absent = frozenset((Section.VIRTUAL_SERVERS,))


@broken("IpvsAddressMissing", WEB, mode="ipvs")
def cluster_ip_is_on_no_interface(kernels: Kernels) -> None:
    interface = next(each for each in kernels.node.interfaces if each.name == "kube-ipvs0")
    kept = tuple(each for each in interface.addresses if not each.startswith(WEB_IP))
    kernels.change_interface("kube-ipvs0", addresses=kept)


@broken("IpvsUntracked", mode="ipvs")
def connections_of_ipvs_are_not_tracked(kernels: Kernels) -> None:
    kernels.sysctl("net/ipv4/vs/conntrack", 0)


@broken("RulesMissing", WEB, mode="ipvs")
def cluster_ip_left_its_set(kernels: Kernels) -> None:
    lines = kernels.node.ip_sets.splitlines()
    element = f"add KUBE-CLUSTER-IP {WEB_IP},tcp:".encode()
    kernels.node.ip_sets = b"\n".join(line for line in lines if not line.startswith(element))


@broken("RulesMissing", WEB, mode="ipvs")
def virtual_server_has_another_scheduler(kernels: Kernels) -> None:
    kernels.node.virtual_servers = tuple(
        msgspec.structs.replace(server, scheduler="wlc" if server.address == WEB_IP else server.scheduler)
        for server in kernels.node.virtual_servers
    )


@broken("RulesAltered", mode="ipvs")
def pods_that_connect_to_themselves_are_not_masqueraded(kernels: Kernels) -> None:
    lines = kernels.node.ip_sets.splitlines()
    kernels.node.ip_sets = b"\n".join(line for line in lines if not line.startswith(b"add KUBE-LOOP-BACK "))


@broken("AffinityToGonePod", WEB, mode="ipvs")
def clients_stick_to_a_server_without_weight(kernels: Kernels) -> None:
    kernels.world.change_service("web", session_affinity="ClientIP")
    facts = kernels.world.facts()
    kernels.networks = {name: _network(name, facts) for name in kernels.networks}
    kernels.sysctl("net/ipv4/vs/expire_quiescent_template", 0)

    def draining(server: VirtualServer) -> VirtualServer:
        if server.address != WEB_IP:
            return server
        gone = msgspec.structs.replace(server.destinations[0], address="10.244.2.99", weight=0, active=3)
        return msgspec.structs.replace(server, destinations=(*server.destinations, gone))

    kernels.node.virtual_servers = tuple(map(draining, kernels.node.virtual_servers))


@broken("ProxyListenerMissing", WEB, mode="userspace")
def proxy_does_not_listen(kernels: Kernels) -> None:
    wanted = set()

    def collect(kind: str, found: dict[str, Any]) -> bool:
        if kind == "map" and found["name"] == "endpoints" and found["family"] == "ip":
            for key, value in found["elem"]:
                if _is_element(key, [WEB_IP]):
                    wanted.add(int(value["concat"][1]))
        return True

    kernels.change_nft(collect)
    kernels.node.listeners = tuple(each for each in kernels.node.listeners if each.port not in wanted)


# --- Packet filters -----------------------------------------------------------------------------------------------

_TCP_80 = {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 80}}


@broken("ForwardDropped")
def policy_of_docker(kernels: Kernels) -> None:
    kernels.save(
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:DOCKER-USER - [0:0]\n"
        "-A FORWARD -j DOCKER-USER\n-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
        "-A FORWARD -i docker0 ! -o docker0 -j ACCEPT\n-A DOCKER-USER -j RETURN\nCOMMIT\n"
    )


@broken("ForwardDropped")
def firewall_that_rejects_the_rest(kernels: Kernels) -> None:
    states = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}
    kernels.firewall("forward", [states, {"accept": None}], [{"counter": {"packets": 1, "bytes": 60}}, {"reject": {}}])


@broken("ForwardDropped")
def policy_of_legacy_iptables(kernels: Kernels) -> None:
    kernels.node.iptables_legacy = {4: b"*filter\n:FORWARD DROP [0:0]\nCOMMIT\n"}


@broken("PacketsDropped", WEB)
def firewall_against_the_target_port(kernels: Kernels) -> None:
    kernels.firewall("forward", [_TCP_80, {"drop": None}])


@broken("PacketsDropped", WEB)
def firewall_against_node_ports(kernels: Kernels) -> None:
    kernels.save(
        "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -i eth0 -p tcp -m multiport --dports 30000:32767 -j DROP\n"
        "COMMIT\n"
    )


@broken("PacketsDropped", WEB, mode="ipvs")
def firewall_against_the_cluster_ip(kernels: Kernels) -> None:
    kernels.firewall(
        "input",
        [
            {
                "match": {
                    "op": "==",
                    "left": {"payload": {"protocol": "ip", "field": "daddr"}},
                    "right": {"prefix": {"addr": "10.96.0.48", "len": 29}},
                }
            },
            {"drop": None},
        ],
    )


# --- Connections and the DNS --------------------------------------------------------------------------------------


def _connection(protocol: str, destination: AddressPort, backend: str, **fields: Any) -> Connection:
    client = AddressPort("10.244.2.30", 4711)
    return Connection(
        protocol=protocol,
        source=client,
        destination=destination,
        reply_source=AddressPort(backend, destination.port),
        reply_destination=client,
        **fields,
    )


@broken("ConnectionsStale", DNS)
def flow_to_an_endpoint_that_is_gone(kernels: Kernels) -> None:
    kernels.node.connections = (_connection("udp", AddressPort("10.96.0.10", 53), "10.244.2.99"),)


@broken("ConnectionsToGonePods", WEB)
def connection_to_a_pod_that_is_gone(kernels: Kernels) -> None:
    kernels.node.connections = (_connection("tcp", AddressPort(WEB_IP, 80), "10.244.2.99", state="ESTABLISHED"),)


@broken("DnsNoAnswer", DNS)
def query_without_an_answer(kernels: Kernels) -> None:
    name = "kubernetes.default.svc.cluster.local"
    kernels.more["dns_answers"] = (
        DnsAnswer("node node1", "10.96.0.10", name, "NOERROR", 2.0),
        DnsAnswer("node node2", "10.96.0.10", name, "", 2.0),
    )


@broken("DnsAnswersError", DNS)
def query_with_an_error(kernels: Kernels) -> None:
    kernels.more["dns_answers"] = (DnsAnswer("node node1", "10.96.0.10", "kubernetes", "SERVFAIL", 2.0),)


@broken("PodAsksOtherDns", "pod/default/client")
def resolv_conf_of_another_cluster(kernels: Kernels) -> None:
    kernels.more["resolvers"] = (Resolver(ObjectKey("default", "client"), ("10.32.0.10",)),)


# --- Networks -----------------------------------------------------------------------------------------------------


@broken("ForwardingOff")
def forwarding_off(kernels: Kernels) -> None:
    kernels.sysctl("net/ipv4/ip_forward", 0)


@broken("ForwardingOff")
def forwarding_of_an_interface_off(kernels: Kernels) -> None:
    kernels.sysctl("net/ipv4/conf/eth0/forwarding", 0)


@broken("ConnectionTableFull")
def connection_table_is_full(kernels: Kernels) -> None:
    kernels.sysctl("net/netfilter/nf_conntrack_count", 262144)


@broken("ConnectionTableNearlyFull")
def connection_table_is_nearly_full(kernels: Kernels) -> None:
    kernels.sysctl("net/netfilter/nf_conntrack_count", 230000)


@broken("PodRouteMissing")
def no_route_to_pods(kernels: Kernels) -> None:
    kernels.drop_route("10.244.1.0/24")


@broken("PodRouteMissing")
def blackhole_for_pods(kernels: Kernels) -> None:
    kernels.change_route("10.244.1.0/24", kind="blackhole", via="", device="")


@broken("PodRouteMissing")
def no_route_to_a_pod_of_the_node(kernels: Kernels) -> None:
    kernels.drop_route("10.244.2.10/32")


@broken("PodRouteWrong")
def route_to_another_node(kernels: Kernels) -> None:
    kernels.change_route("10.244.1.0/24", via="10.0.0.203")


@broken("NoRouteToServices")
def no_default_route(kernels: Kernels) -> None:
    kernels.node.routes = tuple(each for each in kernels.node.routes if each.via != "10.0.0.1")


@broken("ServiceCidrRouted")
def route_of_a_vpn(kernels: Kernels) -> None:
    kernels.node.routes += (Route(destination="10.96.0.0/16", device="tun0"),)


@broken("ServiceCidrRouted")
def blackhole_for_services(kernels: Kernels) -> None:
    kernels.node.routes += (Route(destination="10.96.0.0/12", kind="blackhole"),)


@broken("ClusterIPOnInterface", WEB)
def cluster_ip_on_an_interface(kernels: Kernels) -> None:
    kernels.change_interface("eth0", addresses=("10.0.0.202/24", f"{WEB_IP}/32"))


@broken("MtuDiffers")
def uplink_with_a_small_mtu(kernels: Kernels) -> None:
    kernels.change_interface("eth0", mtu=1400)


@broken("PodMtuTooLarge")
def tunnel_with_a_small_mtu(kernels: Kernels) -> None:
    tunnel = Interface(name="flannel.1", index=50, mtu=1450, is_up=True, kind="vxlan")
    kernels.node.interfaces += (tunnel,)
    kernels.change_route("10.244.1.0/24", device="flannel.1", via="")


@broken("ReversePathFiltered")
def strict_reverse_path(kernels: Kernels) -> None:
    kernels.node.interfaces += (Interface(name="eth1", index=50, mtu=1500, is_up=True),)
    kernels.change_route("10.244.1.0/24", device="eth1", via="")
    kernels.sysctl("net/ipv4/conf/all/rp_filter", 1)


def _bridge(kernels: Kernels) -> None:
    bridge = Interface(name="cni0", index=50, mtu=1500, is_up=True, addresses=("10.244.2.1/24",), kind="bridge")
    kernels.node.interfaces += (bridge,)


@broken("BridgeBypassesRules")
def bridge_without_rules(kernels: Kernels) -> None:
    _bridge(kernels)
    kernels.sysctl("net/bridge/bridge-nf-call-iptables", 0)


@broken("HairpinOff")
def bridge_without_hairpin_mode(kernels: Kernels) -> None:
    _bridge(kernels)
    kernels.more["hairpin_off"] = {NODE: ("veth3",)}


@broken("LocalhostNodePortsOff", mode="iptables")
def route_localnet_off(kernels: Kernels) -> None:
    kernels.sysctl("net/ipv4/conf/all/route_localnet", 0)


@broken("NodePortInUse", WEB)
def program_on_a_node_port(kernels: Kernels) -> None:
    kernels.node.listeners += (Listening(protocol="tcp", address="0.0.0.0", port=WEB_NODE_PORT, program="python3"),)
