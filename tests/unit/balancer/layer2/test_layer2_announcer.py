"""The layer 2 announcer: which node's connections are passed on while an address moves."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bridgehead.balancer.layer2 import announcer as module
from bridgehead.balancer.layer2.announcer import Layer2Announcer
from bridgehead.balancer.layer2.holders import Holders
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.speaker.handovers import Handovers
from bridgehead.balancer.view import ClusterView, NodeView
from bridgehead.objects.meta import ObjectKey

from .test_holders import address, publication, view


class NoSockets:
    """A Responder without sockets."""

    def __init__(self, on_claim: object) -> None:
        pass

    def hold(self, address: IpAddress, interfaces: frozenset[str]) -> None:
        pass


class Blind:
    """An observer to which nothing matters."""

    def on_held_changed(self, services: Iterable[ObjectKey]) -> None:
        pass

    def on_links_changed(self, names: Collection[str]) -> None:
        raise AssertionError

    def record(self, service: ObjectKey, *, type: str = "Warning", reason: str, message: str) -> None:
        raise AssertionError


class Recorder(Handovers):
    """Handovers that record the nodes which had the address, and the addresses that this one lost."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[str] = []
        self.lost: list[IpAddress] = []

    def lose(self, address: IpAddress) -> None:
        self.lost.append(address)

    def begin(self, address: IpAddress, node: str, protocol: str) -> None:
        self.nodes.append(node)


def test_an_address_that_comes_back_soon_has_connections_at_the_node_that_had_it_in_between(monkeypatch):
    monkeypatch.setattr(module, "Responder", NoSockets)
    web = publication(next(number for number in range(100) if holder(number, view()) == "node1"))
    cordoned = view([NodeView("node1", {}, is_cordoned=True)])
    meanwhile = holder(int(web.uid), cordoned)
    handovers = Recorder()
    announcer = Layer2Announcer(Blind(), handovers)
    announcer.update(view(), {web.key: web}, [web.key])
    handovers.nodes.clear()
    announcer.update(cordoned, {web.key: web}, ())
    assert announcer.is_handing_over
    assert (handovers.nodes, handovers.lost) == ([], [web.addresses[0][0]])
    announcer.update(view(), {web.key: web}, ())
    assert handovers.nodes == [meanwhile]
    announcer.update(view(), {web.key: web}, [web.key])
    assert handovers.nodes == [meanwhile]


def holder(number: int, cluster: ClusterView) -> str:
    """Return the holder of an address."""
    web = publication(number)
    holders = Holders()
    holders.update(cluster, {web.key: web}, [web.key])
    found = holders.get(address(number))
    return found.node if found is not None else ""
