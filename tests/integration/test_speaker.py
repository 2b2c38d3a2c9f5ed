"""Speakers on three nodes: who answers for an address, and who takes it over when a node fails."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import ipaddress
import itertools
import os
import random
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError

import pytest

from bridgehead.balancer.heartbeat_key import OWN_NAMESPACE, SECRET_NAME, STEPPED_BACK_ANNOTATION
from bridgehead.balancer.layer2 import arp, ndp
from bridgehead.client.errors import NotFound
from bridgehead.network.link_states import LinkStates
from bridgehead.network.packet_sockets import PacketSocket
from bridgehead.network.uapi.if_ether import ETH_P_ARP, ETH_P_IPV6
from bridgehead.objects import metallb
from bridgehead.objects.kinds import CONFIG_MAPS, NODES, SECRETS

from .namespaced import in_namespace, sh
from .speaker_world import (
    CLIENT,
    FAULTS,
    NAMESPACE,
    NODES_IN_WORLD,
    PAGES_PORT,
    SpeakerWorld,
    answered_by,
    fault,
    inside,
    node_ip,
    run_on,
    speaker_world,
    until,
    vip,
)

pytestmark = pytest.mark.integration

WORLD = Path("/run/world")
FOREIGN_MAC = bytes.fromhex("0200000000ff")


async def until_answered(address: str, *nodes: str) -> str:
    """Wait until one of these nodes answers the client; return it."""

    async def answered() -> str:
        node = await answered_by(address)
        return node if node in nodes else ""

    found: str = await until(answered)
    return found


def others(node: str) -> tuple[str, ...]:
    return tuple(name for name in NODES_IN_WORLD if name != node)


async def answers_alone(address: str, node: str) -> bool:
    """Return whether a broadcast ARP request is answered by this node and by no other."""
    return await answering_macs(address) == {bytes([2, 0, 0, 0, 1, int(node.removeprefix("node"))])}


async def answering_macs(address: str) -> set[bytes]:
    """Return who answers a broadcast ARP request."""
    target = ipaddress.IPv4Address(address).packed
    with LinkStates() as links:
        (link,) = (link for link in links.all() if link.name == "fabric")
    with PacketSocket(link.number, link.name, ETH_P_ARP) as sock:
        source = ipaddress.IPv4Address(CLIENT).packed
        sock.send(arp.encode(arp.ArpPacket(arp.BROADCAST, True, link.mac, source, bytes(6), target)))
        await asyncio.sleep(0.1)  # silence is tested: a second one would answer in this time
        packets = [arp.decode(frame) for frame in sock.receive(1000)]
    return {packet.sender_mac for packet in packets if packet and packet.sender == target and packet.target == source}


@in_namespace
async def test_a_failed_node_loses_its_addresses_and_gets_them_back():
    async with speaker_world(WORLD) as world:
        await world.start_speakers()
        await world.add_service("web", vip(10), vip(10, 6))
        holder = await world.until_held(vip(10))
        for address in (vip(10), vip(10, 6)):
            await until_answered(address, holder)
        metrics = await asyncio.to_thread(world.speakers[holder].metrics)
        await check_access(world, holder)
        labels = f'ip="{vip(10)}",node="{holder}",protocol="layer2",service="default/web"'
        assert f"metallb_speaker_announced{{{labels}}} 1.0" in sort_labels(metrics)
        for name in ("requests_received", "responses_sent", "gratuitous_sent"):
            assert f'metallb_layer2_{name}_total{{ip="{vip(10)}"}}' in metrics
        assert 'bridgehead_layer2_dropped_frames_total{reason="own_frame"}' in metrics
        for what in FAULTS:
            with fault(world, what, holder):
                for address in (vip(10), vip(10, 6)):
                    await until_answered(address, *others(holder))
                await world.until_members(*others(holder))
            await world.until_members(*NODES_IN_WORLD)
            await world.until_held(vip(10), holder)
            await until_answered(vip(10), holder)
            await until(lambda: answers_alone(vip(10), holder))
        successor = await check_a_killed_speaker(world, holder)
        assert [message for reason, message in await world.events("web") if reason == "DuplicateAddress"] == []
        status = await world.read_status(successor)
        assert status["takeovers"]
        assert {takeover["nodes"][0] for takeover in status["takeovers"]} == {holder}
        assert all(change["silence"] < 60 for change in status["changes"])
        await check_turns_of_another_balancer(world)


async def check_turns_of_another_balancer(world: SpeakerWorld) -> None:
    """While MetalLB itself runs, no speaker announces, and its speakers can have the ports."""

    async def publish(pod: str | None) -> None:
        patch = {"metadata": {"annotations": {STEPPED_BACK_ANNOTATION: pod}}}
        await world.client.patch(SECRETS, SECRET_NAME, OWN_NAMESPACE, patch)

    async def is_free(node: str) -> bool:
        with inside(node):
            heartbeats = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            pages = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with heartbeats, pages:
            pages.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                heartbeats.bind(("0.0.0.0", 7946))
                pages.bind(("0.0.0.0", PAGES_PORT))
            except OSError:
                return False
        return True

    running = [node for node, speaker in world.speakers.items() if speaker.process.poll() is None]
    await publish("metallb-system/controller-x")
    for node in running:
        await until(functools.partial(is_free, node))
        assert world.speakers[node].process.poll() is None
    assert await answering_macs(vip(10)) == set()
    await publish(None)
    await until_answered(vip(10), *running)
    # A speaker that learns of it before it starts announces nothing, and ends when it is asked to.
    await publish("metallb-system/controller-x")
    (node, *_) = running
    world.speakers[node].signal(signal.SIGTERM)
    assert await asyncio.to_thread(world.speakers[node].process.wait, 30) == 0
    speaker = world.start_speaker(node, "--probe-port=17479")

    async def is_ready() -> bool:
        try:
            answer = await asyncio.to_thread(run_on, node, "curl", "-s", "http://127.0.0.1:17479/started")
        except subprocess.CalledProcessError:  # not yet
            return False
        return answer == "another balancer runs"

    await until(is_ready)
    speaker.signal(signal.SIGTERM)
    assert await asyncio.to_thread(speaker.process.wait, 30) == 0


def sort_labels(exposition: str) -> str:
    """Order the labels of each metric by name."""
    return re.sub(r"\{(.*)\}", lambda match: "{" + ",".join(sorted(match[1].split(","))) + "}", exposition)


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def check_a_killed_speaker(world: SpeakerWorld, holder: str) -> str:
    """A killed speaker's addresses move, its status object is deleted, and its failure detector ends."""
    detector = world.speakers[holder].detector_pid
    world.speakers[holder].signal(signal.SIGKILL)
    successor = await world.until_held(vip(10), *others(holder))
    await until_answered(vip(10), successor)

    async def statuses() -> bool:
        found = await world.client.list(metallb.SERVICE_L2_STATUSES, NAMESPACE)
        return [status.status.node for status in found.items] == [successor]

    await until(statuses)

    async def detector_ended() -> bool:
        return not is_running(detector)

    await until(detector_ended)
    assert run_on(holder, "nft", "list", "tables") == ""
    return successor


