"""Connection tracking: where flows lead when backends leave, and that no other flow is removed.

Other tests send what connection tracking does not know: segments out of a connection's window, two packets of one flow
at the same moment.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.proxy.conntrack.stale import (
    DEPARTED_SECONDS,
    LAST_SCAN_SECONDS,
    SECOND_SCAN_SECONDS,
    UNANSWERED_SECONDS,
)
from tests import tools

from . import proxy_clients
from .proxy_objects import CLIENT_SIDES, EXTERNAL, WEB4, WEB6, service, slice_of, talkers
from .proxy_world import NODE4, NODE6, PORT, World, pod_ip

pytestmark = pytest.mark.integration

TRANSLATING = {"nftables": "nft", "iptables-nft": "iptables-nft-restore", "iptables-legacy": "iptables-legacy-restore"}


@pytest.fixture(scope="module", params=TRANSLATING)
def shared_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world of each mode in which connection tracking translates."""
    tools.require(TRANSLATING[request.param])
    with World(request.param) as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.reset()
    return shared_world


in_one_mode = pytest.mark.parametrize("shared_world", ["nftables"], indirect=True)  # what all have in common


def put(world: World, *pods: str, family: int = 4, draining: tuple[str, ...] = (), **spec: Any) -> None:
    part = slice_of(*pods, *draining, family=family, udp=True)
    for endpoint in part["endpoints"][len(pods) :]:
        endpoint["conditions"] = {"ready": False, "serving": True, "terminating": True}
    world.put(service(udp=True, **spec), part)


@pytest.mark.parametrize("where", CLIENT_SIDES)
@pytest.mark.parametrize(("family", "address"), [(4, WEB4), (6, WEB6)])
def test_a_udp_client_is_served_after_its_server_is_replaced(
    world: World, where: str, family: int, address: str
) -> None:
    put(world, "pod2", family=family, addresses=(address,))
    assert world.converse("a", where, address, 80) == "pod2"

    put(world, "pod3", family=family, addresses=(address,))

    assert world.converse("a", where, address, 80) == "pod3"


@in_one_mode
def test_udp_clients_of_both_families_are_served_after_a_replacement(world: World) -> None:
    for pod in ("pod1", "pod2"):
        slices = [slice_of(pod, family=family, udp=True) for family in (4, 6)]
        world.put(service(addresses=(WEB4, WEB6), udp=True), *slices)

        assert [world.converse(address, "client", address, 80) for address in (WEB4, WEB6)] == [pod, pod]


@in_one_mode
def test_flows_to_unchanged_backends_are_kept(world: World) -> None:
    put(world, "pod1", "pod2")
    served = {name: world.converse(name, "client", WEB4, 80) for name in map(str, range(24))}
    assert set(served.values()) == {"pod1", "pod2"}
    before = set(world.flows(80))

    put(world, "pod2")

    kept = [name for name, pod in served.items() if pod == "pod2"]
    assert len(before & set(world.flows(80))) == len(kept)
    assert {world.converse(name, "client", WEB4, 80) for name in served} == {"pod2"}


def test_a_udp_client_is_served_after_its_service_scales_to_zero_and_back(world: World) -> None:
    put(world, "pod1")
    assert world.converse("a", "client", WEB4, 80) == "pod1"
    put(world)
    assert world.converse("a", "client", WEB4, 80) == "refused"
    put(world, "pod2")
    assert world.converse("a", "client", WEB4, 80) == "pod2"


def test_a_deleted_service_serves_no_client(world: World) -> None:
    put(world, "pod1")
    assert world.converse("a", "client", WEB4, 80) == "pod1"

    world.ask("delete", name="web")

    assert world.flows(80) == []
    assert world.converse("a", "client", WEB4, 80) == "timeout"


@in_one_mode
def test_a_terminating_pod_serves_its_clients_until_it_ends(world: World) -> None:
    put(world, "pod1")
    assert world.converse("a", "client", WEB4, 80) == "pod1"
    put(world, "pod2", draining=("pod1",))
    assert world.converse("a", "client", WEB4, 80) == "pod1"
    assert world.converse("b", "client", WEB4, 80) == "pod2"
    put(world, "pod2")
    assert world.converse("a", "client", WEB4, 80) == "pod2"


@in_one_mode
def test_a_udp_client_that_is_older_than_its_service_is_served(world: World) -> None:
    world.put(service("other", addresses=("10.96.0.77",)), slice_of("pod2"))
    assert world.converse("a", "node", EXTERNAL, 80) == "timeout"
    assert len(world.flows(80)) == 1, "untranslated, and kept alive by whatever it sends"

    put(world, "pod1", externalIPs=[EXTERNAL])

    assert world.converse("a", "node", EXTERNAL, 80) == "pod1"


def test_udp_node_ports_follow_a_replaced_server(world: World) -> None:
    put(world, "pod1", type="NodePort", nodePort=30080)
    assert world.converse("a", "client", NODE4, 30080) == "pod1"
    put(world, "pod2", type="NodePort", nodePort=30080)
    assert world.converse("a", "client", NODE4, 30080) == "pod2"


