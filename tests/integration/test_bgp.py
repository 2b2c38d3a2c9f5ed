"""BGP announcements: nodes with the announcer, and a router with BIRD."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import IO

import pytest

from bridgehead.balancer.compiled_configuration import BfdProfile, BgpAdvertisement, Peer, Pool
from bridgehead.balancer.ranges import parse_range

from .bgp_node import Node, configuration, publication
from .bird_router import BFD as ROUTER_BFD
from .bird_router import FAMILIES, KERNEL, ROUTER4, ROUTER6, Bird, bgp, cut, eventually, heal, make_fabric, node_address
from .hostile_bgp_peer import PEERS, answers
from .namespaced import in_namespace, sh

pytestmark = pytest.mark.integration

V4, V6 = ipaddress.ip_address("10.1.0.10"), ipaddress.ip_address("fd00:b::10")
PEER = Peer(
    "router", my_asn=64512, peer_asn=64513, address=ipaddress.ip_address(ROUTER4), hold_time=30, both_families=True
)
FAST = BfdProfile("fast", receive_interval=100, transmit_interval=100)


def both(*addresses: int) -> list[str]:
    return [node_address(number) for number in addresses]


@in_namespace
def test_routes_follow_services_over_all_nodes() -> None:
    make_fabric(2)
    given = configuration(PEER)
    web, dual = publication("web", V4), publication("dual", ipaddress.ip_address("10.1.0.11"), V6)
    with Bird(KERNEL + bgp(1) + bgp(2)) as bird, Node("node1") as node1, Node("node2") as node2:
        for node in (node1, node2):
            node.update(given, {web.key: web, dual.key: dual})
        for node in (node1, node2):
            node.await_established("router")
        assert node1.awaited() == []  # a rollout may go on
        # One next hop for each node, in both families over one session.
        eventually(lambda: bird.next_hops("10.1.0.10") == both(1, 2), "two next hops")
        eventually(
            lambda: bird.next_hops("fd00:b::10") == [node_address(1, 6), node_address(2, 6)], "the same with IPv6"
        )
        established = bird.established_since()

        # Nodes with an endpoint announce a Service with externalTrafficPolicy Local.
        local = publication("web", V4, nodes=("node2",))
        for node in (node1, node2):
            node.update(given, {local.key: local, dual.key: dual}, local.key)
        eventually(lambda: bird.next_hops("10.1.0.10") == both(2), "one next hop")
        # No node announces a Service without endpoints, or one that is deleted.
        gone = replace(web, has_endpoints=False)
        for node in (node1, node2):
            node.update(given, {gone.key: gone}, gone.key, dual.key)
        eventually(lambda: bird.next_hops("10.1.0.10") == [] == bird.next_hops("fd00:b::10"), "no route")
        for node in (node1, node2):
            node.update(given, {web.key: web}, web.key)
        eventually(lambda: bird.next_hops("10.1.0.10") == both(1, 2), "two next hops again")
        # A router whose filters change asks for the routes again (RFC 2918).
        marking = "import filter { bgp_community.add((64513, 9)); accept; }"
        bird.reconfigure((KERNEL + bgp(1) + bgp(2)).replace("import all", marking))
        eventually(lambda: "(64513,9)" in bird.ask("show", "route", "10.1.0.10/32", "all"), "the routes again")
        assert bird.established_since() == established  # no session was restarted for a route

        # A speaker that ends withdraws first; one that is killed leaves no session behind.
        node1.send_signal(signal.SIGTERM)
        eventually(lambda: bird.next_hops("10.1.0.10") == both(2), "the speaker's end")
        node1.wait()
        [child] = node2.processes()
        node2.send_signal(signal.SIGKILL)
        eventually(lambda: bird.next_hops("10.1.0.10") == [], "the speaker's death")
        eventually(lambda: not os.path.exists(f"/proc/{child}"), "ExaBGP ends with the speaker")


@in_namespace
def test_attributes_aggregates_and_peers() -> None:
    make_fabric(1)
    advertisements = (
        BgpAdvertisement("network", aggregation_length=24, communities=frozenset({(64512, 7), (64512, 1, 2)})),
        BgpAdvertisement("host", local_preference=150, peers=("internal",)),
    )
    pool = Pool("special", "metallb", (parse_range("10.1.9.0/24"),), bgp=advertisements)
    service = publication("web", ipaddress.ip_address("10.1.9.9"), pool=pool)
    external = replace(PEER, peer_asn="external", router_id="1.2.3.4")
    internal = Peer(
        "internal", my_asn=64512, peer_asn="internal", address=ipaddress.ip_address(ROUTER6), both_families=True
    )
    with (
        Bird(
            KERNEL
            + bgp(1)
            + f"protocol bgp inside {{ local {ROUTER6} as 64512; neighbor {node_address(1, 6)} as 64512; {FAMILIES} }}"
        ) as bird,
        Node("node1") as node,
    ):
        node.update(configuration(external, internal), {service.key: service})
        node.await_established("router", "internal")
        eventually(lambda: "10.1.9.9/32" in bird.ask("show", "route"), "the host's route")
        eventually(lambda: "10.1.9.0/24" in bird.ask("show", "route"), "the network's route")
        text = bird.ask("show", "route", "all", "protocol", "node1")
        assert "10.1.9.0/24" in text
        assert "10.1.9.9/32" not in text
        assert "BGP.community: (64512,7)" in text
        assert "BGP.large_community: (64512, 1, 2)" in text
        text = bird.ask("show", "route", "10.1.9.9/32", "all")
        assert "BGP.local_pref: 150" in text
        # IPv4 routes over a session of IPv6 addresses lead to the node's IPv4 address.
        assert f"BGP.next_hop: {node_address(1)}" in text
        assert "1.2.3.4" in bird.ask("show", "protocols", "all", "node1")

        # A peer's change restarts its session only; a peer that goes takes its routes along.
        before = bird.established_since()
        node.update(configuration(replace(external, router_id="1.2.3.5"), internal), {service.key: service})
        eventually(lambda: "1.2.3.5" in bird.ask("show", "protocols", "all", "node1"), "the other router id")
        eventually(lambda: "10.1.9.0/24" in bird.ask("show", "route", "protocol", "node1"), "its routes again")
        assert bird.established_since()["inside"] == before["inside"]
        node.update(configuration(internal), {service.key: service})
        eventually(lambda: "10.1.9.0/24" not in bird.ask("show", "route", "protocol", "node1"), "no peer, no routes")
        assert bird.established_since()["inside"] == before["inside"]

        # A peer that has to be external but is not gets no session.
        node.update(configuration(replace(internal, peer_asn="external", hold_time=60)), {service.key: service})
        reason = "the peer's AS number is 64512, like this end's: the session is not external"
        eventually(lambda: reason in [state.reason for state in node.peers().values()], "the refusal")


@in_namespace
def test_bfd_moves_routes_away_and_back() -> None:
    make_fabric(2)
    given = configuration(replace(PEER, bfd_profile="fast"), profiles=(FAST,))
    service = publication("web", V4)
    with (
        Bird(KERNEL + ROUTER_BFD + bgp(1, "bfd;") + bgp(2, "bfd;")) as bird,
        Node("node1") as node1,
        Node("node2") as node2,
    ):
        for node in (node1, node2):
            node.update(given, {service.key: service})
            node.await_established("router")
            eventually(lambda node=node: node.peers()["router"].bfd == "up", "BFD is up")
        eventually(lambda: bird.next_hops("10.1.0.10") == both(1, 2), "two next hops")
        # The node loses all its packets, both ways; its link stays up.
        cut("node1")
        eventually(lambda: bird.next_hops("10.1.0.10") == both(2), "the lost node's next hop goes")
        eventually(lambda: node1.peers()["router"].status != "established", "the node ends its session, too")
        down = ("router", "Warning", "BFDDown")
        eventually(lambda: down in [event[:3] for event in node1.events()], "the Event")
        heal("node1")
        eventually(lambda: bird.next_hops("10.1.0.10") == both(1, 2), "it comes back")
        # A router that stops BFD keeps its sessions, or gets them back.
        bird.reconfigure(KERNEL + bgp(1) + bgp(2))
        eventually(lambda: node2.peers()["router"].bfd == "down", "BFD has ended")
        node2.await_established("router")
        eventually(lambda: bird.next_hops("10.1.0.10") == both(1, 2), "the routes without BFD")


@in_namespace
def test_a_session_with_a_password_of_a_secret() -> None:
    make_fabric(1)
    peer = replace(PEER, password_secret=("metallb-system", "bgp"))
    service = publication("web", V4)
    with Bird(KERNEL + bgp(1, 'password "it\'s; {secret} #1";')) as bird, Node("node1") as node:
        node.set_passwords({("metallb-system", "bgp"): "another"})
        node.update(configuration(peer), {service.key: service})
        eventually(lambda: node.peers()["router"].status == "connecting", "ExaBGP tries")
        node.set_passwords({("metallb-system", "bgp"): "it's; {secret} #1"})
        node.update(configuration(replace(peer, hold_time=60)), {service.key: service})
        eventually(lambda: bird.next_hops("10.1.0.10") == both(1), "the route", 120)


@in_namespace
def test_peers_that_connect_themselves() -> None:
    """Passive mode: two such peers, of which one has a password, connect again when the router is another process."""
    make_fabric(1)
    service = publication("web", V4)
    first = replace(PEER, listen_port=179, connect_time=1)
    second = replace(first, name="second", address=ipaddress.ip_address(ROUTER6), password="secret")
    by_ipv6 = bgp(1, 'strict bind; password "secret";').replace("node1", "second").replace(ROUTER4, ROUTER6)
    sessions = bgp(1, "strict bind;") + by_ipv6.replace(node_address(1), node_address(1, 6))
    with Node("node1") as node:
        node.update(configuration(first, second), {service.key: service})
        waiting = "the peer has not connected"
        eventually(lambda: node.peers()["router"].reason == waiting, "the reason")
        for _ in range(2):
            with Bird(KERNEL + sessions) as bird:
                node.await_established("router", "second")
                eventually(lambda bird=bird: bird.next_hops("10.1.0.10") == both(1), "the route")
            eventually(lambda: node.peers()["second"].status == "connecting", "the router is gone")
        # A second object for a peer comes while the first one goes; the process stays.
        processes = node.processes()
        with Bird(KERNEL + sessions) as bird:
            node.await_established("router", "second")
            node.update(configuration(replace(first, name="renamed"), second), {service.key: service})
            node.await_established("renamed", "second")
            eventually(lambda bird=bird: bird.next_hops("10.1.0.10") == both(1), "the route by the other object")
        assert node.processes() == processes


@in_namespace
def test_graceful_restart_keeps_the_routes_of_a_speaker_that_restarts() -> None:
    make_fabric(1)
    given = configuration(replace(PEER, graceful_restart=True))
    service = publication("web", V4)
    with Bird(KERNEL + bgp(1, "graceful restart;")) as bird:
        with Node("node1") as node:
            node.update(given, {service.key: service})
            eventually(lambda: bird.next_hops("10.1.0.10") == both(1), "the route")
        eventually(lambda: "Established" not in bird.ask("show", "protocols", "node1"), "the session ends")
        assert bird.next_hops("10.1.0.10") == both(1)
        with Node("node1") as node:
            node.update(given, {service.key: service})
            node.await_established("router")
            assert bird.next_hops("10.1.0.10") == both(1)


@in_namespace
def test_sessions_survive_a_router_and_an_exabgp_that_end() -> None:
    make_fabric(1)
    service = publication("web", V4)
    nowhere = replace(PEER, name="nowhere", address=ipaddress.ip_address("10.9.9.9"))
    silent = replace(PEER, name="silent", address=ipaddress.ip_address("10.0.0.99"), connect_time=1)
    with Node("node1") as node:
        node.update(configuration(replace(PEER, connect_time=1), nowhere, silent), {service.key: service})
        with Bird(KERNEL + bgp(1)) as bird:
            eventually(lambda: bird.next_hops("10.1.0.10") == both(1), "the route")
            [child] = node.processes()
            os.kill(child, signal.SIGKILL)
            eventually(lambda: node.processes() not in ([], [child]), "another process")
            eventually(lambda: bird.next_hops("10.1.0.10") == both(1), "the route again")
        refused = f"cannot connect to {ROUTER4}:179: connection refused"
        eventually(lambda: node.peers()["router"].reason == refused, "the router is gone")
        assert node.peers()["router"].status == "connecting"
        with Bird(KERNEL + bgp(1)) as bird:
            eventually(lambda: bird.next_hops("10.1.0.10") == both(1), "the route from the new router")
        assert node.peers()["nowhere"].reason == "no route to 10.9.9.9"
        unanswered = ("no answer from 10.0.0.99:179", "cannot connect to 10.0.0.99:179: no route to host")
        eventually(lambda: node.peers()["silent"].reason in unanswered, "a router that does not answer")


@in_namespace
def test_a_node_whose_address_changes() -> None:
    make_fabric(1)
    service = publication("web", V4)
    moved = bgp(1).replace("node1", "moved").replace(node_address(1), node_address(9))
    with Bird(KERNEL + bgp(1) + moved) as bird, Node("node1") as node:
        node.update(configuration(replace(PEER, hold_time=3, connect_time=1)), {service.key: service})
        eventually(lambda: bird.next_hops("10.1.0.10") == both(1), "the route")
        sh(f"ip -n node1 address delete {node_address(1)}/24 dev eth0")
        sh(f"ip -n node1 address add {node_address(9)}/24 dev eth0")
        eventually(lambda: bird.next_hops("10.1.0.10") == both(9), "the route to the new address")


@in_namespace
def test_hostile_peers_cost_only_their_own_sessions() -> None:
    make_fabric(1)
    hostile = [
        replace(PEER, name=f"hostile{index}", address=ipaddress.ip_address(f"10.0.0.{10 + index}"), connect_time=1)
        for index in range(PEERS)
    ]
    web, other = publication("web", V4), publication("other", ipaddress.ip_address("10.1.0.11"))
    second_session = bgp(1, "strict bind;").replace("node1", "second").replace(ROUTER4, ROUTER6)
    second_session = second_session.replace(node_address(1), node_address(1, 6))
    with (
        Bird(KERNEL + bgp(1, "strict bind;") + second_session) as bird,
        Node("node1") as node,
        contextlib.ExitStack() as routers,
    ):
        node.update(configuration(PEER), {web.key: web})
        eventually(lambda: bird.next_hops("10.1.0.10") == both(1), "the route")
        established = bird.established_since()
        processes = node.processes()
        outputs = [
            routers.enter_context(hostile_router(str(peer.address), index)) for index, peer in enumerate(hostile)
        ]
        node.update(configuration(PEER, *hostile), {web.key: web})
        for index in range(len(answers())):
            assert outputs[index % PEERS].readline()
            assert node.peers()["router"].status == "established"
        node.update(configuration(PEER, *hostile), {web.key: web, other.key: other}, other.key)
        eventually(lambda: bird.next_hops("10.1.0.11") == both(1), "another route")
        # Peers come and go beside them, in the same process.
        second = replace(PEER, name="second", address=ipaddress.ip_address(ROUTER6), both_families=False)
        node.update(configuration(PEER, second, *hostile), {web.key: web, other.key: other})
        eventually(lambda: node.peers()["second"].status == "established", "another peer")
        assert bird.established_since()["node1"] == established["node1"]
        assert node.processes() == processes


@contextlib.contextmanager
def hostile_router(address: str, index: int) -> Iterator[IO[bytes]]:
    """A router in the namespace of BIRD. Yields its output."""
    sh(f"ip -n router address add {address}/24 dev eth0")
    command = ["ip", "netns", "exec", "router", sys.executable, "-m", "tests.integration.hostile_bgp_peer"]
    with subprocess.Popen([*command, address, str(index)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()
