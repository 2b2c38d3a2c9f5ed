"""Settings of sessions and routes as text, and the messages of the ExaBGP process."""

from __future__ import annotations

import ipaddress

import pytest

from bridgehead.balancer.bgp.announcer import unsupported_options
from bridgehead.balancer.bgp.bfd_sessions import is_path_lost, session_settings
from bridgehead.balancer.bgp.exabgp import (
    Attributes,
    SessionSettings,
    parse_route,
    parse_settings,
    render_route,
    render_settings,
    router_id_of,
    why_refused,
)
from bridgehead.balancer.bgp.exabgp_messages import Answer, Request, parse_answer, parse_request, render
from bridgehead.balancer.compiled_configuration import BfdProfile, Peer
from bridgehead.balancer.detection.bfd.messages import Change, Neighbor
from bridgehead.balancer.detection.bfd.messages import SessionSettings as BfdSettings
from bridgehead.balancer.detection.bfd.packets import State
from bridgehead.balancer.detection.bfd.session import Timing

LOCAL, ROUTER = ipaddress.ip_address("10.0.0.201"), ipaddress.ip_address("10.0.0.1")
SETTINGS = SessionSettings(LOCAL, ROUTER, 179, 64512, 64513, "10.0.0.201")


def test_settings_are_read_as_they_were_written():
    settings = SETTINGS._replace(password='a"; } # b', graceful_restart=True, next_hops={4: "10.0.0.201", 6: "fd00::1"})
    assert parse_settings(render_settings(settings)) == settings
    for text in ("nonsense", "{}", '{"local_address": "x"}'):
        with pytest.raises((ValueError, KeyError)):
            parse_settings(text)


def test_what_exabgp_cannot_do_is_refused():
    assert why_refused(SETTINGS) == ""
    assert why_refused(SETTINGS._replace(password="ä" * 41)) == "the password is longer than 80 bytes"
    other = SETTINGS._replace(local_address=ipaddress.ip_address("fd00::1"))
    assert why_refused(other) == "source address fd00::1 and 10.0.0.1 are of different families"


def test_routes_are_read_as_they_were_written():
    attributes = Attributes("10.0.0.201", 150, ((64512, 1), (1, 2, 3)))
    for prefix in (ipaddress.ip_network("10.1.0.1/32"), ipaddress.ip_network("fd00::/64")):
        assert parse_route(render_route(prefix, attributes)) == (prefix, attributes)
        assert parse_route(render_route(prefix, None)) == (prefix, None)


def test_messages_are_read_as_they_were_written():
    password = SETTINGS._replace(password='ä\n"')
    request = Request("open", "router", 7, render_settings(password))
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
    peer = Peer("router", 64512, 64513, ROUTER, keepalive_time=31, disable_mp=True)
    assert unsupported_options(peer, BfdProfile("x", echo_mode=True)) == [
        "keepaliveTime 31s is ignored: a third of the hold time, 90s, is less",
        "disableMP is ignored: a session has both families with dualStackAddressFamily only",
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