@in_namespace
async def test_planned_moves_leave_no_request_unanswered():
    async with speaker_world(WORLD) as world:
        await world.start_speakers()
        await world.add_service("web", vip(10), vip(10, 6))
        await world.add_service("local", vip(11), nodes=["node1"], policy="Local")
        holder = await world.until_held(vip(10))
        await until_answered(vip(10), holder)
        assert await world.until_held(vip(11)) == "node1"

        # A cordoned node's addresses move while it still forwards.
        client = ArpClient(vip(10))
        await cordon(world, holder, is_on=True)
        successor = await until_answered(vip(10), *others(holder))
        await world.until_held(vip(10), successor)
        # Connections from before go on at the old holder.
        assert f"{vip(10)} : {node_ip(holder)}" in run_on(successor, "nft", "list", "ruleset")
        await cordon(world, holder, is_on=False)
        await until_answered(vip(10), holder)
        await world.until_held(vip(10), holder)
        assert await client.unanswered() == 0

        # The addresses of a speaker that ends move in the same way.
        client = ArpClient(vip(10))
        world.speakers[holder].signal(signal.SIGTERM)
        assert world.speakers[holder].process.wait(60) == 0
        await until_answered(vip(10), *others(holder))
        assert await client.unanswered() == 0
        await world.until_members(*others(holder))
        world.start_speaker(holder)
        await world.until_members(*NODES_IN_WORLD)

        # With externalTrafficPolicy Local the address follows the endpoints.
        await world.set_endpoints("local", ["node2"])
        await world.until_held(vip(11), "node2")
        await until_answered(vip(11), "node2")
        await world.set_endpoints("local", [])

        async def withdrawn() -> bool:
            return not await world.holder(vip(11))

        await until(withdrawn)