@in_one_mode
def test_a_restarted_proxy_finds_backends_removed_in_its_absence(world: World) -> None:
    put(world, "pod1")
    world.put(service("old", addresses=("10.96.0.99",), udp=True), slice_of("pod1", udp=True))
    assert world.converse("a", "client", WEB4, 80) == "pod1"
    world.converse("b", "client", "10.96.0.99", 80)
    world.ask("restart")

    world.ask("load", service=service(udp=True), slices=[slice_of("pod2", udp=True)])
    world.ask("sync")

    assert world.flows(80) == []
    assert world.converse("a", "client", WEB4, 80) == "pod2"


@in_one_mode
def test_a_flow_created_by_the_old_rules_during_a_change_is_removed_later(world: World) -> None:
    world.later(SECOND_SCAN_SECONDS)
    put(world, "pod1")
    put(world, "pod2")
    old_rule = f"type nat hook prerouting priority -150; ip daddr {WEB4} udp dport 80 dnat to 10.244.1.1:8080;"
    with table(world, "old", old_rule):  # in place of a packet that met it before it was replaced
        assert world.converse("a", "client", WEB4, 80) == "pod1"
    assert world.converse("a", "client", WEB4, 80) == "pod1"
    assert world.later(SECOND_SCAN_SECONDS) == 1
    assert world.converse("a", "client", WEB4, 80) == "pod2"


@pytest.mark.parametrize(("where", "family", "address"), [("client", 4, WEB4), ("pod1", 6, WEB6)])
def test_a_busy_udp_client_loses_no_datagram_after_the_replacement(
    world: World, where: str, family: int, address: str
) -> None:
    """The old server is dead, so only the change itself could lose datagrams (kubernetes #59368, #125467)."""
    put(world, "pod2", family=family, addresses=(address,))
    world.stream("start", "s", where, address, 80)
    try:
        while (alive := world.stream("answered", "s")) < 20:  # the test has a deadline
            time.sleep(0.01)
        world.run("ip", "link", "set", "pod2", "down")
        put(world, "pod3", family=family, addresses=(address,))
        changed = world.stream("sent", "s") + 1
        wait_sent(world, changed + 40)
        world.later(SECOND_SCAN_SECONDS)
        wait_sent(world, changed + 80)
    finally:
        bring_back(world, "pod2")
    answers = world.stream("stop", "s")
    assert set(answers[:alive]) == {"pod2"}
    assert set(answers[changed:]) == {"pod3"}


def wait_sent(world: World, count: int) -> None:
    while world.stream("sent", "s") < count:
        time.sleep(0.01)


def bring_back(world: World, pod: str) -> None:
    """A link that goes down loses its routes."""
    world.run("ip", "link", "set", pod, "up")
    for family in (4, 6):
        address = pod_ip(pod, family)
        world.run("ip", f"-{family}", "route", "replace", f"{address}/{32 if family == 4 else 128}", "dev", pod)
        while world.connect("client", address, PORT) == ["timeout"]:
            pass  # the kernel has not got round to it: until then, what is sent is dropped


@contextlib.contextmanager
def table(world: World, name: str, chain: str) -> Iterator[None]:
    """Rules of somebody else."""
    world.run("nft", f"table ip {name} {{ chain rules {{ {chain} }}; }}")
    try:
        yield
    finally:
        world.run("nft", "delete", "table", "ip", name)


@in_one_mode
def test_flows_that_other_rules_translated_are_kept(world: World) -> None:
    theirs = f"type nat hook prerouting priority -150; ip daddr {WEB4} udp dport 80 dnat to 10.244.1.1:8080;"
    world.later(LAST_SCAN_SECONDS)  # ends the scans of a new proxy, which removes all unknown translations
    with table(world, "theirs", theirs):
        put(world, "pod2")
        assert world.converse("a", "client", WEB4, 80) == "pod1"
        before = world.flows(80)
        put(world, "pod3")
        assert world.later(SECOND_SCAN_SECONDS) == 0
        world.ask("delete", name="web")
        assert world.later(SECOND_SCAN_SECONDS) == 0
        assert world.flows(80) == before != []


@in_one_mode
def test_flows_in_other_conntrack_zones_are_removed(world: World) -> None:
    with table(world, "zones", "type filter hook prerouting priority -300; ct zone set 7;"):
        put(world, "pod1")
        assert world.converse("a", "client", WEB4, 80) == "pod1"
        put(world, "pod2")
        assert world.converse("a", "client", WEB4, 80) == "pod2"


# --- TCP -------------------------------------------------------------------------------------------------


def put_talk(world: World, *pods: str, family: int = 4, draining: tuple[str, ...] = (), **spec: Any) -> None:
    """A Service of the pods that talk on."""
    part = talkers(*pods, *draining, family=family)
    for endpoint in part["endpoints"][len(pods) :]:
        endpoint["conditions"] = {"ready": False, "serving": True, "terminating": True}
    for pod in pods:
        world.talk("listen", pod, family)
    spec.setdefault("addresses", (WEB6 if family == 6 else WEB4,))
    world.put(service(**spec), part)


