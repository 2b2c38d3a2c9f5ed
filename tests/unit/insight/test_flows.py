"""Connections by Service: clients and backends by name, one connection on two nodes, spread, stuck clients."""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.insight.expectations import expect_node
from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.insight.facts.network_state import AddressPort, Connection, NetworkState
from bridgehead.insight.flows import ServiceFlows, backend_rows, find_flows, flow_rows, service_as_json
from bridgehead.objects.core import Pod

from .rulesets.clusters import cluster, endpoint, service, slice_

VIP, NODE1, NODE2 = AddressPort("10.96.0.10", 80), "10.0.0.201", "10.0.0.202"
ONE, TWO = AddressPort("10.244.1.2", 8080), AddressPort("10.244.2.2", 8080)


def pod(name: str, address: str, node: str) -> Pod:
    status = {"phase": "Running", "podIPs": [{"ip": address}]}
    spec = {"nodeName": node, "containers": []}
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status}, Pod)


def example(mode: str = "nftables") -> ClusterState:
    ports = [{"port": 80, "nodePort": 30080}]
    web = service("web", type="NodePort", clusterIPs=[VIP.address], ports=ports)
    idle = service("idle", clusterIPs=["10.96.0.11"])
    slices = [slice_("web", endpoint(ONE.address), endpoint(TWO.address, "node2"))]
    pods = [pod("web-1", ONE.address, "node1"), pod("client", "10.244.1.9", "node1")]
    return cluster([web, idle], slices, pods=pods, mode=mode)


def connection(client: Any, destination: AddressPort, backend: AddressPort, **fields: Any) -> Connection:
    client = client if isinstance(client, AddressPort) else AddressPort(*client)
    fields = {"reply_destination": client, "state": "ESTABLISHED", "protocol": "tcp", **fields}
    return Connection(source=client, destination=destination, reply_source=backend, **fields)


def find(state: ClusterState, **nodes: list[Connection]) -> dict[str, ServiceFlows]:
    networks = {name: NetworkState(connections=tuple(found)) for name, found in nodes.items()}
    expected = {name: expect_node(state, name) for name in nodes}
    return {one.service: one for one in find_flows(state, networks, expected)}


CLIENT = ("10.244.1.9", 40000)


def test_a_connection_has_its_service_client_and_backend() -> None:
    seen = connection(CLIENT, VIP, ONE, bytes=(120, 4000), age=12.5)
    (flow,) = find(example(), node1=[seen])["default/web:"].flows
    assert (flow.client_name, flow.backend_name) == ("pod default/client", "pod default/web-1")
    assert (flow.backend, flow.sent, flow.received, flow.age, flow.nodes) == (ONE, 120, 4000, 12.5, ("node1",))
    assert flow.is_open
    assert flow.problem == ""


def test_a_node_of_mode_ipvs_connects_from_the_cluster_ip() -> None:
    """The kernel prefers the destination as the source where kube-ipvs0 has the address."""
    seen = connection((VIP.address, 40000), VIP, ONE, reply_destination=AddressPort(NODE1, 40000))
    (flow,) = find(example("ipvs"), node1=[seen])["default/web:"].flows
    assert flow.client_name == "node node1"


def test_node_ports_are_found_at_addresses_of_nodes_only() -> None:
    at_node = connection(("192.0.2.1", 5), AddressPort(NODE1, 30080), TWO)
    elsewhere = connection(("192.0.2.1", 5), AddressPort("192.0.2.9", 30080), TWO)
    assert [flow.destination for flow in find(example(), node1=[at_node, elsewhere])["default/web:"].flows] == [
        at_node.destination
    ]


def test_one_connection_that_two_nodes_see_is_one() -> None:
    destination = AddressPort(NODE1, 30080)
    forwarded = connection(CLIENT, destination, destination)
    translated = connection(CLIENT, destination, ONE)
    (flow,) = find(example(), node2=[forwarded], node1=[translated])["default/web:"].flows
    assert (flow.backend, flow.nodes) == (ONE, ("node1", "node2"))


def test_a_node_that_masquerades_does_not_hide_the_client() -> None:
    destination, outside = AddressPort(NODE1, 30080), AddressPort(NODE2, 61000)
    forwarded = connection(("10.244.2.9", 7), destination, destination, reply_destination=outside)
    translated = connection(outside, destination, ONE)
    (flow,) = find(example(), node1=[translated], node2=[forwarded])["default/web:"].flows
    assert (flow.client, flow.backend) == (AddressPort("10.244.2.9", 7), ONE)


def test_uneven_spread_and_clients_of_a_former_backend_show() -> None:
    gone = AddressPort("10.244.1.77", 8080)
    seen = [connection(("192.0.2.1", port), VIP, ONE) for port in range(1, 4)]
    seen.append(connection(("192.0.2.2", 1), VIP, gone))
    seen.append(connection(("192.0.2.3", 1), VIP, ONE, state="TIME_WAIT"))
    web = find(example(), node1=seen)["default/web:"]
    assert [(use.backend, use.open, use.ended, use.is_current) for use in web.backends] == [
        (ONE, 3, 1, True),
        (TWO, 0, 0, True),
        (gone, 1, 0, False),
    ]
    (stuck,) = (flow for flow in web.flows if flow.problem)
    assert (stuck.backend, stuck.problem) == (gone, "the backend is none of the Service any more")


def test_a_connection_without_an_answer_is_not_open() -> None:
    seen = connection(CLIENT, VIP, ONE, state="SYN_SENT", is_unreplied=True)
    (flow,) = find(example(), node1=[seen])["default/web:"].flows
    assert (flow.is_open, flow.problem) == (False, "no answer")


def test_connections_to_pods_themselves_are_left_out_and_idle_services_stay() -> None:
    found = find(example(), node1=[connection(CLIENT, ONE, ONE)])
    assert {name: len(one.flows) for name, one in found.items()} == {"default/web:": 0, "default/idle:": 0}


def test_in_mode_userspace_the_proxys_own_connections_show_the_backend() -> None:
    state = example("userspace")
    client = connection(CLIENT, VIP, AddressPort("169.254.98.104", 40001))
    relayed = connection((NODE1, 50000), TWO, TWO)
    web = find(state, node1=[client, relayed])["default/web:"]
    assert [(flow.backend_name, flow.is_relayed) for flow in web.flows] == [("", True), ("proxy of node1", False)]
    assert [(use.backend, use.open) for use in web.backends] == [(ONE, 0), (TWO, 1)]


def test_tables_and_json_have_every_connection() -> None:
    web = find(example(), node1=[connection(CLIENT, VIP, ONE), connection(CLIENT, VIP, VIP, protocol="udp", state="")])[
        "default/web:"
    ]
    assert len(flow_rows(web.flows)) == 1 + len(web.flows)
    assert flow_rows(web.flows)[1][:4] == (
        "pod default/client (10.244.1.9:40000)",
        "10.96.0.10:80",
        "pod default/web-1 (10.244.1.2:8080)",
        "ESTABLISHED",
    )
    assert [row[2] for row in backend_rows(web.backends)[1:]] == ["1", "0"]
    document = service_as_json(web)
    assert document["connections"][0]["backend"] == "10.244.1.2:8080"
    assert document["backends"][1] == {
        "address": "10.244.2.2:8080", "name": "", "open": 0, "ended": 0, "isCurrent": True,
    }  # fmt: skip