async def cordon(world: SpeakerWorld, node: str, *, is_on: bool) -> None:
    await world.client.patch(NODES, node, "", {"spec": {"unschedulable": is_on}})


class ArpClient(threading.Thread):
    """Asks who has an address, again and again, until `stop`. Each request has a source of its own."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._target = ipaddress.IPv4Address(address)
        with LinkStates() as links:
            (link,) = (link for link in links.all() if link.name == "fabric")
        self._mac = link.mac
        self._socket = PacketSocket(link.number, link.name, ETH_P_ARP)
        self._stopping = threading.Event()
        self._waiting: set[bytes] = set()
        self.start()

    def run(self) -> None:
        for number in itertools.count():
            if self._stopping.wait(0.005):
                break
            source = ipaddress.IPv4Address(f"10.0.{1 + number // 250 % 200}.{1 + number % 250}").packed
            packet = arp.ArpPacket(arp.BROADCAST, True, self._mac, source, bytes(6), self._target.packed)
            self._waiting.add(source)
            self._socket.send(arp.encode(packet))
            self._receive()

    def _receive(self) -> None:
        for frame in self._socket.receive(1000):
            packet = arp.decode(frame)
            if packet is not None and packet.sender == self._target.packed:
                self._waiting.discard(packet.target)

    async def unanswered(self) -> int:
        """Stop, and return how many requests had no answer."""
        self._stopping.set()
        self.join()

        async def all_answered() -> bool:
            self._receive()
            return not self._waiting

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await until(all_answered)
        self._socket.close()
        return len(self._waiting)


async def check_missing_interface(world: SpeakerWorld) -> None:
    """An address whose advertisement names no existing interface is reported in an Event.

    The interface may also be named by an address that it leads to, as in an Eip.
    """
    await world.client.patch(metallb.L2_ADVERTISEMENTS, "all", NAMESPACE, {"spec": {"interfaces": ["eth9"]}})

    async def failed() -> bool:
        text = f'failed to announce "{vip(10)}" with protocol "layer2": no usable interface (eth9)'
        return ("announceFailed", text) in await world.events("web")

    async def reported() -> bool:
        found = await world.client.list(metallb.SERVICE_L2_STATUSES, NAMESPACE)
        held = [entry for node in NODES_IN_WORLD for entry in (await world.read_status(node))["held"]]
        return not found.items and {entry["why"] for entry in held} == {"no usable interface (eth9)"}

    await until(failed)
    await until(reported)
    await world.client.patch(
        metallb.L2_ADVERTISEMENTS, "all", NAMESPACE, {"spec": {"interfaces": [f"can_reach:{CLIENT}"]}}
    )
    await until_answered(vip(10), *NODES_IN_WORLD)


async def check_excluded_interfaces(world: SpeakerWorld) -> None:
    """MetalLB's ConfigMap leaves interfaces out; one that cannot be read changes nothing, and has an Event."""

    async def interfaces() -> list[list[str]]:
        held = (await world.read_status("node1"))["held"] + (await world.read_status("node2"))["held"]
        return [entry["detail"] for entry in held + (await world.read_status("node3"))["held"]]

    async def has_none() -> bool:
        return await interfaces() == [[], []]

    async def has_eth0() -> bool:
        return await interfaces() == [["eth0"], ["eth0"]]

    async def reported() -> bool:
        return any(reason == "InvalidConfiguration" for reason, _ in await world.events(name, NAMESPACE))

    name = "metallb-excludel2"
    metadata = {"name": name, "namespace": NAMESPACE}
    text = "announcedInterfacesToExclude: [^lo$, ^eth.*]"
    await world.create(CONFIG_MAPS, {"metadata": metadata, "data": {"excludel2.yaml": text}})
    await until(has_none)
    await world.client.patch(CONFIG_MAPS, name, NAMESPACE, {"data": {"excludel2.yaml": "- ["}})
    await until(reported)
    assert await has_none()
    await world.client.delete(CONFIG_MAPS, name, NAMESPACE)
    await until(has_eth0)