@pytest.mark.parametrize("replacement", [("pod3",), ()], ids=["replaced", "alone"])
def test_packets_to_a_deleted_pod_are_rejected(world: World, replacement: tuple[str, ...]) -> None:
    """Without the rejection TCP retries for a quarter of an hour (kubernetes #100698, #104098)."""
    put_talk(world, "pod2")
    world.talk("dial", "a", "pod1", WEB4, 80)
    assert world.talk("exchange", "a") == "pod2"
    put_talk(world, *replacement, draining=("pod2",))
    assert world.later(2 * DEPARTED_SECONDS) == 0
    assert world.talk("exchange", "a") == "pod2", "it terminates, and goes on serving whom it has"

    world.run("ip", "link", "set", "pod2", "down")
    try:
        put_talk(world, *replacement)
        assert world.later(DEPARTED_SECONDS) == 1
        assert world.talk("exchange", "a") == "reset"
    finally:
        bring_back(world, "pod2")


@in_one_mode
def test_connections_to_a_pod_that_left_its_slice_continue(world: World) -> None:
    """The pod left by a changed label and was not observed terminating."""
    put_talk(world, "pod2", "pod3")
    for name in "abcdefgh":
        world.talk("dial", name, "client", WEB4, 80)
    served = {name: world.talk("exchange", name) for name in "abcdefgh"}
    put_talk(world, "pod3")
    assert world.later(2 * DEPARTED_SECONDS) == 0
    world.ask("delete", name="web")
    assert world.later(2 * DEPARTED_SECONDS) == 0
    assert {name: world.talk("exchange", name) for name in "abcdefgh"} == served


def test_an_unanswered_connection_attempt_is_sent_to_another_backend(world: World) -> None:
    """kubernetes #101607: every retransmission went to the dead pod."""
    put_talk(world, "pod2")
    world.run("ip", "link", "set", "pod2", "down")
    try:
        world.talk("dial", "a", "client", WEB4, 80)
        while not world.flows(80, "tcp"):
            pass  # a busy kernel carries a packet on when it has time
        put_talk(world, "pod3")
        assert world.later(UNANSWERED_SECONDS) == 1
        assert world.talk("exchange", "a") == "pod3"
    finally:
        bring_back(world, "pod2")


@in_one_mode
def test_an_unanswered_sctp_association_is_removed_with_its_backend(world: World) -> None:
    def sctp(*pods: str) -> None:
        its, part = service(), slice_of(*pods)
        its["spec"]["ports"][0]["protocol"] = part["ports"][0]["protocol"] = "SCTP"
        world.put(its, part)

    sctp("pod2", "pod3")
    world.talk("begin_sctp", "client", WEB4, 80)
    while not world.flows(80, "sctp"):
        pass  # a busy kernel carries a packet on when it has time
    assert len(world.flows(80, "sctp")) == 1
    sctp("pod1")
    assert world.later(UNANSWERED_SECONDS) == 1
    assert world.flows(80, "sctp") == []


# --- Segments that are not translated --------------------------------------------------------------------


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("policy", ["", "Cluster", "Local"])
def test_a_segment_out_of_the_window_does_not_reset_the_connection(world: World, family: int, policy: str) -> None:
    """kubernetes #74839, including masquerading, node ports and hairpin, which its fix does not cover."""
    address, port = WEB6 if family == 6 else WEB4, 80
    spec: dict[str, Any] = {}
    if policy:
        address, port = NODE6 if family == 6 else NODE4, 30080
        spec = {"type": "NodePort", "nodePort": port, "externalTrafficPolicy": policy}
    put_talk(world, "pod2", family=family, **spec)
    names = {f"{where} {end}": (where, end) for where in (*CLIENT_SIDES, "pod2") for end in ("client", "server")}
    for name, (where, _) in names.items():
        world.talk("dial", name, where, address, port)
        assert world.talk("exchange", name) == "pod2"
    for name, (_, end) in names.items():
        world.talk("stray", name, end)
    assert {name: world.talk("exchange", name) for name in names} == dict.fromkeys(names, "pod2")


@pytest.mark.parametrize("family", [4, 6])
def test_packets_of_asymmetrically_routed_connections_are_forwarded(world: World, family: int) -> None:
    """kubernetes #94861: with asymmetric routing, all packets of a connection may be INVALID."""
    put_talk(world, "pod2", family=family)
    assert world.talk("passes_untracked", "pod2", "client", family)
    assert world.talk("passes_untracked", "pod1", "pod3", family)


# --- Two packets at the same moment ----------------------------------------------------------------------


@pytest.mark.parametrize(("where", "family", "address"), [("pod1", 4, WEB4), ("client", 6, WEB6)])
def test_two_simultaneous_datagrams_of_one_socket_are_both_answered(
    world: World, where: str, family: int, address: str
) -> None:
    """kubernetes #56903: A and AAAA. Both packets create a flow, maybe to two backends; the kernel must keep both."""
    put(world, "pod1", "pod2", "pod3", family=family, addresses=(address,))
    script = Path(proxy_clients.__file__)
    result = json.loads(world.run("ip", "netns", "exec", where, sys.executable, str(script), address, "80", "2000"))
    assert result["lost"] == 0
