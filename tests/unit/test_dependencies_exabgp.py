"""Names of ExaBGP that `bridgehead.balancer.bgp.exabgp_main` uses although its documentation does not promise them.

One case for each, as in test_dependencies.py. tests/integration/test_bgp.py has sessions with a router.
"""

from __future__ import annotations

import inspect
import ipaddress
from types import SimpleNamespace
from typing import Any

import pytest

from bridgehead.balancer.bgp.exabgp import ENVIRONMENT, SessionSettings, announce, render_configuration, withdraw
from bridgehead.balancer.bgp.exabgp_main import _FAMILIES, _UNICAST, _Observer
from bridgehead.balancer.bgp.routes import Route

LOOPBACK = ipaddress.ip_address("127.0.0.1")
SETTINGS = SessionSettings(
    LOOPBACK, LOOPBACK, 1179, 64512, 64513, "127.0.0.1", password="a b", ttl=3, next_hops={4: "127.0.0.1", 6: "::1"}
)
PREFIX = ipaddress.ip_network("10.1.0.1/32")
ROUTE = Route(PREFIX, 150, frozenset({(64512, 1), (1, 2, 3)}))


@pytest.fixture(autouse=True)
def logger(monkeypatch: pytest.MonkeyPatch) -> None:
    """ExaBGP's logger, which most of its modules need."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    from exabgp.environment import getenv
    from exabgp.logger import log

    log.init(getenv())


def parse(text: str) -> Any:
    from exabgp.configuration.configuration import Configuration

    parsed = Configuration([text], text=True)
    assert parsed.reload(), str(parsed.error)
    return parsed


def make_neighbor() -> Any:
    (neighbor,) = parse(render_configuration(SETTINGS)).neighbors.values()
    return neighbor


def parse_route(text: str) -> Any:
    from exabgp.reactor.api import API

    (change,) = API(None).api_route(text)
    return change


def make_peer() -> Any:
    from exabgp.reactor.peer import Peer

    return Peer(make_neighbor(), SimpleNamespace(processes=_Observer("router", lambda answer: None)))


def test_a_configuration_is_parsed_from_text():
    neighbor = make_neighbor()
    assert (neighbor["connect"], neighbor["outgoing-ttl"], neighbor["manual-eor"]) == (1179, 3, True)
    assert neighbor["md5-base64"]
    assert sorted(str(afi) for afi, _ in neighbor.families()) == ["ipv4", "ipv6"]


def test_a_configuration_that_is_refused_has_a_reason():
    from exabgp.configuration.configuration import Configuration

    parsed = Configuration(["nonsense"], text=True)
    assert not parsed.reload()
    assert "nonsense" in str(parsed.error)


def test_a_neighbor_reports_its_changes_and_takes_end_of_rib_markers():
    neighbor = make_neighbor()
    assert neighbor.api["neighbor-changes"] == []
    neighbor.eor.append(None)


@pytest.mark.parametrize(("version", "afi"), [("ipv4", "ipv4"), ("ipv6", "ipv6")])
def test_a_family_is_made_of_its_numbers(version, afi):
    from exabgp.protocol.family import AFI, SAFI, Family

    family = Family(AFI.create(_FAMILIES[version]), SAFI.create(_UNICAST))
    assert (str(family.afi), str(family.safi)) == (afi, "unicast")


def test_a_route_gets_into_the_table_of_a_neighbor():
    from exabgp.bgp.message import Action
    from exabgp.configuration.static import ParseStaticRoute

    neighbor = make_neighbor()
    neighbor.rib.uncache()
    assert not neighbor.rib.outgoing.pending()
    change = parse_route(announce(ROUTE, "127.0.0.1"))
    assert ParseStaticRoute.check(change)
    assert change.nlri.action == Action.ANNOUNCE
    neighbor.rib.outgoing.add_to_rib(change)
    assert neighbor.rib.outgoing.pending()


def test_a_withdrawal_needs_its_action():
    from exabgp.bgp.message import Action

    change = parse_route(withdraw(PREFIX))
    change.nlri.action = Action.WITHDRAW
    neighbor = make_neighbor()
    neighbor.rib.outgoing.add_to_rib(change)
    assert neighbor.rib.outgoing.pending()


def test_a_peer_has_no_session_at_first():
    peer = make_peer()
    assert peer.socket() == -1
    assert not peer.established()
    assert peer.proto is None
    peer.remove()


@pytest.mark.parametrize("hook", ["broken", "connected", "up", "down"])
def test_the_observer_is_called(hook):
    from exabgp.reactor import peer, protocol

    assert f"reactor.processes.{hook}(" in inspect.getsource(peer) + inspect.getsource(protocol)


def test_a_turn_returns_an_action():
    from exabgp.reactor.peer import ACTION, Peer

    assert callable(Peer.run)
    assert ACTION.NOW in ACTION.ALL
    assert "yield ACTION.NOW" in inspect.getsource(Peer)


def test_a_session_is_torn_down_with_a_code():
    peer = make_peer()
    peer.teardown(10)
    assert "Notify(6, self._teardown)" in inspect.getsource(type(peer))


def test_the_time_between_keepalive_messages_can_be_set():
    from exabgp.bgp import timer
    from exabgp.bgp.message.open.capability.negotiated import Negotiated
    from exabgp.reactor.keepalive import KA

    negotiated = Negotiated(make_neighbor())
    assert negotiated.received_open is None
    negotiated.holdtime.keepalive = lambda: 7
    made: Any = KA(lambda: "", SimpleNamespace(negotiated=negotiated))
    assert made.send_timer.keepalive == 7
    assert "holdtime.keepalive()" in inspect.getsource(timer)


def test_an_open_message_has_the_as_number():
    from exabgp.bgp.message.open import Open
    from exabgp.bgp.message.open.capability.capability import Capability

    assert Capability.CODE.FOUR_BYTES_ASN == 65
    assert {"asn", "capabilities"} <= set(inspect.signature(Open.__init__).parameters)
