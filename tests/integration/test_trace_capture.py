"""The kernel's events about one traced connection, through the rules of the project's own modes."""

import pytest

from .proxy_objects import WEB4, WEB6, service, slice_of
from .proxy_world import CLIENT4, NODE4, PORT, pod_ip
from .trace_world import TraceWorld

MODES = ["nftables", "iptables-nft", "userspace"]


@pytest.fixture(scope="module", params=MODES)
def world(request):
    with TraceWorld(request.param) as made:
        yield made


@pytest.fixture(autouse=True)
def fresh(world):
    world.reset()


def hops(journey):
    return [hop for packet in journey["packets"] for hop in packet["hops"]]


@pytest.mark.needs("nft", "iptables-nft", "iptables-nft-save")
class TestJourneys:
    def test_a_translated_connection_shows_its_rules_and_its_backend(self, world):
        world.put(service(), slice_of("pod2"))
        found = world.follow("pod1", WEB4, 80)
        assert found["outcome"] == "connected"
        first = found["ports"]["packets"][0]
        assert (first["first"]["destination"], first["first"]["destination_port"]) == (WEB4, 80)
        assert not first["is_reply"]
        assert any(packet["is_reply"] for packet in found["ports"]["packets"])
        assert all(hop["rule"] for hop in hops(found["ports"])), "every rule has its text"
        if world.mode != "userspace":
            assert (first["last"]["destination"], first["last"]["destination_port"]) == (pod_ip("pod2"), PORT)
            assert found["tracked"]["reply_source"] == [pod_ip("pod2"), PORT]
            assert found["tracked"]["reply_destination"][0] == pod_ip("pod1")

    def test_a_mark_finds_the_first_packet_whatever_its_ports(self, world):
        world.put(service(), slice_of("pod2"))
        found = world.follow("client", WEB4, 80)["mark"]
        assert [packet["first"]["destination"] for packet in found["packets"]] == [WEB4]
        assert found["packets"][0]["first"]["source"] == CLIENT4

    def test_a_datagram(self, world):
        world.put(service(udp=True), slice_of("pod2", udp=True))
        found = world.follow("pod1", WEB4, 80, udp=True)
        assert found["outcome"] == "answered"
        assert found["ports"]["packets"]
        assert found["mark"]["packets"]

    def test_ipv6(self, world):
        world.put(service(addresses=(WEB6,)), slice_of("pod2", family=6))
        found = world.follow("pod1", WEB6, 80)
        assert found["outcome"] == "connected"
        assert found["ports"]["packets"][0]["first"]["destination"] == WEB6

    def test_a_rejected_connection_ends_at_the_rule_that_rejects(self, world):
        world.put(service())
        found = world.follow("pod1", WEB4, 80)
        assert found["outcome"] == "refused"
        end = next(packet["end"] for packet in found["ports"]["packets"] if packet["end"])
        assert end["verdict"] == "reject"
        assert "reject" in end["rule"].lower()

    def test_a_connection_from_the_node_itself(self, world):
        world.put(service(), slice_of("pod2"))
        found = world.follow("node", WEB4, 80)
        assert found["outcome"] == "connected"
        if world.mode != "userspace":
            assert found["tracked"]["reply_destination"][0] == NODE4

    def test_a_foreign_rule_that_drops_is_named(self, world):
        world.put(service(), slice_of("pod2"))
        world.run("nft", "add table ip stranger; add chain ip stranger forward "
                  "{ type filter hook forward priority 0; policy drop; }")  # fmt: skip
        try:
            found = world.follow("pod1", WEB4, 80)
        finally:
            world.run("nft", "delete table ip stranger")
        if world.mode == "userspace":
            return  # the proxy's own connection is no forwarded one
        assert found["outcome"] == "timed out"
        end = next(packet["end"] for packet in found["ports"]["packets"] if packet["end"])
        assert end == {"chain": "ip stranger forward", "rule": "policy drop", "verdict": "drop"}

    def test_a_killed_trace_leaves_nothing(self, world):
        found = world.abandon_trace()
        assert set(found["meanwhile"]) - set(found["before"]) == {"table inet bridgehead-trace-killed"}
        assert found["after"] == found["before"]