async def check_configuration_states(world: SpeakerWorld) -> None:
    """Each speaker reports whether the configuration is valid, and gets its object back; it goes with the Node."""
    name = "speaker-node1"

    async def result() -> tuple[str, str]:
        with contextlib.suppress(NotFound):
            state = await world.client.get(metallb.CONFIGURATION_STATES, name, NAMESPACE)
            assert state.metadata.labels == {"metallb.io/component-type": "speaker", "metallb.io/node-name": "node1"}
            assert [(owner.kind, owner.name) for owner in state.metadata.owner_references] == [("Node", "node1")]
            return state.status.result, state.status.error_summary
        return "", ""

    async def is_valid() -> bool:
        return await result() == ("Valid", "")

    async def is_invalid() -> bool:
        found, summary = await result()
        return found == "Invalid" and 'CIDR "10.0.0.40/31" in pool "second" overlaps' in summary

    await until(is_valid)
    pool = {"metadata": {"name": "second", "namespace": NAMESPACE}, "spec": {"addresses": ["10.0.0.40/31"]}}
    await world.create(metallb.IP_ADDRESS_POOLS, pool)
    await until(is_invalid)
    await check_start_with_an_invalid_configuration(world)
    await world.client.delete(metallb.IP_ADDRESS_POOLS, "second", NAMESPACE)
    await until(is_valid)
    await world.client.delete(metallb.CONFIGURATION_STATES, name, NAMESPACE)
    await until(is_valid)
    metrics = await asyncio.to_thread(world.speakers["node1"].metrics)
    assert "metallb_k8s_client_update_errors_total 1.0" in metrics
    assert "metallb_k8s_client_updates_total" in metrics


