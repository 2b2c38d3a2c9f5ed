"""Whole speakers that announce by BGP: the objects of the API server in, routes and reports out."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import select
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridgehead.objects import metallb, openelb
from bridgehead.objects.kinds import EVENTS, NODES, SECRETS

from .api_world import until
from .bird_router import BFD, KERNEL, Bird, bgp
from .namespaced import in_namespace, sh
from .speaker_world import (
    CLIENT,
    CLIENT6,
    NAMESPACE,
    NODES_IN_WORLD,
    SpeakerWorld,
    answered_by,
    fault,
    node_ip,
    speaker_world,
    vip,
)
from .test_network_handover import PORT, check_carried_on, listen

pytestmark = pytest.mark.integration

ALL = sorted(node_ip(name) for name in NODES_IN_WORLD)


@contextlib.asynccontextmanager
async def bgp_world(options: str = "bfd;") -> AsyncIterator[tuple[SpeakerWorld, Bird]]:
    """The test's own namespace is the router, with BIRD, and the client behind it at once."""
    # All packets of the client to an address go to one node.
    sh("sysctl -qw net.ipv4.fib_multipath_hash_policy=0")
    async with speaker_world(Path("/run/world")) as world:
        await world.client.delete(metallb.L2_ADVERTISEMENTS, "all", NAMESPACE)
        await world.create(metallb.BGP_ADVERTISEMENTS, {"metadata": {"name": "all", "namespace": NAMESPACE}})
        profile = {"receiveInterval": 100, "transmitInterval": 100, "detectMultiplier": 3}
        await world.create(
            metallb.BFD_PROFILES, {"metadata": {"name": "fast", "namespace": NAMESPACE}, "spec": profile}
        )
        with Bird(KERNEL + BFD + "".join(bgp(number, options) for number in (1, 2, 3)), namespace="") as bird:
            yield world, bird


async def add_peer(world: SpeakerWorld, **fields: object) -> None:
    spec = {"myASN": 64512, "peerASN": 64513, "peerAddress": CLIENT, "bfdProfile": "fast", **fields}
    await world.create(metallb.BGP_PEERS, {"metadata": {"name": "router", "namespace": NAMESPACE}, "spec": spec})


async def until_next_hops(bird: Bird, address: str, *wanted: str) -> None:
    async def has_them() -> bool:
        return bird.next_hops(address) == sorted(wanted)

    await until(has_them)


async def until_bfd(world: SpeakerWorld, *nodes: str) -> None:
    for node in nodes:

        async def is_up(node: str = node) -> bool:
            sections = (await world.read_status(node)).get("sections", {})
            return [(state["state"], state["bfd"]) for state in sections.get("bgp", ())] == [("established", "up")]

        await until(is_up)


async def until_answered() -> str:
    """Wait until a node answers the client; return it."""
    node: str = await until(lambda: answered_by(vip(10)))
    return node


async def check_faults(world: SpeakerWorld, bird: Bird) -> None:
    """Check that routes leave a node that loses its packets, and one whose speaker ends."""
    node = await until_answered()
    with fault(world, "black hole", node):
        await until_next_hops(bird, vip(10), *(address for address in ALL if address != node_ip(node)))
        assert await until_answered() != node
    await until_next_hops(bird, vip(10), *ALL)

    # A speaker that ends withdraws its routes while its node goes on forwarding.
    node = await until_answered()
    world.speakers[node].signal(signal.SIGTERM)
    await until_next_hops(bird, vip(10), *(address for address in ALL if address != node_ip(node)))
    assert await until_answered() != node
    assert await asyncio.to_thread(world.speakers[node].process.wait, 60) == 0


async def check_open_connection(world: SpeakerWorld, bird: Bird) -> None:
    """Check that a connection goes on at its node when that is cordoned, and the router moves the connection."""
    with contextlib.ExitStack() as stack:
        listeners = {node: stack.enter_context(listen(node, 4)) for node in NODES_IN_WORLD}
        client = stack.enter_context(socket.create_connection((vip(10), PORT), 20))
        client.settimeout(20)
        (accepting,), _, _ = select.select(listeners.values(), (), (), 20)
        node = next(name for name, listener in listeners.items() if listener is accepting)
        server = stack.enter_context(accepting.accept()[0])
        server.settimeout(20)
        await world.client.patch(NODES, node, "", {"spec": {"unschedulable": True}})
        await until_next_hops(bird, vip(10), *(address for address in ALL if address != node_ip(node)))
        assert await until_answered() != node
        check_carried_on(client, server)
    await world.client.patch(NODES, node, "", {"spec": {"unschedulable": False}})
    await until_next_hops(bird, vip(10), *ALL)


