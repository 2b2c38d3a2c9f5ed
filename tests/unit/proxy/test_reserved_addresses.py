"""Rights to addresses and ports of nodes, of load balancers, of the API server. CVE-2020-8554."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.network.listening_ports import Listener
from bridgehead.objects.core import Node, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.proxy.frontends import NodeFacts, Reason, ServiceFrontends
from bridgehead.proxy.reserved_addresses import NOTHING_RESERVED, Reserved, plan_reserved
from bridgehead.proxy.service_frontends import compile_service
from tests.unit.calls import count_calls

NODE = NodeFacts(name="node1", addresses=("10.0.0.201",), families=(4, 6))
GIVEN = "10.0.0.10"
SHARED = {"metallb.io/allow-shared-ip": "key"}
POOL = {"metallb.io/ip-allocated-from-pool": "lab"}
OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def node(name: str, *addresses: str, **status: Any) -> Node:
    reported = [{"type": "InternalIP", "address": address} for address in addresses]
    return msgspec.convert({"metadata": {"name": name}, "status": {"addresses": reported} | status}, Node)


def api_slice(address: str, *ports: int) -> EndpointSlice:
    ported = [{"name": "https", "port": port} for port in ports]
    return msgspec.convert(
        {"metadata": {"name": "kubernetes"}, "endpoints": [{"addresses": [address]}], "ports": ported}, EndpointSlice
    )


def plan(*listeners: Listener, **more: Any) -> Reserved:
    arguments: dict[str, Any] = {
        "node_name": "node1",
        "own_addresses": NODE.addresses,
        "nodes": [node("node1", "10.0.0.201", "fd00:10::201"), node("node2", "10.0.0.202", "fd00:10::202")],
        "api_slices": [api_slice("10.0.0.1", 6443)],
        "api_addresses": ("10.0.0.1",),
        "service_cidrs": ("10.96.0.0/12",),
        "cluster_cidrs": ("10.244.0.0/16",),
        "listeners": listeners,
    }
    return plan_reserved(**arguments | more)


def service(
    name: str = "web",
    *external_ips: str,
    given: str = "",
    created: str = NEW,
    annotations: dict[str, str] | None = None,
    ports: tuple[tuple[str, int], ...] = (("TCP", 80),),
    **spec: Any,
) -> Service:
    balanced: dict[str, Any] = {"type": "LoadBalancer"} if given else {}
    ported = [{"name": f"{p.lower()}-{number}", "protocol": p, "port": number} for p, number in ports]
    return msgspec.convert(
        {
            "metadata": {
                "namespace": "default",
                "name": name,
                "creationTimestamp": created,
                "annotations": annotations or {},
            },
            "spec": {"clusterIPs": ["10.96.0.10", "fd00:96::10"], "externalIPs": external_ips, "ports": ported}
            | balanced
            | spec,
            "status": {"loadBalancer": {"ingress": [{"ip": given}]}} if given else {},
        },
        Service,
    )


def compiled(the_service: Service, reserved: Reserved | None = None, *rivals: Service) -> ServiceFrontends:
    return compile_service(the_service, [], NODE, plan() if reserved is None else reserved, rivals)


def published(result: ServiceFrontends) -> set[str]:
    """Return what is served beside the cluster IPs."""
    return {str(f.key) for f in result.frontends if f.key.address not in ("10.96.0.10", "fd00:96::10")}


def refusals(result: ServiceFrontends) -> list[str]:
    return [problem.text for problem in result.problems if problem.reason is Reason.RESERVED_ADDRESS]


# --- Addresses of nodes ---------------------------------------------------------------------------------------------


def test_an_address_of_the_node_is_served_at_ports_on_which_the_node_does_not_listen() -> None:
    result = compiled(service("web", "10.0.0.201", "fd00:10::201", ports=(("TCP", 80), ("UDP", 53), ("SCTP", 9))))

    assert published(result) == {
        f"{address}:{port}" for address in ("10.0.0.201", "[fd00:10::201]") for port in ("80/tcp", "53/udp", "9/sctp")
    }
    assert all(f.is_on_node == (f.key.address in ("10.0.0.201", "fd00:10::201")) for f in result.frontends)
    assert result.problems == ()


def test_an_address_of_another_node_is_left_to_that_node() -> None:
    result = compiled(service("web", "10.0.0.202", "203.0.113.7", "fd00:10::202"))

    assert published(result) == {"203.0.113.7:80/tcp"}
    assert result.problems == ()
    given = service("web", given="10.0.0.202")
    assert published(compiled(given)) == set()
    assert published(compiled(service("web", given="10.0.0.201"))) == {"10.0.0.201:80/tcp"}


@pytest.mark.parametrize(
    ("port", "reserved", "owner"),
    [
        (("TCP", 10250), plan(), "the kubelet"),
        (
            ("TCP", 10260),
            plan(nodes=[node("node1", "10.0.0.201", daemonEndpoints={"kubeletEndpoint": {"Port": 10260}})]),
            "the kubelet",
        ),
        (("TCP", 6443), plan(api_slices=[api_slice("10.0.0.201", 6443)]), "the API server"),
        (("TCP", 22), plan(Listener("tcp", "0.0.0.0", 22)), "a process of the node"),
        (("TCP", 22), plan(Listener("tcp", "::", 22)), "a process of the node"),
        (("TCP", 22), plan(Listener("tcp", "10.0.0.201", 22)), "a process of the node"),
        (("UDP", 7946), plan(Listener("udp", "0.0.0.0", 7946)), "a process of the node"),
        (("SCTP", 9), plan(Listener("sctp", "0.0.0.0", 9)), "a process of the node"),
    ],
)
def test_a_port_of_the_nodes_own_parts_is_not_served(port: tuple[str, int], reserved: Reserved, owner: str) -> None:
    result = compiled(service("web", "10.0.0.201", ports=(("TCP", 80), port)), reserved)

    assert published(result) == {"10.0.0.201:80/tcp"}
    text = f"port {port[1]}/{port[0].lower()} is not published at the addresses of nodes that the Service lists"
    assert refusals(result) == [f"{text}: {owner} listens on it; use another port, or an address that no node has"]


@pytest.mark.parametrize(
    "listener",
    [
        Listener("udp", "0.0.0.0", 80),
        Listener("tcp", "127.0.0.1", 80),
        Listener("tcp", "192.0.2.9", 80),
        Listener("tcp", "0.0.0.0", 81),
    ],
)
def test_other_listeners_take_no_port(listener: Listener) -> None:
    result = compiled(service("web", "10.0.0.201"), plan(listener))

    assert published(result) == {"10.0.0.201:80/tcp"}
    assert result.problems == ()


def test_listeners_of_the_node_do_not_concern_other_addresses() -> None:
    assert published(compiled(service("web", "203.0.113.7"), plan(Listener("tcp", "::", 80)))) == {"203.0.113.7:80/tcp"}


@pytest.mark.parametrize("endpoints", [{}, {"kubeletEndpoint": None}, {"kubeletEndpoint": {"Port": 0}}])
def test_a_kubelet_that_reports_no_port_has_its_usual_one(endpoints: dict[str, Any]) -> None:
    reserved = plan(nodes=[node("node1", "10.0.0.201", daemonEndpoints=endpoints)])

    assert reserved.ports == {("tcp", 10250): "the kubelet"}


def test_an_api_server_on_another_node_has_no_address_of_its_own() -> None:
    reserved = plan(api_slices=[api_slice("10.0.0.202", 6443), api_slice("nonsense")], api_addresses=("api.example",))

    assert reserved.owners == {}
    assert ("tcp", 6443) not in reserved.ports
    assert plan(api_slices=[api_slice("10.0.0.201")]).ports == {("tcp", 10250): "the kubelet"}


@pytest.mark.parametrize("gateway", ["10.0.0.254", "fd00:10::fe"])
def test_an_address_of_the_nodes_router_is_not_served(gateway: str) -> None:
    result = compiled(service("web", gateway), plan(gateways=(gateway, "10.0.0.201", "10.0.0.1")))

    assert published(result) == set()
    text = f"the Service is not published at {gateway} in externalIPs, an address of the nodes' router"
    assert refusals(result) == [f"{text}; use addresses that nothing else has"]


def test_a_router_that_is_the_node_or_the_api_server_is_that_first() -> None:
    reserved = plan(gateways=("10.0.0.201", "10.0.0.202", "10.0.0.1"))

    assert reserved.owners == {"10.0.0.1": "an address of the API server"}


# --- Addresses of load balancers ------------------------------------------------------------------------------------

FOREIGN = (
    f"the Service is not published at {GIVEN} in %s, the load-balancer address of Service default/owner, which does "
    "not share it (metallb.io/allow-shared-ip); use addresses that nothing else has"
)


@pytest.mark.parametrize("annotations", [POOL, {}, SHARED])
@pytest.mark.parametrize("created", [OLD, NEW])
def test_a_given_address_is_no_external_ip_of_others(annotations: dict[str, str], created: str) -> None:
    owner = service("owner", given=GIVEN, annotations=annotations, created=created, ports=(("TCP", 443),))
    taker = service("taker", GIVEN, "203.0.113.7")

    result = compiled(taker, None, owner)

    assert published(result) == {"203.0.113.7:80/tcp"}
    assert refusals(result) == [FOREIGN % "externalIPs"]
    assert published(compiled(owner, None, taker)) == {f"{GIVEN}:443/tcp"}


def test_services_with_one_key_share_an_address() -> None:
    owner = service("owner", given=GIVEN, annotations=POOL | SHARED)
    friend = service("friend", GIVEN, annotations=SHARED, ports=(("TCP", 443),))
    local = service("friend", GIVEN, annotations=SHARED, externalTrafficPolicy="Local", selector={"app": "a"})

    assert published(compiled(friend, None, owner)) == {f"{GIVEN}:443/tcp"}
    assert published(compiled(local, None, owner)) == set(), "other backends: MetalLB's rule"
    openelb = {"lb.kubesphere.io/v1alpha1": "openelb"}
    eip = service("owner", given=GIVEN, annotations=openelb)
    assert published(compiled(service("friend", GIVEN, annotations=openelb), None, eip)) == {f"{GIVEN}:80/tcp"}


@pytest.mark.parametrize(
    ("mine", "others", "has_it"),
    [
        ({"annotations": POOL, "created": NEW}, {"created": OLD}, True),  # a foreign client wrote the other's status
        ({"created": OLD}, {"annotations": POOL, "created": NEW}, False),
        ({"annotations": POOL, "created": OLD}, {"annotations": POOL, "created": NEW}, True),
        ({"annotations": POOL, "created": NEW}, {"annotations": POOL, "created": OLD}, False),
        ({"annotations": POOL | SHARED, "created": NEW}, {"annotations": POOL | SHARED, "created": OLD}, True),
        ({"created": NEW}, {"created": OLD}, True),  # other load balancers have rules of their own
    ],
)
def test_an_address_of_a_pool_is_in_one_status(mine: dict[str, Any], others: dict[str, Any], has_it: bool) -> None:
    result = compiled(service("web", given=GIVEN, **mine), None, service("owner", given=GIVEN, **others))

    assert published(result) == ({f"{GIVEN}:80/tcp"} if has_it else set())
    assert refusals(result) == ([] if has_it else [FOREIGN % "status.loadBalancer.ingress"])


def test_only_services_that_have_the_address_count() -> None:
    others = (service("a", given="10.0.0.11"), service("b", GIVEN), service("c", given="nonsense"))

    assert published(compiled(service("web", GIVEN), None, *others)) == {f"{GIVEN}:80/tcp"}


@pytest.mark.parametrize("written", ["FD00:10::0010", "fd00:10::10"])
def test_addresses_are_compared_in_canonical_form(written: str) -> None:
    owner = service("owner", given="fd00:10:0::10")

    assert published(compiled(service("web", written), None, owner)) == set()


def test_many_addresses_of_many_others_take_work_in_proportion() -> None:
    def calls(number: int) -> int:
        addresses = [f"203.0.{n >> 8}.{n & 255}" for n in range(number)]
        rivals = [service(f"rival-{n}", given=address) for n, address in enumerate(addresses)]
        mine = service("web", *addresses)
        return count_calls(lambda: compiled(mine, NOTHING_RESERVED, *rivals))

    assert calls(400) < 3 * calls(200)
