"""The layer 2 announcer: which node's connections are passed on while an address moves, and reports to the agent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from bridgehead.balancer.announcer import EventReport, UpdateResult
from bridgehead.balancer.handovers import Handovers
from bridgehead.balancer.layer2 import announcer as module
from bridgehead.balancer.layer2.announcer import Layer2Announcer
from bridgehead.balancer.layer2.election import Election
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.view import ClusterView, NodeView
from bridgehead.network.link_states import Link
from bridgehead.objects.meta import ObjectKey

from .test_election import POOL, address, publication, view


class NoSockets:
    """A Responder without sockets."""

    def __init__(self, on_conflict: object) -> None:
        self.links: Mapping[int, Link] = {}

    def set_links(self, links: Mapping[int, Link]) -> bool:
        self.links = links
        return True

    def listen(self) -> None:
        pass

    def hold(self, address: IpAddress, interfaces: frozenset[str]) -> None:
        pass

    def release(self, address: IpAddress) -> None:
        pass

    def interfaces_of(self, address: IpAddress) -> Collection[str]:
        return [link.name for link in self.links.values()]


class OneLink:
    """The links of a node with one interface."""

    def all(self) -> Collection[Link]:
        return [Link(2, "eth0", bytes(6), master=0, transmits=True, resolves=True)]


class Watcher:
    """An observer that records the Services of which it should look at the addresses again, call by call."""

    def __init__(self) -> None:
        self.changed: list[set[ObjectKey]] = []

    def on_held_changed(self, services: Iterable[ObjectKey]) -> None:
        self.changed.append(set(services))

    def on_links_changed(self, names: Collection[str]) -> None:
        pass

    def record(self, event: EventReport) -> None:
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
    announcer = Layer2Announcer(Watcher(), handovers)
    announcer.update(view(), {web.key: web}, [web.key])
    handovers.nodes.clear()
    announcer.update(cordoned, {web.key: web}, ())
    assert announcer.is_handing_over
    assert (handovers.nodes, handovers.lost) == ([], [web.addresses[0][0]])
    announcer.update(view(), {web.key: web}, ())
    assert handovers.nodes == [meanwhile]
    announcer.update(view(), {web.key: web}, [web.key])
    assert handovers.nodes == [meanwhile]


def test_a_new_interface_is_reported_for_all_services_that_share_an_address(monkeypatch):
    monkeypatch.setattr(module, "Responder", NoSockets)
    only = view(members=["node1"])
    shared = ((address(1), POOL),)
    services = {found.key: found for found in (publication(number, addresses=shared) for number in (1, 2))}
    observer = Watcher()
    announcer = Layer2Announcer(observer, Recorder())
    assert announcer.update(only, services, services) == UpdateResult(set(services))
    links: Any = OneLink()
    announcer._use_links(links)
    assert {held.service: held.detail for held in announcer.held(services)} == dict.fromkeys(services, ("eth0",))
    assert observer.changed == [set(services)]  # not by the update


def test_an_update_returns_the_services_of_a_lost_address_and_events_about_those_without_an_interface(monkeypatch):
    monkeypatch.setattr(module, "Responder", NoSockets)
    only, web = view(members=["node1"]), publication(1)
    announcer = Layer2Announcer(Watcher(), Recorder(), interfaces=("eth7",))
    announcer._is_running = True
    message = f'failed to announce "{address(1)}" with protocol "layer2": no usable interface (eth7)'
    event = EventReport(web.key, "Warning", "announceFailed", message)
    assert announcer.update(only, {web.key: web}, [web.key]) == UpdateResult({web.key}, [event])
    assert announcer.update(only, {web.key: web}, ()) == UpdateResult(set(), [])
    assert announcer.update(only, {}, [web.key]) == UpdateResult({web.key}, [])


def holder(number: int, cluster: ClusterView) -> str:
    """Return the holder of an address."""
    web = publication(number)
    holders = Election()
    holders.update(cluster, {web.key: web}, [web.key])
    found = holders.get(address(number))
    return found.node if found is not None else ""
