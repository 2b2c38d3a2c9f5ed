"""ExaBGP's configuration and routes as text, and the messages of its process."""

from __future__ import annotations

import base64
import ipaddress
import socket

from bridgehead.balancer.bgp.announcer import unsupported_options
from bridgehead.balancer.bgp.bfd_sessions import is_path_lost, session_settings
from bridgehead.balancer.bgp.exabgp import (
    SessionSettings,
    announce,
    render_configuration,
    router_id_of,
    why_refused,
    withdraw,
)
from bridgehead.balancer.bgp.exabgp_main import has_peer
from bridgehead.balancer.bgp.exabgp_messages import Answer, Request, parse_answer, parse_request, render
from bridgehead.balancer.bgp.routes import Route
from bridgehead.balancer.detection.bfd.messages import Change, Neighbor
from bridgehead.balancer.detection.bfd.messages import SessionSettings as BfdSettings
from bridgehead.balancer.detection.bfd.packets import State
from bridgehead.balancer.detection.bfd.session import Timing
from bridgehead.balancer.model import BfdProfile, Peer

LOCAL, ROUTER = ipaddress.ip_address("10.0.0.201"), ipaddress.ip_address("10.0.0.1")
SETTINGS = SessionSettings(LOCAL, ROUTER, 179, 64512, 64513, "10.0.0.201")


def test_the_configuration_has_what_was_asked_for():
    password = 'a"; } # b'
    text = render_configuration(
        SETTINGS._replace(port=1179, hold_time=9, password=password, ttl=255, graceful_restart=True, peer_asn=0)
    )
    for line in (
        "neighbor 10.0.0.1 {",
        "local-address 10.0.0.201;",
        "local-as 64512;",
        "peer-as auto;",
        "hold-time 9;",
        "connect 1179;",
        "outgoing-ttl 255;",
        f"md5-password {base64.b64encode(password.encode()).decode()};",
        "graceful-restart 120;",
    ):
        assert line in text
    assert password not in text
    assert "md5" not in render_configuration(SETTINGS)


def test_what_exabgp_cannot_do_is_refused():
    assert why_refused(SETTINGS) == ""
    assert why_refused(SETTINGS._replace(password="ä" * 41)) == "the password is longer than 80 bytes"
    other = SETTINGS._replace(local_address=ipaddress.ip_address("fd00::1"))
    assert why_refused(other) == "source address fd00::1 and 10.0.0.1 are of different families"


def test_routes():
    route = Route(ipaddress.ip_network("10.1.0.1/32"), 150, frozenset({(64512, 2), (64512, 1), (1, 2, 3)}))
    assert announce(route, "10.0.0.201") == (
        "announce route 10.1.0.1/32 next-hop 10.0.0.201 local-preference 150"
        " community [ 64512:1 64512:2 ] large-community [ 1:2:3 ]"
    )
    assert announce(Route(ipaddress.ip_network("fd00::/64")), "fd00::1") == "announce route fd00::/64 next-hop fd00::1"
    assert withdraw(route.prefix) == "withdraw route 10.1.0.1/32"


def test_messages_are_read_as_they_were_written():
    password = SETTINGS._replace(password='ä\n"')
    request = Request("open", "router", 7, render_configuration(password))
    answer = Answer("down", "router", reason="line one\nline two")
    for message, parse in ((request, parse_request), (answer, parse_answer)):
        line = render(message)
        assert line.count(b"\n") == 1
        assert parse(line) == message


def test_a_router_id_is_an_address_even_without_ipv4():
    assert router_id_of(LOCAL, "node1") == "10.0.0.201"
    first, second = (router_id_of(ipaddress.ip_address("fd00::1"), name) for name in ("node1", "node2"))
    assert first != second
    assert ipaddress.IPv4Address(first)
    assert router_id_of(ipaddress.ip_address("fd00::1"), "") == "0.0.0.1"


def test_options_without_effect_are_reported():
    peer = Peer("router", 64512, 64513, ROUTER, keepalive_time=31, passive=True)
    assert unsupported_options(peer, BfdProfile("x", echo_mode=True)) == [
        "keepaliveTime 31s is ignored: a third of the hold time, 90s, is less",
        "passive mode is ignored: this speaker connects to its peers",
        "echoMode of BFD profile x is ignored: the session is in asynchronous mode",
    ]
    assert unsupported_options(Peer("r", 1, 2, ROUTER, hold_time=9, keepalive_time=1), BfdProfile("x")) == []


def test_a_bfd_session_that_goes_down_ends_the_bgp_session_unless_on_purpose():
    down = Change(Neighbor("10.0.0.1"), State.DOWN)
    assert is_path_lost(down, State.UP)
    assert not is_path_lost(down, State.INIT)
    assert not is_path_lost(down._replace(state=State.UP), State.UP)
    assert not is_path_lost(down._replace(is_ended_by_remote=True), State.UP)


def test_intervals_of_profiles_are_milliseconds():
    profile = BfdProfile("x", receive_interval=100, transmit_interval=50, detect_multiplier=5, passive_mode=True)
    assert session_settings(profile) == BfdSettings(Timing(0.05, 0.1, 5, True), 254)


def test_a_connection_that_failed_counts_as_none():
    """ExaBGP reports one that the kernel has given up, to a router that is off, as connected."""
    first, second = socket.socketpair()
    with first, second, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as unconnected:
        assert has_peer(first.fileno())
        assert not has_peer(unconnected.fileno())
