"""The contract of all proxy modes, by real traffic: who answered, from which source address, refused, how sticky."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests import tools

from .proxy_objects import CLIENT_SIDES, EXTERNAL, WEB4, WEB6, answered_by, pods_of, service, slice_of, sticky, talkers
from .proxy_world import CLIENT4, MODES, NODE4, NODE6, PODS, PORT, World, pod_ip

pytestmark = pytest.mark.integration


def command_of(mode: str) -> str:
    if mode == "ipvs":
        return "iptables-legacy-restore"
    return f"{mode}-restore" if mode.startswith("iptables") else "nft"


IPVS = pytest.param("ipvs", marks=pytest.mark.guest)


@pytest.fixture(scope="module", params=(*MODES, IPVS))
def shared_world(request: pytest.FixtureRequest) -> Iterator[World]:
    tools.require(command_of(request.param))
    with World(request.param) as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.reset()
    return shared_world


@pytest.mark.parametrize("where", CLIENT_SIDES)
@pytest.mark.parametrize(("family", "address"), [(4, WEB4), (6, WEB6)])
def test_a_cluster_ip_reaches_every_pod(world: World, where: str, family: int, address: str) -> None:
    world.put(service(addresses=(address,)), slice_of(*PODS, family=family))

    answers = answered_by(world.connect(where, address, 80, times=300))

    assert set(answers) == set(PODS)
    assert min(answers.values()) > 45, "with 300 connections over three pods, 45 is 6.7 standard deviations away"


def test_udp_is_translated(world: World) -> None:
    world.put(service(udp=True), slice_of(*PODS, udp=True))

    for where in CLIENT_SIDES:
        assert set(answered_by(world.connect(where, WEB4, 80, times=60, udp=True))) == set(PODS)


def test_pods_keep_their_address_and_others_are_masqueraded(world: World) -> None:
    world.put(service(), slice_of("pod2"))

    assert world.connect("pod1", WEB4, 80) == [f"pod2 from {world.seen(pod_ip('pod1'))}"]
    assert world.connect("client", WEB4, 80) == [f"pod2 from {NODE4}"]


@pytest.mark.parametrize(("family", "address"), [(4, WEB4), (6, WEB6)])
def test_a_pod_reaches_itself_through_its_service(world: World, family: int, address: str) -> None:
    world.put(service(addresses=(address,)), slice_of("pod1", family=family))

    assert answered_by(world.connect("pod1", address, 80, times=3)) == {"pod1": 3}


def test_a_pod_reaches_itself_when_its_slice_names_no_node(world: World) -> None:
    without_node = slice_of("pod1")
    del without_node["endpoints"][0]["nodeName"]
    world.put(service(), without_node)

    assert answered_by(world.connect("pod1", WEB4, 80)) == {"pod1": 1}


@pytest.mark.parametrize("where", CLIENT_SIDES)
@pytest.mark.parametrize("address", [WEB4, WEB6])
def test_a_service_without_endpoints_refuses_connections(world: World, where: str, address: str) -> None:
    world.put(service(addresses=(WEB4, WEB6)))

    assert world.connect(where, address, 80) == ["refused"], "no endpoints"
    assert world.connect(where, address, 81) == ["refused"], "an undefined port"
    assert world.connect(where, address, 81, udp=True) == [refusal_of(where, address)], "an undefined port of UDP"


# Addresses that this node does not have.
LOAD_BALANCER, EXTERNAL6, LOAD_BALANCER6 = "203.0.113.8", "2001:db8::77", "2001:db8::88"


def refusal_of(where: str, address: str) -> str:
    """The error of a datagram that is rejected: as in kube-proxy, EPERM if that happens before it leaves its sender."""
    is_own = address in (NODE4, NODE6, "127.0.0.1", "::1")
    return "not permitted" if where == "node" and not is_own else "refused"


@pytest.mark.parametrize("udp", [False, True])
@pytest.mark.parametrize("where", CLIENT_SIDES)
def test_every_address_of_a_service_without_endpoints_refuses(world: World, where: str, udp: bool) -> None:
    spec: dict[str, Any] = {"type": "LoadBalancer", "nodePort": 30080, "externalIPs": [EXTERNAL, EXTERNAL6]}
    balanced = service(addresses=(WEB4, WEB6), udp=udp, **spec)
    balanced["status"] = {"loadBalancer": {"ingress": [{"ip": LOAD_BALANCER}, {"ip": LOAD_BALANCER6}]}}
    world.put(balanced)
    targets = [(address, 80) for address in (WEB4, WEB6, EXTERNAL, EXTERNAL6, LOAD_BALANCER, LOAD_BALANCER6)]
    targets += [(address, 30080) for address in (NODE4, NODE6, *(("127.0.0.1", "::1") if where == "node" else ()))]

    found = {address: world.connect(where, address, port, udp=udp)[0] for address, port in targets}

    assert found == {address: refusal_of(where, address) if udp else "refused" for address, _ in targets}


def test_a_client_that_was_refused_by_its_own_node_is_served_when_there_are_endpoints(world: World) -> None:
    world.put(service(type="NodePort", nodePort=30080, udp=True))

    assert world.converse("early", "node", NODE4, 30080) == "refused"
    world.put(service(type="NodePort", nodePort=30080, udp=True), slice_of("pod2", udp=True))
    assert eventually_answered(world, "early", NODE4) == "pod2"


def eventually_answered(world: World, name: str, address: str) -> str:
    """The answer to a client that keeps its socket; its flow is removed a moment after the rules changed."""
    for seconds in (0.0, 0.3, 3.0):
        world.later(seconds)
        if (answer := world.converse(name, "node", address, 30080)) != "refused":
            return answer
    return "refused"


def test_packets_to_unassigned_cluster_ips_are_dropped(world: World) -> None:
    assert world.connect("pod1", "10.96.0.11", 80) == ["timeout"]


def test_node_ports_answer_on_every_address_but_loopback(world: World) -> None:
    world.run("ip", "address", "replace", "192.0.2.1/32", "dev", "lo")
    world.put(service(type="NodePort", nodePort=30080), slice_of("pod2"))

    for address in (NODE4, "192.0.2.1"):
        for where in CLIENT_SIDES:
            assert answered_by(world.connect(where, address, 30080)) == {"pod2": 1}, (where, address)
    world.run("ip", "address", "del", "192.0.2.1/32", "dev", "lo")
    assert world.connect("client", NODE4, 30080) == [f"pod2 from {NODE4}"]
    assert world.connect("node", "127.0.0.1", 30080) == ["refused"]
    world.put(service(type="NodePort", nodePort=30080))
    assert world.connect("client", NODE4, 30080) == ["refused"], "no endpoints any more"


def test_node_ports_answer_in_ipv6(world: World) -> None:
    world.put(service(addresses=(WEB6,), type="NodePort", nodePort=30080), slice_of("pod2", family=6))

    assert world.connect("client", NODE6, 30080) == [f"pod2 from {NODE6}"]
    assert world.connect("node", "::1", 30080) == ["refused"]


@pytest.mark.parametrize("where", CLIENT_SIDES)
def test_external_ips_and_load_balancer_addresses_answer(world: World, where: str) -> None:
    balanced = service(type="LoadBalancer", externalIPs=[EXTERNAL])
    balanced["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.8"}]}}
    world.put(balanced, slice_of(*PODS))

    for address in (EXTERNAL, "203.0.113.8"):
        assert set(answered_by(world.connect(where, address, 80, times=60))) == set(PODS)
    world.put(balanced)
    assert world.connect(where, EXTERNAL, 80) == ["refused"]


def test_an_address_of_the_node_is_an_external_ip_but_for_node_ports_and_host_ports(world: World) -> None:
    world.put(service(addresses=(WEB4, WEB6), externalIPs=[NODE4, NODE6]), slice_of("pod2"), slice_of("pod2", family=6))
    for where in CLIENT_SIDES:
        for address in (NODE4, NODE6):
            assert answered_by(world.connect(where, address, 80)) == {"pod2": 1}, (where, address)
    assert world.connect("client", NODE4, 81) == ["refused"], "nobody's port"

    # Another Service's node port, and a pod's host port, of the same number: later ones, too.
    node_port = service(addresses=("10.96.0.99",), type="NodePort", nodePort=80)
    node_port["metadata"] |= {"name": "late", "creationTimestamp": "2030-01-01T00:00:00Z"}
    slice_of_it = slice_of("pod3")
    slice_of_it["metadata"] |= {"name": "late-1", "labels": {"kubernetes.io/service-name": "late"}}
    world.put(node_port, slice_of_it)
    assert answered_by(world.connect("client", NODE4, 80)) == {"pod3": 1}
    assert answered_by(world.connect("client", NODE6, 80)) == {"pod2": 1}, "the node port has one family"
    assert answered_by(world.connect("client", WEB4, 80)) == {"pod2": 1}
    world.delete("late")
    assert answered_by(world.connect("client", NODE4, 80)) == {"pod2": 1}


def test_an_address_of_the_node_is_an_external_ip_of_udp(world: World) -> None:
    world.put(service(udp=True, externalIPs=[NODE4]), slice_of("pod1", udp=True))

    for where in CLIENT_SIDES:
        assert answered_by(world.connect(where, NODE4, 80, udp=True)) == {"pod1": 1}, where


def test_local_traffic_policy_keeps_the_clients_address_and_serves_cluster_clients_everywhere(world: World) -> None:
    spec: dict[str, Any] = {"type": "NodePort", "nodePort": 30080, "externalTrafficPolicy": "Local"}
    here, there = slice_of("pod2"), slice_of("pod3", node="node2")
    there["metadata"]["name"] = "elsewhere"
    world.put(service(**spec), here, there)

    assert set(world.connect("client", NODE4, 30080, times=10)) == {f"pod2 from {world.seen(CLIENT4)}"}
    assert set(world.connect("pod1", NODE4, 30080, times=40)) == {
        f"{pod} from {world.seen(pod_ip('pod1'))}" for pod in ("pod2", "pod3")
    }
    assert set(answered_by(world.connect("node", NODE4, 30080, times=40))) == {"pod2", "pod3"}
    world.put(service(**spec), there)
    assert world.connect("client", NODE4, 30080) == ["timeout"], "dropped: another node may serve it"
    assert set(answered_by(world.connect("pod1", NODE4, 30080))) == {"pod3"}


def test_a_pod_reaches_itself_through_a_node_port_of_another_node(world: World) -> None:
    spec: dict[str, Any] = {"type": "NodePort", "nodePort": 30080, "externalTrafficPolicy": "Local"}
    world.put(service(**spec), slice_of("pod1", node="node2"))

    assert world.connect("pod1", NODE4, 30080) == [f"pod1 from {NODE4}"]


def test_a_client_pod_of_another_node_is_served_by_local_pods(world: World) -> None:
    world.run("ip", "-n", "client", "address", "replace", "10.244.2.9/32", "dev", "lo")
    world.run("ip", "route", "replace", "10.244.2.9/32", "via", CLIENT4)
    here, there = slice_of("pod2"), slice_of("pod3", node="node2")
    there["metadata"]["name"] = "elsewhere"
    world.put(service(type="NodePort", nodePort=30080, externalTrafficPolicy="Local"), here, there)

    answers = world.connect("client", NODE4, 30080, times=12, source="10.244.2.9")

    world.run("ip", "route", "del", "10.244.2.9/32")
    world.run("ip", "-n", "client", "address", "del", "10.244.2.9/32", "dev", "lo")
    assert set(answers) == {f"pod2 from {world.seen('10.244.2.9')}"}


def test_a_serving_terminating_endpoint_is_used_when_none_is_ready(world: World) -> None:
    ready, draining = {"ready": True}, {"ready": False, "serving": True, "terminating": True}

    def put(here: dict[str, bool], there: dict[str, bool]) -> None:
        spec: dict[str, Any] = {"type": "NodePort", "nodePort": 30080, "externalTrafficPolicy": "Local"}
        both = slice_of("pod1"), slice_of("pod2", node="node2")
        both[1]["metadata"]["name"] = "elsewhere"
        for slice_, conditions in zip(both, (here, there), strict=True):
            slice_["endpoints"][0]["conditions"] = conditions
        world.put(service(**spec), *both)

    put(draining, ready)
    assert set(answered_by(world.connect("client", NODE4, 30080, times=5))) == {"pod1"}, "the only one here"
    assert set(answered_by(world.connect("pod3", NODE4, 30080, times=10))) == {"pod2"}
    assert set(answered_by(world.connect("pod3", WEB4, 80, times=10))) == {"pod2"}
    put(draining, draining)
    assert set(answered_by(world.connect("client", NODE4, 30080, times=5))) == {"pod1"}
    assert set(answered_by(world.connect("pod3", WEB4, 80, times=40))) == {"pod1", "pod2"}
    put(draining | {"serving": False}, draining | {"serving": False})
    assert [world.connect(where, NODE4, 30080) for where in CLIENT_SIDES] == [["refused"]] * 3


def test_a_live_service_changes_its_type_ports_and_protocol(world: World) -> None:
    def ask(address: str, port: int, *, udp: bool = False) -> str:
        return world.connect("client", address, port, udp=udp)[0].partition(" ")[0]

    world.put(service(type="NodePort", nodePort=30080), slice_of("pod1"))
    assert (ask(WEB4, 80), ask(NODE4, 30080)) == ("pod1", "pod1")
    world.put(service(type="NodePort", nodePort=30081), slice_of("pod1"))
    assert (ask(NODE4, 30080), ask(NODE4, 30081)) == ("refused", "pod1"), "another node port"
    world.put(service(), slice_of("pod1"))
    assert (ask(WEB4, 80), ask(NODE4, 30081)) == ("pod1", "refused"), "ClusterIP"
    world.put(service(udp=True), slice_of("pod1", udp=True))
    assert (ask(WEB4, 80), ask(WEB4, 80, udp=True)) == ("refused", "pod1"), "another protocol"
    other = service()
    other["spec"]["ports"][0]["port"] = 81
    world.put(other, slice_of("pod1"))
    assert (ask(WEB4, 80), ask(WEB4, 81)) == ("refused", "pod1"), "another port"
    for spec in ({"type": "ExternalName", "clusterIP": "", "clusterIPs": []}, {"clusterIP": "None"}):
        gone = service()
        gone["spec"] |= {"clusterIPs": ["None"]} | spec
        world.put(gone, slice_of("pod1"))
        assert world.ask("difference") == []
    assert ask(WEB4, 80) == "timeout", "nobody has it any more"


def test_one_number_can_be_a_tcp_and_a_udp_node_port(world: World) -> None:
    both = service(type="NodePort", nodePort=30080)
    both["spec"]["ports"].append({"name": "udp", "port": 80, "protocol": "UDP", "nodePort": 30080})
    of_udp = slice_of("pod2", udp=True)
    of_udp["metadata"]["name"], of_udp["ports"][0]["name"] = "web-udp", "udp"
    world.put(both, slice_of("pod1"), of_udp)

    for address, port in ((WEB4, 80), (NODE4, 30080)):
        assert answered_by(world.connect("client", address, port)) == {"pod1": 1}
        assert answered_by(world.connect("client", address, port, udp=True)) == {"pod2": 1}


def test_source_ranges_admit_only_clients_in_them(world: World) -> None:
    balanced = service(type="LoadBalancer", loadBalancerSourceRanges=["10.0.0.0/30"])
    balanced["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.8"}]}}
    world.put(balanced, slice_of("pod2"))
    assert set(answered_by(world.connect("client", "203.0.113.8", 80))) == {"pod2"}

    balanced["spec"]["loadBalancerSourceRanges"] = ["192.0.2.0/24"]
    world.put(balanced, slice_of("pod2"))
    assert world.connect("client", "203.0.113.8", 80) == ["timeout"]


def test_source_ranges_of_all_addresses_admit_all_clients(world: World) -> None:
    balanced = service(
        addresses=(WEB4, WEB6), type="LoadBalancer", loadBalancerSourceRanges=["0.0.0.0/0", "::/0", "192.0.2.0/24"]
    )
    balanced["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.8"}, {"ip": "2001:db8::8"}]}}
    world.put(balanced, slice_of("pod2"), slice_of("pod2", family=6))

    for address in ("203.0.113.8", "2001:db8::8"):
        for where in CLIENT_SIDES:
            assert pods_of(world, where, address, times=1) == {"pod2"}, (where, address)
    assert world.ask("difference") == []
    assert world.ask("verify", thoroughly=True) is None, "nobody changed anything"


def test_source_ranges_apply_to_pods_and_nodes(world: World) -> None:
    balanced = service(addresses=(WEB6,), type="LoadBalancer", loadBalancerSourceRanges=[f"{pod_ip('pod1', 6)}/128"])
    balanced["status"] = {"loadBalancer": {"ingress": [{"ip": "2001:db8::8"}]}}
    world.put(balanced, slice_of("pod2", family=6))

    answers = world.connect_each((*CLIENT_SIDES, "pod3"), "2001:db8::8", 80)

    assert answers.pop("pod1").startswith("pod2 ")
    assert answers == dict.fromkeys(("pod3", "node", "client"), "timeout")


def test_an_allowed_node_reaches_its_own_load_balancer_address(world: World) -> None:
    world.run("ip", "address", "replace", "203.0.113.8/32", "dev", "lo")
    balanced = service(type="LoadBalancer", loadBalancerSourceRanges=[f"{NODE4}/32"])
    balanced["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.8"}]}}
    world.put(balanced, slice_of("pod2"))

    answers = world.connect_each(CLIENT_SIDES, "203.0.113.8", 80)
    world.run("ip", "address", "del", "203.0.113.8/32", "dev", "lo")

    assert answers.pop("node").startswith("pod2 ")
    assert answers == {"pod1": "timeout", "client": "timeout"}


# The other modes are left out: there, as in kube-proxy's nftables mode, a firewall itself has to let them in, as no
# table can overrule another.
@pytest.mark.parametrize("shared_world", ["iptables-nft", "iptables-legacy", IPVS], indirect=True)
def test_health_check_ports_are_open_under_a_restrictive_firewall(world: World) -> None:
    command = "iptables-legacy" if world.mode == "ipvs" else world.mode
    spec: dict[str, Any] = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31234}
    world.run(command, "-A", "INPUT", "-p", "tcp", "-j", "DROP")
    try:
        world.put(service(**spec), slice_of("pod1"))
        assert world.connect("client", NODE4, 31234) == ["refused"], "it came in, and nobody listens here"
        assert world.connect("client", NODE4, 31235) == ["timeout"]
        world.ask("delete", name="web")
        assert world.connect("client", NODE4, 31234) == ["timeout"]
    finally:
        world.run(command, "-D", "INPUT", "-p", "tcp", "-j", "DROP")


@pytest.mark.parametrize(("family", "address"), [(4, WEB4), (6, WEB6)])
def test_affinity_keeps_a_client_at_its_pod(world: World, family: int, address: str) -> None:
    world.put(sticky(addresses=(address,)), slice_of(*PODS, family=family))

    for where in CLIENT_SIDES:
        (chosen,) = pods_of(world, where, address)
        assert chosen in PODS


def test_affinity_survives_other_changes_of_pods_and_moves_when_the_pod_is_removed(world: World) -> None:
    world.put(sticky(), slice_of("pod1", "pod2"))
    (chosen,) = pods_of(world, "client")
    (other,) = {"pod1", "pod2"} - {chosen}

    world.put(sticky(), slice_of(*PODS))
    assert pods_of(world, "client") == {chosen}, "one more"
    world.put(sticky(), slice_of(chosen, "pod3"))
    assert pods_of(world, "client") == {chosen}, "one went"
    world.put(sticky(), slice_of(other, "pod3"))
    (successor,) = pods_of(world, "client")
    assert successor != chosen
    world.put(sticky(), slice_of(*PODS))
    assert pods_of(world, "client") == {successor}, "back again, but forgotten"
    assert world.ask("difference") == []


def test_affinity_holds_across_all_addresses_of_the_service(world: World) -> None:
    # Addresses that no other test uses: IPVS remembers a client longer than its virtual server was away.
    address, external, node_port = "10.96.0.77", "203.0.113.77", 30077
    spec: dict[str, Any] = {"type": "NodePort", "nodePort": node_port, "externalIPs": [external]}
    world.put(sticky(addresses=(address,), **spec), slice_of(*PODS))

    (chosen,) = pods_of(world, "client", address, times=1)

    assert chosen in PODS
    assert pods_of(world, "client", external) == {chosen}
    assert pods_of(world, "client", NODE4, node_port) == {chosen}


def test_clients_with_affinity_are_spread_over_the_pods(world: World) -> None:
    world.put(sticky(), slice_of(*PODS))
    world.run("ip", "-n", "client", "route", "replace", "local", "10.0.0.64/26", "dev", "lo")

    sources = [f"10.0.0.{number}" for number in range(64, 128)]  # by chance, too, each pod gets some of so many
    answers = [world.connect("client", WEB4, 80, times=2, source=source) for source in sources]

    assert all(len(answered_by(some)) == 1 for some in answers)
    assert answered_by([some[0] for some in answers]).keys() == set(PODS)


def test_affinity_works_with_local_traffic_policy(world: World) -> None:
    here, there = slice_of("pod1", "pod2"), slice_of("pod3", node="node2")
    there["metadata"]["name"] = "elsewhere"
    world.put(sticky(type="NodePort", nodePort=30080, externalTrafficPolicy="Local"), here, there)

    (outsiders,) = pods_of(world, "client", NODE4, 30080)
    (insiders,) = pods_of(world, "pod1", NODE4, 30080)
    assert outsiders in ("pod1", "pod2")
    assert insiders in PODS
    assert world.ask("difference") == []


def test_affinity_works_with_udp(world: World) -> None:
    world.put(sticky(udp=True), slice_of(*PODS, udp=True))

    assert len(set(answered_by(world.connect("client", WEB4, 80, times=8, udp=True)))) == 1


def test_a_udp_client_is_served_after_its_server_is_replaced(world: World) -> None:
    def put(*pods: str) -> None:
        world.put(service(udp=True), slice_of(*pods, udp=True))

    put("pod1")
    assert world.converse("a", "client", WEB4, 80) == "pod1"
    put("pod2")
    assert world.converse("a", "client", WEB4, 80) == "pod2", "its server was replaced"
    put()
    assert world.converse("a", "client", WEB4, 80) == "refused", "scaled to zero"
    put("pod3")
    assert world.converse("a", "client", WEB4, 80) == "pod3", "and back"
    world.ask("delete", name="web")
    assert world.converse("a", "client", WEB4, 80) == "timeout"
    put("pod1")
    assert world.converse("a", "client", WEB4, 80) == "pod1", "deleted, and made anew"


def test_open_connections_survive_the_removal_of_their_backend_and_service(world: World) -> None:
    def put(pod: str) -> None:
        world.talk("listen", pod, 4)
        world.put(service(), talkers(pod))

    put("pod1")
    world.talk("dial", "a", "client", WEB4, 80)
    assert world.talk("exchange", "a") == "pod1"
    put("pod2")
    world.talk("dial", "b", "client", WEB4, 80)
    assert [world.talk("exchange", name) for name in "ab"] == ["pod1", "pod2"], (
        "connections to a terminating pod continue"
    )
    if world.mode == "ipvs":
        return  # by nature, as in kube-proxy: with the address that its interface had, its packets are nobody's
    world.ask("delete", name="web")
    assert [world.talk("exchange", name) for name in "ab"] == ["pod1", "pod2"]


@pytest.mark.parametrize("seed", range(6))
def test_the_kernels_rules_equal_the_frontends_after_random_changes(world: World, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(30):
        number = chance.randrange(6)
        name = f"s{number}"
        if chance.random() < 0.2:
            world.ask("delete", name=name)
            continue
        addresses = (f"10.96.1.{number}", f"fd00:96::1:{number}")[: chance.randint(1, 2)]
        spec: dict[str, Any] = {"type": chance.choice(["ClusterIP", "NodePort", "LoadBalancer"])}
        if spec["type"] != "ClusterIP":
            spec |= {"nodePort": 30000 + number, "externalTrafficPolicy": chance.choice(["Cluster", "Local"])}
        if spec["type"] == "LoadBalancer" and chance.random() < 0.7:
            spec["loadBalancerSourceRanges"] = chance.sample(["10.0.0.0/25", "0.0.0.0/0", "fd00:a::/64", "::/0"], 2)
        if chance.random() < 0.3:
            spec["sessionAffinity"] = "ClientIP"
        if chance.random() < 0.3:
            spec["externalIPs"] = [chance.choice([EXTERNAL, "203.0.113.9"])]  # which several Services then claim
        slices = []
        for family in (4, 6):
            part = slice_of(
                *chance.sample(PODS, chance.randint(0, 3)), family=family, node=chance.choice(["node1", "x"])
            )
            slices.append(part)
        its = service(name, addresses=addresses, **spec)
        its["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.8"}, {"ip": f"2001:db8::{number}"}]}}
        world.put(its, *slices)

    assert world.ask("difference") == []
    assert world.ask("verify", thoroughly=True) is None


def host_port_pod(pod: str, *, ended: bool = False, **port: Any) -> dict[str, Any]:
    """A pod with a host port that leads to the server in the namespace `pod`."""
    return {
        "metadata": {"namespace": "default", "name": pod},
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": PORT, **port}]}]},
        "status": {"phase": "Failed" if ended else "Running", "podIP": pod_ip(pod), "podIPs": [{"ip": pod_ip(pod)}]},
    }


def test_a_host_port_leads_to_its_pod(world: World) -> None:
    world.put_pod(host_port_pod("pod1", hostPort=18080))

    assert world.connect("client", NODE4, 18080) == [f"pod1 from {world.seen(CLIENT4)}"]
    for where in ("node", "pod1", "pod2"):
        assert answered_by(world.connect(where, NODE4, 18080)) == {"pod1": 1}
    world.put_pod(host_port_pod("pod1", ended=True, hostPort=18080))
    assert world.connect("client", NODE4, 18080) == ["refused"]


@pytest.mark.parametrize("host", [{}, {"hostIP": "127.0.0.1"}], ids=["everywhere", "loopback"])
def test_a_host_port_answers_on_the_loopback_for_the_node_alone(world: World, host: dict[str, Any]) -> None:
    world.run("sysctl", "-qw", "net.ipv4.conf.pod1.route_localnet=1")  # the runtime does it for pods with host ports
    world.put_pod(host_port_pod("pod1", hostPort=18080, **host))

    with neighbour_without_loopback(world):
        assert world.connect("client", "127.0.0.1", 18080) == ["timeout"]
        # The client's kernel ignores answers from such an address. A flow would show that the pod got the packet.
        assert world.flows(18080, "tcp") == []

    # IPVS forwards no packet with a loopback address.
    served = "refused" if world.mode == "ipvs" else f"pod1 from {NODE4}"
    assert world.connect("node", "127.0.0.1", 18080) == [served]


@contextlib.contextmanager
def neighbour_without_loopback(world: World) -> Iterator[None]:
    """Let the client send its packets for 127.0.0.1 to the node."""
    world.run("ip", "netns", "exec", "client", "sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1")
    own = [("local", to, "dev", "lo", "table", "local") for to in ("127.0.0.1", "127.0.0.0/8")]
    others = ("127.0.0.1", "via", NODE4)
    for route in own:
        world.run("ip", "-n", "client", "route", "del", *route)
    world.run("ip", "-n", "client", "route", "add", *others)
    try:
        yield
    finally:
        world.run("ip", "-n", "client", "route", "del", *others)
        for route in own:
            world.run("ip", "-n", "client", "route", "add", *route)


def test_host_ports_of_different_addresses_and_protocols_do_not_clash(world: World) -> None:
    world.put_pod(host_port_pod("pod1", hostPort=18080, hostIP=NODE4))
    world.put_pod(host_port_pod("pod2", hostPort=18080, hostIP=NODE4, protocol="UDP"))
    world.put_pod(host_port_pod("pod3", hostPort=18081))

    assert answered_by(world.connect("client", NODE4, 18080)) == {"pod1": 1}
    assert answered_by(world.connect("client", NODE4, 18080, udp=True)) == {"pod2": 1}
    assert answered_by(world.connect("client", NODE4, 18081)) == {"pod3": 1}


@pytest.mark.parametrize("host", [{}, {"hostIP": NODE4}], ids=["everywhere", "one"])
def test_a_host_port_comes_before_external_ips_of_its_node(world: World, host: dict[str, Any]) -> None:
    world.put(service(externalIPs=[NODE4]), slice_of("pod2"))
    assert answered_by(world.connect("client", NODE4, 80)) == {"pod2": 1}

    world.put_pod(host_port_pod("pod1", hostPort=80, **host))
    for where in CLIENT_SIDES:
        assert answered_by(world.connect(where, NODE4, 80)) == {"pod1": 1}, where
    world.put_pod(host_port_pod("pod1", ended=True, hostPort=80, **host))
    assert answered_by(world.connect("client", NODE4, 80)) == {"pod2": 1}


def test_a_udp_flow_moves_when_another_pod_gets_the_host_port(world: World) -> None:
    world.put_pod(host_port_pod("pod1", hostPort=18080, protocol="UDP"))
    assert world.converse("a", "client", NODE4, 18080).startswith("pod1")
    world.put_pod(host_port_pod("pod1", ended=True, hostPort=18080, protocol="UDP"))
    world.put_pod(host_port_pod("pod2", hostPort=18080, protocol="UDP"))
    assert world.converse("a", "client", NODE4, 18080).startswith("pod2")
