"""Parsing of resolv.conf."""

from __future__ import annotations

from bridgehead.kubelet.node.resolv_conf import Resolver, parse_resolver


def test_the_nodes_resolv_conf_is_parsed():
    text = "# comment\nsearch a. . b\ndomain corp\nnameserver 9.9.9.9 # here\n; other\noptions rotate ndots:1\n"
    assert parse_resolver(text) == Resolver(
        nameservers=("9.9.9.9",), searches=("a", "b"), options=("rotate", "ndots:1")
    )
