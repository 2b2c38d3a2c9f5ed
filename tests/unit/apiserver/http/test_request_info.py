"""Parsing of a request's method, path and query."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bridgehead.apiserver.http.request_info import RequestInfo, is_true, parse_query, parse_request


def resource(verb: str, group: str, version: str, namespace: str, plural: str, name: str = "", sub: str = "", rest=""):
    return (verb, True, group, version, namespace, plural, name, sub, rest)


@pytest.mark.parametrize(
    ("method", "url", "expected"),
    [
        ("GET", "/api/v1/pods", resource("list", "", "v1", "", "pods")),
        ("GET", "/api/v1/pods?watch=true", resource("watch", "", "v1", "", "pods")),
        ("GET", "/api/v1/watch/pods", resource("watch", "", "v1", "", "pods")),
        ("GET", "/api/v1/watch/nodes/a", resource("watch", "", "v1", "", "nodes", "a")),
        ("GET", "/api/v1/watch/namespaces/n/pods", resource("watch", "", "v1", "n", "pods")),
        ("GET", "/api/v1/watch/namespaces/n/pods/p", resource("watch", "", "v1", "n", "pods", "p")),
        ("GET", "/api/v1/watch/namespaces/n", resource("watch", "", "v1", "n", "namespaces", "n")),
        ("GET", "/apis/apps/v1/watch/namespaces/n/deployments", resource("watch", "apps", "v1", "n", "deployments")),
        ("POST", "/api/v1/watch/pods", resource("watch", "", "v1", "", "pods")),
        ("GET", "/api/v1/watch", resource("list", "", "v1", "", "watch")),
        ("GET", "/api/v1/pods?watch", resource("watch", "", "v1", "", "pods")),
        ("GET", "/api/v1/pods?watch=false", resource("list", "", "v1", "", "pods")),
        ("GET", "/api/v1/pods?watch=0", resource("list", "", "v1", "", "pods")),
        ("GET", "/api/v1/namespaces/n/pods/", resource("list", "", "v1", "n", "pods")),
        ("GET", "/api/v1/namespaces/n/pods/p", resource("get", "", "v1", "n", "pods", "p")),
        ("HEAD", "/api/v1/namespaces/n/pods/p", resource("get", "", "v1", "n", "pods", "p")),
        ("POST", "/api/v1/namespaces/n/pods", resource("create", "", "v1", "n", "pods")),
        ("PUT", "/api/v1/namespaces/n/pods/p/status", resource("update", "", "v1", "n", "pods", "p", "status")),
        ("PATCH", "/api/v1/nodes/a", resource("patch", "", "v1", "", "nodes", "a")),
        ("DELETE", "/api/v1/nodes/a", resource("delete", "", "v1", "", "nodes", "a")),
        ("DELETE", "/api/v1/nodes", resource("deletecollection", "", "v1", "", "nodes")),
        ("GET", "/api/v1/namespaces", resource("list", "", "v1", "", "namespaces")),
        ("GET", "/api/v1/namespaces/n", resource("get", "", "v1", "n", "namespaces", "n")),
        ("PUT", "/api/v1/namespaces/n/finalize", resource("update", "", "v1", "n", "namespaces", "n", "finalize")),
        ("PUT", "/api/v1/namespaces/n/status", resource("update", "", "v1", "n", "namespaces", "n", "status")),
        ("GET", "/apis/apps/v1/deployments", resource("list", "apps", "v1", "", "deployments")),
        (
            "GET",
            "/apis/apps/v1/namespaces/n/deployments/d/scale",
            resource("get", "apps", "v1", "n", "deployments", "d", "scale"),
        ),
        (
            "GET",
            "/api/v1/namespaces/n/services/s/proxy/a/b",
            resource("get", "", "v1", "n", "services", "s", "proxy", "a/b"),
        ),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dp", resource("list", "", "v1", "", "pods", "p")),
        ("GET", "/api/v1/pods?fieldSelector=a%3Db,metadata.name%3D%3Dp", resource("list", "", "v1", "", "pods", "p")),
        ("GET", "/", ("get", False, "", "", "", "", "", "", "")),
        ("GET", "/api", ("get", False, "", "", "", "", "", "", "")),
        ("GET", "/api/v1", ("get", False, "", "", "", "", "", "", "")),
        ("GET", "/apis/apps/v1", ("get", False, "", "", "", "", "", "", "")),
        ("POST", "/healthz", ("post", False, "", "", "", "", "", "", "")),
    ],
)
def test_request_paths_are_parsed(method, url, expected):
    path, _, query = url.partition("?")
    info = parse_request(method, path, parse_query(query.encode()))
    assert replace(info, field_selector="") == RequestInfo(path, *expected)


def test_selectors_apply_to_lists_and_watches_only():
    query = parse_query(b"labelSelector=a%3Db&fieldSelector=c%3Dd")
    for path, selectors in (("/api/v1/pods", ("a=b", "c=d")), ("/api/v1/namespaces/n/pods/p", ("", ""))):
        info = parse_request("GET", path, query)
        assert (info.label_selector, info.field_selector) == selectors


@settings(deadline=None)
@given(st.sampled_from(["GET", "POST", "BREW"]), st.text(), st.binary(max_size=40))
def test_any_request_is_parsed(method, path, query):
    info = parse_request(method, "/" + path, parse_query(query))
    assert info.path == "/" + path


def test_the_first_value_of_a_repeated_parameter_counts():
    query = parse_query(b"a=1&a=2&b=&c")
    assert (query["a"], is_true(query, "b"), is_true(query, "c"), is_true(query, "d")) == ("1", True, True, False)
