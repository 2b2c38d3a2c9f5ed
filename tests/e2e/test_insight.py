"""The network namespaces of a lab: entered on this machine, and by `exec` through the API alone."""

from __future__ import annotations

import asyncio
import json

import pytest

from bridgehead.cli.cluster_access import choose_cluster
from bridgehead.cli.lab_network_namespaces import LabNamespaces
from bridgehead.client import ApiClient
from bridgehead.insight.facts.network_reading import read_network
from bridgehead.insight.facts.network_state import NetworkState, Section
from bridgehead.insight.network_namespaces import NetworkNamespace, NetworkNamespaces, NotEntered
from bridgehead.insight.remote_namespaces import RemoteNamespaces
from bridgehead.objects.meta import ObjectKey

from .conftest import Lab, Namespace

SECTIONS = (Section.NFTABLES, Section.CONNECTIONS, Section.LISTENERS, Section.INTERFACES, Section.ROUTES)


POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: web, image: busybox, command: [busybox, httpd, -f, -p, "8080"]}]
"""


def start_pod(ns: Namespace) -> ObjectKey:
    ns.apply(POD)
    ns.ready("web")
    return ObjectKey(ns.name, "web")


def addresses(state: NetworkState) -> set[str]:
    return {address for interface in state.interfaces for address in interface.addresses}


async def check_nodes(namespaces: NetworkNamespaces) -> None:
    """Two nodes at once."""
    nodes = [await namespaces.node(name) for name in ("node1", "node2")]
    states = await asyncio.gather(*(read_network(node, SECTIONS) for node in nodes))
    for number, state in enumerate(states, 1):
        assert state.unseen == {}
        assert f"10.0.0.20{number}/24" in addresses(state)
        assert "services" in json.dumps(json.loads(state.nftables)["nftables"])
        assert any(each.destination.port == 6443 for each in state.connections)
        assert 10250 in {each.port for each in state.listeners}
        assert any(each.destination == "default" for each in state.routes)


async def check_pod(inside: NetworkNamespace, ns: Namespace) -> None:
    state = await read_network(inside, (Section.LISTENERS, Section.SYSCTLS))
    assert [(each.protocol, each.port) for each in state.listeners] == [("tcp", 8080)]
    assert state.sysctls["net/ipv4/ip_unprivileged_port_start"] == "0"
    printed = await inside.run(["sh", "-c", "cat; ip address; exit 7"], stdin=b"given\n")
    assert printed.code == 7
    assert printed.stdout.startswith(b"given\n")
    assert f"inet {ns.get('pods', 'web')['status']['podIP']}/32".encode() in printed.stdout


def test_nodes_pods_and_the_network_outside_are_entered(lab: Lab, ns: Namespace) -> None:
    pod = start_pod(ns)
    cluster = choose_cluster("test", None, lab.name, lab.state_dir)
    assert cluster.lab is not None

    async def look() -> None:
        async with cluster.connect("test") as (_, namespaces):
            assert isinstance(namespaces, LabNamespaces)
            await check_nodes(namespaces)
            outside = await read_network(await namespaces.outside(), SECTIONS)
            assert "10.0.0.1/24" in addresses(outside)
            assert {(each.port, each.program) for each in outside.listeners} >= {(6443, "apiserver")}
            inside = await namespaces.pod(pod)
            await check_pod(inside, ns)
            assert inside.name == f"pod {pod}"
            for wanted in (namespaces.node("node9"), namespaces.pod(ObjectKey(pod.namespace, "absent"))):
                with pytest.raises(NotEntered):
                    await wanted

    asyncio.run(look())


def test_they_are_entered_through_the_api_alone(lab: Lab, ns: Namespace) -> None:
    pod = start_pod(ns)
    cluster = choose_cluster("test", lab.state_dir / "kubeconfig", None, None)
    assert cluster.lab is not None  # found by the address of its API server

    async def look() -> None:
        async with ApiClient(cluster.config) as client:
            namespaces = RemoteNamespaces(client)
            await check_nodes(namespaces)
            inside = await namespaces.pod(pod)
            await check_pod(inside, ns)
            assert (await inside.run(["no_such_program"])).code == 127
            for wanted in (namespaces.node("node9"), namespaces.pod(ObjectKey(pod.namespace, "absent"))):
                with pytest.raises(NotEntered):
                    await wanted

    asyncio.run(look())
