"""Names of ExaBGP that the ExaBGP process uses although its documentation does not promise them.

One case for each, as in test_dependencies.py. tests/integration/test_bgp.py has sessions with a router.
"""

from __future__ import annotations

import inspect
import ipaddress
import socket
from typing import Any

import pytest

from bridgehead.balancer.bgp.exabgp import ENVIRONMENT, Attributes, SessionSettings
from bridgehead.balancer.bgp.exabgp_objects import as_number, family_of, make_neighbor, make_open, make_updates
from bridgehead.balancer.bgp.exabgp_session import _Owner

LOOPBACK = ipaddress.ip_address("127.0.0.1")
SETTINGS = SessionSettings(
    LOOPBACK, LOOPBACK, 1179, 64512, 64513, "127.0.0.1", password="a b", ttl=3, next_hops={4: "127.0.0.1", 6: "::1"}
)
PREFIX, OTHER = ipaddress.ip_network("10.1.0.1/32"), ipaddress.ip_network("10.1.0.2/32")
ATTRIBUTES = Attributes("127.0.0.1", 150, ((64512, 1), (1, 2, 3)))


@pytest.fixture(autouse=True)
def logger(monkeypatch: pytest.MonkeyPatch) -> None:
    """ExaBGP's logger, which most of its modules need."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    from exabgp.environment import getenv
    from exabgp.logger import log

    log.init(getenv())


@pytest.fixture
def protocol() -> Any:
    """A protocol over a pair of sockets, whose other end is `protocol.router`."""
    from exabgp.protocol.family import AFI
    from exabgp.reactor.network.connection import Connection
    from exabgp.reactor.protocol import Protocol

    own, router = socket.socketpair()
    with own, router:
        made: Any = Protocol(_Owner(make_neighbor(SETTINGS)))
        connection = Connection(AFI.ipv4, "127.0.0.1", "127.0.0.1")
        connection.io = own
        assert made.accept(connection) is made
        own.setblocking(False)
        made.router = router
        yield made


def finish(messages: Any) -> Any:
    """Return the last message of a generator."""
    *_, message = messages
    return message


def opened(protocol: Any) -> Any:
    """Negotiate with a router that sends the same OPEN message, with another AS number."""
    from exabgp.bgp.message.open.asn import ASN

    sent = make_open(protocol.neighbor, has_restarted=True)
    finish(protocol.write(sent))
    protocol.negotiated.sent(sent)
    protocol.router.recv(4096)
    sent = sent.__class__(sent.version, ASN(64513), sent.hold_time, sent.router_id, sent.capabilities)
    protocol.router.send(sent.message())
    received = finish(protocol.read_open("127.0.0.1"))
    protocol.negotiated.received(received)
    return received


def test_a_session_is_negotiated(protocol):
    received = opened(protocol)
    assert as_number(received) == 64512, "in the capability"
    assert sorted(map(str, (afi for afi, _ in protocol.negotiated.families))) == ["ipv4", "ipv6"]
    assert protocol.negotiated.holdtime == 90
    assert protocol.negotiated.holdtime.keepalive() == 30
    assert protocol.negotiated.msg_size == 65535
    assert protocol.connection.msg_size == 4096
    protocol.validate_open()
    protocol.neighbor["peer-as"] += 1
    with pytest.raises(Exception, match="Bad Peer AS"):
        protocol.validate_open()


def test_keepalive_messages_are_sent_and_read(protocol):
    from exabgp.bgp.message import NOP, KeepAlive

    sent = finish(protocol.new_keepalive())
    assert sent.TYPE == KeepAlive.TYPE != NOP.TYPE
    protocol.router.send(protocol.router.recv(4096))
    assert finish(protocol.read_keepalive()).TYPE == KeepAlive.TYPE


def test_waiting_is_no_message(protocol):
    from exabgp.bgp.message import NOP

    assert next(iter(protocol.read_message())).TYPE == NOP.TYPE


def test_a_notification_is_sent_and_raised(protocol):
    from exabgp.bgp.message import Notification, Notify

    finish(protocol.new_notification(Notify(6, 10)))
    protocol.router.send(protocol.router.recv(4096))
    with pytest.raises(Notification) as raised:
        finish(protocol.read_message())
    assert (raised.value.code, raised.value.subcode) == (6, 10)
    assert issubclass(Notify, Notification)


def test_a_lost_connection_is_raised(protocol):
    from exabgp.reactor.network.error import NetworkError

    protocol.router.close()
    with pytest.raises(NetworkError, match="closed"):
        finish(protocol.read_message())


def test_routes_with_the_same_attributes_are_one_update(protocol):
    opened(protocol)
    updates = list(make_updates({PREFIX: ATTRIBUTES, OTHER: ATTRIBUTES}))
    [update] = updates
    [message] = update.messages(protocol.negotiated)
    for part in (PREFIX, OTHER):
        assert bytes([32]) + part.network_address.packed in message
    assert LOOPBACK.packed in message
    assert (150).to_bytes(4, "big") not in message, "local preference is for internal sessions"
    assert bytes([0xFC, 0, 0, 1]) in message
    assert bytes(3) + bytes([1, 0, 0, 0, 2, 0, 0, 0, 3]) in message
    finish(protocol.send(message))
    assert protocol.router.recv(4096) == message


@pytest.mark.parametrize("text", ["10.1.0.1/32", "fd00::1/128"])
def test_routes_are_announced_and_withdrawn(protocol, text):
    opened(protocol)
    prefix = ipaddress.ip_network(text)
    next_hop = SETTINGS.next_hops[prefix.version]
    for attributes in (Attributes(next_hop), None):
        [update] = make_updates({prefix: attributes})
        [message] = update.messages(protocol.negotiated)
        assert bytes([prefix.prefixlen]) + prefix.network_address.packed in message
        assert (ipaddress.ip_address(next_hop).packed in message) == (attributes is not None)


def test_the_end_of_routes(protocol):
    opened(protocol)
    finish(protocol.new_eor(*family_of(4)))
    assert protocol.router.recv(4096) == b"\xff" * 16 + bytes([0, 23, 2, 0, 0, 0, 0])


def test_a_password_is_set_from_base64():
    from exabgp.reactor.network.tcp import md5

    assert list(inspect.signature(md5).parameters) == ["io", "ip", "port", "md5", "md5_base64"]
    assert "md5_base64 is True" in inspect.getsource(md5)


def test_what_is_offered():
    from exabgp.bgp.message.open.capability.capability import Capability

    neighbor = make_neighbor(SETTINGS._replace(graceful_restart=True))
    offered = [make_open(neighbor, has_restarted=state).capabilities for state in (True, False)]
    codes = Capability.CODE
    for capabilities in offered:
        assert capabilities.announced(codes.ROUTE_REFRESH)
        assert not capabilities.announced(codes.ENHANCED_ROUTE_REFRESH)
    assert [capabilities[codes.GRACEFUL_RESTART].restart_flag for capabilities in offered] == [8, 0]
