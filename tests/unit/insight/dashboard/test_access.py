import pytest
from multidict import CIMultiDict

from bridgehead.insight.dashboard.access import POLICY, hosts_of, is_token, refusal, token_of

HOSTS = hosts_of(6480)


@pytest.mark.parametrize("given", ["", "x", "tokenX", "TOKEN", "token\0", "токен", "\udcff", "token" * 1000])
def test_other_tokens_are_refused(given):
    assert not is_token(given, "token")


def test_the_token_is_taken():
    assert is_token("token", "token")


@pytest.mark.parametrize(
    ("authorization", "protocols", "token"),
    [
        ("Bearer abc", "", "abc"),
        ("bearer abc ", "", "abc"),
        ("Basic abc", "", ""),
        ("", "bridgehead.dashboard.v1, bearer.abc", "abc"),
        ("", "bearer.abc", "abc"),
        ("", "bridgehead.dashboard.v1", ""),
        ("", "x" * 10_000 + ",bearer.abc", ""),
    ],
)
def test_the_token_of_a_request(authorization, protocols, token):
    assert token_of(authorization, protocols) == token


@pytest.mark.parametrize(
    ("headers", "is_page", "is_served"),
    [
        ({"Host": "127.0.0.1:6480"}, False, True),
        ({"Host": "localhost:6480"}, False, True),
        ({"Host": "127.0.0.1:6480", "Origin": "http://127.0.0.1:6480"}, False, True),
        ({"Host": "127.0.0.1:6480", "Sec-Fetch-Site": "same-origin"}, False, True),
        ({"Host": "127.0.0.1:6480", "Sec-Fetch-Site": "cross-site"}, True, True),  # a link to the page
        ({}, False, False),
        ({"Host": "127.0.0.1"}, False, False),
        ({"Host": "127.0.0.1:6481"}, False, False),
        ({"Host": "rebound.example:6480"}, True, False),
        ({"Host": "127.0.0.1:6480", "Origin": "null"}, False, False),
        ({"Host": "127.0.0.1:6480", "Origin": "http://localhost:6480"}, False, False),
        ({"Host": "127.0.0.1:6480", "Origin": "https://127.0.0.1:6480"}, False, False),
        ({"Host": "127.0.0.1:6480", "Origin": "http://127.0.0.1:8080"}, True, False),
        ({"Host": "127.0.0.1:6480", "Sec-Fetch-Site": "same-site"}, False, False),
        ({"Host": "127.0.0.1:6480", "Sec-Fetch-Site": "cross-site"}, False, False),
    ],
)
def test_only_requests_of_the_page_are_served(headers, is_page, is_served):
    assert (refusal(CIMultiDict(headers), HOSTS, is_page=is_page) == "") is is_served


def test_the_policy_allows_nothing_inline_and_nothing_from_outside():
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
    assert POLICY.startswith("default-src 'none'")
