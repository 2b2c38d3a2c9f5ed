"""Readings of nodes: kernels that cannot be entered, bounds, queries of the DNS, resolv.conf of pods."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from bridgehead.client.errors import Forbidden, NotFound
from bridgehead.insight.doctor import node_reading
from bridgehead.insight.doctor.node_reading import Query, ask, ask_from_pod, read_nodes, read_resolvers
from bridgehead.insight.doctor.subjects import DnsAnswer, Resolver
from bridgehead.insight.facts.network_state import NetworkState, Section
from bridgehead.insight.network_namespaces import Completed, NotEntered, OnlyPrograms
from bridgehead.objects.meta import ObjectKey
from tests.unit.insight.generated_clusters import World, base

NAME = "kubernetes.default.svc.cluster.local"


@dataclass
class Client:
    world: World
    is_forbidden: bool = False

    async def list(self, kind: Any, **_: Any) -> Any:
        if self.is_forbidden:
            raise Forbidden(403, "Forbidden", "nodes is forbidden")
        return msgspec.defstruct("Page", ["items"])(list(self.world.nodes.values()))

    async def get(self, kind: Any, name: str, namespace: str) -> Any:
        key = ObjectKey(namespace, name)
        if key not in self.world.services:
            raise NotFound(404, "NotFound", "services kube-dns not found")
        return self.world.services[key]


@dataclass
class Namespace:
    name: str
    state: NetworkState = field(default_factory=NetworkState)
    result: str = "NOERROR"
    files: bytes = b""

    async def call(self, function: Any, argument: Any, *, seconds: float) -> Any:
        if function is ask:
            assert argument.server == "10.96.0.10"
            return self.result
        return msgspec.msgpack.encode(self.state)

    async def run(self, argv: Any, *, seconds: float) -> Completed:
        return Completed(0, self.files, b"")


class Programs(Namespace):
    async def call(self, function: Any, argument: Any, *, seconds: float) -> Any:
        raise OnlyPrograms("only programs")

    async def run(self, argv: Any, **_: Any) -> Completed:
        raise NotEntered("pods/exec is forbidden")


@dataclass
class Namespaces:
    nodes: dict[str, Namespace] = field(default_factory=dict)
    pods: dict[ObjectKey, Namespace] = field(default_factory=dict)

    async def node(self, name: str) -> Any:
        if name not in self.nodes:
            raise NotEntered("no pod of a service proxy runs on the node")
        return self.nodes[name]

    async def pod(self, key: ObjectKey) -> Any:
        if key not in self.pods:
            raise NotEntered("there is no such pod")
        return self.pods[key]


def seen(namespaces: Namespaces, **client: Any) -> Any:
    return asyncio.run(read_nodes(Client(base(), **client), namespaces))  # type: ignore[arg-type]


def test_nodes_are_read_and_ask_the_dns():
    nodes = {f"node{number}": Namespace(f"node node{number}") for number in (1, 2, 3)}
    nodes["node2"].result = ""
    nodes["node3"].state = NetworkState(unseen={Section.NFTABLES: "nft: no rights"})
    found = seen(Namespaces(nodes))
    assert set(found.networks) == set(nodes)
    assert [(each.client, each.result) for each in found.answers] == [
        ("node node1", "NOERROR"),
        ("node node2", ""),
        ("node node3", "NOERROR"),
    ]
    assert [str(each) for each in found.unseen] == ["nftables of node node3: nft: no rights"]


def test_nodes_that_cannot_be_entered_are_unseen():
    found = seen(Namespaces({"node1": Namespace("node node1"), "node2": Programs("node node2")}))
    assert set(found.networks) == {"node1"}
    assert [str(each) for each in found.unseen] == [
        "the kernel of node2: pods/exec is forbidden",
        "the kernel of node3: no pod of a service proxy runs on the node",
    ]


def test_nodes_that_may_not_be_listed_are_unseen():
    found = seen(Namespaces(), is_forbidden=True)
    assert not found.networks
    assert [each.what for each in found.unseen] == ["the kernels of nodes"]


def test_the_number_of_nodes_is_bounded(monkeypatch):
    monkeypatch.setattr(node_reading, "MOST_NODES", 2)
    found = seen(Namespaces({f"node{number}": Namespace(f"node node{number}") for number in (1, 2, 3)}))
    assert set(found.networks) == {"node1", "node2"}
    assert [str(each) for each in found.unseen] == ["the kernels of 1 more nodes: 2 are looked at"]


def test_ports_of_a_bridge_without_hairpin_mode():
    from bridgehead.insight.facts.network_state import Interface

    bridge = Interface(name="cni0", index=3, mtu=1500, is_up=True, kind="bridge")
    files = b"/sys/class/net/veth1/brport/hairpin_mode:0\n/sys/class/net/veth2/brport/hairpin_mode:1\nodd\n"
    found = seen(Namespaces({"node1": Namespace("node node1", NetworkState(interfaces=(bridge,)), files=files)}))
    assert found.hairpin_off == {"node1": ("veth1",)}


def test_a_pod_asks_the_dns():
    facts = base().facts()
    key = ObjectKey("default", "client")
    pods = {each.key: Namespace(f"pod {each.key}") for each in facts.cluster.pods.values()}
    [answer] = asyncio.run(ask_from_pod(Namespaces(pods=pods), facts))  # type: ignore[arg-type]
    assert answer == DnsAnswer(f"pod {key}", "10.96.0.10", NAME, "NOERROR", 2.0)
    assert asyncio.run(ask_from_pod(Namespaces(), facts)) == ()  # type: ignore[arg-type]
    policy = {"metadata": {"namespace": "default"}}
    restricted = dataclasses.replace(facts, cluster=dataclasses.replace(facts.cluster, network_policies=(policy,)))
    [answer] = asyncio.run(ask_from_pod(Namespaces(pods=pods), restricted))  # type: ignore[arg-type]
    assert "default" not in answer.client


def test_name_servers_of_pods(monkeypatch):
    async def execute(client: Any, key: ObjectKey, *_: Any, **__: Any) -> tuple[int, bytes, bytes]:
        if key.name != "client":
            raise Forbidden(403, "Forbidden", "pods/exec is forbidden")
        return 0, b"search a b\nnameserver 10.32.0.10\nnameserver\nnameserver \x1b[31m\n", b""

    monkeypatch.setattr(node_reading, "exec_in_pod", execute)
    found = asyncio.run(read_resolvers(None, base().facts()))  # type: ignore[arg-type]
    assert found == (Resolver(ObjectKey("default", "client"), ("10.32.0.10", "?[31m")),)


@pytest.mark.parametrize(("code", "result"), [(0, "NOERROR"), (2, "SERVFAIL"), (3, "NXDOMAIN"), (9, "RCODE 9")])
def test_the_response_code_of_an_answer(monkeypatch, code, result):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        monkeypatch.setattr(node_reading, "_PORT", server.getsockname()[1])

        def answer() -> None:
            query, client = server.recvfrom(512)
            assert b"\x0akubernetes\x07default\x03svc" in query
            server.sendto(b"noise", client)
            server.sendto(query[:2] + struct.pack("!H", 0x8000 | code) + query[4:], client)

        thread = threading.Thread(target=answer)
        thread.start()
        assert ask(Query("127.0.0.1", NAME, 30.0)) == result
        thread.join()


def test_no_answer(monkeypatch):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        monkeypatch.setattr(node_reading, "_PORT", server.getsockname()[1])
        assert ask(Query("127.0.0.1", NAME, 0.01)) == ""