async def check_access(world: SpeakerWorld, node: str) -> None:
    """Metrics are for those whom the API server lets read them, and never sent without TLS."""
    speaker = world.speakers[node]

    async def status_of(read: Callable[[], object]) -> int:
        try:
            await asyncio.to_thread(read)
        except HTTPError as error:
            return error.code
        return 200

    assert await status_of(lambda: speaker.metrics("")) == 401
    assert await status_of(lambda: speaker.metrics("nobody's")) == 401
    account, token = "/api/v1/namespaces/default/serviceaccounts", ""
    await world.client.request("POST", account, json={"metadata": {"name": f"prometheus-{node}"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await world.client.request("POST", f"{account}/prometheus-{node}/token", json=request)
    token = answer["status"]["token"]
    assert await status_of(lambda: speaker.metrics(token)) == 403
    # Refusals are kept for half a minute, so another account is the one with the right.
    await world.client.request("POST", account, json={"metadata": {"name": f"reader-{node}"}})
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    await world.client.request("POST", f"{rbac}/clusterroles", json={"metadata": {"name": "reader"}, "rules": rules})
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": f"reader-{node}", "namespace": "default"}],
    }
    await world.client.request("POST", f"{rbac}/clusterrolebindings", json=binding)
    answer = await world.client.request("POST", f"{account}/reader-{node}/token", json=request)
    assert "metallb_speaker_announced" in await asyncio.to_thread(speaker.metrics, answer["status"]["token"])

    assert await status_of(lambda: speaker.page("/metrics")) == 403
    assert await status_of(lambda: speaker.page("/healthz")) == 200
    other = others(node)[0]
    for where, path, code in (
        (node, "127.0.0.1:7472/metrics", "200"),  # a program of the node itself
        (other, f"{node_ip(node)}:7472/metrics", "403"),
        (other, f"{node_ip(node)}:7472/status", "403"),
        (other, f"{node_ip(node)}:7472/readyz", "200"),
    ):
        found = sh(f"ip netns exec {where} curl -s -o /dev/null -w '%{{http_code}}' http://{path}")
        assert found == code, path


async def check_start_with_an_invalid_configuration(world: SpeakerWorld) -> None:
    """A speaker that begins now gets ready, so that a cluster can start and its configuration be repaired."""
    world.speakers["node3"].signal(signal.SIGTERM)
    assert await asyncio.to_thread(world.speakers["node3"].process.wait, 60) == 0
    world.start_speaker("node3")

    async def is_ready() -> bool:
        with contextlib.suppress(OSError):
            return await asyncio.to_thread(world.speakers["node3"].page, "/readyz") == b"ok"
        return False

    await until(is_ready)
    assert (await world.read_status("node3"))["held"] == []


async def check_new_key(world: SpeakerWorld, restarted: str) -> None:
    """Speakers take a new key, with which a new speaker begins, without believing each other dead."""
    begun = {node: (await world.read_status(node))["time"] for node in others(restarted)}
    key = base64.b64encode(bytes(range(32, 64))).decode()
    await world.client.patch(SECRETS, "bridgehead-speakers", OWN_NAMESPACE, {"data": {"key": key}})
    world.speakers[restarted].signal(signal.SIGTERM)
    assert await asyncio.to_thread(world.speakers[restarted].process.wait, 60) == 0
    world.start_speaker(restarted)
    await world.until_members(*NODES_IN_WORLD)
    for node, since in begun.items():
        changes = (await world.read_status(node))["changes"]
        assert {change["node"] for change in changes if change["at"] > since} == {restarted}


async def check_strict_arp(world: SpeakerWorld) -> None:
    """A speaker makes the kernel strict where kube-proxy's interface of mode ipvs appears."""
    name = "/proc/sys/net/ipv4/conf/all/arp_announce"
    assert run_on("node1", "cat", name) == "0"
    run_on("node1", "ip", "link", "add", "kube-ipvs0", "type", "bridge")

    async def is_strict() -> bool:
        return run_on("node1", "cat", name) == "2"

    await until(is_strict)


@in_namespace
async def test_foreign_machines_and_floods():
    """A foreign machine that claims an address is named in an Event; other addresses stay served in a flood."""
    async with speaker_world(WORLD) as world:
        await world.start_speakers()
        await world.add_service("web", vip(10), vip(10, 6))
        holder = await world.until_held(vip(10))
        await until_answered(vip(10), holder)
        address, address6 = ipaddress.IPv4Address(vip(10)), ipaddress.IPv6Address(vip(10, 6))
        with LinkStates() as links:
            (link,) = (link for link in links.all() if link.name == "fabric")
        with (
            PacketSocket(link.number, link.name, ETH_P_ARP) as arp_socket,
            PacketSocket(link.number, link.name, ETH_P_IPV6) as ndp_socket,
        ):

            async def reported(text: str) -> bool:
                for frame in arp.gratuitous(address, FOREIGN_MAC):
                    arp_socket.send(frame)
                ndp_socket.send(ndp.unsolicited(address6, FOREIGN_MAC))
                events = await world.events("web")
                return any(reason == "DuplicateAddress" and text in message for reason, message in events)

            for text in (f"{FOREIGN_MAC.hex(':')}, answers for {address} on eth0", f"answers for {address6} on eth0"):
                await until(lambda text=text: reported(text))
            choice = random.Random(1)
            for _ in range(20_000):
                mac = bytes([2, *choice.randbytes(5)])
                arp_socket.send(arp.gratuitous(address, mac)[choice.randrange(2)])
                arp_socket.send(choice.randbytes(60))
        await until_answered(vip(10), holder)
        await until_answered(vip(10, 6), holder)
        assert await world.holder(vip(10)) == holder
        events = [message for reason, message in await world.events("web") if reason == "DuplicateAddress"]
        assert len(events) <= 10

        await check_missing_interface(world)
        await check_excluded_interfaces(world)
        await check_configuration_states(world)
        await check_new_key(world, holder)
        await check_strict_arp(world)

        # A speaker without its failure detector cannot know who has its addresses by now, so it ends.
        os.kill(world.speakers[holder].detector_pid, signal.SIGKILL)
        assert await asyncio.to_thread(world.speakers[holder].process.wait, 60) == 1
        await until_answered(vip(10), *others(holder))