async def check_openelb_statuses(world: SpeakerWorld) -> None:
    """Check that the nodes whose speakers run report their sessions with a peer of OpenELB's."""
    await world.create(
        openelb.BGP_CONFS, {"metadata": {"name": "default"}, "spec": {"as": 64600, "routerId": "1.1.1.1"}}
    )
    conf = {"neighborAddress": CLIENT6, "peerAs": 64601}
    await world.create(
        openelb.BGP_PEERS, {"metadata": {"name": "other"}, "spec": {"conf": conf, "transport": {"remotePort": 1179}}}
    )
    running = {node for node, speaker in world.speakers.items() if speaker.process.poll() is None}

    async def are_reported() -> bool:
        peer = await world.client.request("GET", openelb.BGP_PEERS.path("", "other"))
        default = await world.client.request("GET", openelb.BGP_CONFS.path("", "default"))
        peers = peer.get("status", {}).get("nodesPeerStatus", {})
        confs = default.get("status", {}).get("nodesConfStatus", {})
        states = {entry["peerState"]["sessionState"] for entry in peers.values()}
        return (
            peers.keys() == confs.keys() == running
            and states <= {"IDLE", "ACTIVE"}
            and all(entry == {"as": 64600, "routerId": "1.1.1.1"} for entry in confs.values())
        )

    await until(are_reported)
    await world.client.delete(openelb.BGP_PEERS, "other")


@in_namespace
async def test_objects_become_routes_and_routes_are_reported():
    async with bgp_world('bfd; password "secret";') as (world, bird):
        await world.start_speakers()
        await world.add_service("web", vip(10))
        await add_peer(world, passwordSecret={"name": "bgp"})

        async def events() -> set[tuple[str, str]]:
            found = (await world.client.list(EVENTS, NAMESPACE)).items
            return {(event.reason, event.message) for event in found if event.involved_object.name == "router"}

        reason = f"Secret {NAMESPACE}/bgp with the password does not exist"

        async def is_reported() -> bool:
            return ("SessionDown", f"BGP session of node node1 is down: {reason}") in await events()

        await until(is_reported)

        async def states() -> set[tuple[str, str]]:
            found = (await world.client.list(metallb.CONFIGURATION_STATES, NAMESPACE)).items
            return {(state.status.result, state.status.error_summary) for state in found}

        async def are_invalid() -> bool:
            error = f"configuration error: failed to parse peer router password secret: {reason}"
            return await states() == {("Invalid", error)}

        await until(are_invalid)
        data = {"password": base64.b64encode(b"secret").decode()}
        meta = {"name": "bgp", "namespace": NAMESPACE}
        await world.create(SECRETS, {"metadata": meta, "type": "kubernetes.io/basic-auth", "data": data})
        await until_next_hops(bird, vip(10), *ALL)

        async def are_recorded() -> bool:
            is_established = ("SessionEstablished", "BGP session of node node1 is up") in await events()
            announced = ("nodeAssigned", 'announcing from node "node1" with protocol "bgp"')
            is_valid = await states() == {("Valid", "")}
            return is_established and announced in await world.events("web") and is_valid

        await until(are_recorded)

        async def statuses() -> list[tuple[str, str, tuple[str, ...]]]:
            found = (await world.client.list(metallb.SERVICE_BGP_STATUSES, NAMESPACE)).items
            return sorted((one.status.node, one.status.service_name, one.status.peers) for one in found)

        async def are_written() -> bool:
            return await statuses() == [(node, "web", ("router",)) for node in NODES_IN_WORLD]

        await until(are_written)
        await until_bfd(world, *NODES_IN_WORLD)

        async def are_measured() -> bool:
            # Not at once: where the machine stands still for a moment, fast BFD ends the session, which comes back.
            metrics = await asyncio.to_thread(world.speakers["node1"].metrics)
            lines = (
                'metallb_bgp_session_up{peer="10.0.0.1:179"} 1.0',
                'metallb_bgp_announced_prefixes_total{peer="10.0.0.1:179"} 1.0',
                'metallb_bfd_session_up{peer="10.0.0.1"} 1.0',
            )
            return all(line in metrics for line in lines)

        await until(are_measured)

        await check_open_connection(world, bird)
        await check_faults(world, bird)

        await check_openelb_statuses(world)
        await world.set_endpoints("web", [])
        await until_next_hops(bird, vip(10))

        async def are_gone() -> bool:
            return await statuses() == []

        await until(are_gone)
