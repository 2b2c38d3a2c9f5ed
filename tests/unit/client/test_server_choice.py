"""The choice among API servers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.client.server_choice import FAILED_SECONDS, MOST_SERVERS, ServerChoice, parse_servers

SERVERS = ("https://10.0.0.1:6443", "https://10.0.0.2:6443", "https://10.0.0.3:6443")


def test_clients_spread_over_the_servers_and_each_begins_at_the_same_one():
    clients = [f"kubelet node{number}" for number in range(300)]
    first = [ServerChoice(SERVERS, client).current for client in clients]
    assert min(Counter(first).values()) > 60
    assert first == [ServerChoice(SERVERS[::-1], client).current for client in clients]
    # Without the third server, only its clients begin elsewhere.
    fewer = [ServerChoice(SERVERS[:2], client).current for client in clients]
    assert all(one == other for one, other in zip(first, fewer, strict=True) if one != SERVERS[2])


def test_a_client_stays_at_a_server_that_answers_and_leaves_one_that_fails():
    choice = ServerChoice(SERVERS, "client")
    one, two, three = choice.servers
    assert choice.current == one
    assert choice.on_failure(one, 0.0)
    assert choice.current == two
    assert choice.on_failure(one, 1.0), "the failure of a request at a server that was left"
    assert choice.current == two
    assert choice.on_failure(two, 2.0)
    assert choice.current == three
    choice.on_answer(one)
    assert choice.on_failure(three, 3.0)
    assert choice.current == one
    assert choice.has_other(2.0 + FAILED_SECONDS)


def test_a_client_stays_at_a_server_when_a_request_timed_out():
    choice = ServerChoice(SERVERS, "client")
    one = choice.current
    assert not choice.on_failure(one, 0.0, timed_out=True)
    assert choice.current == one
    alone = ServerChoice(SERVERS[:1], "client")
    assert not alone.on_failure(SERVERS[0], 0.0)


def test_when_all_servers_fail_each_is_tried_in_turn_without_hope():
    choice = ServerChoice(SERVERS, "client")
    tried = []
    for moment in range(6):
        tried.append(choice.current)
        assert choice.on_failure(choice.current, moment / 10) == (moment < 2)
    assert tried == [*choice.servers, *choice.servers]
    assert not choice.has_other(1.0)


def test_a_server_that_a_probe_has_found_is_used():
    choice = ServerChoice(SERVERS, "client")
    one, _, three = choice.servers
    for server in (three, one):
        choice.on_failure(server, 0.0)
    choice.use(three)
    assert choice.on_failure(one, 0.1)
    assert choice.current == three


@given(st.lists(st.tuples(st.sampled_from(SERVERS), st.floats(0, 5)), max_size=20))
def test_the_current_server_is_never_the_one_that_failed_last(failures):
    choice, now = ServerChoice(SERVERS, "client"), 0.0
    for server, seconds in failures:
        now += seconds + 0.001
        choice.on_failure(server, now)
        assert choice.current != server


def test_one_server_has_no_other():
    choice = ServerChoice(SERVERS[:1], "client")
    assert not choice.has_other(0.0)
    assert not choice.on_failure(SERVERS[0], 0.0)
    assert choice.current == SERVERS[0]


def test_urls_of_servers():
    assert parse_servers(["https://a:1/", "https://b", "https://a:1"]) == ("https://a:1", "https://b")


@pytest.mark.parametrize(
    ("urls", "error"),
    [
        ([None], "server None is not an http or https URL"),
        (["a:6443"], "'a:6443' is not an http"),
        (["https://"], "'https://' is not an http"),
        (["https://a:0"], "is not an http"),
        (["https://a:x"], "is not an http"),
        (["https://a:6443,https://b:6443"], "is not an http"),
        (["https://a", "http://b"], "all servers must be http, or all https"),
        ([f"https://a{number}" for number in range(MOST_SERVERS + 1)], "17 servers are more than 16"),
    ],
)
def test_urls_that_are_none(urls, error):
    with pytest.raises(ValueError, match=error):
        parse_servers(urls)
