"""Options of connections, as admission gets them."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.admission.connect_requests import connect_options, connect_query


@pytest.mark.parametrize(
    ("plural", "subresource", "query", "path", "expected"),
    [
        ("pods", "exec", [("command", "a"), ("command", "b"), ("stdin", "1"), ("tty", "true"), ("stdout", "false")], "",
         {"kind": "PodExecOptions", "command": ["a", "b"], "stdin": True, "tty": True}),
        ("pods", "attach", [("container", "c"), ("stdout", "t")], "",
         {"kind": "PodAttachOptions", "container": "c", "stdout": True}),
        ("pods", "portforward", [("ports", "80,8080"), ("ports", "x"), ("ports", "9" * 5000)], "",
         {"kind": "PodPortForwardOptions", "ports": [80, 8080]}),
        ("pods", "portforward", [], "", {"kind": "PodPortForwardOptions"}),
        ("services", "proxy", [("a", "b")], "x/y", {"kind": "ServiceProxyOptions", "path": "x/y"}),
        ("nodes", "proxy", [], "", {"kind": "NodeProxyOptions"}),
    ],
)  # fmt: skip
def test_options_of_connections(plural, subresource, query, path, expected):
    assert connect_options(plural, subresource, query, path) == {"apiVersion": "v1", **expected}


def test_changed_options_become_the_query():
    options = {"kind": "PodExecOptions", "stdin": True, "tty": False, "container": "c", "command": ["a", "b"]}
    assert connect_query(options) == [("stdin", "true"), ("container", "c"), ("command", "a"), ("command", "b")]
    # A webhook's changes have no schema.
    assert connect_query({"command": 7, "stdout": "yes"}) == []
